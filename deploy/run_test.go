package deploy

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/gonum/spatial/r3"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/armrt"
	"github.com/pinch-robotics/pinch/internal/robotmodel"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
)

// reference is a smooth motion of a hand from its start: what a good policy would want at policy time t.
func reference(hand int, t float64) frames.Pose {
	ease := 1 - math.Exp(-t*t)
	s := 1 - 2*float64(hand)
	return frames.Pose{
		Pos: r3.Vec{X: 0.06 * ease * math.Sin(1.1*t), Y: s * 0.04 * ease * math.Sin(0.9*t), Z: 0.05 * ease * math.Sin(1.4*t)},
		Rot: frames.QuatFromRPY(0.2*ease*math.Sin(0.8*t), s*0.15*ease*math.Sin(1.3*t), 0.3*ease*math.Sin(0.7*t)),
	}
}

// scripted answers with the reference's rows from the policy time of the observation on.
type scripted struct {
	rateHz float64
	noise  float64
	rng    *rand.Rand
	mangle func(call int, c *Chunk) // nil: none
	calls  int
	fail   error
	seen   []Observation
}

func (s *scripted) Metadata() map[string]any {
	return Contract{RateHz: s.rateHz, Horizon: 16, PoseReference: ReferenceBody, PoseTiming: TimingNext, Checkpoint: "test"}.Map()
}

func (s *scripted) Infer(_ context.Context, obs Observation) (Chunk, error) {
	if s.fail != nil {
		return Chunk{}, s.fail
	}
	s.seen = append(s.seen, obs)
	c := referenceChunk(obs.Consumed.Seconds(), s.rateHz)
	for i := range c.Data {
		if s.rng != nil && i%16 < 14 {
			c.Data[i] += float32(s.noise * s.rng.NormFloat64())
		}
	}
	if s.mangle != nil {
		s.mangle(s.calls, &c)
	}
	s.calls++
	return c, nil
}

func referenceChunk(t, rateHz float64) Chunk {
	c := Chunk{Rows: 16, Cols: 16, Data: make([]float32, 256)}
	for k := 0; k < 16; k++ {
		var step [2][7]float64
		var finger [2]float64
		for h := range step {
			a, b := t+float64(k)/rateHz, t+float64(k+1)/rateHz
			step[h] = reference(h, a).Inv().Mul(reference(h, b)).ArrayXYZXYZW()
			finger[h] = 0.4 + 0.2*math.Sin(b)
		}
		setRow(c.Data[16*k:], step[0], step[1], finger)
	}
	return c
}

// limitWatch checks every command of both arms at 1 kHz against the published limits by backward differences, and how far a hand jumps.
type limitWatch struct {
	q, v, a  [2]robotmodel.Joints
	arms     *pair
	hand     [2]frames.Pose
	started  bool
	err      error
	jumpM    float64
	jumpRad  float64
	distance float64
	scene    scene
}

func newLimitWatch(p *pair, q [2]armlink.Joints) *limitWatch {
	w := &limitWatch{arms: p, q: q, distance: math.Inf(1)}
	for h := range q {
		w.hand[h] = p.arms[h].handPose(q[h])
	}
	return w
}

func (w *limitWatch) observe(t int64, cmd [2]armrt.Command) {
	l := robotmodel.FR3().Limits
	const dt = 1e-3
	for h := range cmd {
		for j, q := range cmd[h].Q {
			v := (q - w.q[h][j]) / dt
			a := (v - w.v[h][j]) / dt
			jerk := (a - w.a[h][j]) / dt
			bad := ""
			switch {
			case q < l.QMin[j] || q > l.QMax[j]:
				bad = "position"
			case v > l.VelocityUp(j, q)+1e-9 || v < l.VelocityLow(j, q)-1e-9:
				bad = "velocity"
			case math.Abs(a) > l.DDQ[j]:
				bad = "acceleration"
			case math.Abs(jerk) > l.DDDQ[j]:
				bad = "jerk"
			}
			if bad != "" && w.err == nil {
				w.err = fmt.Errorf("at %d ns: %s arm joint %d breaks its %s limit: q %v v %v a %v j %v", t, Hands[h], j+1, bad, q, v, a, jerk)
			}
			w.q[h][j], w.v[h][j], w.a[h][j] = q, v, a
		}
		p := w.arms.arms[h].handPose(cmd[h].Q)
		m, rad := w.hand[h].Distance(p)
		w.jumpM, w.jumpRad = math.Max(w.jumpM, m), math.Max(w.jumpRad, rad)
		w.hand[h] = p
	}
	if t%10e6 == 0 {
		w.arms.scene(w.q, [2]float64{0.4, 0.4}, &w.scene)
		_, d := w.arms.gaps(&w.scene, 0, nil)
		w.distance = math.Min(w.distance, d)
	}
}

