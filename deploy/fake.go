package deploy

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"io"
	"net"
	"sync"
	"time"

	"github.com/pinch-robotics/pinch/internal/armrt"
	"github.com/pinch-robotics/pinch/internal/robotmodel"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
)

// FakeOptions shape a Fake; the zero value is a lock-step cell with perfect tracking.
type FakeOptions struct {
	Hello     armlink.Hello                         // zero: FakeHello()
	Start     [2]armlink.Joints                     // zero: the model's rest posture
	FingerRad [2]float64                            // at the start
	Lag       time.Duration                         // time constant with which joints follow their commands; 0: perfectly
	FingerLag time.Duration                         // the same for the fingers
	RealTime  bool                                  // follow the host's clock instead of grants
	Observe   func(tNS int64, cmd [2]armrt.Command) // every millisecond, on the fake's goroutine; nil: nobody
	Inject    func(tNS int64, rt [2]*armrt.Runtime) // every millisecond, before the commands: faults for tests; nil: none
	// Hold lets something stand in an arm's way, every millisecond: it returns where the joints of a hand really are when they would be at q.
	Hold func(tNS int64, hand int, q armlink.Joints) armlink.Joints
	// Greet changes the Hello on its way out: an arm process that is set up wrongly. nil: none.
	Greet func(*armlink.Hello)
}

// Fake is an arm process inside this program: it speaks armlink and moves two arms by package armrt, without physics, and delivers wrist
// frames that show nothing. It serves tests, and trying deploy on machines without the simulator.
type Fake struct {
	opts   FakeOptions
	rt     [2]*armrt.Runtime
	q      [2]armlink.Joints // measured
	finger [2]float64        // measured
	last   [2]armrt.Command
	now    int64
	conn   *armlink.Conn // server's end
	client *armlink.Conn
	feeds  map[string]*fakeFeed
	done   chan struct{}
}

// FakeHello describes two FR3 arms on one side of a table, 0.6 m apart, facing +X, and two wrist cameras at 10 Hz.
func FakeHello() armlink.Hello {
	hand := armlink.Pose(robotmodel.FlangeFromHand().Pose().ArrayXYZXYZW())
	g := robotmodel.YUBI()
	h := armlink.Hello{Version: armlink.Version, Clock: armlink.LockStep, PeriodNS: 10e6, StartNS: 1e9}
	for i, name := range Hands {
		h.Arms = append(h.Arms, armlink.ArmInfo{Name: name, Model: "fr3", FlangeFromHand: hand,
			WorldFromBase: armlink.Pose{-0.45, 0.3 - 0.6*float64(i), 0, 0, 0, 0, 1}, GripperRad: [2]float64{g.ClosedRad, g.OpenRad}})
		h.Cameras = append(h.Cameras, armlink.CameraInfo{Name: name, URL: "fake:" + name, Kind: "mjpeg", PeriodNS: 100e6, PhaseNS: 10e6})
	}
	return h
}

// NewFake starts a fake cell. Connect with ConnectOptions{Conn: f.Conn(), OpenCamera: f.OpenCamera}; closing the session ends it.
func NewFake(opts FakeOptions) (*Fake, error) {
	if opts.Hello.Version == 0 {
		opts.Hello = FakeHello()
	}
	opts.Hello.ActionLatencyNS = int64(opts.Lag)
	if opts.RealTime {
		opts.Hello.Clock = armlink.RealTime
		opts.Hello.StartNS = time.Now().UnixNano()
	}
	f := &Fake{opts: opts, now: opts.Hello.StartNS, feeds: map[string]*fakeFeed{}, done: make(chan struct{})}
	for h := range f.rt {
		model, err := robotmodel.ByName(opts.Hello.Arms[h].Model)
		if err != nil {
			return nil, err
		}
		q := opts.Start[h]
		if q == (armlink.Joints{}) {
			q = model.Rest
		}
		if f.rt[h], err = armrt.New(armrt.Config{Limits: model.Limits, Gripper: robotmodel.YUBI()}, q, opts.FingerRad[h]); err != nil {
			return nil, fmt.Errorf("start fake cell: %s arm: %w", Hands[h], err)
		}
		f.q[h], f.finger[h] = q, opts.FingerRad[h]
		f.last[h] = armrt.Command{Q: q, GripperRad: opts.FingerRad[h], Mode: armlink.ModeIdle}
	}
	picture, err := greyJPEG()
	if err != nil {
		return nil, err
	}
	for _, c := range opts.Hello.Cameras {
		f.feeds[c.Name] = &fakeFeed{info: c, picture: picture, closed: make(chan struct{}), changed: make(chan struct{}, 1)}
	}
	server, client := net.Pipe()
	f.conn, f.client = armlink.NewConn(server), armlink.NewConn(client)
	go f.serve()
	return f, nil
}

// Conn is the client's end of the link.
func (f *Fake) Conn() *armlink.Conn { return f.client }

// Wait returns when the fake has ended, after its client left.
func (f *Fake) Wait() { <-f.done }

// OpenCamera is for ConnectOptions.
func (f *Fake) OpenCamera(_ context.Context, info armlink.CameraInfo) (FrameSource, error) {
	feed := f.feeds[info.Name]
	if feed == nil {
		return nil, fmt.Errorf("the fake cell has no camera %q", info.Name)
	}
	return feed, nil
}

