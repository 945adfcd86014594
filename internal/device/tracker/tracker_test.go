package tracker

import (
	"context"
	"fmt"
	"math"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/device"
	"gonum.org/v1/gonum/spatial/r3"
)

func f(v float64) *float64 { return &v }

// Unity: X right, Y up, Z forward. ROS: X forward, Y left, Z up.
func TestUnityAxesBecomeROSAxes(t *testing.T) {
	for _, c := range []struct{ unity, ros r3.Vec }{
		{r3.Vec{Z: 1}, r3.Vec{X: 1}}, {r3.Vec{X: 1}, r3.Vec{Y: -1}}, {r3.Vec{Y: 1}, r3.Vec{Z: 1}},
	} {
		p, ok := rosFromUnity(&xyz{f(c.unity.X), f(c.unity.Y), f(c.unity.Z)}, &xyzw{f(0), f(0), f(0), f(1)})
		if !ok || p.Pos != c.ros {
			t.Errorf("%v became %v, want %v", c.unity, p.Pos, c.ros)
		}
	}
	// A turn to the right about Unity's up axis is positive there (left-handed) and negative about ROS's Z.
	s, co := math.Sin(0.25), math.Cos(0.25)
	p, ok := rosFromUnity(&xyz{f(0), f(0), f(0)}, &xyzw{f(0), f(s), f(0), f(co)})
	want := frames.QuatFromRPY(0, 0, -0.5)
	if !ok || p.Rot.AngleTo(want) > 1e-12 {
		t.Errorf("turn became %v, want %v", p.Rot, want)
	}
	// Vectors turn alike: forward turned right by 0.5 rad points to the right in both systems.
	got := p.Rot.Rotate(r3.Vec{X: 1})
	if math.Abs(got.X-math.Cos(0.5)) > 1e-12 || math.Abs(got.Y+math.Sin(0.5)) > 1e-12 {
		t.Errorf("forward became %v", got)
	}
}

func somePose(k float64) frames.Pose {
	return frames.Pose{Pos: r3.Vec{X: 0.1 * k, Y: -0.2, Z: 1.3}, Rot: frames.QuatFromRPY(0.3, -0.4*k, 2)}
}

func TestLineWritesAndReadsTheSameNumbers(t *testing.T) {
	want := Reading{HMD: somePose(1), HasHMD: true, Device: 1000005000001, Timed: true, Received: 9, Controllers: [2]Controller{
		{Pose: somePose(2), HasPose: true, Tracked: true, Valid: true}, {Pose: somePose(3), HasPose: true, Valid: true},
	}}
	got, err := parseLine(AppendLine(nil, want, 1.0/72), 9)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		a, b := got.Controllers[i], want.Controllers[i]
		if m, r := a.Pose.Distance(b.Pose); m > 1e-15 || r > 1e-7 || a.Tracked != b.Tracked || a.Valid != b.Valid || !a.HasPose {
			t.Errorf("controller %d: %+v, want %+v", i, a, b)
		}
	}
	if got.Device != want.Device || !got.Timed || got.Received != 9 || !got.HasHMD {
		t.Errorf("%+v", got)
	}
}

func TestBadLines(t *testing.T) {
	whole := string(AppendLine(nil, Reading{HMD: somePose(1), HasHMD: true}, 0))
	for name, line := range map[string]string{
		"cut": whole[:len(whole)/2], "empty object": "{}", "array": "[1,2]", "text": "hello",
		"pose with a hole":  `{"hmdPosition":{"x":1,"y":2},"hmdRotation":{"x":0,"y":0,"z":0,"w":1}}`,
		"pose of text":      `{"hmdPosition":{"x":"1","y":2,"z":3},"hmdRotation":{"x":0,"y":0,"z":0,"w":1}}`,
		"zero quaternion":   `{"hmdPosition":{"x":1,"y":2,"z":3},"hmdRotation":{"x":0,"y":0,"z":0,"w":0}}`,
		"number too large":  `{"hmdPosition":{"x":1e999,"y":2,"z":3},"hmdRotation":{"x":0,"y":0,"z":0,"w":1}}`,
		"absurdly far away": `{"hmdPosition":{"x":1e30,"y":2,"z":3},"hmdRotation":{"x":0,"y":0,"z":0,"w":1}}`,
	} {
		if r, err := parseLine([]byte(line), 1); err == nil {
			t.Errorf("%s was read as %+v", name, r)
		}
	}
	// A lost controller (zero quaternion) leaves the rest of the frame usable, and has no invented identity pose.
	r, err := parseLine([]byte(`{"hmdPosition":{"x":1,"y":2,"z":3},"hmdRotation":{"x":0,"y":0,"z":0,"w":1},`+
		`"leftControllerPosition":{"x":0,"y":0,"z":0},"leftControllerRotation":{"x":0,"y":0,"z":0,"w":0},"leftTracked":true,"leftValid":true}`), 1)
	if err != nil || !r.HasHMD || r.Controllers[Left].HasPose || r.Timed {
		t.Errorf("%+v, %v", r, err)
	}
}

