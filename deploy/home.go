package deploy

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/pinch-robotics/pinch/internal/robotmodel"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
)

// ErrNoPath is wrapped by Home when it finds no motion that keeps its distances.
var ErrNoPath = errors.New("no path with enough clearance")

// homeSpeed is the share of the joint velocity limits that homing uses, homeAcceleration that of the acceleration limits.
const (
	homeSpeed        = 0.25
	homeAcceleration = 0.1
)

// Home moves both hands to their starts along joint paths that keep every clearance, and waits until they stand there. It opens no new
// contact: fingers move to their angle only at the end. The error wraps ErrNoPath when a start can not be reached or no path is found, and
// nothing has moved then.
func (s *Session) Home(ctx context.Context, starts [2]HandStart) error {
	if why, stopped := s.stopped(); stopped {
		return fmt.Errorf("home: the cell waits for an acknowledgement (recover): %s", why)
	}
	q, finger := s.commanded()
	p := planner{pair: &s.pair, finger: finger}
	goal, err := p.goal(q, starts)
	if err != nil {
		return fmt.Errorf("home: %w", err)
	}
	way, err := p.find(q, goal)
	if err != nil {
		return fmt.Errorf("home: %w", err)
	}
	for i := 1; i < len(way); i++ {
		if err := s.moveJoints(ctx, way[i-1], way[i], finger, finger); err != nil {
			return fmt.Errorf("home: %w", err)
		}
	}
	want := [2]float64{starts[0].FingerRad, starts[1].FingerRad}
	for h := range want {
		g := &s.pair.arms[h].gripper
		want[h] = math.Min(math.Max(want[h], g.ClosedRad), g.OpenRad)
	}
	if err := s.moveJoints(ctx, goal, goal, finger, want); err != nil {
		return fmt.Errorf("home: %w", err)
	}
	return s.checkArrived(starts)
}

// checkArrived compares the measured hands with the starts: a wrong flange constant or calibration shows here.
func (s *Session) checkArrived(starts [2]HandStart) error {
	m := s.measured()
	for h, name := range Hands {
		d, rad := m.pose[h].Distance(starts[h].Pose)
		if d > s.cell.Safety.ReachErrorM || rad > s.cell.Safety.ReachErrorRad {
			return fmt.Errorf("home: %s hand stands %.3f m and %.3f rad from its start, allowed %.3f and %.3f", name, d, rad,
				s.cell.Safety.ReachErrorM, s.cell.Safety.ReachErrorRad)
		}
	}
	return nil
}

// moveJoints moves both arms from a to b with one smooth profile and waits until they stand.
func (s *Session) moveJoints(ctx context.Context, a, b [2]armlink.Joints, fingerA, fingerB [2]float64) error {
	duration := homeDuration(&s.pair, a, b, fingerA, fingerB)
	if duration == 0 {
		return nil
	}
	period := max(s.hello.PeriodNS, 10e6)
	start := s.state.TNS + 2*period
	n := int64(math.Ceil(duration*1e9/float64(period))) + 1
	var knots [2][]armlink.Knot
	for i := int64(0); i <= n+1; i++ {
		f := smooth(math.Min(1, float64(i)/float64(n)))
		for h := range knots {
			k := armlink.Knot{TNS: start + i*period, GripperRad: fingerA[h] + f*(fingerB[h]-fingerA[h])}
			for j := range k.Q {
				k.Q[j] = a[h][j] + f*(b[h][j]-a[h][j])
			}
			knots[h] = append(knots[h], k)
		}
	}
	const chunk = 512 // knots a message: well below the frame limit
	for h := range knots {
		if len(knots[h]) > chunk {
			knots[h] = thin(knots[h], chunk)
		}
	}
	s.faults = nil // of this motion only
	if err := s.sendSegments(knots); err != nil {
		return err
	}
	end := start + (n+1)*period
	for {
		if err := s.next(ctx); err != nil {
			return err
		}
		if why, stopped := s.stopped(); stopped {
			return fmt.Errorf("stopped: %s", why)
		}
		if len(s.faults) > 0 {
			return fmt.Errorf("the arm process refused the motion: %v", s.faults)
		}
		if s.state.TNS > end && s.arm(0).Mode == armlink.ModeIdle && s.arm(1).Mode == armlink.ModeIdle {
			return nil
		}
		if s.state.TNS > end+int64(settleTime) {
			return fmt.Errorf("arms did not come to rest: left is %s, right is %s", s.arm(0).Mode, s.arm(1).Mode)
		}
	}
}

// thin keeps at most n knots, evenly, and the last two, which tell that the motion ends at rest.
func thin(k []armlink.Knot, n int) []armlink.Knot {
	step := (len(k) + n - 1) / n
	var out []armlink.Knot
	for i := 0; i < len(k)-2; i += step {
		out = append(out, k[i])
	}
	return append(out, k[len(k)-2:]...)
}

// homeDuration is the time in which the profile stays below the shares of velocity and acceleration: the quintic's peak velocity is 15/8 of
// the mean, its peak acceleration 10/sqrt(3) of distance over time squared.
func homeDuration(p *pair, a, b [2]armlink.Joints, fingerA, fingerB [2]float64) float64 {
	d := 0.0
	for h := range a {
		l := &p.arms[h].model.Limits
		for j := range a[h] {
			way := math.Abs(b[h][j] - a[h][j])
			// Near the ends the limits shrink with the position; the slowest point of the way counts.
			v := l.DQ[j]
			for i := 0; i <= 10; i++ {
				q := a[h][j] + (b[h][j]-a[h][j])*float64(i)/10
				v = math.Min(v, math.Min(l.VelocityUp(j, q), -l.VelocityLow(j, q)))
			}
			v = math.Max(v*homeSpeed, 0.02)
			d = math.Max(d, math.Max(15.0/8*way/v, math.Sqrt(10/math.Sqrt(3)*way/(homeAcceleration*l.DDQ[j]))))
		}
		g := &p.arms[h].gripper
		d = math.Max(d, 15.0/8*math.Abs(fingerB[h]-fingerA[h])/(0.5*g.MaxRate))
	}
	return d
}