// Chunks of 16 rows at 30 Hz with 200 ms inference, 30 % late by up to 150 ms and 5 % lost: no limit is broken at 1 kHz, no jump, and the arms
// stay within 2 mm of the reference at the policy time they have consumed.
func TestStreamWithLateAndLostChunks(t *testing.T) {
	h := FakeHello()
	cell := DefaultCell()
	p, _, err := newPair(&h, cell.Safety)
	if err != nil {
		t.Fatal(err)
	}
	contract, _ := ReadContract((&scripted{rateHz: 30}).Metadata(), nil)
	seeds := uint64(3)
	if testing.Short() {
		seeds = 1
	}
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 3))
		e := newExecutor(&p, cell, contract, 10e6, 0)
		rest := [2]armlink.Joints{robotmodel.FR3().Rest, robotmodel.FR3().Rest}
		now := int64(1e9)
		e.begin(now, rest, [2]float64{0.4, 0.4})
		var base [2]frames.Pose
		var rt [2]*armrt.Runtime
		for i := range rt {
			base[i] = p.arms[i].handPose(rest[i])
			rt[i], err = armrt.New(armrt.Config{Limits: robotmodel.FR3().Limits, Gripper: robotmodel.YUBI()}, rest[i], 0.4)
			if err != nil {
				t.Fatal(err)
			}
		}
		watch := newLimitWatch(&p, rest)
		type flight struct {
			tObs, due int64
			lost      bool
			tau       float64
		}
		var f *flight
		taken, starved, late, lost := 0, 0, 0, 0
		worst := 0.0
		for end := now + 12e9; now < end; now += 10e6 {
			if f != nil && now >= f.due {
				if !f.lost {
					if err := e.takeOver(now, f.tObs, referenceChunk(f.tau, 30)); err != nil && !errors.Is(err, ErrRejected) {
						t.Fatalf("seed %d at %d: %v", seed, now, err)
					} else if err == nil {
						taken++
					}
				}
				f = nil
			}
			if f == nil && e.consumedRows(now) >= 1 {
				f = &flight{tObs: now, due: now + 200e6, tau: e.policyTime(now)}
				if rng.Float64() < 0.3 {
					f.due += int64(rng.IntN(15)) * 10e6
					late++
				}
				if rng.Float64() < 0.05 {
					f.lost = true
					lost++
				}
			}
			first, err := e.extend(now)
			if err != nil {
				t.Fatalf("seed %d at %d: %v", seed, now, err)
			}
			if taken > 0 && e.commits[e.commitAt(now)].rate == 0 {
				starved++
			}
			for i, k := range e.knots(first) {
				if len(k) > 0 {
					if err := rt[i].Plan(now, k); err != nil {
						t.Fatalf("seed %d at %d: %v", seed, now, err)
					}
				}
			}
			for tick := now + 1e6; tick <= now+10e6; tick += 1e6 {
				cmd := [2]armrt.Command{rt[0].Step(tick), rt[1].Step(tick)}
				watch.observe(tick, cmd)
				for i := range cmd {
					if cmd[i].Mode.NeedsRecover() {
						t.Fatalf("seed %d at %d: %s arm %s: %s", seed, tick, Hands[i], cmd[i].Mode, cmd[i].Reason)
					}
				}
			}
			tau := e.policyTime(now + 10e6)
			for i := range base {
				m, _ := p.arms[i].handPose(watch.q[i]).Distance(base[i].Mul(reference(i, tau)))
				worst = math.Max(worst, m)
			}
		}
		if watch.err != nil {
			t.Errorf("seed %d: %v", seed, watch.err)
		}
		if worst > 0.002 {
			t.Errorf("seed %d: %.2f mm from the reference, want below 2 mm", seed, 1000*worst)
		}
		if watch.jumpM > 0.0005 || watch.jumpRad > 0.05*math.Pi/180*4 {
			t.Errorf("seed %d: a hand jumps by %.3f mm, %.3f degrees in 1 ms", seed, 1000*watch.jumpM, watch.jumpRad*180/math.Pi)
		}
		if taken < 20 || late == 0 || lost == 0 {
			t.Errorf("seed %d: %d chunks taken, %d late, %d lost: the test does not test", seed, taken, late, lost)
		}
		if tau := e.policyTime(now); tau < 6 {
			t.Errorf("seed %d: only %.1f s of 12 s consumed (%d steps starved)", seed, tau, starved)
		}
	}
}

