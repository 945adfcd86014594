package rtspserve

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/testpeer"
)

// encode encodes n frames of a moving bar.
func encode(t *testing.T, n int) (units [][][]byte, times []frames.DeviceTime) {
	t.Helper()
	const w, h = 64, 48
	var mu sync.Mutex
	e, err := StartH264(t.Context(), w, h, 10, func(nalus [][]byte, at frames.DeviceTime) error {
		mu.Lock()
		defer mu.Unlock()
		u := make([][]byte, len(nalus))
		for i := range nalus {
			u[i] = bytes.Clone(nalus[i])
		}
		units, times = append(units, u), append(times, at)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for k := range n {
		rgb := make([]byte, 3*w*h)
		for y := range h {
			for x := range 8 {
				rgb[3*(y*w+(x+k)%w)] = 200
			}
		}
		if err := e.Write(rgb, frames.DeviceTime(1000+k)); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	return units, times
}

func annexB(units [][][]byte) []byte {
	var b []byte
	for _, u := range units {
		for _, n := range u {
			b = append(append(b, 0, 0, 0, 1), n...)
		}
	}
	return b
}

// One access unit per frame, in order, an IDR with parameter sets every tenth, no B-frames, and equal bytes for equal frames.
func TestEncoderGivesOneUnitPerFrame(t *testing.T) {
	testpeer.Program(t, "ffmpeg", "ffmpeg")
	const n = 25
	units, times := encode(t, n)
	if len(units) != n {
		t.Fatalf("%d access units for %d frames", len(units), n)
	}
	for i, u := range units {
		if times[i] != frames.DeviceTime(1000+i) {
			t.Errorf("unit %d has time %d", i, times[i])
		}
		types := ""
		for _, nal := range u {
			types += string('0' + nal[0]&0x1f)
		}
		if want := map[bool]string{true: "785", false: "1"}[i%keyEvery == 0]; types != want {
			t.Errorf("unit %d has NAL types %s, want %s", i, types, want)
		}
	}
	stream := annexB(units)
	ffprobe := testpeer.Program(t, "ffprobe", "ffmpeg")
	cmd := exec.Command(ffprobe, "-v", "error", "-f", "h264", "-show_entries", "frame=pict_type", "-of", "csv=p=0", "-")
	cmd.Stdin = bytes.NewReader(stream)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("ffprobe: %v %s", err, out)
	}
	if got := strings.Count(string(out), "I") + strings.Count(string(out), "P"); got != n || strings.Contains(string(out), "B") {
		t.Errorf("ffprobe sees %q", out)
	}
	again, _ := encode(t, n)
	if sha256.Sum256(annexB(again)) != sha256.Sum256(stream) {
		t.Error("equal frames gave other bytes")
	}
}

func TestEncoderFaults(t *testing.T) {
	testpeer.Program(t, "ffmpeg", "ffmpeg")
	fault := errors.New("the reader left")
	e, err := StartH264(t.Context(), 64, 48, 10, func([][]byte, frames.DeviceTime) error { return fault })
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Write(make([]byte, 5), 1); err == nil || !strings.Contains(err.Error(), "5 bytes, want 9216") {
		t.Errorf("a short frame: %v", err)
	}
	if err := e.Write(make([]byte, 9216), 1); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); !errors.Is(err, fault) {
		t.Errorf("Close gives %v, want the fault of the receiver", err)
	}
}

// An encoder that dies is one error with the reason, not a broken pipe or nothing.
func TestEncoderThatDiesIsSaid(t *testing.T) {
	testpeer.Program(t, "ffmpeg", "ffmpeg")
	e, err := StartH264(t.Context(), 64, 48, 10, func([][]byte, frames.DeviceTime) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	e.Kill()
	<-e.done
	err = e.Write(make([]byte, 9216), 1)
	if err == nil || !strings.Contains(err.Error(), "killed") || strings.Contains(err.Error(), "%!") {
		t.Errorf("error %v, want one that says that ffmpeg was killed", err)
	}
}

// FuzzFLV: no bytes may crash the reader of the encoder's output.
func FuzzFLV(f *testing.F) {
	head := make([]byte, flvHeaderBytes)
	config := []byte{0x17, 0, 0, 0, 0, 1, 0x64, 0, 0x0a, 0xff, 0xe1, 0, 2, 0x67, 1, 1, 0, 2, 0x68, 2}
	frame := []byte{0x17, 1, 0, 0, 0, 0, 0, 0, 2, 0x65, 3}
	tag := func(b []byte) []byte {
		t := []byte{flvVideo, 0, 0, byte(len(b)), 0, 0, 0, 0, 0, 0, 0}
		return append(append(t, b...), 0, 0, 0, 0)
	}
	f.Add(append(append(bytes.Clone(head), tag(config)...), tag(frame)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		_ = readFLV(bytes.NewReader(b), func(nalus [][]byte) error {
			for _, n := range nalus {
				if len(n) == 0 && len(nalus) == 1 {
					t.Error("an empty unit came out")
				}
			}
			return nil
		})
	})
}

func TestFLVReaderFindsSetsAndUnits(t *testing.T) {
	var got [][][]byte
	b := make([]byte, flvHeaderBytes)
	for _, body := range [][]byte{
		{0x17, 0, 0, 0, 0, 1, 0x64, 0, 0x0a, 0xff, 0xe1, 0, 2, 0x67, 1, 1, 0, 2, 0x68, 2},
		{0x17, 1, 0, 0, 0, 0, 0, 0, 2, 0x06, 9, 0, 0, 0, 2, 0x65, 3}, // SEI and IDR
		{0x27, 1, 0, 0, 0, 0, 0, 0, 2, 0x41, 4},
	} {
		b = append(b, flvVideo, 0, 0, byte(len(body)), 0, 0, 0, 0, 0, 0, 0)
		b = append(append(b, body...), 0, 0, 0, 0)
	}
	if err := readFLV(bytes.NewReader(b), func(n [][]byte) error { got = append(got, n); return nil }); err != nil {
		t.Fatal(err)
	}
	want := []byte{0, 0, 0, 1, 0x67, 1, 0, 0, 0, 1, 0x68, 2, 0, 0, 0, 1, 0x65, 3, 0, 0, 0, 1, 0x41, 4}
	if len(got) != 2 || !bytes.Equal(annexB(got), want) {
		t.Errorf("got % x", annexB(got))
	}
}
