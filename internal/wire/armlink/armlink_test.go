package armlink

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// One of each kind, with values that a lost field would show.
var samples = []Message{
	&Hello{Version: 1, Clock: LockStep, PeriodNS: 10e6, StartNS: 5e9, Sim: true, ActionLatencyNS: 3e7,
		Arms:    []ArmInfo{{Name: "left", Model: "fr3", WorldFromBase: Pose{1, 2, 3, 0, 0, 0, 1}, FlangeFromHand: IdentityPose, GripperRad: [2]float64{0, 0.94}}},
		Cameras: []CameraInfo{{Name: "left", URL: "rtsp://127.0.0.1:8554/left", Kind: "mjpeg", PeriodNS: 33_333_333, PhaseNS: 7}}},
	&State{TNS: 1<<62 + 1, Arms: []ArmState{{Q: Joints{1, 2, 3, 4, 5, 6, 7}, DQ: Joints{-1}, QCmd: Joints{6: 0.1}, DQCmd: Joints{5: 2},
		GripperRad: 0.25, GripperCmdRad: 0.5, Mode: ModeRamp, Reason: "Würfel im Weg"}}},
	&Segment{Arm: "right", Knots: []Knot{{TNS: 1, Q: Joints{0.1, math.Pi}, GripperRad: 0.3}, {TNS: 2}}},
	&Stop{Reason: "operator"},
	&Recover{},
	&Advance{UntilNS: 123456789012345678},
	&SetScene{Condition: []byte(`{"block":1}`), Arms: []SceneArm{{Name: "left", Q: Joints{1}, GripperRad: 0.2}}},
	&Scene{TNS: 9, Error: "no such block"},
	&QueryTruth{},
	&Truth{TNS: 3, Bodies: map[string]Pose{"block": IdentityPose}, Flags: map[string]bool{"held": true, "placed": false}, Values: map[string]float64{"rise_m": 0.04}},
	&Fault{Of: KindSegment, Text: "outside the limits"},
}

func TestEveryMessageRoundTrips(t *testing.T) {
	a, b := net.Pipe()
	out, in := NewConn(a), NewConn(b)
	defer out.Close()
	defer in.Close()
	go func() {
		for _, m := range samples {
			if err := out.Write(m); err != nil {
				t.Error(err)
			}
		}
		out.Close()
	}()
	seen := map[Kind]bool{}
	for _, want := range samples {
		got, err := in.Read()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%T: %s", want, diff)
		}
		seen[got.Kind()] = true
	}
	for k := KindHello; k <= KindFault; k++ {
		if !seen[k] {
			t.Errorf("kind %d has no sample", k)
		}
	}
	if _, err := in.Read(); !errors.Is(err, io.EOF) {
		t.Errorf("after the peer closed: %v", err)
	}
}

// The bytes of a message, so that a program in another language can be checked against them.
func TestBytesOfAStop(t *testing.T) {
	var buf closeBuffer
	if err := NewConn(&buf).Write(&Stop{Reason: "e"}); err != nil {
		t.Fatal(err)
	}
	want := []byte{11, 0, 0, 0, byte(KindStop), 0x81, 0xa6, 'r', 'e', 'a', 's', 'o', 'n', 0xa1, 'e'}
	if !bytes.Equal(buf.Bytes(), want) {
		t.Errorf("bytes % x, want % x", buf.Bytes(), want)
	}
}

type closeBuffer struct{ bytes.Buffer }

func (*closeBuffer) Close() error { return nil }

