//go:build mujoco && cgo

package cellserve

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image/jpeg"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/device"
	"github.com/pinch-robotics/pinch/internal/device/camera"
	"github.com/pinch-robotics/pinch/internal/robotmodel"
	"github.com/pinch-robotics/pinch/internal/sim"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
)

// client is an executor of the smallest kind, over a real socket.
type client struct {
	t     *testing.T
	addr  string
	conn  *armlink.Conn
	hello *armlink.Hello
	state *armlink.State
}

// serve starts a cell for one client and connects it.
func serve(t *testing.T, o Options) *client {
	t.Helper()
	ready := make(chan Ready, 1)
	o.Ready = func(r Ready) { ready <- r }
	if o.Clients == 0 {
		o.Clients = 1
	}
	o.Cell.Wrist = sim.Size{Width: 160, Height: 120}
	o.Cell.RenderThreads = 1
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, o) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	var r Ready
	select {
	case r = <-ready:
	case err := <-ended:
		ended <- nil
		t.Fatal(err)
	}
	c := &client{t: t, addr: r.ArmLink}
	c.dial()
	return c
}

func (c *client) dial() {
	c.t.Helper()
	conn, err := armlink.Dial(context.Background(), c.addr)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { conn.Close() })
	c.conn = conn
	c.hello = expect[*armlink.Hello](c)
	c.state = expect[*armlink.State](c)
}

// again leaves and comes back as the next client.
func (c *client) again() {
	c.t.Helper()
	c.conn.Close()
	c.dial()
}

func (c *client) write(m armlink.Message) {
	c.t.Helper()
	if err := c.conn.Write(m); err != nil {
		c.t.Fatal(err)
	}
}

func expect[M armlink.Message](c *client) M {
	c.t.Helper()
	m, err := c.conn.Read()
	if err != nil {
		c.t.Fatal(err)
	}
	got, ok := m.(M)
	if !ok {
		c.t.Fatalf("got %T %+v, want %T", m, m, got)
	}
	return got
}

// advance grants time and returns the states that come.
func (c *client) advance(ms int) (all []*armlink.State) {
	c.t.Helper()
	until := c.state.TNS + int64(ms)*1e6
	c.write(&armlink.Advance{UntilNS: until})
	for {
		c.state = expect[*armlink.State](c)
		all = append(all, c.state)
		if c.state.TNS >= until {
			return all
		}
	}
}

func (c *client) truth() *armlink.Truth {
	c.t.Helper()
	c.write(&armlink.QueryTruth{})
	return expect[*armlink.Truth](c)
}

// watchCamera reads one camera with the rig's own driver; it returns once frames would arrive.
func watchCamera(t *testing.T, url string) <-chan camera.Frame {
	ctx, cancel := context.WithCancel(context.Background())
	out, up, ended := make(chan camera.Frame, 1000), make(chan struct{}, 10), make(chan struct{})
	src := &camera.Source{Name: "wrist camera", URL: url, Clock: device.NewClock(), Status: func(s device.Status) {
		if s.State == device.Connected {
			up <- struct{}{}
		}
	}}
	go func() {
		defer close(ended)
		src.Run(ctx, func(f camera.Frame) { out <- f })
	}()
	t.Cleanup(func() { cancel(); <-ended })
	<-up
	return out
}

// setScene puts the cell into a condition, arms included, as eval does before a trial.
func (c *client) setScene(cond sim.Condition) {
	c.t.Helper()
	b, err := cond.Encode()
	if err != nil {
		c.t.Fatal(err)
	}
	m := &armlink.SetScene{Condition: b}
	for _, s := range sim.Sides {
		q, err := sim.SolveArm(s, cond.Hand(s).Pose())
		if err != nil {
			c.t.Fatal(err)
		}
		m.Arms = append(m.Arms, armlink.SceneArm{Name: s.String(), Q: q, GripperRad: cond.Hand(s).Angle})
	}
	c.write(m)
	if scene := expect[*armlink.Scene](c); scene.Error != "" {
		c.t.Fatal(scene.Error)
	}
}