func fakeSession(t *testing.T, cell Cell, opts FakeOptions) (*Session, *Fake) {
	t.Helper()
	f, err := NewFake(opts)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Connect(context.Background(), cell, ConnectOptions{Conn: f.Conn(), OpenCamera: f.OpenCamera})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		f.Wait()
	})
	return s, f
}

// The whole executor in lock-step against the fake cell with lagging arms: limits hold at 1 kHz, the hands follow the reference.
func TestRunFollowsThePolicy(t *testing.T) {
	cell := DefaultCell()
	h := FakeHello()
	p, _, _ := newPair(&h, cell.Safety)
	watch := newLimitWatch(&p, [2]armlink.Joints{robotmodel.FR3().Rest, robotmodel.FR3().Rest})
	s, _ := fakeSession(t, cell, FakeOptions{Lag: 30 * time.Millisecond, FingerRad: [2]float64{0.4, 0.4}, Observe: watch.observe})
	base := s.measured().pose
	pol := &scripted{rateHz: 30}
	steps := 0
	res, err := s.Run(context.Background(), RunOptions{Policy: pol, Prompt: "go", Step: func(_ context.Context, st Step) (Directive, error) {
		steps++
		return Directive{End: st.Elapsed >= 8*time.Second, Reason: "enough"}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if res.Outcome != OutcomeEnded || res.Reason != "enough" || res.Rejected != 0 || res.Starved != 0 || res.Chunks < 20 {
		t.Errorf("result %+v", res)
	}
	if watch.err != nil {
		t.Error(watch.err)
	}
	last := pol.seen[len(pol.seen)-1]
	got := reference(0, last.Consumed.Seconds())
	// What the policy saw as relative pose agrees with the reference at the policy time it was told.
	want := base[0].Mul(got).Inv().Mul(base[1].Mul(reference(1, last.Consumed.Seconds())))
	if m, rad := last.LeftFromRight.Distance(want); m > 0.004 || rad > 0.02 {
		t.Errorf("observed relative pose is %.4f m %.4f rad from the reference at policy time %v", m, rad, last.Consumed)
	}
	if st := s.arm(0); st.Mode != armlink.ModeIdle {
		t.Errorf("left arm is %s after the run", st.Mode)
	}
	if steps < 700 {
		t.Errorf("hook was called %d times", steps)
	}
}

// Equal seeds, equal decisions: two runs send byte-equal commands.
func TestLockStepIsDeterministic(t *testing.T) {
	trace := func() []float64 {
		var out []float64
		s, _ := fakeSession(t, DefaultCell(), FakeOptions{Lag: 20 * time.Millisecond, FingerRad: [2]float64{0.4, 0.4},
			Observe: func(_ int64, cmd [2]armrt.Command) { out = append(out, cmd[0].Q[0], cmd[1].Q[3], cmd[0].GripperRad) }})
		_, err := s.Run(context.Background(), RunOptions{Policy: &scripted{rateHz: 30, noise: 2e-4, rng: rand.New(rand.NewPCG(9, 9))}, MaxDuration: 3 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	a, b := trace(), trace()
	if len(a) != len(b) || len(a) < 9000 {
		t.Fatalf("%d and %d commands", len(a), len(b))
	}
	for i := range a {
		if a[i] != b[i] {
			t.Fatalf("command %d differs: %v and %v", i, a[i], b[i])
		}
	}
}

// Faults that must stop both arms, each with its reason; Recover and a fresh run work afterwards.
func TestGatesStopBothArms(t *testing.T) {
	fast := func(_ int, c *Chunk) { c.Data[16*5] += 0.2 } // one row jumps 20 cm
	for name, tc := range map[string]struct {
		policy *scripted
		fake   FakeOptions
		cell   func(*Cell)
		want   string
		nan    bool
	}{
		"incoherent chunks":   {policy: &scripted{rateHz: 30, mangle: fast}, want: "rejected in a row"},
		"runs out of reach":   {policy: &scripted{rateHz: 30, mangle: func(_ int, c *Chunk) { drift(c, 0, 0.03) }}, want: "away from its path"},
		"15 columns":          {policy: &scripted{rateHz: 30, mangle: func(_ int, c *Chunk) { *c = Chunk{Rows: 16, Cols: 15, Data: c.Data[:240]} }}, want: "15 columns"},
		"8 rows":              {policy: &scripted{rateHz: 30, mangle: func(_ int, c *Chunk) { *c = Chunk{Rows: 8, Cols: 16, Data: c.Data[:128]} }}, want: "8 rows"},
		"not a number":        {policy: &scripted{rateHz: 30, mangle: func(_ int, c *Chunk) { c.Data[37] = float32(math.NaN()) }}, want: "NaN"},
		"zero quaternion":     {policy: &scripted{rateHz: 30, mangle: func(_ int, c *Chunk) { copy(c.Data[3:7], make([]float32, 4)) }}, want: "quaternion"},
		"camera stands still": {policy: &scripted{rateHz: 30}, want: "wrist frame"},
		"slow policy":         {policy: &scripted{rateHz: 30}, cell: func(c *Cell) { c.Control.PolicyLatencyMS = 5000 }, want: "has not answered"},
		"arm reflex":          {policy: &scripted{rateHz: 30}, fake: FakeOptions{Inject: func(t int64, rt [2]*armrt.Runtime) { reflexAt(t, rt, 3e9) }}, want: "contact"},
		"arm does not follow": {policy: &scripted{rateHz: 30}, fake: FakeOptions{Lag: 2 * time.Second}, want: "from its command"},
		"segments do not arrive": {policy: &scripted{rateHz: 30}, fake: FakeOptions{Inject: func(t int64, rt [2]*armrt.Runtime) {
			if t > 3e9 {
				rt[0].Stop(t, "no segment followed in time (starvation)")
			}
		}}, want: "starvation"},
	} {
		t.Run(name, func(t *testing.T) {
			cell := DefaultCell()
			if tc.cell != nil {
				tc.cell(&cell)
			}
			if name == "camera stands still" {
				cell.Safety.ObservationMaxAgeMS = 60 // frames come every 100 ms
			}
			if name == "arm does not follow" {
				cell.Safety.FollowingRad = 0.02
			}
			tc.fake.FingerRad = [2]float64{0.4, 0.4}
			s, _ := fakeSession(t, cell, tc.fake)
			ctx := context.Background()
			res, err := s.Run(ctx, RunOptions{Policy: tc.policy, MaxDuration: 10 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			if !res.Stopped() || !strings.Contains(res.Reason, tc.want) {
				t.Fatalf("outcome %s (%s), want stopped with %q", res.Outcome, res.Reason, tc.want)
			}
			for h := range Hands {
				if m := s.arm(h).Mode; !m.NeedsRecover() {
					t.Errorf("%s arm is %s after a stop", Hands[h], m)
				}
			}
			if _, err := s.Run(ctx, RunOptions{Policy: tc.policy}); err == nil || !strings.Contains(err.Error(), "acknowledgement") {
				t.Errorf("a stopped cell ran again without Recover: %v", err)
			}
			if err := s.Home(ctx, [2]HandStart{}); err == nil || !strings.Contains(err.Error(), "acknowledgement") {
				t.Errorf("a stopped cell homed without Recover: %v", err)
			}
			if name == "arm reflex" || name == "segments do not arrive" {
				return // the fault is still injected
			}
			if err := s.Recover(ctx); err != nil {
				t.Fatal(err)
			}
			if m := s.arm(0).Mode; m != armlink.ModeIdle {
				t.Errorf("left arm is %s after Recover", m)
			}
		})
	}
}

// drift adds a steady motion along x of the hand's body to every row.
func drift(c *Chunk, hand int, perRow float32) {
	for k := 0; k < c.Rows; k++ {
		c.Data[k*c.Cols+7*hand] += perRow
	}
}

func reflexAt(t int64, rt [2]*armrt.Runtime, at int64) {
	if t == at {
		rt[1].Reflex("contact")
	}
}

// A policy error is an error of Run that says who is to blame, and the arms stop.
func TestPolicyLost(t *testing.T) {
	s, _ := fakeSession(t, DefaultCell(), FakeOptions{})
	_, err := s.Run(context.Background(), RunOptions{Policy: &scripted{rateHz: 30, fail: errors.New("server gone")}})
	if !errors.Is(err, ErrPolicyLost) || !strings.Contains(err.Error(), "server gone") {
		t.Fatalf("error %v", err)
	}
	if err := s.Recover(context.Background()); err != nil {
		t.Errorf("recover: %v", err)
	}
}

// The prompt changes only when the hook says so, the next question carries it at once, and an answer to the old prompt is dropped.
func TestPromptChange(t *testing.T) {
	pol := &scripted{rateHz: 10}
	s, _ := fakeSession(t, DefaultCell(), FakeOptions{FingerRad: [2]float64{0.4, 0.4}})
	var changed time.Duration
	res, err := s.Run(context.Background(), RunOptions{Policy: pol, Prompt: "first", MaxDuration: 4 * time.Second,
		Step: func(_ context.Context, st Step) (Directive, error) {
			if changed == 0 && st.Elapsed > 1500*time.Millisecond {
				changed = st.Elapsed
				return Directive{Prompt: "second"}, nil
			}
			return Directive{}, nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Prompts) != 2 || res.Outcome != OutcomeTime {
		t.Errorf("result %+v", res)
	}
	second := 0
	for i, o := range pol.seen {
		if o.Prompt == "second" {
			second++
		} else if second > 0 {
			t.Fatalf("question %d has the first prompt again", i)
		}
	}
	if second == 0 {
		t.Error("no question with the second prompt")
	}
}

// First chunk: no row is skipped although the arms have stood for the whole inference (bug class: "violent jump at the first chunk").
func TestFirstChunkSkipsNothing(t *testing.T) {
	h := FakeHello()
	cell := DefaultCell()
	p, _, _ := newPair(&h, cell.Safety)
	contract, _ := ReadContract((&scripted{rateHz: 30}).Metadata(), nil)
	e := newExecutor(&p, cell, contract, 10e6, 0)
	rest := [2]armlink.Joints{robotmodel.FR3().Rest, robotmodel.FR3().Rest}
	e.begin(1e9, rest, [2]float64{0.4, 0.4})
	start := e.commits[0].hands
	if err := e.takeOver(3e9, 1.1e9, referenceChunk(0, 30)); err != nil {
		t.Fatal(err)
	}
	if e.path.start != 0 || e.path.origin != 0 {
		t.Errorf("path begins at policy time %v, want 0", e.path.start)
	}
	if _, err := e.extend(3e9); err != nil {
		t.Fatal(err)
	}
	for i := range start.pose {
		if m, _ := e.commandedAt(3.05e9).pose[i].Distance(start.pose[i]); m > 1e-3 {
			t.Errorf("%s hand moves %.4f m in the first 10 ms", Hands[i], m)
		}
	}
}

// Timing "previous": row 0 leads to the pose at the observation, so the same motion is one row shorter.
func TestPoseTimingPreviousIsOneRowEarlier(t *testing.T) {
	h := FakeHello()
	cell := DefaultCell()
	p, _, _ := newPair(&h, cell.Safety)
	for timing, want := range map[Timing]float64{TimingNext: 0.16, TimingPrevious: 0.15} {
		e := newExecutor(&p, cell, Contract{RateHz: 30, PoseReference: ReferenceBody, PoseTiming: timing}, 10e6, 0)
		rest := [2]armlink.Joints{robotmodel.FR3().Rest, robotmodel.FR3().Rest}
		e.begin(1e9, rest, [2]float64{0.4, 0.4})
		c := Chunk{Rows: 16, Cols: 16, Data: make([]float32, 256)}
		for k := 0; k < 16; k++ {
			setRow(c.Data[16*k:], [7]float64{0, 0.01, 0, 0, 0, 0, 1}, [7]float64{0, 0, 0, 0, 0, 0, 1}, [2]float64{0.4, 0.4})
		}
		curve, origin, err := e.place(1e9, c)
		if err != nil {
			t.Fatal(err)
		}
		// Where the motion stands 16 rows after the observation (next) is reached 15 rows after it (previous): the chunk's end lies there.
		base := e.commits[0].pose[0]
		from := curve.at(origin).pose[0]
		m, _ := from.Distance(curve.at(curve.end()).pose[0])
		if math.Abs(m-want) > 1e-7 {
			t.Errorf("timing %s: %.3f m after the observation, want %.3f", timing, m, want)
		}
		if total, _ := base.Distance(curve.at(curve.end()).pose[0]); math.Abs(total-0.16) > 1e-7 {
			t.Errorf("timing %s: chunk is %.3f m long", timing, total)
		}
	}
}

// Home brings both hands to their starts, and refuses starts in each other's way without moving.
func TestHome(t *testing.T) {
	h := FakeHello()
	cell := DefaultCell()
	p, _, _ := newPair(&h, cell.Safety)
	watch := newLimitWatch(&p, [2]armlink.Joints{robotmodel.FR3().Rest, robotmodel.FR3().Rest})
	s, _ := fakeSession(t, cell, FakeOptions{Observe: watch.observe})
	ctx := context.Background()
	at := s.measured().pose
	rng := rand.New(rand.NewPCG(4, 4))
	for trial := 0; trial < 6; trial++ {
		var starts [2]HandStart
		for i := range starts {
			starts[i].Pose = at[i]
			starts[i].Pose.Pos = r3.Add(at[i].Pos, r3.Vec{X: 0.1 * rng.NormFloat64(), Y: 0.05 * rng.NormFloat64(), Z: -0.1 * rng.Float64()})
			starts[i].Pose = starts[i].Pose.Mul(frames.Pose{Rot: frames.QuatFromRPY(0.2*rng.NormFloat64(), 0.1*rng.NormFloat64(), 0.1*rng.NormFloat64())})
			starts[i].FingerRad = 0.1 + 0.5*rng.Float64()
		}
		if err := s.Home(ctx, starts); err != nil {
			t.Fatalf("trial %d: %v", trial, err)
		}
		for i, m := range s.measured().pose {
			if d, rad := m.Distance(starts[i].Pose); d > 1e-4 || rad > 1e-3 {
				t.Errorf("trial %d: %s hand is %.5f m %.4f rad from its start", trial, Hands[i], d, rad)
			}
			if d := math.Abs(s.measured().finger[i] - starts[i].FingerRad); d > 1e-3 {
				t.Errorf("trial %d: %s fingers are %.4f rad off", trial, Hands[i], d)
			}
		}
	}
	if watch.err != nil {
		t.Error(watch.err)
	}
	if watch.distance < 0.02 {
		t.Errorf("arms came within %.1f mm while homing", 1000*watch.distance)
	}
	before := s.arm(0).Q
	same := [2]HandStart{{Pose: at[0]}, {Pose: at[0]}}
	if err := s.Home(ctx, same); !errors.Is(err, ErrNoPath) {
		t.Errorf("both hands to one place: error %v", err)
	}
	far := [2]HandStart{{Pose: at[0]}, {Pose: frames.Translation(r3.Vec{X: 3})}}
	if err := s.Home(ctx, far); !errors.Is(err, ErrNoPath) {
		t.Errorf("a start 3 m away: error %v", err)
	}
	if s.arm(0).Q != before {
		t.Error("a refused home moved an arm")
	}
}
