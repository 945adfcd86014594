package deploy

import (
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/robotmodel"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
)

// threadTime is the processor time that this thread, to which the caller is locked, has used: other users of the machine do not count.
func threadTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		panic(err)
	}
	return time.Duration(ts.Nano())
}

// roomyPair is two arms of a model, so far apart and so high that nothing is near.
func roomyPair(t testing.TB, model string) *pair {
	t.Helper()
	h := testHello()
	for i := range h.Arms {
		h.Arms[i].Model = model
		h.Arms[i].WorldFromBase = armlink.Pose{0, 2 - 4*float64(i), 2.5, 0, 0, 0, 1}
	}
	p, _, err := newPair(&h, DefaultCell().Safety)
	if err != nil {
		t.Fatal(err)
	}
	return &p
}

// beside is a posture whose hand is up to 5 cm and 15 degrees from that of q, and the larger share of both: 1 at the edge.
func beside(rng *rand.Rand, a *arm, q armlink.Joints) armlink.Joints {
	const most, mostRad = 0.05, 15 * math.Pi / 180
	at := a.handPose(q)
	for {
		g := q
		for j := range g {
			if j < a.model.Joints() {
				g[j] += 0.12 * rng.NormFloat64()
			}
		}
		if _, ok := a.limits.Contains(g, 0); !ok {
			continue
		}
		if m, rad := a.handPose(g).Distance(at); m <= most && rad <= mostRad {
			return g
		}
	}
}

// Tracking: from 10,000 postures anywhere in an arm's range the hands are sent to poses up to 5 cm and 15 degrees away, which are known to be reachable; a step has 0.2 s.
func TestTracking(t *testing.T) {
	starts := 10_000
	if testing.Short() || os.Getenv("PINCH_SOAK") == "" {
		starts = 2_000
	}
	if raceDetector {
		t.Skip("it measures time")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, model := range []string{"fr3", "ur5e", "ur10e", "xarm6", "xarm7"} {
		p := roomyPair(t, model)
		s := &solver{pair: p, rest: [2]armlink.Joints{p.arms[0].model.Rest, p.arms[1].model.Rest}, gain: 0.5}
		rng := rand.New(rand.NewPCG(9, uint64(len(model))))
		var took []time.Duration
		solved, broken := 0, 0
		for n := 0; n < starts; n += 2 {
			var q [2]armlink.Joints
			var want [2]robotmodel.Transform
			for h := range q {
				q[h] = p.arms[h].anywhere(rng)
				want[h] = p.arms[h].at(beside(rng, &p.arms[h], q[h])).hand
			}
			began := threadTime()
			r := s.step(q, [2]float64{0.3, 0.3}, want, 0.2)
			took = append(took, threadTime()-began)
			for h := range q {
				m, rad := frames.Pose.Distance(p.arms[h].handPose(r.q[h]), want[h].Pose())
				if m < 1e-4 && rad < 1e-3 {
					solved++
				}
				l := &p.arms[h].model.Limits
				if _, ok := l.Contains(r.q[h], 0); !ok {
					broken++
				}
				for j := range r.q[h] {
					if v := (r.q[h][j] - q[h][j]) / 0.2; v > l.VelocityUp(j, q[h][j])+1e-9 || v < l.VelocityLow(j, q[h][j])-1e-9 {
						broken++
					}
				}
			}
		}
		slices.Sort(took)
		share := float64(solved) / float64(starts)
		median := took[len(took)/2]
		t.Logf("%s: %.2f %% of %d solved, both arms in %v (median), %v (99 %%); %d limits broken", model, 100*share, starts, median, took[len(took)*99/100], broken)
		if share < 0.995 || broken > 0 {
			t.Errorf("%s: %.2f %% of %d solved, want 99.5; %d limits broken", model, 100*share, starts, broken)
		}
	}
}

// Homing: both hands are sent from a posture anywhere in the arms' range to poses that another such posture reaches. Wherever that is, restarts find a way there.
func TestHomingGoals(t *testing.T) {
	goals := 10_000
	if testing.Short() || os.Getenv("PINCH_SOAK") == "" {
		goals = 1_000
	}
	if raceDetector {
		t.Skip("it measures time")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, model := range []string{"fr3", "ur5e", "xarm7"} {
		p := roomyPair(t, model)
		plan := planner{pair: p, finger: [2]float64{0.3, 0.3}}
		rng := rand.New(rand.NewPCG(21, uint64(len(model))))
		var took []time.Duration
		solved := 0
		for range goals {
			var from [2]armlink.Joints
			var starts [2]HandStart
			for h := range from {
				from[h] = p.arms[h].anywhere(rng)
				starts[h].Pose = p.arms[h].handPose(p.arms[h].anywhere(rng))
			}
			began := threadTime()
			q, err := plan.goal(from, starts)
			took = append(took, threadTime()-began)
			if err != nil {
				continue
			}
			solved++
			for h := range q {
				if m, rad := p.arms[h].handPose(q[h]).Distance(starts[h].Pose); m > 1e-4 || rad > 1e-3 {
					t.Errorf("%s: a goal is %.1e m and %.1e rad off", model, m, rad)
				}
				if _, ok := p.arms[h].model.Limits.Contains(q[h], 0); !ok {
					t.Errorf("%s: a goal is outside the limits", model)
				}
			}
		}
		slices.Sort(took)
		share, late := float64(solved)/float64(goals), took[len(took)*99/100]
		t.Logf("%s: %.2f %% of %d goals, both arms in %v (median), %v (99 %%)", model, 100*share, goals, took[len(took)/2], late)
		if share < 0.995 {
			t.Errorf("%s: %.2f %% of the goals are found", model, 100*share)
		}
	}
}
