package join

import (
	"context"
	"math"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pinch-robotics/pinch/deploy/arm"
	"github.com/pinch-robotics/pinch/deploy/arm/armtest"
	"github.com/pinch-robotics/pinch/internal/robotmodel"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
)

// cell is two arm processes on devices in memory, joined.
type cell struct {
	t       *testing.T
	devices [2]*armtest.Device
	stops   [2]context.CancelFunc
	done    [2]chan error
	conn    *armlink.Conn
	hello   *armlink.Hello
	addr    string

	mu    sync.Mutex
	state *armlink.State
	log   []*armlink.State
	fault []string
	gone  bool
}

func newCell(t *testing.T) *cell {
	t.Helper()
	c := &cell{t: t}
	cfg := Default()
	cfg.SilenceMS = 2000
	cfg.Listen = "unix:" + filepath.Join(t.TempDir(), "cell")
	cfg.Cameras = []Camera{{"left", "rtsp://127.0.0.1:1/left", "mjpeg", 30}}
	for i, name := range names {
		d, err := armtest.NewDevice([2]string{"fr3", "ur5e"}[i])
		if err != nil {
			t.Fatal(err)
		}
		c.devices[i] = d
		ctx, cancel := context.WithCancel(context.Background())
		c.stops[i], c.done[i] = cancel, make(chan error, 1)
		ready := make(chan string, 1)
		addr := "unix:" + filepath.Join(t.TempDir(), name)
		go func() {
			c.done[i] <- arm.Serve(ctx, d.Driver(), nil, arm.Options{Name: name, Listen: addr, WorldFromBase: robotmodel.Translation(0, 0.3-0.6*float64(i), 0),
				FlangeFromHand: robotmodel.FlangeFromHand(), Now: d.Now, ActionLatency: time.Duration(i) * 10 * time.Millisecond, Ready: func(a string) { ready <- a }})
		}()
		*[2]*string{&cfg.Left, &cfg.Right}[i] = <-ready
	}
	ctx, cancel := context.WithCancel(context.Background())
	joined, ready := make(chan error, 1), make(chan string, 1)
	go func() { joined <- Serve(ctx, Options{Config: cfg, Ready: func(a string) { ready <- a }}) }()
	c.addr = <-ready
	t.Cleanup(func() {
		if c.conn != nil {
			_ = c.conn.Close()
		}
		cancel()
		if err := <-joined; err != nil {
			t.Errorf("join: %v", err)
		}
		for i := range c.stops {
			c.stops[i]()
			<-c.done[i]
		}
	})
	return c
}

func (c *cell) connect() {
	c.t.Helper()
	conn, err := armlink.Dial(context.Background(), c.addr)
	if err != nil {
		c.t.Fatal(err)
	}
	m, err := conn.Read()
	h, ok := m.(*armlink.Hello)
	if !ok {
		c.t.Fatalf("began with %+v, %v", m, err)
	}
	c.conn, c.hello = conn, h
	c.mu.Lock()
	c.state, c.gone, c.fault = nil, false, nil
	c.mu.Unlock()
	go func() {
		for {
			m, err := conn.Read()
			c.mu.Lock()
			switch m := m.(type) {
			case *armlink.State:
				c.state = m
				c.log = append(c.log, m)
			case *armlink.Fault:
				c.fault = append(c.fault, m.Text)
			}
			if err != nil {
				c.gone = true
				c.mu.Unlock()
				return
			}
			c.mu.Unlock()
		}
	}()
	c.until(func(*armlink.State) bool { return true })
}

func (c *cell) until(ok func(*armlink.State) bool) *armlink.State {
	c.t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		c.mu.Lock()
		st := c.state
		c.mu.Unlock()
		if st != nil && ok(st) {
			return st
		}
	}
	c.t.Fatalf("does not happen; last state %+v, refused %q, gone %v", c.state, c.fault, c.gone)
	return nil
}

func modes(l, r armlink.Mode) func(*armlink.State) bool {
	return func(s *armlink.State) bool { return s.Arms[0].Mode == l && s.Arms[1].Mode == r }
}

// push moves joint 1 of an arm out by amp and back over seconds.
func (c *cell) push(i int, amp, seconds float64) {
	c.mu.Lock()
	st := c.state
	c.mu.Unlock()
	seg := &armlink.Segment{Arm: names[i]}
	n := int(seconds / 0.02)
	for k := 0; k <= n+1; k++ {
		kn := armlink.Knot{TNS: st.TNS + 60e6 + int64(k)*20e6, Q: st.Arms[i].QCmd}
		kn.Q[0] += amp * (0.5 - 0.5*math.Cos(2*math.Pi*float64(min(k, n))/float64(n)))
		seg.Knots = append(seg.Knots, kn)
	}
	if err := c.conn.Write(seg); err != nil {
		c.t.Fatal(err)
	}
}