func TestBrokenFrames(t *testing.T) {
	frame := func(n uint32, body ...byte) []byte { return append(binary.LittleEndian.AppendUint32(nil, n), body...) }
	for name, c := range map[string]struct {
		b    []byte
		want string
	}{
		"not armlink":    {[]byte("GET / HTTP/1.1\r\n"), "does not speak armlink"},
		"length zero":    {frame(0), "length 0"},
		"too long":       {frame(MaxFrame + 1), "length"},
		"unknown kind":   {frame(2, 99, 0x80), "unknown message kind 99"},
		"cut in length":  {[]byte{1, 0}, "read frame length"},
		"cut in body":    {frame(10, byte(KindStop), 0x81), "unexpected EOF"},
		"unknown key":    {frame(4, byte(KindStop), 0x81, 0xa1, 'x'), "Stop"},
		"not a map":      {frame(2, byte(KindState), 0x07), "State"},
		"joints missing": {frame(5, byte(KindState), 0x81, 0xa1, 'q', 0x91), "State"},
	} {
		buf := closeBuffer{*bytes.NewBuffer(c.b)}
		if _, err := NewConn(&buf).Read(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
}

func TestSegmentValidate(t *testing.T) {
	for name, c := range map[string]struct {
		s    Segment
		want string
	}{
		"empty":           {Segment{Arm: "left"}, "no knots"},
		"time repeats":    {Segment{Arm: "left", Knots: []Knot{{TNS: 5}, {TNS: 5}}}, "knot 1"},
		"not a number":    {Segment{Arm: "left", Knots: []Knot{{TNS: 5, Q: Joints{3: math.NaN()}}}}, "joint 4"},
		"gripper is +Inf": {Segment{Arm: "left", Knots: []Knot{{TNS: 5, GripperRad: math.Inf(1)}}}, "gripper"},
	} {
		if err := c.s.Validate(); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "left") {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
}

// Many goroutines may write; frames never mix.
func TestConcurrentWrites(t *testing.T) {
	l, err := Listen("unix:" + filepath.Join(t.TempDir(), "arm"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := Dial(context.Background(), "unix:"+l.Addr().String())
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		var wg sync.WaitGroup
		for w := 0; w < 8; w++ {
			wg.Add(1)
			go func() {
				defer wg.Done()
				for i := 0; i < 200; i++ {
					if err := c.Write(&Stop{Reason: strings.Repeat(string(rune('a'+w)), 1+i)}); err != nil {
						t.Error(err)
					}
				}
			}()
		}
		wg.Wait()
	}()
	nc, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	c := NewConn(nc)
	defer c.Close()
	n := 0
	for {
		m, err := c.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		r := m.(*Stop).Reason
		if strings.Count(r, r[:1]) != len(r) {
			t.Fatalf("frames are mixed: %q", r)
		}
		n++
	}
	if n != 1600 {
		t.Errorf("%d messages arrived, want 1600", n)
	}
}

func TestAddresses(t *testing.T) {
	for _, addr := range []string{"", "tcp", "tcp:", "udp:127.0.0.1:1", "127.0.0.1:7480"} {
		if _, err := Dial(context.Background(), addr); err == nil || !strings.Contains(err.Error(), "tcp:host:port") {
			t.Errorf("%q: %v", addr, err)
		}
	}
}

// Nobody listens, or somebody else does: each error names the address and the fix.
func TestAddressFaultsNameTheFix(t *testing.T) {
	l, err := Listen("tcp:127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := "tcp:" + l.Addr().String()
	if _, err := Listen(addr); err == nil || !strings.Contains(err.Error(), addr+": another program uses this address") {
		t.Errorf("taken address: %v", err)
	}
	l.Close()
	for _, a := range []string{addr, "unix:" + t.TempDir() + "/none"} {
		if _, err := Dial(context.Background(), a); err == nil || !strings.Contains(err.Error(), a+": nothing listens there") {
			t.Errorf("nobody at %s: %v", a, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, m := range samples {
		var buf closeBuffer
		if err := NewConn(&buf).Write(m); err != nil {
			f.Fatal(err)
		}
		f.Add(buf.Bytes())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		buf := closeBuffer{*bytes.NewBuffer(b)}
		m, err := NewConn(&buf).Read()
		if err != nil {
			return
		}
		var again closeBuffer
		if err := NewConn(&again).Write(m); err != nil {
			t.Fatalf("%#v does not encode: %v", m, err)
		}
	})
}
