package capture

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"math"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/device"
	"github.com/pinch-robotics/pinch/internal/device/camera"
	"github.com/pinch-robotics/pinch/internal/device/pedal"
	"github.com/pinch-robotics/pinch/internal/rawlog"
	"github.com/pinch-robotics/pinch/internal/rtspserve"
)

// BenchOptions says how hard the recorder is tried. Zero fields take the defaults.
type BenchOptions struct {
	Dir      string        // folder for the recording, which is removed afterwards; default a temporary folder
	Duration time.Duration // of the recording; default 10 s
	RateHz   float64       // of each camera; default 60
	Width    int           // default 640
	Height   int           // default 480
}

// BenchResult is what Bench measured.
type BenchResult struct {
	Cameras    []BenchCamera
	Duration   time.Duration // recorded
	Bytes      int64         // size of the log
	CPUSeconds float64       // of this whole process: senders, recorder and log
	CPUPercent float64       // of one core
}

// BenchCamera compares what one camera sent while the recording ran with what the log holds.
type BenchCamera struct {
	Name   string
	Codec  string
	Sent   int
	Logged int
	Lost   int // sent and not in the log
}

// benchClip is the number of different frames of a clip.
const benchClip = 60

// Bench records two Motion-JPEG cameras and one H.264 camera from clips that are encoded before the clock starts, over real RTSP
// connections on this machine, and compares frame by frame. ffmpeg is needed for the H.264 clip.
func Bench(ctx context.Context, opts BenchOptions) (BenchResult, error) {
	if opts.Duration <= 0 {
		opts.Duration = 10 * time.Second
	}
	if opts.RateHz <= 0 {
		opts.RateHz = 60
	}
	if opts.Width <= 0 || opts.Height <= 0 {
		opts.Width, opts.Height = 640, 480
	}
	dir, err := os.MkdirTemp(opts.Dir, "pinch-bench-")
	if err != nil {
		return BenchResult{}, fmt.Errorf("bench: %w", err)
	}
	defer os.RemoveAll(dir)
	b := &bench{opts: opts, dir: dir, sent: map[string][]frames.DeviceTime{}}
	res, err := b.run(ctx)
	if err != nil {
		return res, fmt.Errorf("bench: %w", err)
	}
	return res, nil
}

type bench struct {
	opts  BenchOptions
	dir   string
	srv   *rtspserve.Server
	jpegs [][]byte
	units [][][]byte

	mu   sync.Mutex
	sent map[string][]frames.DeviceTime
}

func (b *bench) run(ctx context.Context) (BenchResult, error) {
	if err := b.encodeClips(ctx); err != nil {
		return BenchResult{}, err
	}
	var err error
	if b.srv, err = rtspserve.Listen("127.0.0.1:0"); err != nil {
		return BenchResult{}, err
	}
	defer b.srv.Close()
	rig, streams, err := b.rig()
	if err != nil {
		return BenchResult{}, err
	}
	listener, err := net.Listen("unix", rig.Pedal.Path)
	if err != nil {
		return BenchResult{}, err
	}
	defer listener.Close()
	before := cpuSeconds()
	begin := time.Now()
	var rec Result
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		var err error
		rec, err = Record(gctx, Options{Rig: rig, Out: b.dir, Episodes: 1, MinFreeBytes: -1})
		if err == nil && len(rec.Saved) != 1 {
			err = errors.New("nothing was recorded")
		}
		return err
	})
	g.Go(func() error { return b.play(gctx, listener, streams) })
	if err := g.Wait(); err != nil {
		return BenchResult{}, err
	}
	used, took := cpuSeconds()-before, time.Since(begin)
	res, err := b.compare(rec.Saved[0])
	res.CPUSeconds, res.CPUPercent = used, 100*used/took.Seconds()
	return res, err
}

var benchNames = []string{"left", "right", "center"}

// rig is the rig file of the bench: cameras with clocks of their own, a pedal on host time.
func (b *bench) rig() (*Rig, []*rtspserve.Stream, error) {
	r := DefaultRig()
	r.Pedal.Path = filepath.Join(b.dir, "pedal")
	r.Task = Task{Name: "bench", Subtasks: []string{"bench"}}
	var streams []*rtspserve.Stream
	for _, name := range benchNames {
		add := b.srv.AddMJPEG
		if name == "center" {
			add = func(name string) (*rtspserve.Stream, error) { return b.srv.AddH264(name, nil, nil) }
		}
		st, err := add(name)
		if err != nil {
			return nil, nil, err
		}
		streams = append(streams, st)
		r.Cameras = append(r.Cameras, Camera{Name: name, URL: st.URL(), RateHz: b.opts.RateHz, Width: b.opts.Width, Height: b.opts.Height, Clock: name + "_camera"})
	}
	return &r, streams, nil
}

