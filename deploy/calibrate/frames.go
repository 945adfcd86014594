package calibrate

import (
	"context"
	"fmt"
	"time"

	"gonum.org/v1/gonum/spatial/r3"

	"github.com/pinch-robotics/pinch/deploy"
	"github.com/pinch-robotics/pinch/frames"
)

// Confirm asks the person a question; false means no.
type Confirm func(question string) (bool, error)

// The check moves a hand that far along an axis and back.
const (
	nudgeM      = 0.03
	nudgeLength = 3 * time.Second
)

// axes are those of hand_root, in a person's words.
var axes = []struct {
	name, toward string
	v            r3.Vec
}{
	{"+x", "forward, the way the fingers point", r3.Vec{X: 1}},
	{"+y", "toward the left jaw, as seen from behind the hand with the camera up", r3.Vec{Y: 1}},
	{"+z", "toward the side of the camera", r3.Vec{Z: 1}},
}

// Frames moves each hand 3 cm along +x, +y and +z of its own frame and back, and asks after each whether it went where it should. A no is an error that names hand and
// axis: flange_from_hand of that arm is wrong, and a policy would drive it somewhere else. What the joints measured is checked first.
func Frames(ctx context.Context, r Robot, confirm Confirm) error {
	for hand, name := range deploy.Hands {
		for _, a := range axes {
			if err := nudge(ctx, r, hand, a.v); err != nil {
				return fmt.Errorf("%s hand, %s: %w", name, a.name, err)
			}
			yes, err := confirm(fmt.Sprintf("Did the %s hand move 3 cm %s (%s), and back?", name, a.toward, a.name))
			if err != nil {
				return err
			}
			if !yes {
				return fmt.Errorf("%s hand: %s is not where the cell says; correct flange_from_hand of that arm and check again before any policy drives it", name, a.name)
			}
		}
	}
	return nil
}

// nudge moves one hand along an axis and back, and compares the way with what was wanted.
func nudge(ctx context.Context, r Robot, hand int, axis r3.Vec) error {
	index, err := arms(r.Hello())
	if err != nil {
		return err
	}
	half := nudgeLength.Seconds()/2 - 0.3
	there := func(t float64) float64 { // out, and back
		if t > half {
			t = 2*half - t
		}
		s := min(max(t/half, 0), 1)
		return s * s * s * (10 + s*(-15+6*s))
	}
	var finger [2]float64
	m := motion{
		offset: func(h int, t float64) frames.Pose {
			p := frames.Identity
			if h == hand {
				p.Pos = r3.Scale(nudgeM*there(t), axis)
			}
			return p
		},
		finger: func(h int, _ float64) float64 { return finger[h] },
	}
	began, first := frames.Identity, true
	var furthest r3.Vec
	err = show(ctx, r, m, nudgeLength, func(s deploy.Step) error {
		if first {
			first, began = false, s.Hands[hand]
			for h, i := range index {
				finger[h] = s.State.Arms[i].GripperCmdRad
			}
		}
		if p := began.Inv().Mul(s.Hands[hand]).Pos; r3.Norm(p) > r3.Norm(furthest) {
			furthest = p
		}
		return nil
	})
	if err != nil {
		return err
	}
	const most = 0.2 * nudgeM
	if off := r3.Norm(r3.Sub(furthest, r3.Scale(nudgeM, axis))); off > most {
		return fmt.Errorf("the joints measured a way of (%.1f, %.1f, %.1f) mm, %.1f mm from what was commanded", 1000*furthest.X, 1000*furthest.Y, 1000*furthest.Z, 1000*off)
	}
	return nil
}
