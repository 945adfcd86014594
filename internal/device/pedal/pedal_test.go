package pedal

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/device"
)

const ms = 1_000_000

// The bytes of a press as Linux writes them on a 64-bit machine (struct input_event of linux/input.h): seconds, microseconds, type, code, value.
func TestEventLayoutByHand(t *testing.T) {
	want := []byte{
		0xe8, 3, 0, 0, 0, 0, 0, 0, 0x40, 0xe2, 1, 0, 0, 0, 0, 0, 1, 0, 30, 0, 1, 0, 0, 0, // 1000.123456 s, EV_KEY, KEY_A, 1
		0xe8, 3, 0, 0, 0, 0, 0, 0, 0x40, 0xe2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // EV_SYN
	}
	got := AppendKey(nil, 1000_123_456_000, 30, true)
	if string(got) != string(want) {
		t.Errorf("got\n% x\nwant\n% x", got, want)
	}
	e, err := parseEvent(got[:24])
	if err != nil || e != (event{1000_123_456_000, evKey, 30, 1}) {
		t.Errorf("%+v, %v", e, err)
	}
}

// collectAll runs the debounce over records and gives the reported edges.
func presses(t *testing.T, s *Source, records []byte) []Reading {
	t.Helper()
	d := debounce{hold: 30 * time.Millisecond}
	s.Clock = func() frames.HostTime { return 1 }
	var out []Reading
	for len(records) > 0 {
		e, err := parseEvent(records[:EventBytes])
		if err != nil {
			t.Fatal(err)
		}
		s.handle(&d, e, func(r Reading) {
			if r.Changed {
				out = append(out, r)
			}
		})
		records = records[EventBytes:]
	}
	return out
}

func TestShortPressIsNotLostAndChatterIsOnePress(t *testing.T) {
	var rec []byte
	key := func(at frames.DeviceTime, down bool) { rec = AppendKey(rec, at, 46, down) } // button 2
	key(1000*ms, true)                                                                  // a press of 1 ms
	key(1001*ms, false)
	key(2000*ms, true) // a press that chatters for 10 ms
	key(2003*ms, false)
	key(2006*ms, true)
	key(2010*ms, false)
	key(2012*ms, true)
	key(2500*ms, false)
	got := presses(t, &Source{}, rec)
	want := []struct {
		down bool
		at   frames.DeviceTime
	}{{true, 1000 * ms}, {false, 1030 * ms}, {true, 2000 * ms}, {false, 2500 * ms}}
	if len(got) != len(want) {
		t.Fatalf("got %+v", got)
	}
	for i, w := range want {
		if got[i].Button != 2 || got[i].Down != w.down || got[i].Device != w.at {
			t.Errorf("edge %d: %+v, want %+v", i, got[i], w)
		}
	}
}

func TestOtherKeysAndRepeatsAreNoPresses(t *testing.T) {
	rec := AppendKey(nil, 1*ms, 99, true)                                       // a key that is no button
	rec = appendEvent(rec, event{time: 2 * ms, typ: evKey, code: 30, value: 2}) // auto-repeat
	rec = appendEvent(rec, event{time: 3 * ms, typ: 4, code: 4, value: 7})      // EV_MSC
	rec = AppendKey(rec, 100*ms, 17, true)
	got := presses(t, &Source{Keys: [3]uint16{17, 18, 19}}, rec)
	if len(got) != 1 || got[0].Button != 0 || !got[0].Down || got[0].Level != [3]bool{true, false, false} {
		t.Errorf("got %+v", got)
	}
}

// run starts a source and gives its readings and statuses.
func run(t *testing.T, s *Source) (<-chan Reading, <-chan device.Status, <-chan error) {
	t.Helper()
	readings, status, done := make(chan Reading, 100), make(chan device.Status, 100), make(chan error, 1)
	s.Name, s.Clock, s.Retry = "pedal", device.NewClock(), 5*time.Millisecond
	s.Status = func(x device.Status) {
		select {
		case status <- x:
		default:
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { done <- s.Run(ctx, func(r Reading) { readings <- r }) }()
	t.Cleanup(cancel)
	return readings, status, done
}

func next(t *testing.T, c <-chan Reading) Reading {
	t.Helper()
	for {
		select {
		case r := <-c:
			if r.Changed {
				return r
			}
		case <-time.After(10 * time.Second):
			t.Fatal("no reading for 10 s")
		}
	}
}

func TestFIFOIsReadAgainAndAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	readings, _, _ := run(t, &Source{Path: path})
	for round := range 2 {
		w, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		at := frames.DeviceTime(round+1) * 1000 * ms
		if _, err := w.Write(AppendKey(AppendKey(nil, at, 30, true), at+80*ms, 30, false)); err != nil {
			t.Fatal(err)
		}
		if r := next(t, readings); r.Button != 0 || !r.Down || r.Device != at {
			t.Errorf("round %d: %+v", round, r)
		}
		if r := next(t, readings); r.Down || r.Device != at+80*ms {
			t.Errorf("round %d: %+v", round, r)
		}
		_ = w.Close()
	}
}

func TestSocketEndsTheSessionWhenItMay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	readings, status, done := run(t, &Source{Path: path, EndsWithStream: true})
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	b := AppendKey(nil, 1*ms, 48, true)
	for _, part := range [][]byte{b[:10], b[10:30], b[30:]} { // in pieces
		if _, err := conn.Write(part); err != nil {
			t.Fatal(err)
		}
	}
	if r := next(t, readings); r.Button != 1 || !r.Down {
		t.Errorf("%+v", r)
	}
	_ = conn.Close()
	if err := <-done; err != nil {
		t.Errorf("Run: %v", err)
	}
	last := device.Connecting
	for len(status) > 0 {
		last = (<-status).State
	}
	if last != device.Ended {
		t.Errorf("last state %v", last)
	}
}

func TestMissingPedalNamesPathAndFix(t *testing.T) {
	path := filepath.Join(t.TempDir(), "nothing")
	_, status, _ := run(t, &Source{Path: path})
	<-status // connecting
	if s := (<-status).Err.Error(); !strings.Contains(s, path) || !strings.Contains(s, "plug it in or correct the path") {
		t.Errorf("status %q", s)
	}
}

func TestTextInsteadOfEventsIsAConfigError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(path, []byte(strings.Repeat("this is no event device. ", 10)), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, done := run(t, &Source{Path: path})
	if err := <-done; err == nil || !strings.Contains(err.Error(), "does not send input events") || !strings.Contains(err.Error(), "pedal.path") {
		t.Errorf("error %v", err)
	}
}

// FuzzEvent: 24 bytes are an error or an event that writes back to the same bytes.
func FuzzEvent(f *testing.F) {
	f.Add(AppendSyn(nil, 5*ms))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := parseEvent(b)
		if err != nil {
			return
		}
		if got := appendEvent(nil, e); string(got) != string(b) {
			t.Errorf("% x became % x", b, got)
		}
	})
}
