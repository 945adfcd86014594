package deploy

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/robotmodel"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
)

// testHello is a cell like the simulator's: two arms side by side facing +X.
func testHello() armlink.Hello {
	base := func(y float64) armlink.Pose { return armlink.Pose{-0.45, y, 0, 0, 0, 0, 1} }
	hand := armlink.Pose(robotmodel.FlangeFromHand().Pose().ArrayXYZXYZW())
	g := robotmodel.YUBI()
	var h armlink.Hello
	h.Version, h.Clock, h.PeriodNS, h.StartNS = armlink.Version, armlink.LockStep, 10e6, 1e9
	for i, name := range Hands {
		h.Arms = append(h.Arms, armlink.ArmInfo{Name: name, Model: "fr3", WorldFromBase: base(0.3 - 0.6*float64(i)), FlangeFromHand: hand,
			GripperRad: [2]float64{g.ClosedRad, g.OpenRad}})
	}
	for _, name := range Hands {
		h.Cameras = append(h.Cameras, armlink.CameraInfo{Name: name, Kind: "mjpeg", PeriodNS: 33_333_333})
	}
	return h
}

func testSolver(t testing.TB) *solver {
	t.Helper()
	h := testHello()
	p, _, err := newPair(&h, DefaultCell().Safety)
	if err != nil {
		t.Fatal(err)
	}
	rest := robotmodel.FR3().Rest
	return &solver{pair: &p, rest: [2]armlink.Joints{rest, rest}, gain: 0.5}
}

// Poses reached by random joints near the rest posture are found again, to a hundredth of a millimetre, judged by forward kinematics.
func TestReachAgreesWithForwardKinematics(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	s := testSolver(t)
	finger := [2]float64{0.3, 0.3}
	tried := 0
	for trial := 0; trial < 60; trial++ {
		goal := s.rest
		for h := range goal {
			for j := range goal[h] {
				goal[h][j] += 0.35 * (2*rng.Float64() - 1)
			}
		}
		if s.minRoomAt(goal, finger) < 0.01 {
			continue
		}
		tried++
		targets := [2]robotmodel.Transform{s.pair.arms[0].at(goal[0]).hand, s.pair.arms[1].at(goal[1]).hand}
		r, ok := s.reach(s.rest, finger, targets)
		if !ok {
			t.Errorf("trial %d: not reached, off by %v m %v rad", trial, r.position, r.rotation)
			continue
		}
		for h := range targets {
			got := s.pair.arms[h].handPose(r.q[h])
			m, rad := got.Distance(targets[h].Pose())
			if m > 1e-5 || rad > 1e-4 {
				t.Errorf("trial %d %s: %.2e m %.2e rad off", trial, Hands[h], m, rad)
			}
		}
	}
	if tried < 30 {
		t.Fatalf("only %d trials were free of collisions", tried)
	}
}

// A moving target is followed closely, within the joint velocity limits, and the posture does not drift over repeats (null space).
func TestFollowsACircleWithoutPostureDrift(t *testing.T) {
	s := testSolver(t)
	q := s.rest
	start := [2]robotmodel.Transform{s.pair.arms[0].at(q[0]).hand, s.pair.arms[1].at(q[1]).hand}
	finger := [2]float64{0.3, 0.3}
	var after [3][2]armlink.Joints
	for loop := range after {
		for i := 0; i <= 200; i++ {
			a := 2 * math.Pi * float64(i) / 200
			targets := start
			for h := range targets {
				targets[h].P[0] += 0.05 * math.Sin(a)
				targets[h].P[2] += 0.05 * (1 - math.Cos(a))
			}
			r := s.step(q, finger, targets, 0.01)
			for h := range q {
				for j := range q[h] {
					l := robotmodel.FR3().Limits
					if v := math.Abs(r.q[h][j]-q[h][j]) / 0.01; v > l.DQ[j] {
						t.Fatalf("joint %d moves at %v rad/s", j+1, v)
					}
				}
				if i > 20 && (r.position[h] > 2e-5 || r.rotation[h] > 2e-4) {
					t.Fatalf("loop %d step %d %s: off by %.2e m %.2e rad", loop, i, Hands[h], r.position[h], r.rotation[h])
				}
			}
			q = r.q
		}
		after[loop] = q
	}
	for j := range q[0] {
		if d := math.Abs(after[2][0][j] - after[1][0][j]); d > 2e-3 {
			t.Errorf("joint %d drifts by %.2e rad per loop", j+1, d)
		}
	}
}

// Two hands sent through each other: the surfaces never come nearer than 20 mm.
func TestArmsKeepApartWithCrossingTargets(t *testing.T) {
	s := testSolver(t)
	s.pair.safety.ArmClearanceM = 0.02
	finger := [2]float64{0.5, 0.5}
	q := s.rest
	start := [2]robotmodel.Transform{s.pair.arms[0].at(q[0]).hand, s.pair.arms[1].at(q[1]).hand}
	least := math.Inf(1)
	for i := 0; i < 600; i++ {
		f := math.Min(1, float64(i)/300)
		targets := start
		targets[0].P[1] += f * (start[1].P[1] - start[0].P[1])
		targets[1].P[1] += f * (start[0].P[1] - start[1].P[1])
		r := s.step(q, finger, targets, 0.01)
		q = r.q
		least = math.Min(least, r.distance)
	}
	if least < 0.0199 {
		t.Errorf("arms came within %.1f mm, want 20 mm", 1000*least)
	}
	if least > 0.03 {
		t.Errorf("nearest distance %.1f mm: the targets did not bring the arms together", 1000*least)
	}
}

