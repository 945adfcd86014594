package deploy

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/imaging"
	"github.com/pinch-robotics/pinch/internal/quantile"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
)

// asked is one question to the policy.
type asked struct {
	obs    Observation
	jpeg   [][2][]byte    // of the present moment and those before it
	hands  [2]frames.Pose // at the observation
	tObs   int64          // cell's clock, ns
	tAsked int64
	stale  bool // the prompt changed meanwhile: the answer is dropped
	answer chan answered
	due    int64 // when the answer counts as arrived, in lock-step and in a replay
}

type answered struct {
	chunk Chunk
	err   error
	took  time.Duration
}

// inquirer asks the policy: in lock-step at once, with the answer held back for the configured latency; in real time beside the control loop,
// with the latency measured.
type inquirer struct {
	policy   Policy
	lockStep bool
	latency  *latencies
	maxWait  time.Duration
	// replay answers from a log instead of asking; nil: the policy is asked.
	replay func(a *asked)
}

func (q *inquirer) ask(ctx context.Context, a *asked) {
	a.answer = make(chan answered, 1)
	if q.replay != nil {
		q.replay(a)
		return
	}
	work := func() {
		start := time.Now()
		var r answered
		if r.err = decodeFrames(a); r.err == nil {
			ctx, cancel := context.WithTimeout(ctx, q.deadline())
			r.chunk, r.err = q.policy.Infer(ctx, a.obs)
			cancel()
		}
		r.took = time.Since(start)
		a.answer <- r
	}
	if q.lockStep {
		a.due = a.tAsked + int64(q.latency.initial)
		work()
		return
	}
	go work()
}

// lockStepPatience is how long the clock waits for one answer in lock-step: a first one may pay for a compilation.
const lockStepPatience = 10 * time.Minute

func (q *inquirer) deadline() time.Duration {
	if q.lockStep {
		return lockStepPatience
	}
	return 2 * q.maxWait
}

// arrived gives the answer once it counts as arrived at now.
func (q *inquirer) arrived(a *asked, now int64) (answered, bool) {
	if now < a.due {
		return answered{}, false
	}
	select {
	case r := <-a.answer:
		q.latency.add(r.took, !q.lockStep)
		return r, true
	default:
		return answered{}, false
	}
}

func decodeFrames(a *asked) error {
	for f, jpeg := range a.jpeg {
		obs := &a.obs
		if f > 0 {
			obs = &a.obs.Past[f-1]
		}
		for h, into := range [2]*imaging.RGB{&obs.Left, &obs.Right} {
			im, err := imaging.DecodeJPEG(jpeg[h])
			if err != nil {
				return fmt.Errorf("%s wrist frame, moment %d of the observation at %d ns: %w", Hands[h], f, a.tObs, err)
			}
			*into = im
		}
	}
	return nil
}

// latencies keeps the newest answers' times. The first answer of all is left out: it pays for compilation and warm-up.
type latencies struct {
	initial time.Duration
	seen    int
	window  []time.Duration // newest last, at most latencyWindow: the estimate forgets old peaks
	all     []time.Duration
}

const latencyWindow = 20

// add takes a measured latency; plan says whether expect may use it (in lock-step the configured one counts).
func (l *latencies) add(d time.Duration, plan bool) {
	l.seen++
	if l.seen == 1 {
		return
	}
	l.all = append(l.all, d)
	if !plan {
		return
	}
	l.window = append(l.window, d)
	if len(l.window) > latencyWindow {
		l.window = l.window[1:]
	}
}

// expect is the latency to plan for: the 0.9 quantile of the window, the configured value before there is one.
func (l *latencies) expect() time.Duration {
	if len(l.window) == 0 {
		return l.initial
	}
	return percentile(l.window, 0.9)
}

func (l *latencies) summary() Latency {
	if len(l.all) == 0 {
		return Latency{}
	}
	return Latency{N: len(l.all), P50: percentile(l.all, 0.5), P99: percentile(l.all, 0.99), Max: percentile(l.all, 1)}
}

