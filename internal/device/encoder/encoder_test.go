package encoder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/device"
)

// decode feeds a text to a decoder and returns its readings.
func decode(text string) ([]Reading, Counts) {
	var d decoder
	var out []Reading
	d.feed([]byte(text), 5, func(r Reading) { out = append(out, r) })
	return out, d.counts
}

func TestFirmwareStreamIsRead(t *testing.T) {
	got, n := decode("# AS5601 streaming: rad, device_id=L003\nL003,1.23456789\r\n# t=1000005000000\nL003,1.24\n  1.5\n\nL003, 2.0 \n")
	want := []Reading{
		{RawRad: 1.23456789, ID: "L003", Received: 5},
		{RawRad: 1.24, ID: "L003", Device: 1000005000000, Timed: true, Received: 5},
		{RawRad: 1.5, Device: 1000005000000, Received: 5}, // older firmware: a bare number, no time of its own
		{RawRad: 2, ID: "L003", Device: 1000005000000, Received: 5},
	}
	if len(got) != len(want) || n.Bad != 0 {
		t.Fatalf("got %+v, counts %+v", got, n)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("reading %d: %+v, want %+v", i, got[i], want[i])
		}
	}
}

// The cut first line "03,1.2" would otherwise be taken for a sample of a device named 03.
func TestCutFirstLineIsDropped(t *testing.T) {
	got, n := decode("03,1.2\nL003,1.3\n")
	if len(got) != 1 || got[0].ID != "L003" || got[0].RawRad != 1.3 || n.Bad != 0 {
		t.Errorf("got %+v, counts %+v", got, n)
	}
}

// Lines that older hosts took for numbers or died of: "nan" poisons a sum, "inf" raises in a modulo.
func TestNoNumberLinesAreLeftOut(t *testing.T) {
	for _, line := range []string{"L003,nan", "L003,inf", "L003,-inf", "nan", "inf", "L003,", ",", "L003,1.2L003,1.3", "L003,-0.5", "L003,6.29", "L003,7",
		"L003,1e400", "L003,0x1p3", "L003,1_0", "# t=x", "# t=-5", "\x00\xff\x80", "L003,1,2", strings.Repeat("9", 300)} {
		got, n := decode("start\n" + line + "\nL003,1.5\n")
		if len(got) != 1 || got[0].RawRad != 1.5 || n.Bad != 1 {
			t.Errorf("%.40q: readings %+v, counts %+v", line, got, n)
		}
	}
}

// The firmware sends 0.00000000 when its I2C read fails: a jump to exactly 0 is marked, a true passage through 0 is not.
func TestZeroOfAFailedReadIsSuspect(t *testing.T) {
	got, n := decode("start\nL003,0.00000000\nL003,2.0\nL003,0.00000000\nL003,2.01\nL003,0.1\nL003,0.00000000\nL003,6.2\nL003,0.00000000\n")
	want := []bool{true, false, true, false, false, false, false, false}
	for i, r := range got {
		if r.Suspect != want[i] {
			t.Errorf("reading %d (%v rad): suspect %v, want %v", i, r.RawRad, r.Suspect, want[i])
		}
	}
	if n.Suspects != 2 {
		t.Errorf("%d suspects, want 2", n.Suspects)
	}
}

func TestMagnetWarningIsANote(t *testing.T) {
	got, n := decode("start\nL003,1.5\nmagnet too weak\nL003,1.6\n")
	if len(got) != 2 || n.Notes != 1 || n.Bad != 0 {
		t.Errorf("readings %+v, counts %+v", got, n)
	}
}

func TestLineLimitsRecover(t *testing.T) {
	got, n := decode("start\n" + strings.Repeat("x", 100_000) + "\nL003,1.5\n")
	if len(got) != 1 || n.Bad != 1 {
		t.Errorf("readings %+v, counts %+v", got, n)
	}
}

func TestUnwrapFollowsTheFormula(t *testing.T) {
	// q = wrap((raw - closed) * -1) counted on: opening past raw 0, and closing a little beyond closed.
	u := Unwrapper{ClosedRawRad: 0.25, Direction: -1}
	for i, c := range []struct{ raw, want float64 }{
		{0.25, 0}, {0.05, 0.2}, {2*math.Pi - 0.05, 0.3}, {0.1, 0.15}, {0.26, -0.01}, {0.25, 0},
	} {
		got, ok := u.Add(c.raw)
		if !ok || math.Abs(got-c.want) > 1e-12 {
			t.Errorf("sample %d: raw %v gives %v, want %v", i, c.raw, got, c.want)
		}
	}
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if _, ok := u.Add(bad); ok {
			t.Errorf("%v was taken", bad)
		}
	}
	if got, _ := u.Add(0.15); math.Abs(got-0.1) > 1e-12 {
		t.Errorf("after refused samples: %v, want 0.1", got)
	}
	u.Add(0.25 - 3)
	u.Add(0.25 - 6 + 2*math.Pi) // six radians on: beyond half a turn from closed
	if got, _ := u.Add(0.25 - 6 + 2*math.Pi); math.Abs(got-6) > 1e-12 {
		t.Errorf("after opening on and on: %v, want 6", got)
	}
	u.Reset()
	if got, _ := u.Add(0.25 - 6 + 2*math.Pi); math.Abs(got-(6-2*math.Pi)) > 1e-12 {
		t.Errorf("after Reset the first angle is %v, want %v in [-pi, pi)", got, 6-2*math.Pi)
	}
}