// Sent below the table, the fingers stop at their clearance.
func TestFingersStopAboveTheTable(t *testing.T) {
	s := testSolver(t)
	finger := [2]float64{0.3, 0.3}
	q := s.rest
	targets := [2]robotmodel.Transform{s.pair.arms[0].at(q[0]).hand, s.pair.arms[1].at(q[1]).hand}
	for i := 0; i < 500; i++ {
		targets[0].P[2] = math.Max(-0.2, targets[0].P[2]-0.005)
		q = s.step(q, finger, targets, 0.01).q
	}
	p := s.pair.arms[0].at(q[0])
	g := robotmodel.YUBI()
	right, left := g.Pads(0.3)
	z := math.Min(p.hand.Apply(right)[2], p.hand.Apply(left)[2])
	if want := s.pair.safety.FingerClearanceM; z < want-1e-4 || z > want+0.01 {
		t.Errorf("fingertips at %.4f m above the table, want %.4f", z, want)
	}
}

// The dual solution meets the optimality conditions of an independent solve (gonum) on the active set it found.
func TestBoxQPMeetsOptimalityConditions(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	for trial := 0; trial < 100; trial++ {
		var inv, hess blocks
		for h := range hess {
			m := mat.NewDense(7, 7, nil)
			for i := 0; i < 7; i++ {
				for j := 0; j < 7; j++ {
					m.Set(i, j, rng.NormFloat64())
				}
			}
			var mm mat.Dense
			mm.Mul(m, m.T())
			for i := 0; i < 7; i++ {
				for j := 0; j < 7; j++ {
					hess[h][i][j] = mm.At(i, j)
				}
				hess[h][i][i] += 3 // a condition that the sweeps solve exactly; settle checks the rest
			}
			inv[h] = invert7(&hess[h])
		}
		var g, lo, hi [dof]float64
		for i := range g {
			g[i] = 3 * rng.NormFloat64()
			lo[i], hi[i] = -0.5*rng.Float64(), 0.5*rng.Float64()
		}
		rows := make([]row, 3)
		for k := range rows {
			for i := range rows[k].a {
				rows[k].a[i] = rng.NormFloat64()
			}
			rows[k].b = 0.3 * rng.Float64()
		}
		x := boxQP(&inv, &g, &lo, &hi, rows)
		// No feasible direction of descent: compare with many random feasible points.
		cost := func(x [dof]float64) float64 { hx := hess.mul(&x); return dot(&x, &hx)/2 - dot(&g, &x) }
		for k := range rows {
			if v := dot(&rows[k].a, &x) - rows[k].b; v > 1e-5 {
				t.Fatalf("trial %d: row %d is broken by %v", trial, k, v)
			}
		}
		best := cost(x)
		for try := 0; try < 300; try++ {
			y := x
			scale := math.Pow(10, -4*rng.Float64())
			for i := range y {
				y[i] = math.Min(math.Max(y[i]+scale*rng.NormFloat64(), lo[i]), hi[i])
			}
			if feasible(&y, &lo, &hi, rows) && cost(y) < best-1e-7 {
				t.Fatalf("trial %d: %v is feasible and cheaper: %v < %v", trial, y, cost(y), best)
			}
		}
	}
}

// A flange constant that is wrong by 45 degrees must not pass unnoticed: hand axes follow the mount.
func TestHandAxesFollowTheMount(t *testing.T) {
	h := testHello()
	turn := frames.QuatFromRPY(0, 0, math.Pi/4)
	wrong := robotmodel.FromPose(frames.Pose{Rot: turn}).Mul(robotmodel.FlangeFromHand())
	h.Arms[1].FlangeFromHand = armlink.Pose(wrong.Pose().ArrayXYZXYZW())
	p, _, err := newPair(&h, DefaultCell().Safety)
	if err != nil {
		t.Fatal(err)
	}
	rest := robotmodel.FR3().Rest
	if _, rad := p.arms[0].handPose(rest).Distance(p.arms[1].handPose(rest)); math.Abs(rad-math.Pi/4) > 1e-9 {
		t.Errorf("hands differ by %v rad, want 45 degrees", rad)
	}
}

func BenchmarkStepBothArms(b *testing.B) {
	s := testSolver(b)
	q := s.rest
	start := [2]robotmodel.Transform{s.pair.arms[0].at(q[0]).hand, s.pair.arms[1].at(q[1]).hand}
	i := 0
	for b.Loop() {
		a := float64(i) * 0.01
		targets := start
		for h := range targets {
			targets[h].P[0] += 0.05 * math.Sin(a)
			targets[h].P[1] += 0.05 * math.Sin(1.3*a)
		}
		q = s.step(q, [2]float64{0.3, 0.3}, targets, 0.01).q
		i++
	}
}