func percentile(d []time.Duration, p float64) time.Duration {
	s := make([]float64, len(d))
	for i, v := range d {
		s[i] = float64(v)
	}
	slices.Sort(s)
	return time.Duration(quantile.Linear(s, p))
}

// history keeps measured hands for interpolation at a camera's time.
type history struct {
	t []int64
	h []hands
}

func (m *history) add(t int64, h hands) {
	if n := len(m.t); n > 0 && m.t[n-1] == t {
		return
	}
	m.t, m.h = append(m.t, t), append(m.h, h)
	if len(m.t) > 1024 {
		m.t, m.h = append(m.t[:0], m.t[512:]...), append(m.h[:0], m.h[512:]...)
	}
}

// at interpolates at t: positions linearly, rotations on the shorter arc. ok is false when t is outside what is kept.
func (m *history) at(t int64) (hands, bool) {
	n := len(m.t)
	if n == 0 || t < m.t[0] || t > m.t[n-1] {
		return hands{}, false
	}
	for i := n - 1; i > 0; i-- {
		if m.t[i-1] <= t {
			return mix(m.h[i-1], m.h[i], float64(t-m.t[i-1])/float64(m.t[i]-m.t[i-1])), true
		}
	}
	return m.h[0], true
}

// stall notices that nothing moves.
type stall struct {
	since    int64
	ref      hands
	reported bool
}

// Motion below these is standing still.
const (
	stallM      = 0.002
	stallRad    = 0.02
	stallFinger = 0.02
)

// watch takes the newest measurement and reports, once per standstill, that it has lasted.
func (s *stall) watch(now int64, h hands, limit time.Duration) bool {
	for i := range h.pose {
		m, rad := s.ref.pose[i].Distance(h.pose[i])
		if s.since == 0 || m > stallM || rad > stallRad || math.Abs(h.finger[i]-s.ref.finger[i]) > stallFinger {
			s.since, s.ref, s.reported = now, h, false
			return false
		}
	}
	if s.reported || now-s.since < int64(limit) {
		return false
	}
	s.reported = true
	return true
}

// followingError is the largest difference between commanded and measured joints.
func followingError(s *Session) (worst float64, hand, joint int) {
	for h := range Hands {
		a := s.arm(h)
		for j := range a.Q {
			if d := math.Abs(a.Q[j] - a.QCmd[j]); d > worst {
				worst, hand, joint = d, h, j
			}
		}
	}
	return worst, hand, joint
}

// pressed is the largest angle (rad) by which a joint of a hand's arm is off its command beyond what the arm's stated lag explains at the
// command's speed.
func pressed(s *Session, hand int, lag time.Duration) (worst float64, joint int) {
	const slack = 1.2 // a lag is not the same at every speed
	a := s.arm(hand)
	for j := range a.Q {
		if d := math.Abs(a.Q[j]-a.QCmd[j]) - slack*lag.Seconds()*math.Abs(a.DQCmd[j]); d > worst {
			worst, joint = d, j
		}
	}
	return worst, joint
}

// surfaces is the distance between the arms' surfaces as measured.
func (s *Session) surfaces(sc *scene) float64 {
	var q [2]armlink.Joints
	var finger [2]float64
	for h := range q {
		q[h], finger[h] = s.arm(h).Q, s.arm(h).GripperRad
	}
	s.pair.scene(q, finger, sc)
	_, d := s.pair.gaps(sc, 0, nil)
	return d
}

// observation builds what the policy sees at camera time t.
func observation(m hands, prompt string, consumed float64) Observation {
	return Observation{
		LeftFromRight: relative([2]frames.Pose{m.pose[0], m.pose[1]}), FingerRad: m.finger, Prompt: prompt,
		Consumed: time.Duration(consumed * float64(time.Second)),
	}
}