func TestWrapPi(t *testing.T) {
	for _, x := range []float64{0, 1, -1, math.Pi, -math.Pi, 4, -4, 100, -100} {
		got := WrapPi(x)
		if got < -math.Pi || got >= math.Pi || math.Abs(math.Sin(got)-math.Sin(x)) > 1e-12 || math.Abs(math.Cos(got)-math.Cos(x)) > 1e-12 {
			t.Errorf("WrapPi(%v) = %v", x, got)
		}
	}
}

// FuzzFeed: any bytes in any pieces give the same readings as in one piece, all of them finite and in range.
func FuzzFeed(f *testing.F) {
	f.Add([]byte("# h\nL003,1.5\n# t=7\nR001,0.00000000\nmagnet too weak\n"), uint8(3))
	f.Fuzz(func(t *testing.T, b []byte, step uint8) {
		whole, n := decode(string(b))
		var d decoder
		var parts []Reading
		for i := 0; i < len(b); i += int(step)%17 + 1 {
			d.feed(b[i:min(len(b), i+int(step)%17+1)], 5, func(r Reading) { parts = append(parts, r) })
		}
		if len(parts) != len(whole) || d.counts != n {
			t.Fatalf("in pieces: %d readings %+v, in one piece: %d %+v", len(parts), d.counts, len(whole), n)
		}
		for i := range whole {
			if whole[i] != parts[i] {
				t.Fatalf("reading %d differs", i)
			}
			if r := whole[i].RawRad; !(r >= 0 && r < 2*math.Pi) || whole[i].Device < 0 {
				t.Fatalf("reading %+v", whole[i])
			}
		}
	})
}

// port is a serial port whose content a test scripts: one text per connection.
type port struct {
	io.Reader
}

func (port) Close() error { return nil }

// runSource runs a source over scripted connections until all are used up, and returns what it reported.
func runSource(t *testing.T, s *Source, scripts ...string) (got []Reading, status []device.Status, err error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	n := 0
	s.Clock = func() frames.HostTime { return 1 }
	s.Retry = time.Millisecond
	s.Status = func(x device.Status) { mu.Lock(); status = append(status, x); mu.Unlock() }
	s.Port = func(context.Context) (io.ReadCloser, error) {
		if n == len(scripts) {
			cancel()
			return nil, io.EOF
		}
		n++
		return port{iotest.OneByteReader(strings.NewReader(scripts[n-1]))}, nil
	}
	err = s.Run(ctx, func(r Reading) { got = append(got, r) })
	return got, status, err
}

func TestSourceReconnectsAndInventsNothing(t *testing.T) {
	s := &Source{Name: "left encoder", Side: Left}
	got, status, err := runSource(t, s, "x\nL003,1.0\nL003,1.1\n", "cut\nL003,1.2\n")
	if err != nil || len(got) != 3 || got[2].RawRad != 1.2 {
		t.Fatalf("readings %+v, error %v", got, err)
	}
	var states []string
	for _, x := range status {
		if x.Warning == "" {
			states = append(states, x.State.String())
		}
	}
	if j := strings.Join(states, " "); !strings.HasPrefix(j, "connecting connected lost connected lost") {
		t.Errorf("states: %s", j)
	}
}

func TestWrongEncoderIsAConfigError(t *testing.T) {
	for _, c := range []struct {
		src  Source
		line string
		want string
	}{
		{Source{Name: "left encoder", Side: Left}, "R001,1.0", "swap the two cables"},
		{Source{Name: "left encoder", Side: Left, ID: "L007"}, "L001,1.0", `wants "L007"`},
	} {
		got, _, err := runSource(t, &c.src, "x\n"+c.line+"\n")
		var config *device.ConfigError
		if !errors.As(err, &config) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "left encoder") || len(got) != 0 {
			t.Errorf("%s: error %v, %d readings", c.line, err, len(got))
		}
	}
	// The placeholder id that firmware ships with says nothing about the side.
	s := Source{Name: "left encoder", Side: Left}
	if got, _, err := runSource(t, &s, "x\nYOUR ID,1.0\n"); err != nil || len(got) != 1 {
		t.Errorf("placeholder id: error %v, %d readings", err, len(got))
	}
}

func TestWarningsAreReportedAtPowersOfTen(t *testing.T) {
	var b strings.Builder
	for i := range 150 {
		fmt.Fprintf(&b, "L003,%d.0\nmagnet too strong\n", i%2+1)
	}
	s := &Source{Name: "left encoder", Side: Left}
	_, status, _ := runSource(t, s, "x\n"+b.String())
	n := 0
	for _, x := range status {
		if strings.Contains(x.Warning, "magnet too strong") {
			n++
		}
	}
	if n != 3 { // the 1st, the 10th, the 100th
		t.Errorf("%d magnet warnings for 150 notes, want 3", n)
	}
}
