package franka

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pinch-robotics/pinch/internal/robotmodel"
	"github.com/pinch-robotics/pinch/internal/sim/fciserve"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
)

// TestMain is an arm process when it is started as one.
func TestMain(m *testing.M) {
	if name := os.Getenv("PINCH_TEST_ARM"); name != "" {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		defer stop()
		modelError, _ := strconv.ParseFloat(os.Getenv("PINCH_TEST_MODEL_ERROR"), 64)
		err := Serve(ctx, Options{pauseMax: recoveryPause, ModelErrorM: modelError, Name: name, Address: os.Getenv("PINCH_TEST_ADDRESS"), Listen: os.Getenv("PINCH_TEST_LISTEN"), Realtime: RealtimeTry,
			LinkTest: 200 * time.Millisecond, CPU: -1, Ready: func(string) { fmt.Println("ready") },
			Timing: func(t Timing) { _ = json.NewEncoder(os.Stdout).Encode(t) }})
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	_ = flag.Set("test.parallel", "5") // the parallel tests mostly wait
	os.Exit(m.Run())
}

// child is an arm process of its own.
type child struct {
	cmd  *exec.Cmd
	conn *armlink.Conn

	mu     sync.Mutex // guards what follows
	state  armlink.State
	seen   time.Time
	faults []string
}

func startChild(t *testing.T, name, address string) *child {
	t.Helper()
	if raceDetector {
		t.Skip("an arm process in real time can not run under the race detector")
	}
	listen := "unix:" + filepath.Join(t.TempDir(), "arm")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "PINCH_TEST_ARM="+name, "PINCH_TEST_ADDRESS="+address, "PINCH_TEST_LISTEN="+listen)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if line != "ready\n" {
		t.Fatalf("the %s arm process says %q, %v", name, line, err)
	}
	c := &child{cmd: cmd}
	if c.conn, err = armlink.Dial(context.Background(), listen); err != nil {
		t.Fatal(err)
	}
	go c.read()
	return c
}

func (c *child) read() {
	for {
		m, err := c.conn.Read()
		if err != nil {
			return
		}
		c.mu.Lock()
		switch m := m.(type) {
		case *armlink.State:
			c.state, c.seen = *m, time.Now()
		case *armlink.Fault:
			c.faults = append(c.faults, m.Text)
		}
		c.mu.Unlock()
	}
}

// look is the newest state, its age, and what was refused.
func (c *child) look() (st armlink.ArmState, tns int64, age time.Duration, faults []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.state.Arms) == 1 {
		st = c.state.Arms[0]
	}
	return st, c.state.TNS, time.Since(c.seen), c.faults
}

// cell is two simulated arms, two arm processes, and an executor that drives both and stops one when the other fails.
type cell struct {
	t      *testing.T
	robots [2]*fciserve.Robot
	addrs  []string
	orders [2]chan func(*fciserve.Robot)
	arms   [2]*child
	from   [2]armlink.Joints
	began  [2]int64
	mute   bool // the executor sends no segments
}

var sides = [2]string{"left", "right"}

// newCell starts them; the right arm's clock ticks phase after the left one's.
func newCell(t *testing.T, phase time.Duration) *cell {
	t.Helper()
	c := &cell{t: t}
	opts := fciserve.Options{Priority: 70}
	for i := range c.robots {
		r, err := fciserve.NewRobot(fciserve.RobotOptions{})
		if err != nil {
			t.Fatal(err)
		}
		c.robots[i] = r
		c.orders[i] = make(chan func(*fciserve.Robot))
		opts.Arms = append(opts.Arms, fciserve.ArmOptions{Robot: r, Listen: "127.0.0.1:0", Phase: time.Duration(i) * phase})
	}
	opts.Control = func(i int, r *fciserve.Robot) {
		select {
		case f := <-c.orders[i]:
			f(r)
		default:
		}
	}
	ready := make(chan []string, 1)
	opts.Ready = func(a []string) { ready <- a }
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- fciserve.Serve(ctx, opts) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	c.addrs = <-ready
	for i, name := range sides {
		c.arms[i] = startChild(t, name, c.addrs[i])
	}
	return c
}

// on does something to a simulated arm and waits until it is done.
func (c *cell) on(i int, f func(*fciserve.Robot)) {
	done := make(chan struct{})
	c.orders[i] <- func(r *fciserve.Robot) { f(r); close(done) }
	<-done
}

// stats are a simulated arm's counts and whether it moves.
func (c *cell) stats(i int) (s fciserve.Stats, moving bool, q [7]float64) {
	c.on(i, func(r *fciserve.Robot) { s, moving = r.Stats, r.Moving() && r.Mode() != 2; q, _, _ = r.Desired() })
	return s, moving, q
}

