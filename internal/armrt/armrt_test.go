package armrt

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/pinch-robotics/pinch/internal/robotmodel"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
)

const msNS = int64(Tick)

// checker judges commands as the arm does: backward differences of q at 1 ms against the published limits, without any share or margin.
type checker struct {
	l       robotmodel.Limits
	q, v, a robotmodel.Joints
	peakV   float64
}

func (c *checker) check(q robotmodel.Joints) error {
	for j := range q {
		v := (q[j] - c.q[j]) / dt
		a := (v - c.v[j]) / dt
		jerk := (a - c.a[j]) / dt
		switch {
		case q[j] < c.l.QMin[j] || q[j] > c.l.QMax[j]:
			return fmt.Errorf("joint %d position %v outside %v..%v", j+1, q[j], c.l.QMin[j], c.l.QMax[j])
		case v > c.l.VelocityUp(j, q[j])+1e-9 || v < c.l.VelocityLow(j, q[j])-1e-9:
			return fmt.Errorf("joint %d velocity %v outside %v..%v at %v", j+1, v, c.l.VelocityLow(j, q[j]), c.l.VelocityUp(j, q[j]), q[j])
		case math.Abs(a) > c.l.DDQ[j]:
			return fmt.Errorf("joint %d acceleration %v above %v", j+1, a, c.l.DDQ[j])
		case math.Abs(jerk) > c.l.DDDQ[j]:
			return fmt.Errorf("joint %d jerk %v above %v", j+1, jerk, c.l.DDDQ[j])
		}
		c.q[j], c.v[j], c.a[j] = q[j], v, a
		c.peakV = math.Max(c.peakV, math.Abs(v))
	}
	return nil
}