func TestJoinedCell(t *testing.T) {
	c := newCell(t)
	c.connect()
	h := c.hello
	if len(h.Arms) != 2 || h.Arms[0].Model != "fr3" || h.Arms[1].Model != "ur5e" || h.Arms[1].WorldFromBase[1] != -0.3 ||
		h.ActionLatencyNS != 10e6 || len(h.Cameras) != 1 || h.Cameras[0].PeriodNS != 33333333 || h.Clock != armlink.RealTime {
		t.Errorf("hello %+v", h)
	}
	c.push(0, 0.2, 1)
	c.push(1, -0.2, 1)
	c.until(modes(armlink.ModeMoving, armlink.ModeMoving))
	c.until(modes(armlink.ModeIdle, armlink.ModeIdle))
	c.mu.Lock()
	peak := [2]float64{}
	for i, s := range c.log {
		if i > 0 && s.TNS < c.log[i-1].TNS {
			t.Errorf("time ran back from %d to %d", c.log[i-1].TNS, s.TNS)
		}
		for a := range peak {
			if v := s.Arms[a].QCmd[0] - c.log[0].Arms[a].QCmd[0]; math.Abs(v) > math.Abs(peak[a]) {
				peak[a] = v
			}
		}
	}
	c.mu.Unlock()
	if math.Abs(peak[0]-0.2) > 0.01 || math.Abs(peak[1]+0.2) > 0.01 {
		t.Errorf("the joints went out to %v, want 0.2 and -0.2", peak)
	}

	t.Run("what stops one arm stops the other", func(t *testing.T) {
		c.push(0, 0.3, 2)
		c.push(1, 0.3, 2)
		c.until(modes(armlink.ModeMoving, armlink.ModeMoving))
		c.devices[1].Stop()
		s := c.until(modes(armlink.ModeStopped, armlink.ModeReflex))
		if !strings.Contains(s.Arms[0].Reason, "the right arm stopped: somebody pressed stop") {
			t.Errorf("left arm's reason %q", s.Arms[0].Reason)
		}
		c.devices[1].Release()
		_ = c.conn.Write(&armlink.Recover{})
		c.until(modes(armlink.ModeIdle, armlink.ModeIdle))
	})
	t.Run("an executor that leaves stops both", func(t *testing.T) {
		c.push(0, 0.3, 2)
		c.push(1, 0.3, 2)
		c.until(modes(armlink.ModeMoving, armlink.ModeMoving))
		_ = c.conn.Close()
		time.Sleep(100 * time.Millisecond)
		c.connect()
		c.until(modes(armlink.ModeStopped, armlink.ModeStopped))
		_ = c.conn.Write(&armlink.Recover{})
		c.until(modes(armlink.ModeIdle, armlink.ModeIdle))
	})
	t.Run("a process that dies stops the other arm", func(t *testing.T) {
		c.push(0, 0.3, 3)
		c.push(1, 0.3, 3)
		c.until(modes(armlink.ModeMoving, armlink.ModeMoving))
		c.devices[0].Die()
		s := c.until(func(s *armlink.State) bool {
			return s.Arms[0].Mode == armlink.ModeReflex && s.Arms[1].Mode.NeedsRecover()
		})
		if !strings.Contains(s.Arms[1].Reason, "the left arm stopped") || s.Arms[0].Reason == "" {
			t.Errorf("reasons %q, %q", s.Arms[0].Reason, s.Arms[1].Reason)
		}
		for end := time.Now().Add(15 * time.Second); ; time.Sleep(time.Millisecond) {
			c.mu.Lock()
			gone := c.gone
			c.mu.Unlock()
			if gone {
				break
			}
			if time.Now().After(end) {
				t.Fatal("the cell of a dead arm stays open")
			}
		}
		// Without the left arm there is no cell: the executor is told so.
		conn, err := armlink.Dial(context.Background(), c.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		m, err := conn.Read()
		if f, ok := m.(*armlink.Fault); !ok || !strings.Contains(f.Text, "left arm") {
			t.Errorf("a cell without its left arm begins with %+v, %v", m, err)
		}
	})
}

func TestConfigNamesTheKey(t *testing.T) {
	for key, c := range map[string]Config{
		"left, right": {Left: "tcp:a:1", Right: "tcp:a:1", SilenceMS: 100}, "silence_ms": {Left: "tcp:a:1", Right: "tcp:a:2", SilenceMS: 1},
		"cameras": {Left: "tcp:a:1", Right: "tcp:a:2", SilenceMS: 100, Cameras: []Camera{{Name: "left"}}},
	} {
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", key, err)
		}
	}
}