// ready waits until both arms are idle, acknowledging what has to be.
func (c *cell) ready() bool {
	last := time.Time{}
	for end := time.Now().Add(15 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		idle := 0
		for _, a := range c.arms {
			st, _, _, _ := a.look()
			if st.Mode == armlink.ModeIdle {
				idle++
			} else if st.Mode.NeedsRecover() && st.Mode != armlink.ModeRamp && time.Since(last) > 300*time.Millisecond {
				_ = a.conn.Write(&armlink.Recover{})
				last = time.Now()
			}
		}
		if idle == 2 {
			for i, a := range c.arms {
				st, tns, _, _ := a.look()
				c.from[i], c.began[i] = st.QCmd, tns
			}
			return true
		}
	}
	return false
}

// drive sends each arm the next 300 ms and stops one when the other fails; true while both are well.
func (c *cell) drive() bool {
	for i, a := range c.arms {
		st, tns, age, _ := a.look()
		if st.Mode.NeedsRecover() || age > 100*time.Millisecond {
			_ = c.arms[1-i].conn.Write(&armlink.Stop{Reason: fmt.Sprintf("the %s arm failed", sides[i])})
			return false
		}
		if c.mute {
			continue
		}
		_ = a.conn.Write(wave(sides[i], c.from[i], c.began[i], tns, 300*time.Millisecond))
	}
	return true
}

// wave is the next stretch of a fast motion of all joints around from.
func wave(arm string, from armlink.Joints, began, tns int64, stretch time.Duration) *armlink.Segment {
	seg := &armlink.Segment{Arm: arm}
	for at := (tns/10_000_000 + 4) * 10_000_000; at <= tns+int64(stretch); at += 10_000_000 {
		x := float64(at-began) * 1e-9
		k := armlink.Knot{TNS: at, Q: from, GripperRad: 0.3}
		rest := robotmodel.FR3().Rest
		for j := range k.Q {
			home := (1 - math.Exp(-x*x)) * (rest[j] - from[j]) // so that no end of a joint comes near
			k.Q[j] += home + 0.25*(1-math.Exp(-4*x*x))*math.Sin((2.5+0.3*float64(j))*x)
		}
		seg.Knots = append(seg.Knots, k)
	}
	return seg
}

// driveFor drives for a while; false when an arm failed meanwhile.
func (c *cell) driveFor(d time.Duration) bool {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if !c.drive() {
			return false
		}
	}
	return true
}

// faults are what happens to the left arm, and what heals it.
var faults = map[string]struct {
	strike, heal func(c *cell)
	both         bool // the arm is not stopped by its own rule: both ramp down
	settle       time.Duration
}{
	"SIGKILL": {func(c *cell) { _ = c.arms[0].cmd.Process.Kill() }, func(c *cell) { c.arms[0] = startChild(c.t, "left", c.addrs[0]) }, false, 350 * time.Millisecond},
	"SIGSTOP": {func(c *cell) { _ = c.arms[0].cmd.Process.Signal(syscall.SIGSTOP) }, func(c *cell) { _ = c.arms[0].cmd.Process.Signal(syscall.SIGCONT) }, false, 350 * time.Millisecond},
	"network cut": {func(c *cell) { c.on(0, func(r *fciserve.Robot) { r.Cut(true) }) },
		func(c *cell) { c.on(0, func(r *fciserve.Robot) { r.Cut(false) }) }, false, 350 * time.Millisecond},
	"user stop": {func(c *cell) { c.on(0, func(r *fciserve.Robot) { r.UserStop(true) }) },
		func(c *cell) { c.on(0, func(r *fciserve.Robot) { r.UserStop(false) }) }, false, 350 * time.Millisecond},
	"executor silent": {func(c *cell) { c.mute = true }, func(c *cell) { c.mute = false }, true, 700 * time.Millisecond}, // 300 ms of plan are left
}