// Headsets report poses that jump by up to 0.73 m between two frames while both flags are true.
func TestJumpIsFoundFromThePoses(t *testing.T) {
	const frame int64 = 1_000_000_000 / 72
	var d jumpDetector
	pose := somePose(1)
	for i := range 100 { // 2 m/s and 10 rad/s are a quick hand
		pose.Pos.X += 2.0 / 72
		pose.Rot = pose.Rot.Mul(frames.QuatFromRPY(0, 0, 10.0/72))
		if d.add(pose, int64(i)*frame) {
			t.Fatalf("frame %d of a quick motion counts as a jump", i)
		}
	}
	pose.Pos.Y += 0.2
	if !d.add(pose, 100*frame) {
		t.Error("0.2 m in one frame is no jump?")
	}
	if d.add(pose, 101*frame) {
		t.Error("standing still after a jump counts as one")
	}
	pose.Rot = pose.Rot.Mul(frames.QuatFromRPY(0, 0, 1.2))
	if !d.add(pose, 102*frame) {
		t.Error("1.2 rad in one frame is no jump?")
	}
	pose.Pos.Y += 0.5
	if d.add(pose, 102*frame+1_000_000_000) {
		t.Error("a second of silence and then half a metre is a motion, not a jump")
	}
}

// FuzzLine: any bytes give an error or poses that are finite and unit.
func FuzzLine(fz *testing.F) {
	fz.Add(AppendLine(nil, Reading{HMD: somePose(1), HasHMD: true, Device: 5, Timed: true}, 0.1))
	fz.Fuzz(func(t *testing.T, b []byte) {
		r, err := parseLine(b, 1)
		if err != nil {
			return
		}
		if r.HasHMD && (!r.HMD.Finite() || math.Abs(r.HMD.Rot.Norm()-1) > 1e-9) {
			t.Errorf("%+v", r)
		}
		if r.Device < 0 {
			t.Errorf("device time %d", r.Device)
		}
	})
}

// quest is a headset application at the other end of real sockets; its clock is offset ahead of the host's.
type quest struct {
	tcp    net.Listener
	udp    net.PacketConn
	offset int64
}

func newQuest(t *testing.T, clock device.Clock, offset int64) *quest {
	t.Helper()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tcp.Close(); udp.Close() })
	q := &quest{tcp, udp, offset}
	go func() {
		buf := make([]byte, 64)
		for {
			n, from, err := udp.ReadFrom(buf)
			if err != nil {
				return
			}
			t1, err := ParseSyncRequest(buf[:n])
			if err != nil {
				continue
			}
			_, _ = udp.WriteTo([]byte("noise"), from)                                                      // a stray datagram
			_, _ = udp.WriteTo(AppendSyncReply(nil, t1+1, frames.DeviceTime(1)), from)                     // an answer to another request
			_, _ = udp.WriteTo(AppendSyncReply(nil, t1, frames.DeviceTime(int64(clock())+q.offset)), from) // the answer
		}
	}()
	return q
}

func TestSourceReadsReconnectsAndFindsTheClock(t *testing.T) {
	clock := device.NewClock()
	const offset = -1_700_000_000_000_000_000
	q := newQuest(t, clock, offset)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var mu sync.Mutex
	var est frames.ClockEstimator
	samples := make(chan struct{}, 1000)
	got := make(chan Reading, 1000)
	s := &Source{Name: "tracker", Address: q.tcp.Addr().String(), Sync: q.udp.LocalAddr().String(), Clock: clock, Retry: time.Millisecond, Period: time.Millisecond,
		OnClock: func(c frames.ClockSample) {
			mu.Lock()
			defer mu.Unlock()
			est.Add(c)
			select {
			case samples <- struct{}{}:
			default:
			}
		}}
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, func(r Reading) { got <- r }) }()
	for round := range 2 {
		conn, err := q.tcp.Accept()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "not json\n\n%s%s", AppendLine(nil, Reading{HMD: somePose(1), HasHMD: true, Device: frames.DeviceTime(round + 1), Timed: true}, 0), `{"hmdPos`)
		r := <-got
		if r.Device != frames.DeviceTime(round+1) {
			t.Errorf("round %d: %+v", round, r)
		}
		for range 5 {
			<-samples
		}
		_ = conn.Close() // in the middle of a line, which must not come out
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run: %v", err)
	}
	if len(got) != 0 {
		t.Errorf("%d further readings", len(got))
	}
	mu.Lock()
	defer mu.Unlock()
	m, err := est.Map()
	if err != nil || math.Abs(float64(m.OffsetNS+offset)) > 8e6 { // half the largest round trip that is accepted, twice over
		t.Errorf("offset %d ns, want %d; %v", m.OffsetNS, int64(-offset), err)
	}
}

func TestSyncReplyChecks(t *testing.T) {
	good := AppendSyncReply(nil, 100, 7000)
	s, err := parseSyncReply(good, 100, 300)
	if err != nil || s.Device != 7000 || s.Host != 200 || s.RoundTrip != 200 {
		t.Errorf("%+v, %v", s, err)
	}
	for name, b := range map[string][]byte{"short": good[:16], "request": append([]byte{1}, good[1:]...), "other": AppendSyncReply(nil, 99, 7000), "negative": AppendSyncReply(nil, 100, -1)} {
		if _, err := parseSyncReply(b, 100, 300); err == nil {
			t.Errorf("%s reply was accepted", name)
		}
	}
	if req := AppendSyncRequest(nil, 0x0102030405060708); string(req) != "\x01\x08\x07\x06\x05\x04\x03\x02\x01" {
		t.Errorf("request % x: want byte 1 and the time in little-endian order", req)
	}
}

func TestRefusedPortNamesTheFix(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var text string
	s := &Source{Name: "tracker", Address: addr, Clock: device.NewClock(), Status: func(x device.Status) {
		if x.Err != nil {
			text = x.Err.Error()
			cancel()
		}
	}}
	if err := s.Run(ctx, func(Reading) {}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text, "tracker") || !strings.Contains(text, addr) || !strings.Contains(text, "nothing listens there") {
		t.Errorf("status %q", text)
	}
}