// play sends the clips in real time, presses accept after a second and again when the time is up.
func (b *bench) play(ctx context.Context, listener net.Listener, streams []*rtspserve.Stream) error {
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer stop()
	conn, err := listener.Accept()
	if err != nil {
		return fmt.Errorf("pedal: %w", err)
	}
	defer conn.Close()
	if err := b.srv.WaitReaders(ctx); err != nil {
		return err
	}
	clock := device.NewClock()
	done, cancel := context.WithCancel(ctx)
	defer cancel()
	g, gctx := errgroup.WithContext(done)
	for i, st := range streams {
		g.Go(func() error { return b.camera(gctx, benchNames[i], st, clock) })
	}
	for _, after := range []time.Duration{time.Second, b.opts.Duration, time.Second} {
		select {
		case <-gctx.Done():
			return g.Wait()
		case <-time.After(after):
		}
		now := frames.DeviceTime(clock())
		down := pedal.AppendKey(nil, now, pedal.DefaultKeys[2], true)
		if _, err := conn.Write(pedal.AppendKey(down, now.Add(50*time.Millisecond), pedal.DefaultKeys[2], false)); err != nil {
			break // the recorder has left after the second press
		}
	}
	cancel()
	return g.Wait()
}

// camera sends one clip at the rate until ctx ends.
func (b *bench) camera(ctx context.Context, name string, st *rtspserve.Stream, clock device.Clock) error {
	period, begin := 1e9/b.opts.RateHz, time.Now()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Until(begin.Add(time.Duration(float64(n) * period)))): // a ticker would drop ticks on a busy machine
		}
		at := frames.DeviceTime(clock())
		var err error
		if name == "center" {
			err = st.WriteH264(ctx, b.units[n%len(b.units)], at)
		} else {
			err = st.WriteJPEG(ctx, b.jpegs[n%len(b.jpegs)], at)
		}
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		b.mu.Lock()
		b.sent[name] = append(b.sent[name], at)
		b.mu.Unlock()
	}
}

// compare counts, per camera, the frames sent between the session's first and last event that the log does not have.
func (b *bench) compare(folder string) (BenchResult, error) {
	path := filepath.Join(folder, logName(filepath.Base(folder)))
	st, err := os.Stat(path)
	if err != nil {
		return BenchResult{}, err
	}
	r, err := rawlog.Open(path)
	if err != nil {
		return BenchResult{}, err
	}
	defer r.Close()
	res := BenchResult{Bytes: st.Size()}
	first, last := frames.DeviceTime(math.MaxInt64), frames.DeviceTime(0)
	for m, err := range r.Messages(rawlog.TopicSession) {
		if err != nil {
			return res, err
		}
		first, last = min(first, frames.DeviceTime(m.LogTime)), max(last, frames.DeviceTime(m.LogTime))
	}
	res.Duration = last.Sub(first)
	for _, name := range benchNames {
		codec := camera.MJPEG
		if name == "center" {
			codec = camera.H264
		}
		c := BenchCamera{Name: name, Codec: codec.String()}
		logged := map[frames.DeviceTime]bool{}
		for m, err := range r.Messages(topicCamera(name, codec)) {
			if err != nil {
				return res, err
			}
			t, _ := m.DeviceTime()
			logged[t] = true
			if t >= first && t <= last {
				c.Logged++
			}
		}
		for _, t := range b.sent[name] {
			if t < first || t > last {
				continue
			}
			c.Sent++
			if !logged[t] {
				c.Lost++
			}
		}
		res.Cameras = append(res.Cameras, c)
	}
	return res, nil
}

// encodeClips makes the clips: a picture with texture that moves, so that frames have the size of real ones.
func (b *bench) encodeClips(ctx context.Context) error {
	w, h := b.opts.Width, b.opts.Height
	var enc *rtspserve.H264Encoder
	enc, err := rtspserve.StartH264(ctx, w, h, b.opts.RateHz, func(nalus [][]byte, _ frames.DeviceTime) error {
		unit := make([][]byte, len(nalus))
		for i, n := range nalus {
			unit[i] = bytes.Clone(n)
		}
		b.units = append(b.units, unit)
		return nil
	})
	if err != nil {
		return err
	}
	rgb := make([]byte, 3*w*h)
	for n := range benchClip {
		img := benchPicture(w, h, n)
		var buf bytes.Buffer
		if err := jpeg.Encode(&buf, img, &jpeg.Options{Quality: 90}); err != nil {
			return errors.Join(err, enc.Close())
		}
		b.jpegs = append(b.jpegs, buf.Bytes())
		for i := range w * h {
			copy(rgb[3*i:3*i+3], img.Pix[4*i:4*i+3])
		}
		if err := enc.Write(rgb, frames.DeviceTime(n)); err != nil {
			return errors.Join(err, enc.Close())
		}
	}
	return enc.Close()
}

// benchPicture is frame n: a coloured wave with grain.
func benchPicture(w, h, n int) *image.RGBA {
	img := image.NewRGBA(image.Rect(0, 0, w, h))
	grain := uint32(n + 1)
	for y := range h {
		for x := range w {
			grain = grain*1664525 + 1013904223
			v := 128 + 80*math.Sin(float64(x+3*n)/23)*math.Cos(float64(y-2*n)/17) + float64(grain>>27) - 16
			img.SetRGBA(x, y, color.RGBA{R: clamp8(v), G: clamp8(v * 0.8), B: clamp8(255 - v), A: 255})
		}
	}
	return img
}

func clamp8(v float64) uint8 { return uint8(max(0, min(255, v))) }

// cpuSeconds is the processor time this process has used, user and system.
func cpuSeconds() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}
