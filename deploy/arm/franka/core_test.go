package franka

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/pinch-robotics/pinch/internal/robotmodel"
	"github.com/pinch-robotics/pinch/internal/sim/fciserve"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
	"github.com/pinch-robotics/pinch/internal/wire/fci"
)

// bench joins a Core and a strict simulated arm without sockets and clocks.
type bench struct {
	t       testing.TB
	robot   *fciserve.Robot
	core    *Core
	version fci.Version
	state   fci.State
	calls   uint32
	answers [][]byte
	mute    bool // the Core's answers do not reach the arm
}

func newBench(t testing.TB, o fciserve.RobotOptions, testTicks int) *bench {
	t.Helper()
	if o.Version == 0 {
		o.Version = 10
	}
	robot, err := fciserve.NewRobot(o)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, robot: robot, version: fci.Version(o.Version)}
	connect := b.frame(0, []byte{byte(o.Version), 0, 0x39, 0x30})
	if _, port, err := robot.Connect(connect); err != nil || port != 12345 {
		t.Fatalf("connect: port %d, %v", port, err)
	}
	limits := robotmodel.FR3().Limits
	if o.Version == 5 {
		limits = robotmodel.FER().Limits
	}
	b.open()
	b.core, err = NewCore(CoreConfig{Limits: limits, Gripper: robotmodel.YUBI(), TestTicks: testTicks}, b.state.QD, 0.3)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// frame is a request as the vendor's headers lay it out, written here by hand.
func (b *bench) frame(number uint32, payload []byte) []byte {
	b.calls++
	f := binary.LittleEndian.AppendUint32(nil, number)
	f = binary.LittleEndian.AppendUint32(f, b.calls)
	f = binary.LittleEndian.AppendUint32(f, uint32(12+len(payload)))
	return append(f, payload...)
}

func (b *bench) request(number uint32, payload []byte) {
	b.t.Helper()
	if err := b.robot.Request(b.frame(number, payload)); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) open() {
	b.t.Helper()
	data, answers := b.robot.Open()
	b.answers = append(b.answers, answers...)
	if err := fci.DecodeState(b.version, data, &b.state); err != nil {
		b.t.Fatal(err)
	}
}

// move asks for a joint position motion.
func (b *bench) move() {
	b.t.Helper()
	n := 56
	if b.version >= 10 {
		n = 113
	}
	b.request(1, make([]byte, n))
	b.core.Begin()
}

func (b *bench) recover() {
	b.t.Helper()
	b.request(map[bool]uint32{true: 12, false: 10}[b.version == 5], nil)
}

// tick lets a millisecond pass.
func (b *bench) tick() {
	b.t.Helper()
	var buf [512]byte
	cmd := b.core.State(&b.state)
	if cmd.Send && !b.mute {
		b.robot.Command(fci.EncodeJointPosition(b.version, buf[:], b.state.MessageID, &cmd.Q, cmd.Finished))
	}
	b.robot.Close()
	b.open()
}

func (b *bench) ticks(n int) {
	b.t.Helper()
	for i := 0; i < n; i++ {
		b.tick()
	}
}

func (b *bench) now() int64 { return int64(b.state.MessageID) * tickNS }

// until ticks until the mode comes.
func (b *bench) until(want armlink.Mode, limit int) {
	b.t.Helper()
	for i := 0; i < limit; i++ {
		if m, _ := b.core.Mode(); m == want {
			return
		}
		b.tick()
	}
	m, why := b.core.Mode()
	b.t.Fatalf("after %d ms the mode is %s (%s), want %s; the arm says: %s", limit, m, why, want, b.robot.Stats.LastViolation)
}

func (b *bench) clean() {
	b.t.Helper()
	if s := b.robot.Stats; s.Violations > 0 {
		b.t.Fatalf("%d violations, last: %s", s.Violations, s.LastViolation)
	}
}