func (f *Fake) serve() {
	defer close(f.done)
	defer f.conn.Close()
	hello := f.opts.Hello
	hello.Arms = append([]armlink.ArmInfo(nil), hello.Arms...)
	if f.opts.Greet != nil {
		f.opts.Greet(&hello)
	}
	if f.conn.Write(&hello) != nil || f.conn.Write(f.state()) != nil {
		return
	}
	messages := make(chan armlink.Message)
	quit := make(chan struct{})
	defer close(quit)
	go func() {
		defer close(messages)
		for {
			m, err := f.conn.Read()
			if err != nil {
				return
			}
			select {
			case messages <- m:
			case <-quit:
				return
			}
		}
	}()
	var tick <-chan time.Time
	if f.opts.RealTime {
		t := time.NewTicker(time.Duration(f.opts.Hello.PeriodNS))
		defer t.Stop()
		tick = t.C
	}
	for {
		select {
		case m, ok := <-messages:
			if !ok {
				return
			}
			if err := f.handle(m); err != nil {
				if f.conn.Write(&armlink.Fault{Of: m.Kind(), Text: err.Error()}) != nil {
					return
				}
			}
		case <-tick:
			if f.advance(time.Now().UnixNano()) != nil {
				return
			}
		}
	}
}

func (f *Fake) handle(m armlink.Message) error {
	switch m := m.(type) {
	case *armlink.Segment:
		for h, name := range Hands {
			if m.Arm == name {
				return f.rt[h].Plan(f.now, m.Knots)
			}
		}
		return fmt.Errorf("segment for arm %q", m.Arm)
	case *armlink.Stop:
		for h := range f.rt {
			f.rt[h].Stop(f.now, m.Reason)
		}
	case *armlink.Recover:
		for h := range f.rt {
			if err := f.rt[h].Recover(); err != nil {
				return err
			}
		}
	case *armlink.Advance:
		if f.opts.RealTime {
			return fmt.Errorf("advance: this cell runs in real time")
		}
		return f.advance(m.UntilNS)
	default:
		return fmt.Errorf("%T is for simulated cells", m)
	}
	return nil
}

// advance steps to the time and sends the states on the way.
func (f *Fake) advance(until int64) error {
	for f.now+int64(armrt.Tick) <= until {
		f.now += int64(armrt.Tick)
		f.tick()
		if (f.now-f.opts.Hello.StartNS)%f.opts.Hello.PeriodNS == 0 {
			if err := f.conn.Write(f.state()); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *Fake) tick() {
	if f.opts.Inject != nil {
		f.opts.Inject(f.now, f.rt)
	}
	for h := range f.rt {
		f.last[h] = f.rt[h].Step(f.now)
		if f.last[h].Mode.NeedsRecover() {
			f.rt[1-h].Stop(f.now, "the other arm stopped: "+f.last[h].Reason)
		}
		for j := range f.q[h] {
			f.q[h][j] += follow(f.opts.Lag) * (f.last[h].Q[j] - f.q[h][j])
		}
		f.finger[h] += follow(f.opts.FingerLag) * (f.last[h].GripperRad - f.finger[h])
		if f.opts.Hold != nil {
			f.q[h] = f.opts.Hold(f.now, h, f.q[h])
		}
	}
	if f.opts.Observe != nil {
		f.opts.Observe(f.now, f.last)
	}
	for _, feed := range f.feeds {
		first := f.opts.Hello.StartNS + feed.info.PhaseNS
		if d := f.now - first; d >= 0 && d%feed.info.PeriodNS < int64(armrt.Tick) {
			feed.push(Frame{CaptureNS: first + d/feed.info.PeriodNS*feed.info.PeriodNS, JPEG: feed.picture})
		}
	}
}

// follow is the share of the way to its command that something with a lag goes in a tick.
func follow(lag time.Duration) float64 {
	return float64(armrt.Tick) / float64(max(lag, 0)+armrt.Tick)
}

func (f *Fake) state() *armlink.State {
	st := &armlink.State{TNS: f.now}
	for h, c := range f.last {
		mode, reason := f.rt[h].Mode()
		st.Arms = append(st.Arms, armlink.ArmState{Q: f.q[h], DQ: c.DQ, QCmd: c.Q, DQCmd: c.DQ,
			GripperRad: f.finger[h], GripperCmdRad: c.GripperRad, Mode: mode, Reason: reason})
	}
	return st
}

// fakeFeed is an in-memory camera.
type fakeFeed struct {
	info    armlink.CameraInfo
	picture []byte
	changed chan struct{}

	mu     sync.Mutex
	queue  []Frame
	once   sync.Once
	closed chan struct{}
}

func (c *fakeFeed) push(f Frame) {
	c.mu.Lock()
	c.queue = append(c.queue, f)
	c.mu.Unlock()
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// Next implements FrameSource.
func (c *fakeFeed) Next(ctx context.Context) (Frame, error) {
	for {
		c.mu.Lock()
		if len(c.queue) > 0 {
			f := c.queue[0]
			c.queue = c.queue[1:]
			c.mu.Unlock()
			return f, nil
		}
		c.mu.Unlock()
		select {
		case <-c.changed:
		case <-c.closed:
			return Frame{}, io.EOF
		case <-ctx.Done():
			return Frame{}, ctx.Err()
		}
	}
}

// Close implements FrameSource.
func (c *fakeFeed) Close() error {
	c.once.Do(func() { close(c.closed) })
	return nil
}

// greyJPEG is a small grey picture.
func greyJPEG() ([]byte, error) {
	im := image.NewGray(image.Rect(0, 0, 64, 48))
	for i := range im.Pix {
		im.Pix[i] = color.Gray{Y: 128}.Y
	}
	var b bytes.Buffer
	if err := jpeg.Encode(&b, im, nil); err != nil {
		return nil, fmt.Errorf("draw fake picture: %w", err)
	}
	return b.Bytes(), nil
}