// planner finds joint paths between two postures of both arms.
type planner struct {
	pair   *pair
	finger [2]float64
	scene  scene
	gaps   []gap
}

// goal solves both starts. Where no pair of postures keeps its distances by itself, the arms are led there step by step, around each other.
func (p *planner) goal(q [2]armlink.Joints, starts [2]HandStart) ([2]armlink.Joints, error) {
	want := [2]robotmodel.Transform{robotmodel.FromPose(starts[0].Pose), robotmodel.FromPose(starts[1].Pose)}
	if r, ok := p.reachGoal(q, want); ok {
		return r, nil
	}
	rest := [2]armlink.Joints{p.pair.arms[0].model.Rest, p.pair.arms[1].model.Rest}
	var last ikResult
	for _, from := range [][2]armlink.Joints{rest, q} {
		s := solver{pair: p.pair, rest: rest, gain: 0.5}
		r, ok := s.reach(from, p.finger, want)
		if ok && p.clear(r.q) {
			return r.q, nil
		}
		last = r
	}
	return q, fmt.Errorf("start poses are not reachable: left misses by %.3f m %.2f rad, right by %.3f m %.2f rad, smallest room %.3f m: %w",
		last.position[0], last.rotation[0], last.position[1], last.rotation[1], last.minRoom, ErrNoPath)
}

func (p *planner) room(q [2]armlink.Joints) float64 {
	p.pair.scene(q, p.finger, &p.scene)
	p.gaps, _ = p.pair.gaps(&p.scene, detectGapM, p.gaps)
	room := math.Inf(1)
	for _, g := range p.gaps {
		room = math.Min(room, g.room)
	}
	return room
}

func (p *planner) clear(q [2]armlink.Joints) bool {
	for h := range q {
		if _, ok := p.pair.arms[h].model.Limits.Contains(q[h], 0.003); !ok {
			return false
		}
	}
	return p.room(q) >= -1e-4
}

// sweepRad is the largest joint step between two checks: 0.02 rad at an arm's length of 0.85 m is 17 mm, less than any clearance sum.
const sweepRad = 0.02

// open checks the straight joint way from a to b. A start that is already too near may leave, as long as nothing gets nearer.
func (p *planner) open(a, b [2]armlink.Joints) bool {
	way := 0.0
	for h := range a {
		for j := range a[h] {
			way = math.Max(way, math.Abs(b[h][j]-a[h][j]))
		}
	}
	n := int(math.Ceil(way/sweepRad)) + 1
	floor := math.Min(0, p.room(a)) - 1e-3
	for i := 1; i <= n; i++ {
		q := blendJoints(a, b, float64(i)/float64(n))
		if i == n && !p.clear(q) {
			return false
		}
		room := p.room(q)
		if room < floor {
			return false
		}
		floor = math.Max(floor, math.Min(-1e-3, room-1e-3))
	}
	return true
}

func blendJoints(a, b [2]armlink.Joints, f float64) (q [2]armlink.Joints) {
	for h := range q {
		for j := range q[h] {
			q[h][j] = a[h][j] + f*(b[h][j]-a[h][j])
		}
	}
	return q
}

// find tries, in order: the straight way; over lifted postures; over rest; one arm after the other. All ways are checked before any motion.
func (p *planner) find(from, to [2]armlink.Joints) ([][2]armlink.Joints, error) {
	rest := [2]armlink.Joints{p.pair.arms[0].model.Rest, p.pair.arms[1].model.Rest}
	vias := [][][2]armlink.Joints{nil}
	for _, up := range []float64{0.05, 0.1, 0.2} {
		a, okA := p.lifted(from, up)
		b, okB := p.lifted(to, up)
		if okA && okB {
			vias = append(vias, [][2]armlink.Joints{a, b}, [][2]armlink.Joints{a, rest, b},
				[][2]armlink.Joints{a, {b[0], a[1]}, b}, [][2]armlink.Joints{a, {a[0], b[1]}, b})
		} else if okA {
			vias = append(vias, [][2]armlink.Joints{a, rest})
		}
	}
	vias = append(vias, [][2]armlink.Joints{rest}, [][2]armlink.Joints{{to[0], from[1]}}, [][2]armlink.Joints{{from[0], to[1]}})
	for _, via := range vias {
		way := append(append([][2]armlink.Joints{from}, via...), to)
		ok := true
		for i := 1; i < len(way) && ok; i++ {
			ok = p.open(way[i-1], way[i])
		}
		if ok {
			return way, nil
		}
	}
	return nil, fmt.Errorf("none of %d ways from the present posture to the starts keeps its distances; move the arms by hand to a free posture: %w",
		len(vias), ErrNoPath)
}

// lifted is a posture with both hands raised by up metres, found step by step.
func (p *planner) lifted(q [2]armlink.Joints, up float64) ([2]armlink.Joints, bool) {
	s := solver{pair: p.pair, rest: q, gain: 0.5}
	want := [2]robotmodel.Transform{p.pair.arms[0].at(q[0]).hand, p.pair.arms[1].at(q[1]).hand}
	for h := range want {
		want[h].P[2] += up
	}
	r, ok := s.reach(q, p.finger, want)
	return r.q, ok
}
