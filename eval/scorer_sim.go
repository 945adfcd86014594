package eval

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/spatial/r3"

	"github.com/pinch-robotics/pinch/deploy"
	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
)

// SimScorer judges by the simulator's truth over armlink. The cell itself keeps the progress at its physics step, so a milestone
// that is true for a moment between two queries counts.
//
// It reads these entries of armlink.Truth: bodies block, tray, left_hand, right_hand; flags held_right, touched_left, touched_right,
// on_tray, on_table, collided; values milestones_done, milestone_N_ns, closest_reach_m, max_rise_m.
type SimScorer struct {
	robot Robot
	start *armlink.Truth
	last  *armlink.Truth
	// What happened at any time of the trial, for the cause of a failure.
	touched, held bool
}

// Begin asks for the truth of the fresh scene. A scene in which a milestone is passed already is an error.
func (s *SimScorer) Begin(ctx context.Context, robot Robot, c Condition) error {
	truth, err := robot.Truth(ctx)
	if err != nil {
		return fmt.Errorf("score condition %s: %w", c.Name, err)
	}
	if _, ok := truth.Values["milestones_done"]; !ok {
		return fmt.Errorf("score condition %s: the cell's truth has no milestones_done; the simulator scorer needs the simulated cell of this version", c.Name)
	}
	*s = SimScorer{robot: robot, start: truth, last: truth}
	if done := s.done(); done != 0 {
		return fmt.Errorf("score condition %s: %d milestones are passed before the trial began", c.Name, done)
	}
	return nil
}

// Judge asks for the truth now.
func (s *SimScorer) Judge(ctx context.Context, _ deploy.Step) (Verdict, error) {
	if err := s.look(ctx); err != nil {
		return Verdict{}, err
	}
	return Verdict{Done: s.done()}, nil
}

func (s *SimScorer) look(ctx context.Context) error {
	truth, err := s.robot.Truth(ctx)
	if err != nil {
		return fmt.Errorf("ask the simulator for the truth: %w", err)
	}
	s.last = truth
	s.touched = s.touched || truth.Flags["touched_right"]
	s.held = s.held || truth.Flags["held_right"]
	return nil
}

func (s *SimScorer) done() int { return int(s.last.Values["milestones_done"]) }

// End names the first cause from what the truth showed, and describes the scene.
func (s *SimScorer) End(ctx context.Context, result deploy.Result) (Finding, error) {
	if err := s.look(ctx); err != nil {
		return Finding{}, err
	}
	f := Finding{Done: s.done(), FinalState: s.finalState(), Collided: s.last.Flags["collided"]}
	for j := range f.Done {
		f.Times = append(f.Times, int64(s.last.Values[fmt.Sprintf("milestone_%d_ns", j+1)]))
	}
	f.Cause, f.CauseText = s.cause(result)
	return f, nil
}

// moved is how far the right hand went from its start, along a straight line (m).
func (s *SimScorer) moved() float64 {
	return distance(s.start.Bodies["right_hand"], s.last.Bodies["right_hand"])
}

func distance(a, b armlink.Pose) float64 {
	return r3.Norm(r3.Sub(r3.Vec{X: a[0], Y: a[1], Z: a[2]}, r3.Vec{X: b[0], Y: b[1], Z: b[2]}))
}

// beside is how far the block is from the tray's centre along the table (m).
func (s *SimScorer) beside() float64 {
	b, t := s.last.Bodies["block"], s.last.Bodies["tray"]
	return math.Hypot(b[0]-t[0], b[1]-t[1])
}

// cause reads the first missed milestone and what happened before it. The limits are far from any borderline: 2 cm of motion,
// contact or none.
func (s *SimScorer) cause(result deploy.Result) (Cause, string) {
	const still = 0.02
	done := s.done()
	switch {
	case done == 0 && s.moved() < still && !s.touched:
		return CauseStall, fmt.Sprintf("the right hand ended %.0f mm from its start", 1000*s.moved())
	case done == 0:
		return CauseReach, fmt.Sprintf("the finger tips came no nearer to the block than %.0f mm", 1000*s.last.Values["closest_reach_m"])
	case done == 1 && s.held:
		return CauseGrasp, fmt.Sprintf("the block was held but rose only %.0f mm", 1000*s.last.Values["max_rise_m"])
	case done == 1 && s.touched:
		return CauseGrasp, "the fingers touched the block but did not close on it"
	case done == 1:
		return CauseGrasp, "the fingers did not touch the block"
	case done == 2 && s.last.Flags["held_right"]:
		return CauseTransport, fmt.Sprintf("the block is still held, %.0f mm from the middle of the tray", 1000*s.beside())
	case done == 2:
		return CauseTransport, fmt.Sprintf("the block was let go %.0f mm from the middle of the tray", 1000*s.beside())
	case done == 3 && s.last.Flags["held_right"]:
		return CausePlace, "the block was not let go over the tray"
	case done == 3 && s.last.Flags["on_tray"]:
		return CausePlace, "the block lies on the tray, but tilted, moving or still touched"
	case done == 3:
		return CausePlace, fmt.Sprintf("the block ended %.0f mm from the middle of the tray", 1000*s.beside())
	}
	return "", ""
}

func (s *SimScorer) finalState() string {
	where := "in the air"
	switch f := s.last.Flags; {
	case f["held_right"]:
		where = "in the right hand"
	case f["on_tray"]:
		where = "on the tray"
	case f["on_table"]:
		where = "on the table"
	}
	return fmt.Sprintf("block %s, %.0f mm from the middle of the tray, tilted %.0f degrees", where, 1000*s.beside(), tilt(s.last.Bodies["block"]))
}

// tilt is the angle between the block's +Z and the cell's (degrees).
func tilt(p armlink.Pose) float64 {
	up := frames.Quat{X: p[3], Y: p[4], Z: p[5], W: p[6]}.Rotate(r3.Vec{Z: 1})
	return math.Acos(min(max(up.Z, -1), 1)) * 180 / math.Pi
}