// plan sends, for both arms, hand paths as knots every 20 ms, solved from the commanded joints on.
func (c *client) plan(cond sim.Condition, path func(s sim.Side, t float64) (frames.Pose, float64), seconds float64) {
	c.t.Helper()
	for _, s := range sim.Sides {
		q := c.state.Arms[s].QCmd
		seg := &armlink.Segment{Arm: s.String()}
		for k := 1; float64(k)*0.02 <= seconds; k++ {
			pose, finger := path(s, float64(k)*0.02)
			next, err := sim.SolveArmFrom(s, pose, q)
			if err != nil {
				c.t.Fatal(err)
			}
			q = next
			seg.Knots = append(seg.Knots, armlink.Knot{TNS: c.state.TNS + int64(k)*20e6, Q: q, GripperRad: finger})
		}
		last := seg.Knots[len(seg.Knots)-1]
		last.TNS += 100e6
		seg.Knots = append(seg.Knots, last) // ends at rest
		c.write(seg)
	}
}

// pickUp is a straight-lined pick of the block: over it, down, close, up. It knows where the block is.
func pickUp(cond sim.Condition) func(s sim.Side, t float64) (frames.Pose, float64) {
	start := cond.Right
	over := sim.HandStart{X: cond.Block.X, Y: cond.Block.Y, Z: 0.24, Yaw: math.Remainder(cond.Block.Yaw, math.Pi/2)}
	down := over
	down.Z = 0.104
	smooth := func(t, from, to float64) float64 {
		x := max(0, min(1, (t-from)/(to-from)))
		return x * x * x * (10 - 15*x + 6*x*x)
	}
	return func(s sim.Side, t float64) (frames.Pose, float64) {
		if s == sim.Left {
			return cond.Left.Pose(), cond.Left.Angle
		}
		p := frames.Interpolate(start.Pose(), over.Pose(), smooth(t, 0, 1.5))
		p = frames.Interpolate(p, down.Pose(), smooth(t, 1.5, 2.7))
		p = frames.Interpolate(p, over.Pose(), smooth(t, 3.4, 4.4))
		return p, start.Angle + (0.09-start.Angle)*smooth(t, 2.7, 3.3)
	}
}

// A planned pick through the wire: states come on their grid, the truth tells the two milestones and their order, the camera frames
// carry the times that Hello announced.
func TestPickOverTheWire(t *testing.T) {
	c := serve(t, Options{SceneHz: 2})
	if !c.hello.Sim || c.hello.Clock != armlink.LockStep || c.hello.StartNS != int64(sim.StartTime) || len(c.hello.Arms) != 2 {
		t.Fatalf("hello %+v", c.hello)
	}
	if got := c.hello.Cameras; len(got) != 3 || got[0].Name != "left" || got[2].Name != "scene" || got[2].PeriodNS != 500e6 {
		t.Fatalf("cameras %+v", got)
	}
	cond := sim.NewCondition(sim.Eval, 3)
	c.setScene(cond)
	shots := watchCamera(t, c.hello.Cameras[1].URL)
	c.plan(cond, pickUp(cond), 4.4)
	states := c.advance(4600)
	for i, st := range states {
		if want := c.hello.StartNS + int64(i+1)*c.hello.PeriodNS; st.TNS != want {
			t.Fatalf("state %d is of %d, want %d", i, st.TNS, want)
		}
	}
	for k := range 40 {
		f := <-shots
		if want := c.hello.StartNS + c.hello.Cameras[1].PhaseNS + int64(k)*100e6; int64(f.Device) != want || !f.Timed || f.Bad {
			t.Fatalf("frame %d was captured at %d, bad %v; want %d", k, f.Device, f.Bad, want)
		}
		img, err := jpeg.Decode(bytes.NewReader(f.Data))
		if err != nil || img.Bounds().Dx() != 160 {
			t.Fatalf("frame %d: %v, %v", k, img, err)
		}
	}
	got := c.truth()
	if got.Values["milestones_done"] != 2 || !got.Flags["held_right"] || !got.Flags["lifted"] || got.Flags["placed"] {
		t.Fatalf("after the pick: %+v %+v", got.Flags, got.Values)
	}
	if reach, lift := got.Values["milestone_1_ns"], got.Values["milestone_2_ns"]; !(reach > 1000e9 && lift > reach && lift < float64(c.state.TNS)) {
		t.Errorf("milestones at %v and %v", reach, lift)
	}
	if got.Values["closest_reach_m"] > sim.ReachRadius || got.Values["max_rise_m"] < sim.LiftHeight {
		t.Errorf("values %+v", got.Values)
	}
	for _, a := range c.state.Arms {
		if a.Mode != armlink.ModeIdle {
			t.Errorf("after a plan that ends at rest: mode %s (%s)", a.Mode, a.Reason)
		}
	}
	c.setScene(cond)
	if got := c.truth(); got.Values["milestones_done"] != 0 || got.Values["max_rise_m"] > 0.001 || math.Abs(got.Bodies["block"][0]-cond.Block.X) > 1e-9 {
		t.Errorf("after SetScene: %+v %+v", got.Bodies, got.Values)
	}
}

