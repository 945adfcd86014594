package rtspserve_test

import (
	"bytes"
	"context"
	"errors"
	"image"
	"image/color"
	"image/jpeg"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/device"
	"github.com/pinch-robotics/pinch/internal/device/camera"
	"github.com/pinch-robotics/pinch/internal/rtspserve"
)

// picture is a 64x48 baseline JPEG of one grey level.
func picture(t testing.TB, level uint8) []byte {
	t.Helper()
	img := image.NewRGBA(image.Rect(0, 0, 64, 48))
	for i := range img.Pix {
		img.Pix[i] = level
	}
	var b bytes.Buffer
	if err := jpeg.Encode(&b, img, &jpeg.Options{Quality: 90}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func levelOf(t testing.TB, b []byte) uint8 {
	t.Helper()
	img, err := jpeg.Decode(bytes.NewReader(b))
	if err != nil {
		t.Fatalf("received JPEG does not decode: %v", err)
	}
	return color.GrayModel.Convert(img.At(30, 20)).(color.Gray).Y
}

// collector is a camera source that runs until the test ends.
type collector struct {
	src    *camera.Source
	frames chan camera.Frame
}

func collect(t *testing.T, url string, buffer int) *collector {
	t.Helper()
	c := &collector{frames: make(chan camera.Frame, buffer)}
	ctx, cancel := context.WithCancel(t.Context())
	c.src = &camera.Source{Name: "camera", URL: url, Clock: device.NewClock(), Retry: 10 * time.Millisecond}
	var wg sync.WaitGroup
	wg.Add(1)
	go func() {
		defer wg.Done()
		if err := c.src.Run(ctx, func(f camera.Frame) { c.frames <- f }); err != nil {
			t.Errorf("camera source: %v", err)
		}
	}()
	t.Cleanup(func() {
		cancel()
		go func() { // a source that is waiting in emit must get out
			for range c.frames {
			}
		}()
		wg.Wait()
		close(c.frames)
	})
	return c
}

func (c *collector) next(t *testing.T) camera.Frame {
	t.Helper()
	select {
	case f := <-c.frames:
		return f
	case <-time.After(10 * time.Second):
		t.Fatal("no frame for 10 s")
		return camera.Frame{}
	}
}

func listen(t *testing.T) *rtspserve.Server {
	t.Helper()
	s, err := rtspserve.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestJPEGFramesArriveWithTheirCaptureTimes(t *testing.T) {
	s := listen(t)
	st, err := s.AddMJPEG("left")
	must(t, err)
	c := collect(t, st.URL(), 1000)
	must(t, s.WaitReaders(t.Context()))
	for i := range 200 {
		at := frames.DeviceTime(1000e9 + int64(i)*33_333_333)
		must(t, st.WriteJPEG(t.Context(), picture(t, uint8(i)), at))
	}
	for i := range 200 {
		f := c.next(t)
		want := frames.DeviceTime(1000e9 + int64(i)*33_333_333)
		if f.Bad || !f.Timed || f.Device != want || !f.Key || f.Codec != camera.MJPEG {
			t.Fatalf("frame %d: bad %v timed %v time %d, want a good frame of %d", i, f.Bad, f.Timed, f.Device, want)
		}
		if got := int(levelOf(t, f.Data)); got < i-3 || got > i+3 {
			t.Fatalf("frame %d shows level %d", i, got)
		}
	}
}

// A reader that stops reading for a while must get every frame in the end: the writer waits instead of dropping.
func TestSlowReaderLosesNothing(t *testing.T) {
	s := listen(t)
	st, err := s.AddMJPEG("left")
	must(t, err)
	c := collect(t, st.URL(), 0) // emit waits for the test to take each frame
	must(t, s.WaitReaders(t.Context()))
	big := noise(t)
	const n = 300 // about 40 MB, far beyond queue and socket buffers
	sent := make(chan error, 1)
	go func() {
		for i := range n {
			if err := st.WriteJPEG(t.Context(), big, frames.DeviceTime(i)); err != nil {
				sent <- err
				return
			}
		}
		sent <- st.Flush(t.Context())
	}()
	time.Sleep(200 * time.Millisecond)
	for i := range n {
		if f := c.next(t); f.Bad || f.Device != frames.DeviceTime(i) {
			t.Fatalf("frame %d: bad %v, time %d", i, f.Bad, f.Device)
		}
	}
	must(t, <-sent)
	if d := s.Dropped(); d != 0 {
		t.Errorf("%d packets dropped", d)
	}
}

// noise is a 640x480 JPEG that does not compress, about 140 KB.
func noise(t testing.TB) []byte {
	img := image.NewRGBA(image.Rect(0, 0, 640, 480))
	x := uint32(1)
	for i := range img.Pix {
		x = x*1664525 + 1013904223
		img.Pix[i] = uint8(x >> 24)
	}
	var b bytes.Buffer
	if err := jpeg.Encode(&b, img, &jpeg.Options{Quality: 80}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestLostPacketMarksOneJPEGBad(t *testing.T) {
	s := listen(t)
	st, err := s.AddMJPEG("left")
	must(t, err)
	c := collect(t, st.URL(), 100)
	must(t, s.WaitReaders(t.Context()))
	big := noise(t)
	for i := range 3 {
		if i == 1 {
			st.DropPackets(1) // the first packet of frame 1, with its capture time
		}
		must(t, st.WriteJPEG(t.Context(), big, frames.DeviceTime(i)))
	}
	if f := c.next(t); f.Bad || f.Device != 0 {
		t.Errorf("frame 0: %+v", f.Bad)
	}
	if f := c.next(t); !f.Bad || f.Timed {
		t.Errorf("frame 1 lost its first packet but came as good=%v timed=%v", !f.Bad, f.Timed)
	}
	if f := c.next(t); f.Bad || f.Device != 2 || !bytes.Equal(f.Data[len(f.Data)-1000:], big[len(big)-1000:]) {
		t.Errorf("frame 2: bad %v time %d", f.Bad, f.Device)
	}
	if n := c.src.Counts(); n.Frames != 2 || n.Bad != 1 || n.PacketsLost != 1 {
		t.Errorf("counts %+v", n)
	}
}

// nal makes a NAL unit of a type with n bytes of payload that hold no start code.
func nal(typ byte, n int) []byte { return append([]byte{0x60 | typ}, bytes.Repeat([]byte{0x5a}, n)...) }

func TestH264LossIsBadUntilTheNextIDR(t *testing.T) {
	s := listen(t)
	// Made by x264 (ultrafast, zerolatency) for 320x240.
	sps := []byte{0x67, 0xf4, 0x00, 0x0b, 0x91, 0x96, 0x81, 0x41, 0xfb, 0x01, 0x10, 0, 0, 3, 0, 0x10, 0, 0, 3, 1, 0x48, 0xf1, 0x42, 0xaa}
	pps := []byte{0x68, 0xce, 0x0f, 0x19, 0x20}
	st, err := s.AddH264("center", sps, pps)
	must(t, err)
	c := collect(t, st.URL(), 100)
	must(t, s.WaitReaders(t.Context()))
	idr, p := nal(5, 5000), nal(1, 3000)
	for i, au := range [][][]byte{{p}, {idr}, {p}, {p}, {p}, {sps, pps, idr}, {p}} {
		if i == 3 {
			st.DropPackets(1)
		}
		must(t, st.WriteH264(t.Context(), au, frames.DeviceTime(i*100e6)))
	}
	wantBad := []bool{true, false, false, true, true, false, false} // frame 0 comes before any IDR
	wantKey := []bool{false, true, false, false, false, true, false}
	for i := range wantBad {
		f := c.next(t)
		if f.Bad != wantBad[i] || (!f.Bad && f.Key != wantKey[i]) {
			t.Errorf("frame %d: bad %v key %v, want bad %v key %v", i, f.Bad, f.Key, wantBad[i], wantKey[i])
		}
		if i == 1 && !bytes.HasPrefix(f.Data, append(append([]byte{0, 0, 0, 1}, sps...), 0, 0, 0, 1, 0x68)) {
			t.Errorf("the IDR without parameter sets did not get them: % x", f.Data[:20])
		}
		if i == 6 && !bytes.Equal(f.Data, append([]byte{0, 0, 0, 1}, p...)) {
			t.Errorf("frame 6 is not the access unit that was sent")
		}
	}
}

func TestPortInUseIsOneClearError(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	_, err = rtspserve.Listen(l.Addr().String())
	if !errors.Is(err, syscall.EADDRINUSE) || !bytes.Contains([]byte(err.Error()), []byte(l.Addr().String())) {
		t.Errorf("error %v does not name the port in use", err)
	}
}

func TestCameraReconnects(t *testing.T) {
	s := listen(t)
	st, err := s.AddMJPEG("left")
	must(t, err)
	c := collect(t, st.URL(), 100)
	must(t, s.WaitReaders(t.Context()))
	must(t, st.WriteJPEG(t.Context(), picture(t, 10), 1))
	c.next(t)
	addr := s.Addr()
	s.Close()
	again, err := rtspserve.Listen(addr)
	must(t, err)
	t.Cleanup(again.Close)
	st, err = again.AddMJPEG("left")
	must(t, err)
	must(t, again.WaitReaders(t.Context()))
	must(t, st.WriteJPEG(t.Context(), picture(t, 20), 2))
	if f := c.next(t); f.Bad || f.Device != 2 {
		t.Errorf("after the reconnect: %+v", f)
	}
}