// wave plans the next 300 ms of a motion of all joints, fast enough to matter.
func (b *bench) wave(from fci.Joints, began int64, size float64) {
	b.t.Helper()
	var knots []armlink.Knot
	for at := (b.now()/10_000_000 + 2) * 10_000_000; at <= b.now()+300*tickNS; at += 10_000_000 {
		s := float64(at-began) * 1e-9
		ease := 1 - math.Exp(-2*s*s)
		k := armlink.Knot{TNS: at, Q: from, GripperRad: 0.3}
		for j := range k.Q {
			k.Q[j] += size * ease * math.Sin((2+0.3*float64(j))*s)
		}
		knots = append(knots, k)
	}
	if err := b.core.Plan(knots); err != nil {
		b.t.Fatal(err)
	}
}

// Every version of the interface: a motion starts at q_d, follows, ends in order; the arm finds nothing to object to.
func TestAMotionOnEveryVersion(t *testing.T) {
	for v := 5; v <= 10; v++ {
		b := newBench(t, fciserve.RobotOptions{Version: v}, 200)
		b.ticks(5)
		b.move()
		b.until(armlink.ModeIdle, 500)
		from, began := b.state.QD, b.now()
		for i := 0; i < 200; i++ {
			b.wave(from, began, 0.15)
			b.ticks(10)
		}
		if m, why := b.core.Mode(); m != armlink.ModeMoving {
			t.Fatalf("version %d: mode %s (%s)", v, m, why)
		}
		b.core.Stop("end of the test")
		b.until(armlink.ModeStopped, 1000)
		b.core.Finish()
		b.ticks(5)
		b.clean()
		if b.robot.Mode() != 1 || len(b.answers) != 2 || b.answers[1][12] != 0 {
			t.Errorf("version %d: the motion did not end in order: mode %d, answers %v", v, b.robot.Mode(), b.answers)
		}
		if s := b.core.Stats; s.Lost != 0 || s.Adopted > v/10 || s.States < 2000 {
			t.Errorf("version %d: link %+v", v, s)
		}
	}
}

// Bursts of 1 to 19 lost commands in full motion pass without a violation and the arm is back on its path; 20 stop it, and a recovery starts at the
// arm's own desired position.
func TestLossBursts(t *testing.T) {
	for _, v := range []int{5, 10} {
		for burst := 1; burst <= 20; burst++ {
			b := newBench(t, fciserve.RobotOptions{Version: v}, 0)
			b.move()
			b.until(armlink.ModeIdle, 50)
			from, began := b.state.QD, b.now()
			for i := 0; i < 150; i++ {
				b.wave(from, began, 0.2)
				if i%15 == 3 && i > 15 {
					b.robot.DropNext(burst)
				}
				b.ticks(10)
				if m, _ := b.core.Mode(); m != armlink.ModeMoving {
					break
				}
			}
			b.clean()
			mode, why := b.core.Mode()
			if burst < 20 {
				if mode != armlink.ModeMoving || b.robot.Stats.LongestLoss != burst {
					t.Fatalf("version %d, bursts of %d: mode %s (%s), longest %d", v, burst, mode, why, b.robot.Stats.LongestLoss)
				}
				if b.core.Stats.Lost < 8*burst || b.core.Stats.Adopted > v/10 { // float32 hides the last digits of the start
					t.Errorf("version %d, bursts of %d: link %+v", v, burst, b.core.Stats)
				}
				continue
			}
			if !strings.Contains(why, "communication_constraints_violation") {
				t.Fatalf("20 lost: mode %s (%s)", mode, why)
			}
			if err := b.core.Plan([]armlink.Knot{{TNS: b.now() + 50*tickNS, Q: from}}); err == nil {
				t.Error("a stopped arm took a segment")
			}
			b.until(armlink.ModeReflex, 500)
			b.recover()
			b.ticks(400)
			b.move()
			b.until(armlink.ModeIdle, 50)
			q, dq, _ := b.core.Commanded()
			b.ticks(50)
			q2, _, _ := b.core.Commanded()
			for j := range q {
				if math.Abs(q2[j]-q[j]) > 1e-7 || math.Abs(dq[j]) > 1e-6 {
					t.Errorf("after the recovery the command moved from %v to %v", q, q2)
				}
			}
			b.wave(b.state.QD, b.now(), 0.2)
			b.ticks(100)
			b.clean()
		}
	}
}