// A client that leaves with its arms at rest leaves them ready; one that leaves in motion leaves a stop to acknowledge. Time goes on
// from where it stood, and the next client's camera grid begins after it.
func TestNextClient(t *testing.T) {
	c := serve(t, Options{Clients: 3})
	cond := sim.NewCondition(sim.Eval, 9)
	c.setScene(cond)
	c.advance(130)
	c.again()
	if got := c.state.Arms[0].Mode; got != armlink.ModeIdle || c.state.TNS != int64(sim.StartTime)+130e6 {
		t.Errorf("second client: mode %s at %d", got, c.state.TNS)
	}
	if cam := c.hello.Cameras[0]; cam.PhaseNS != 70e6 {
		t.Errorf("second client at 130 ms: next frame in %d ns, want 70 ms", cam.PhaseNS)
	}
	c.plan(cond, pickUp(cond), 4.4)
	c.advance(500)
	c.again()
	if got := c.state.Arms[0]; !got.Mode.NeedsRecover() || !strings.Contains(got.Reason, "executor left") {
		t.Errorf("third client: mode %s (%s)", got.Mode, got.Reason)
	}
}

// Equal messages, equal bytes.
func TestLockStepRepeats(t *testing.T) {
	run := func() string {
		c := serve(t, Options{})
		cond := sim.NewCondition(sim.Eval, 4)
		c.setScene(cond)
		c.plan(cond, pickUp(cond), 4.4)
		var out strings.Builder
		for range 9 {
			for _, st := range c.advance(500) {
				fmt.Fprintf(&out, "%+v\n", *st)
			}
			b, _ := json.Marshal(c.truth())
			out.Write(b)
		}
		return out.String()
	}
	a, b := run(), run()
	if a != b {
		t.Errorf("two runs differ: %d and %d bytes", len(a), len(b))
	}
}

// Refused messages are answered and change nothing; both arms stop together and wait for Recover; starving ramps down.
func TestStopsAndFaults(t *testing.T) {
	c := serve(t, Options{})
	cond := sim.NewCondition(sim.Eval, 5)
	c.setScene(cond)
	home := c.state.Arms[0].QCmd
	fault := func(m armlink.Message, want string) {
		t.Helper()
		c.write(m)
		if f := expect[*armlink.Fault](c); f.Of != m.Kind() || !strings.Contains(f.Text, want) {
			t.Errorf("fault %+v, want one of kind %d with %q", f, m.Kind(), want)
		}
	}
	fault(&armlink.Segment{Arm: "middle", Knots: []armlink.Knot{{TNS: c.state.TNS + 1e9, Q: home}}}, "middle")
	fault(&armlink.Segment{Arm: "left"}, "no knots")
	fault(&armlink.Advance{UntilNS: math.MaxInt64 - 1}, "ahead of")
	c.write(&armlink.SetScene{Condition: []byte(`{"block":{"x_m":9}}`)})
	if s := expect[*armlink.Scene](c); !strings.Contains(s.Error, "block at x 9") {
		t.Errorf("scene error %q", s.Error)
	}
	c.advance(10)
	c.plan(cond, pickUp(cond), 4.4)
	c.advance(800)
	c.write(&armlink.Stop{Reason: "a test"})
	fault(&armlink.Recover{}, "still moves")
	c.advance(600)
	for _, a := range c.state.Arms {
		if a.Mode != armlink.ModeStopped || !strings.Contains(a.Reason, "a test") {
			t.Errorf("after Stop: mode %s, reason %q", a.Mode, a.Reason)
		}
	}
	c.write(&armlink.Recover{})
	c.advance(10)
	if m := c.state.Arms[1].Mode; m != armlink.ModeIdle {
		t.Errorf("after Recover: mode %s", m)
	}
	// Only the right arm gets a segment, and it ends in motion: the right ramps down, the left stops with it.
	q := c.state.Arms[sim.Right].QCmd
	seg := &armlink.Segment{Arm: "right"}
	for k := 1; k <= 20; k++ {
		q[0] += 0.003
		seg.Knots = append(seg.Knots, armlink.Knot{TNS: c.state.TNS + int64(k)*20e6, Q: q, GripperRad: 0.4})
	}
	c.write(seg)
	c.advance(1500)
	if r, l := c.state.Arms[sim.Right], c.state.Arms[sim.Left]; r.Mode != armlink.ModeStopped || !strings.Contains(r.Reason, "starvation") ||
		l.Mode != armlink.ModeStopped || !strings.Contains(l.Reason, "right arm stopped") {
		t.Errorf("after starvation: right %s (%s), left %s (%s)", r.Mode, r.Reason, l.Mode, l.Reason)
	}
}

