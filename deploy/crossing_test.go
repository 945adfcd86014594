package deploy

import (
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/robotmodel"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
)

// apartNow is the smallest distance between the surfaces of the two arms, and of links and palms to the table, by a search over all pairs.
func apartNow(p *pair, q [2]armlink.Joints, finger [2]float64) (arms, table float64) {
	arms, table = math.Inf(1), math.Inf(1)
	var s scene
	p.scene(q, finger, &s)
	for _, a := range s.solids[0] {
		for _, b := range s.solids[1] {
			if a.link > 1 || b.link > 1 {
				d, _, _ := robotmodel.SegmentDistance(a.a, a.b, b.a, b.b)
				arms = math.Min(arms, d-a.radius-b.radius)
			}
		}
	}
	for h := range s.solids {
		for _, c := range s.solids[h] {
			if c.link > 2 && !c.finger {
				table = math.Min(table, math.Min(c.a[2], c.b[2])-c.radius-p.safety.TableHeightM)
			}
		}
	}
	return arms, table
}

func apartOnly(p *pair, q [2]armlink.Joints, finger [2]float64) float64 {
	arms, _ := apartNow(p, q, finger)
	return arms
}

// Two hands are sent again and again to places that lie in each other, in each other's arm and in the table: links and grippers of the two never come nearer than 20 mm, links
// and palms never nearer to the table than 5 mm.
func TestCrossingTargets(t *testing.T) {
	trials := 5
	switch {
	case os.Getenv("PINCH_SOAK") != "":
		trials = 2000
	case testing.Short():
		trials = 2
	}
	s := testSolver(t)
	rng := rand.New(rand.NewPCG(8, 8))
	leastArms, leastTable, close := math.Inf(1), math.Inf(1), 0
	q := s.rest
	finger, wanted := [2]float64{0.5, 0.5}, [2]float64{}
	for range trials {
		var goal [2]robotmodel.Transform
		middle := frames.Identity
		middle.Pos.X, middle.Pos.Y, middle.Pos.Z = -0.1+0.3*rng.Float64(), 0.5*(rng.Float64()-0.5), -0.1+0.5*rng.Float64()
		for h := range goal {
			at := s.pair.arms[h].at(s.rest[h]).hand
			p := at.Pose()
			p.Rot = frames.QuatFromRPY(0.8*(rng.Float64()-0.5), 0.8*(rng.Float64()-0.5), 2*(rng.Float64()-0.5)).Mul(p.Rot)
			p.Pos = middle.Pos
			p.Pos.Y += (0.1 - 0.2*float64(h)) * (2*rng.Float64() - 1.5) // mostly beyond the other hand
			goal[h] = robotmodel.FromPose(p)
			wanted[h] = 0.9 * rng.Float64()
		}
		nearest := math.Inf(1)
		for range 150 {
			r := s.step(q, finger, goal, 0.01)
			q = r.q
			if math.Abs(apartOnly(s.pair, q, finger)-r.distance) > 1e-9 && r.distance < 0.3 {
				t.Fatalf("the solver says that the arms are %v apart, all pairs say %v", r.distance, apartOnly(s.pair, q, finger))
			}
			next := finger
			for h := range next { // as fast as fingers are
				next[h] += math.Min(math.Max(wanted[h]-finger[h], -0.02), 0.02)
			}
			finger = s.fingers(q, finger, next)
			arms, table := apartNow(s.pair, q, finger)
			leastArms, leastTable, nearest = math.Min(leastArms, arms), math.Min(leastTable, table), math.Min(nearest, arms)
		}
		if nearest < 0.045 {
			close++
		}
	}
	t.Logf("%d trials, %d of them brought the arms together: at least %.1f mm between them, %.1f mm to the table", trials, close, 1000*leastArms, 1000*leastTable)
	if leastArms < 0.020 || leastTable < 0.005 {
		t.Errorf("the arms came within %.1f mm (want 20) and %.1f mm of the table (want 5)", 1000*leastArms, 1000*leastTable)
	}
	if close < trials/3 {
		t.Errorf("only %d of %d targets brought the arms together", close, trials)
	}
}

// What the task needs is still possible: finger tips that take something from the other hand's, 7 cm between the tips, and finger tips on the table, at their clearance.
func TestHandOverAndTablePickAreReached(t *testing.T) {
	s := testSolver(t)
	g := robotmodel.YUBI()
	finger := [2]float64{0.3, 0.3}
	tip, _ := g.Tips(finger[0])
	// The fingers of both hands point at each other over the middle of the table, 7 cm apart.
	for name, c := range map[string]struct{ gap, height float64 }{"hand-over": {0.07, 0.25}} {
		var goal [2]robotmodel.Transform
		for h, sign := range []float64{1, -1} {
			// +X of the hand toward the other hand, +Z up.
			rot := frames.QuatFromRPY(0, 0, -sign*math.Pi/2)
			p := frames.Pose{Rot: rot}
			p.Pos.X, p.Pos.Y, p.Pos.Z = 0.05, sign*(c.gap/2+tip[0]), c.height
			goal[h] = robotmodel.FromPose(p)
		}
		r, ok := s.reach(s.rest, finger, goal)
		arms, _ := apartNow(s.pair, r.q, finger)
		t.Logf("%s: hands miss by %.1f and %.1f mm, surfaces %.1f mm apart", name, 1000*r.position[0], 1000*r.position[1], 1000*arms)
		if !ok || r.position[0] > 1e-3 || r.position[1] > 1e-3 || arms < 0.020 {
			t.Errorf("%s: %+v, %.1f mm apart", name, r, 1000*arms)
		}
	}
	goal := [2]robotmodel.Transform{s.pair.arms[0].at(s.rest[0]).hand, s.pair.arms[1].at(s.rest[1]).hand}
	lowest := tipHeight(s.pair, 1, goal[1].Pose(), finger[1])
	goal[1].P[2] -= lowest - s.pair.safety.FingerClearanceM - 0.0005
	r, ok := s.reach(s.rest, finger, goal)
	_, table := apartNow(s.pair, r.q, finger)
	if !ok || r.position[1] > 1e-3 || table < 0.005 {
		t.Errorf("table pick: %+v, palm and links %.1f mm over the table", r, 1000*table)
	}
}