// Whatever segments, stops and losses come: the arm never finds a limit broken.
func TestNothingBreaksALimit(t *testing.T) {
	runs := 10
	switch {
	case os.Getenv("PINCH_SOAK") != "":
		runs = 1000
	case testing.Short():
		runs = 2
	}
	for seed := 0; seed < runs; seed++ {
		rng := rand.New(rand.NewPCG(uint64(seed), 11))
		l := robotmodel.FR3().Limits
		b := newBench(t, fciserve.RobotOptions{Version: 6 + seed%5, Start: inRange(rng, &l), Faults: fciserve.Faults{Seed: uint64(seed), Loss: 0.2 * rng.Float64()}}, 0)
		b.move()
		b.until(armlink.ModeIdle, 200)
		for tick := 0; tick < 3000; tick++ {
			if rng.IntN(30) == 0 {
				at := b.now() + int64(rng.IntN(60))*tickNS
				base, wild := inRange(rng, &l), rng.Float64()*rng.Float64()*0.3
				knots := make([]armlink.Knot, 1+rng.IntN(8))
				for i := range knots {
					at += int64(1+rng.IntN(60)) * tickNS
					p := inRange(rng, &l)
					for j := range p {
						knots[i].Q[j] = b.state.QD[j] + wild*(base[j]-b.state.QD[j]) + wild*wild*(p[j]-base[j])
					}
					knots[i].TNS = at
				}
				_ = b.core.Plan(knots)
			}
			switch rng.IntN(400) {
			case 0:
				b.core.Stop("test")
			case 1, 2:
				b.robot.DropNext(1 + rng.IntN(19))
			case 3, 4, 5:
				_ = b.core.Acknowledge()
			}
			b.tick()
			if b.robot.Stats.Violations > 0 {
				t.Fatalf("seed %d tick %d: %s", seed, tick, b.robot.Stats.LastViolation)
			}
			if b.robot.Mode() == 4 { // two bursts in a row made twenty
				if b.robot.Stats.LongestLoss < 20 {
					t.Fatalf("seed %d: a reflex for %s", seed, b.robot.Stats.LastViolation)
				}
				b.until(armlink.ModeReflex, 600)
				b.recover()
				b.ticks(400)
				b.move()
				b.until(armlink.ModeIdle, 100)
			}
		}
	}
}

func inRange(rng *rand.Rand, l *robotmodel.Limits) (q fci.Joints) {
	for j := range q {
		lo, hi := l.QMin[j]+0.02, l.QMax[j]-0.02
		q[j] = lo + rng.Float64()*(hi-lo)
	}
	return q
}

// At the very ends of the range, where no speed outward is allowed, the rounding of version 10's states must not look like one.
func TestStartsAtTheEnds(t *testing.T) {
	l := robotmodel.FR3().Limits
	for i := 0; i < 200; i++ {
		start := robotmodel.FR3().Rest
		for j := range start {
			start[j] = l.QMax[j] - 0.0001*float64(i*(j+1)%7+1) - 1e-7*float64(i)
			if i%2 == 1 {
				start[j] = l.QMin[j] + 0.0001*float64(i*(j+1)%7+1) + 1e-7*float64(i)
			}
		}
		b := newBench(t, fciserve.RobotOptions{Start: start}, 0)
		b.move()
		b.until(armlink.ModeIdle, 50)
		b.ticks(20)
		b.clean()
		_, dq, _ := b.robot.Desired()
		for j := range dq {
			if math.Abs(dq[j]) > 1e-6 {
				t.Fatalf("joint %d does not come to rest: %v", j+1, dq[j])
			}
		}
	}
}
