package rigserve

import (
	"bufio"
	"context"
	"errors"
	"io"
	"iter"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/config"
	"github.com/pinch-robotics/pinch/internal/device"
	"github.com/pinch-robotics/pinch/internal/device/camera"
	"github.com/pinch-robotics/pinch/internal/device/encoder"
	"github.com/pinch-robotics/pinch/internal/sim"
)

func TestPTYSeesItsReaderComeAndGo(t *testing.T) {
	p, err := openPTY()
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	if p.isOpen() {
		t.Error("a terminal that nobody has opened counts as open")
	}
	r, err := encoder.Serial(p.path)(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := p.waitOpen(t.Context()); err != nil {
		t.Fatal(err)
	}
	text := "# t=5\nL001,1.50000000\n"
	if err := p.write(t.Context(), []byte(text)); err != nil {
		t.Fatal(err)
	}
	got := ""
	buf := make([]byte, 100)
	for deadline := time.Now().Add(10 * time.Second); len(got) < len(text) && time.Now().Before(deadline); {
		n, err := r.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		got += string(buf[:n])
	}
	if got != text {
		t.Errorf("read %q: the line discipline changed it", got)
	}
	_ = r.Close()
	for deadline := time.Now().Add(10 * time.Second); p.isOpen() && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
	}
	if p.isOpen() {
		t.Error("the terminal counts as open after its reader left")
	}
}

// A write to a terminal that is not read waits, and ends with its context.
func TestPTYWriteEndsWithItsContext(t *testing.T) {
	p, err := openPTY()
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	r, err := encoder.Serial(p.path)(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := p.write(ctx, make([]byte, 1<<20)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}

// endless yields encoder samples for ever.
func endless(int) iter.Seq2[sim.Sample, error] {
	return func(yield func(sim.Sample, error) bool) {
		for n := 0; ; n++ {
			t := sim.StartTime + frames.DeviceTime(n*5_000_000)
			if !yield(sim.Sample{Time: t, Encoder: &sim.EncoderReading{Side: sim.Left, RawRad: 1}}, nil) {
				return
			}
		}
	}
}

// A recorder that leaves in the middle ends the server with one error, not a hang.
func TestRecorderThatLeavesIsAnError(t *testing.T) {
	ready, done := make(chan Ready, 1), make(chan error, 1)
	path := filepath.Join(t.TempDir(), "rig.yaml")
	go func() {
		_, err := ServeSamples(t.Context(), Options{OutRig: path, Rates: sim.HandheldConfig{CenterHz: -1}, Ready: func(r Ready) { ready <- r }}, endless)
		done <- err
	}()
	<-ready
	var rig rigFile
	if err := config.Load(path, &rig); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, c := range rig.Cameras {
		src := &camera.Source{Name: c.Name, URL: c.URL, Clock: device.NewClock()}
		go func() { _ = src.Run(ctx, func(camera.Frame) {}) }()
	}
	tracker, err := net.Dial("tcp", rig.Tracker.Address)
	if err != nil {
		t.Fatal(err)
	}
	pedal, err := net.Dial("unix", rig.Pedal.Path)
	if err != nil {
		t.Fatal(err)
	}
	var ports []io.ReadCloser
	for _, e := range rig.Encoders {
		p, err := encoder.Serial(e.Port)(ctx)
		if err != nil {
			t.Fatal(err)
		}
		ports = append(ports, p)
	}
	// Both greetings: before the second the server has not seen both ports open, and a recorder that was never there can not leave.
	for i, id := range []string{"L001", "R001"} {
		line, err := bufio.NewReader(timedOut{ports[i]}).ReadString('\n')
		if err != nil || line != "# AS5601 streaming: rad, device_id="+id+"\n" {
			t.Errorf("greeting %q, %v", line, err)
		}
	}
	_ = pedal.Close()
	_ = tracker.Close()
	for _, p := range ports {
		_ = p.Close()
	}
	select {
	case err := <-done:
		if err == nil || !strings.Contains(err.Error(), "the recorder left") {
			t.Errorf("error %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the server went on without its recorder")
	}
	if _, err := os.Stat(rig.Pedal.Path); err == nil {
		t.Error("the pedal's socket was left behind")
	}
}

// timedOut goes on reading where a serial port says that nothing came for a while.
type timedOut struct{ io.Reader }

func (r timedOut) Read(b []byte) (int, error) {
	for {
		if n, err := r.Reader.Read(b); n > 0 || err != nil {
			return n, err
		}
	}
}

func TestOptionsAreChecked(t *testing.T) {
	if _, err := ServeSamples(t.Context(), Options{}, endless); err == nil {
		t.Error("a server without a path for the rig file")
	}
	if _, err := ServeSamples(t.Context(), Options{OutRig: "x", Rates: sim.HandheldConfig{WristHz: -1}}, endless); err == nil {
		t.Error("wrist cameras were switched off")
	}
}