func newRuntime(t *testing.T, q robotmodel.Joints) *Runtime {
	t.Helper()
	r, err := New(Config{Limits: robotmodel.FR3().Limits, Gripper: robotmodel.YUBI(), MaxLagRad: 100, StartGapRad: 100}, q, 0.3)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Whatever the knots (jumps over the whole range, any spacing, any overlap), whenever stops come: no limit is broken.
func TestNoKnotsBreakALimit(t *testing.T) {
	runs := 20
	switch {
	case os.Getenv("PINCH_SOAK") != "":
		runs = 5000
	case testing.Short():
		runs = 5
	}
	for seed := 0; seed < runs; seed++ {
		rng := rand.New(rand.NewPCG(uint64(seed), 7))
		l := robotmodel.FR3().Limits
		q0 := randomJoints(rng, &l, 0.02)
		r := newRuntime(t, q0)
		c := checker{l: l, q: q0}
		now := int64(1e9)
		var moved bool
		for tick := 0; tick < 3000; tick++ {
			if rng.IntN(25) == 0 {
				knots := make([]armlink.Knot, 1+rng.IntN(8))
				at := now + int64(rng.IntN(60)-10)*msNS
				base := randomJoints(rng, &l, 0)
				wild := rng.Float64() * rng.Float64()
				for i := range knots {
					at += int64(1+rng.IntN(60)) * msNS / int64(1+rng.IntN(3))
					knots[i] = armlink.Knot{TNS: at, GripperRad: rng.Float64()}
					p := randomJoints(rng, &l, 0)
					for j := range p {
						knots[i].Q[j] = base[j] + wild*(p[j]-base[j])
					}
				}
				_ = r.Plan(now, knots)
			}
			switch rng.IntN(700) {
			case 0:
				r.Stop(now, "test")
			case 1:
				r.Reflex("test")
			}
			if rng.IntN(100) == 0 {
				_ = r.Recover()
			}
			now += msNS
			cmd := r.Step(now)
			if err := c.check(cmd.Q); err != nil {
				t.Fatalf("seed %d tick %d mode %s: %v", seed, tick, cmd.Mode, err)
			}
			moved = moved || c.peakV > 0.5
		}
		if !moved {
			t.Fatalf("seed %d: the arm never moved", seed)
		}
	}
}

// Targets at and beyond the ends: the command comes near them and never past.
func TestReachesTheEndsOfTheRange(t *testing.T) {
	l := robotmodel.FR3().Limits
	for j := 0; j < 7; j++ {
		for _, up := range []bool{true, false} {
			r := newRuntime(t, robotmodel.FR3().Rest)
			c := checker{l: l, q: robotmodel.FR3().Rest}
			target := robotmodel.FR3().Rest
			target[j] = l.QMin[j]
			if up {
				target[j] = l.QMax[j]
			}
			now := int64(0)
			if err := r.Plan(now, []armlink.Knot{{TNS: 100 * msNS, Q: target}, {TNS: 200 * msNS, Q: target}}); err != nil {
				t.Fatal(err)
			}
			var last Command
			for i := 0; i < 8000; i++ {
				now += msNS
				last = r.Step(now)
				if err := c.check(last.Q); err != nil {
					t.Fatalf("joint %d up %v tick %d: %v", j+1, up, i, err)
				}
			}
			// The position-dependent limit is zero at offset²/(2 dec) before the end.
			stop := l.DQOffset[j] * l.DQOffset[j] / (2 * l.DDQDec[j])
			if d := math.Abs(last.Q[j] - target[j]); d > stop+2*positionMargin+0.01 {
				t.Errorf("joint %d up %v: stands %.4f rad from its end, the limits allow %.4f", j+1, up, d, stop)
			}
		}
	}
}

// A feasible stream, sent as an executor does (10 ms knots, 200 ms ahead), is followed exactly at the knots and stays C2.
func TestFollowsAFeasibleStream(t *testing.T) {
	rest := robotmodel.FR3().Rest
	curve := func(ns int64) (k armlink.Knot) {
		s := float64(ns) * 1e-9
		ease := 1 - math.Exp(-s*s*4)
		k = armlink.Knot{TNS: ns, Q: rest, GripperRad: 0.3 + 0.2*ease*math.Sin(3*s)}
		for j := range k.Q {
			k.Q[j] += 0.25 * ease * math.Sin((1+0.2*float64(j))*1.5*s)
		}
		return k
	}
	r := newRuntime(t, rest)
	c := checker{l: robotmodel.FR3().Limits, q: rest}
	const step = 10 * msNS
	worst := 0.0
	for now := int64(0); now < 4e9; now += msNS {
		if now%step == 0 {
			var knots []armlink.Knot
			from := now + 180*msNS
			if now == 0 {
				from = step
			}
			for at := from; at <= now+200*msNS; at += step {
				knots = append(knots, curve(at))
			}
			if err := r.Plan(now, knots); err != nil {
				t.Fatal(err)
			}
		}
		cmd := r.Step(now + msNS)
		if err := c.check(cmd.Q); err != nil {
			t.Fatal(err)
		}
		if cmd.Mode != armlink.ModeMoving {
			t.Fatalf("at %d ms: mode %s (%s)", now/msNS, cmd.Mode, cmd.Reason)
		}
		want := curve(now + msNS)
		for j := range want.Q {
			worst = math.Max(worst, math.Abs(cmd.Q[j]-want.Q[j]))
		}
		worst = math.Max(worst, math.Abs(cmd.GripperRad-want.GripperRad))
	}
	if worst > 2e-4 {
		t.Errorf("largest tracking error %.2e rad, want below 2e-4", worst)
	}
}

// Starvation: the arm slows down on the path it knows, stops, keeps the fingers, and waits for Recover.
func TestStarvationRampsDownAlongThePath(t *testing.T) {
	rest := robotmodel.FR3().Rest
	r := newRuntime(t, rest)
	c := checker{l: robotmodel.FR3().Limits, q: rest}
	var knots []armlink.Knot
	dir := robotmodel.Joints{0.8, 0.3, -0.5, 0.4, 0.2, -0.6, 0.9}
	for i := int64(1); i <= 60; i++ {
		s := float64(i) * 0.01
		k := armlink.Knot{TNS: i * 10 * msNS, Q: rest, GripperRad: 0.3}
		for j := range k.Q {
			k.Q[j] += dir[j] * (s - 0.1*(1-math.Exp(-s/0.1)))
		}
		knots = append(knots, k)
	}
	if err := r.Plan(0, knots); err != nil {
		t.Fatal(err)
	}
	var cmd Command
	for now := msNS; now < 2000*msNS; now += msNS {
		cmd = r.Step(now)
		if err := c.check(cmd.Q); err != nil {
			t.Fatal(err)
		}
		// On the path: the offsets of all joints stay in proportion.
		s := (cmd.Q[0] - rest[0]) / dir[0]
		for j := range dir {
			if off := math.Abs(cmd.Q[j] - rest[j] - dir[j]*s); off > 1e-3 {
				t.Fatalf("at %d ms joint %d leaves the path by %.2e rad", now/msNS, j+1, off)
			}
		}
	}
	if cmd.Mode != armlink.ModeStopped || !strings.Contains(cmd.Reason, "starvation") {
		t.Fatalf("mode %s (%s), want stopped for starvation", cmd.Mode, cmd.Reason)
	}
	last := knots[len(knots)-1].Q
	if over := (cmd.Q[0] - rest[0]) / (last[0] - rest[0]); over > 1.02 {
		t.Errorf("came to rest at %.3f of the known path, want not beyond it", over)
	}
	if err := r.Plan(2000*msNS, []armlink.Knot{{TNS: 2100 * msNS, Q: cmd.Q}}); err == nil {
		t.Error("a stopped arm took a segment without Recover")
	}
	if err := r.Recover(); err != nil {
		t.Fatal(err)
	}
	if err := r.Plan(2000*msNS, []armlink.Knot{{TNS: 2100 * msNS, Q: cmd.Q}, {TNS: 2110 * msNS, Q: cmd.Q}}); err != nil {
		t.Errorf("after Recover: %v", err)
	}
}

// Stop at any tick of a fast motion: within the limits to zero speed, fingers hold.
func TestStopAtAnyTick(t *testing.T) {
	rest := robotmodel.FR3().Rest
	for stopAt := int64(1); stopAt < 400; stopAt += 13 {
		r := newRuntime(t, rest)
		c := checker{l: robotmodel.FR3().Limits, q: rest}
		var knots []armlink.Knot
		for i := int64(1); i <= 80; i++ {
			s := float64(i) * 0.01
			k := armlink.Knot{TNS: i * 10 * msNS, Q: rest, GripperRad: 0.3 + 0.5*s}
			for j := range k.Q {
				k.Q[j] += 0.3 * (1 - math.Cos(5*s)) * (1 - 0.1*float64(j))
			}
			knots = append(knots, k)
		}
		if err := r.Plan(0, knots); err != nil {
			t.Fatal(err)
		}
		var cmd Command
		grip := 0.0
		for tick := int64(1); tick < stopAt+600; tick++ {
			if tick == stopAt {
				r.Stop(tick*msNS, "operator")
				grip = r.axes[7].r
			}
			cmd = r.Step(tick * msNS)
			if err := c.check(cmd.Q); err != nil {
				t.Fatalf("stop at %d, tick %d: %v", stopAt, tick, err)
			}
		}
		if cmd.Mode != armlink.ModeStopped || cmd.Reason != "operator" {
			t.Fatalf("stop at %d: mode %s (%s)", stopAt, cmd.Mode, cmd.Reason)
		}
		for j := range cmd.DQ {
			if math.Abs(cmd.DQ[j]) > 1e-3 {
				t.Fatalf("stop at %d: joint %d still moves at %v", stopAt, j+1, cmd.DQ[j])
			}
		}
		if math.Abs(cmd.GripperRad-grip) > 1e-3 {
			t.Fatalf("stop at %d: fingers went from %v to %v", stopAt, grip, cmd.GripperRad)
		}
	}
}

// Knots in the past are dropped (late messages), a path that ends at rest ends idle without alarm.
func TestLateKnotsAndRest(t *testing.T) {
	rest := robotmodel.FR3().Rest
	r := newRuntime(t, rest)
	if err := r.Plan(100*msNS, []armlink.Knot{{TNS: 50 * msNS, Q: rest}}); err == nil || !strings.Contains(err.Error(), "past") {
		t.Errorf("late knots: error %v", err)
	}
	goal := rest
	goal[0] += 0.05
	if err := r.Plan(100*msNS, []armlink.Knot{{TNS: 90 * msNS, Q: robotmodel.Joints{}}, {TNS: 500 * msNS, Q: goal}, {TNS: 510 * msNS, Q: goal}}); err != nil {
		t.Fatal(err)
	}
	var cmd Command
	for now := 101 * msNS; now < 1200*msNS; now += msNS {
		cmd = r.Step(now)
	}
	if cmd.Mode != armlink.ModeIdle || math.Abs(cmd.Q[0]-goal[0]) > 1e-5 {
		t.Errorf("mode %s at %v, want idle at %v", cmd.Mode, cmd.Q[0], goal[0])
	}
}

func TestRefusals(t *testing.T) {
	r, err := New(Config{Limits: robotmodel.FR3().Limits, Gripper: robotmodel.YUBI()}, robotmodel.FR3().Rest, 0.3)
	if err != nil {
		t.Fatal(err)
	}
	rest := robotmodel.FR3().Rest
	far, outside, nan := rest, rest, rest
	far[2] += 0.5
	outside[3] = 0.2
	nan[1] = math.NaN()
	for name, c := range map[string]struct {
		q    robotmodel.Joints
		want string
	}{
		"far from where the arm stands": {far, "joint 3"},
		"outside the range":             {outside, "joint 4"},
		"not a number":                  {nan, "joint 2"},
	} {
		if err := r.Plan(0, []armlink.Knot{{TNS: msNS, Q: c.q}}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one naming %s", name, err, c.want)
		}
	}
	if mode, _ := r.Mode(); mode != armlink.ModeIdle {
		t.Errorf("a refused segment changed the mode to %s", mode)
	}
	if _, err := New(Config{Limits: robotmodel.FR3().Limits, Gripper: robotmodel.YUBI()}, robotmodel.Joints{}, 0.3); err == nil {
		t.Error("an arm outside its limits was taken (joint 4 at 0)")
	}
}

func randomJoints(rng *rand.Rand, l *robotmodel.Limits, margin float64) (q robotmodel.Joints) {
	for j := range q {
		lo, hi := l.QMin[j]+margin, l.QMax[j]-margin
		q[j] = lo + rng.Float64()*(hi-lo)
	}
	return q
}

func BenchmarkStep(b *testing.B) {
	r, _ := New(Config{Limits: robotmodel.FR3().Limits, Gripper: robotmodel.YUBI()}, robotmodel.FR3().Rest, 0.3)
	goal := robotmodel.FR3().Rest
	now := int64(0)
	for b.Loop() {
		if now%(10*msNS) == 0 {
			s := float64(now) * 1e-9
			goal[0] = 0.3 * math.Sin(s)
			_ = r.Plan(now, []armlink.Knot{{TNS: now + 200*msNS, Q: goal, GripperRad: 0.3}})
		}
		now += msNS
		r.Step(now)
	}
}

// A reflex in full motion is a ramp until the command stands, so an acknowledgement that waits for the ramp to end is never refused; a second
// reflex while braking neither moves the goal nor changes the reason.
func TestReflexRampsThenTakesRecover(t *testing.T) {
	rest := robotmodel.FR3().Rest
	for _, at := range []int64{1, 40, 90, 160, 230, 310} {
		r := newRuntime(t, rest)
		c := checker{l: robotmodel.FR3().Limits, q: rest}
		var knots []armlink.Knot
		for i := int64(1); i <= 80; i++ {
			k := armlink.Knot{TNS: i * 10 * msNS, Q: rest, GripperRad: 0.3}
			for j := range k.Q {
				k.Q[j] += 0.3 * (1 - math.Cos(0.05*float64(i))) * (1 - 0.1*float64(j))
			}
			knots = append(knots, k)
		}
		if err := r.Plan(0, knots); err != nil {
			t.Fatal(err)
		}
		now := int64(0)
		step := func() Command {
			now += msNS
			cmd := r.Step(now)
			if err := c.check(cmd.Q); err != nil {
				t.Fatalf("reflex at %d, tick %d: %v", at, now/msNS, err)
			}
			return cmd
		}
		for now < at*msNS {
			step()
		}
		r.Reflex("contact")
		if at > 1 && r.Recover() == nil {
			t.Fatalf("reflex at %d: a moving arm was recovered", at)
		}
		var cmd Command
		for cmd = step(); cmd.Mode == armlink.ModeRamp; cmd = step() {
			r.Reflex("contact again")
			if now > (at+1500)*msNS {
				t.Fatalf("reflex at %d: still %v after 1.5 s", at, cmd.DQ)
			}
		}
		if cmd.Mode != armlink.ModeReflex || cmd.Reason != "contact" {
			t.Fatalf("reflex at %d: mode %s (%s)", at, cmd.Mode, cmd.Reason)
		}
		if err := r.Recover(); err != nil {
			t.Fatalf("reflex at %d: %v", at, err)
		}
	}
}