// An arm that drives its fingers into the table ends in a reflex instead of pushing on, and the other stops with it.
func TestReflexOnContact(t *testing.T) {
	c := serve(t, Options{})
	cond := sim.NewCondition(sim.Eval, 6)
	c.setScene(cond)
	c.advance(10)
	c.plan(cond, func(s sim.Side, at float64) (frames.Pose, float64) {
		h := cond.Hand(s)
		if s == sim.Right {
			h.Z = cond.Right.Z - 0.06*at
		}
		return h.Pose(), h.Angle
	}, 4)
	c.advance(4200)
	r, l := c.state.Arms[sim.Right], c.state.Arms[sim.Left]
	if r.Mode != armlink.ModeReflex || !strings.Contains(r.Reason, "blocks the arm") || l.Mode != armlink.ModeStopped {
		t.Errorf("right %s (%s), left %s (%s)", r.Mode, r.Reason, l.Mode, l.Reason)
	}
	if got := c.truth(); !got.Flags["collided"] {
		t.Errorf("the contact with the table is not in the truth: %+v", got.Flags)
	}
}

// In real time the clock runs by itself and grants are refused.
func TestRealTime(t *testing.T) {
	c := serve(t, Options{Clock: armlink.RealTime})
	first := c.state.TNS
	began := time.Now()
	for c.state.TNS < first+200e6 {
		c.state = expect[*armlink.State](c)
	}
	if took := time.Since(began); took < 150*time.Millisecond {
		t.Errorf("0.2 s of the cell passed in %v", took)
	}
	c.write(&armlink.Advance{UntilNS: c.state.TNS})
	for {
		m, err := c.conn.Read()
		if err != nil {
			t.Fatal(err)
		}
		if f, ok := m.(*armlink.Fault); ok {
			if !strings.Contains(f.Text, "realtime") {
				t.Errorf("fault %q", f.Text)
			}
			return
		}
	}
}

// The arm's description is the robot model's: the announced mount and base give the hand pose that the truth shows.
func TestHelloGeometry(t *testing.T) {
	c := serve(t, Options{})
	pose := func(a armlink.Pose) frames.Pose {
		p, err := frames.PoseFromXYZXYZW(a)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	c.setScene(sim.NewCondition(sim.Eval, 8))
	c.advance(10)
	arm := robotmodel.FR3()
	truth := c.truth()
	for i, name := range []string{"left_hand", "right_hand"} {
		chain := arm.Forward(c.state.Arms[i].Q)
		f := chain.Flange()
		q := f.Quat()
		flange := pose(armlink.Pose{f.P[0], f.P[1], f.P[2], q[0], q[1], q[2], q[3]})
		got := pose(c.hello.Arms[i].WorldFromBase).Mul(flange).Mul(pose(c.hello.Arms[i].FlangeFromHand))
		if d, a := got.Distance(pose(truth.Bodies[name])); d > 1e-8 || a > 1e-7 {
			t.Errorf("%s: kinematics of the announced arm are %v m, %v rad off", name, d, a)
		}
	}
}