// One of two arm processes is killed, stopped, cut off, or its arm stopped by hand, or the executor falls silent, at a random moment of a fast motion.
// The arm that lost its commands is stopped by its own rule within 21 ms, the other ramps down within its limits by its own process, nothing that
// was queued moves anything afterwards, and everything works again after an acknowledgement.
func TestFaultsAtRandomMoments(t *testing.T) {
	trials := 20
	switch {
	case os.Getenv("PINCH_SOAK") != "":
		trials = 200
	case testing.Short():
		trials = 2
	}
	phase := -100 * time.Microsecond
	for name, f := range faults {
		phase += 200 * time.Microsecond // 0.1 to 0.9 ms
		phase := phase
		t.Run(fmt.Sprintf("%s, clocks %v apart", name, phase), func(t *testing.T) {
			t.Parallel()
			c := newCell(t, phase)
			rng := rand.New(rand.NewPCG(uint64(len(name)), 17))
			spoiled, slowest := 0, 0
			for n := 0; n < trials; {
				if !c.ready() {
					l, _, _, lf := c.arms[0].look()
					r, _, _, rf := c.arms[1].look()
					t.Skipf("trial %d: this machine is too busy for arms in real time: left %s (%s) %q, right %s (%s) %q", n, l.Mode, l.Reason, tail(lf), r.Mode, r.Reason, tail(rf))
				}
				if !c.driveFor(time.Duration(200+rng.IntN(250)) * time.Millisecond) {
					if spoiled++; spoiled > trials {
						st, _, _, _ := c.arms[0].look()
						t.Skipf("this machine is too busy for arms in real time: %s", st.Reason)
					}
					continue
				}
				before, moving := [2]fciserve.Stats{}, true
				for i := range before {
					c.on(i, func(r *fciserve.Robot) { before[i], moving = r.Stats, moving && r.Mode() == 2 })
				}
				if !moving { // an arm has lost its commands to this machine a moment ago
					if spoiled++; spoiled > trials {
						t.Skip("this machine is too busy for arms in real time")
					}
					continue
				}
				f.strike(c)
				struck, _, _ := c.stats(0)
				for end := time.Now().Add(f.settle); time.Now().Before(end) && !c.settled(); time.Sleep(10 * time.Millisecond) {
					c.drive()
				}
				if !c.check(n, before, struck, f.both, &slowest) {
					if spoiled++; spoiled > trials {
						t.Skip("this machine is too busy for arms in real time")
					}
					n--
				}
				_, _, held := c.stats(0)
				f.heal(c)
				time.Sleep(60 * time.Millisecond)
				_, _, q := c.stats(0)
				for j := range q {
					if math.Abs(q[j]-held[j]) > 1e-6 { // a motion that starts anew starts at float32
						t.Fatalf("trial %d: after the fault was healed the arm moved from %v to %v without an acknowledgement", n, held, q)
					}
				}
				n++
			}
			t.Logf("%d trials: own rule after at most %d ms; %d trials repeated because an arm had stopped before", trials, slowest, spoiled)
		})
	}
}

// settled tells that no arm moves or is about to.
func (c *cell) settled() bool {
	for i := range c.robots {
		still := false
		c.on(i, func(r *fciserve.Robot) {
			_, dq, _ := r.Desired()
			still = dq == [7]float64{}
		})
		if st, _, _, _ := c.arms[1].look(); !still || st.Mode != armlink.ModeStopped {
			return false
		}
	}
	return true
}

func tail(s []string) []string { return s[max(0, len(s)-4):] }

// check judges both arms after a fault; false when the machine starved the arm that was not struck.
func (c *cell) check(n int, before [2]fciserve.Stats, struck fciserve.Stats, both bool, slowest *int) bool {
	c.t.Helper()
	l, movingL, _ := c.stats(0)
	r, movingR, _ := c.stats(1)
	for end := time.Now().Add(2 * time.Second); (movingL || movingR) && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		l, movingL, _ = c.stats(0)
		r, movingR, _ = c.stats(1)
	}
	if l.Violations > before[0].Violations || r.Violations > before[1].Violations {
		c.t.Fatalf("trial %d: limits were broken: left %s, right %s", n, l.LastViolation, r.LastViolation)
	}
	if movingL || movingR {
		c.t.Fatalf("trial %d: after the fault the arms still move: left %v, right %v", n, movingL, movingR)
	}
	const starved = "communication_constraints_violation"
	if !both && l.Stops == before[0].Stops && strings.HasPrefix(l.LastViolation, starved) {
		return false // it stood already
	}
	if r.Stops != before[1].Stops && strings.HasPrefix(r.LastViolation, starved) || both && l.Stops != before[0].Stops && strings.HasPrefix(l.LastViolation, starved) {
		return false
	}
	if both {
		if l.Stops != before[0].Stops {
			c.t.Fatalf("trial %d: the left arm stopped itself: %s", n, l.LastViolation)
		}
	} else {
		after := l.StopTick - struck.Ticks
		if l.Stops != before[0].Stops+1 || after > 21 {
			c.t.Fatalf("trial %d: the left arm's own rule: %d stops, %d ms after the fault", n, l.Stops-before[0].Stops, after)
		}
		*slowest = max(*slowest, after)
	}
	if r.Stops != before[1].Stops {
		c.t.Fatalf("trial %d: the right arm was stopped by its own rule, not by its process: %s", n, r.LastViolation)
	}
	st, _, _, _ := c.arms[1].look()
	for end := time.Now().Add(2 * time.Second); st.Mode == armlink.ModeRamp && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		st, _, _, _ = c.arms[1].look()
	}
	if st.Mode != armlink.ModeStopped || st.Reason == "" {
		c.t.Fatalf("trial %d: the right arm's process is %s (%s)", n, st.Mode, st.Reason)
	}
	return true
}
