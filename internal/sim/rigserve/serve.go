package rigserve

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"time"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/rtspserve"
	"github.com/pinch-robotics/pinch/internal/sim"
)

// Options says what is served. OutRig is required; zero fields take the defaults.
type Options struct {
	OutRig     string             // path of the rig file that is written for the recorder
	Episodes   int                // number of episodes; default 1
	First      int                // index of the first condition: 0 plays train-0, train-1, ...
	Split      sim.Split          // stream of conditions; default sim.Train
	Speed      float64            // 0: as fast as the recorder takes it; 1: real time; 2: twice as fast
	ListenHost string             // default 127.0.0.1
	Wrist      sim.Size           // default 640x480
	Center     sim.Size           // default 320x240
	Rates      sim.HandheldConfig // rates of the devices, and the demonstrator's habits; a negative CenterHz leaves the centre camera out
	Cell       sim.Config         // further settings of the cell; Mode and sizes are set here
	Task       string             // default "put the block on the tray"
	Subtasks   []string           // default sim.Prompts
	RobotID    string             // default "sim-handheld"
	Ready      func(Ready)        // called once the rig file is there and the recorder may connect; may be nil
	Episode    func(EpisodeReport)
	Log        *slog.Logger // nil: silent
}

// Ready tells where the rig is served.
type Ready struct {
	RigFile string `json:"rig_file"`
	RTSP    string `json:"rtsp"` // host:port
}

// EpisodeReport tells how an episode went, by simulator truth.
type EpisodeReport struct {
	Number  int // from 0
	Outcome sim.Outcome
}

// Result counts what was sent.
type Result struct {
	Episodes int
	Frames   map[sim.Camera]uint64 // frames sent, by camera
	Samples  uint64                // all samples
	Dropped  uint64                // RTP packets that found no room; 0 unless the run was cancelled
}

func (o Options) filled() (Options, error) {
	if o.OutRig == "" {
		return o, errors.New("serve simulated rig: no path for the rig file")
	}
	def := func(v *float64, d float64) {
		if *v == 0 {
			*v = d
		}
	}
	def(&o.Rates.WristHz, 30)
	def(&o.Rates.CenterHz, 10)
	def(&o.Rates.EncoderHz, 190)
	def(&o.Rates.TrackerHz, 72)
	if o.Rates.WristHz < 0 || o.Rates.EncoderHz < 0 || o.Rates.TrackerHz < 0 {
		return o, errors.New("serve simulated rig: only the centre camera can be switched off")
	}
	if o.Episodes <= 0 {
		o.Episodes = 1
	}
	if o.Split == "" {
		o.Split = sim.Train
	}
	if o.ListenHost == "" {
		o.ListenHost = "127.0.0.1"
	}
	if o.Wrist == (sim.Size{}) {
		o.Wrist = sim.Size{Width: 640, Height: 480}
	}
	if o.Center == (sim.Size{}) {
		o.Center = sim.Size{Width: 320, Height: 240}
	}
	if o.Task == "" {
		o.Task = "put the block on the tray"
	}
	if len(o.Subtasks) == 0 {
		o.Subtasks = sim.Prompts[:]
	}
	if o.RobotID == "" {
		o.RobotID = "sim-handheld"
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o, nil
}

// Serve makes the cell, serves its handheld rig and plays the episodes to the recorder that connects. It returns when the recorder has
// taken everything and left, or with the first error; a recorder that leaves early is one.
func Serve(ctx context.Context, opts Options) (Result, error) {
	opts, err := opts.filled()
	if err != nil {
		return Result{}, err
	}
	cfg := opts.Cell
	cfg.Mode, cfg.Wrist, cfg.Center = sim.ModeHandheld, opts.Wrist, opts.Center
	cell, err := sim.New(cfg)
	if err != nil {
		return Result{}, fmt.Errorf("serve simulated rig: %w", err)
	}
	defer cell.Close()
	rig, err := sim.NewHandheld(cell, opts.Rates)
	if err != nil {
		return Result{}, fmt.Errorf("serve simulated rig: %w", err)
	}
	return ServeSamples(ctx, opts, func(n int) iter.Seq2[sim.Sample, error] {
		return func(yield func(sim.Sample, error) bool) {
			for s, err := range rig.Episode(sim.NewCondition(opts.Split, opts.First+n)) {
				if !yield(s, err) {
					return
				}
			}
			if opts.Episode != nil {
				opts.Episode(EpisodeReport{Number: n, Outcome: rig.Outcome()})
			}
		}
	})
}

// ServeSamples serves samples from anywhere: episode gives those of episode n, in order of time, on one clock that goes on from
// episode to episode. Wrist images carry JPEG, centre images RGB.
func ServeSamples(ctx context.Context, opts Options, episode func(n int) iter.Seq2[sim.Sample, error]) (Result, error) {
	opts, err := opts.filled()
	if err != nil {
		return Result{}, err
	}
	s := &server{opts: opts, result: Result{Frames: map[sim.Camera]uint64{}}}
	defer s.close()
	if err := s.open(ctx); err != nil {
		return s.result, err
	}
	if err := s.writeRigFile(); err != nil {
		return s.result, err
	}
	if opts.Ready != nil {
		opts.Ready(Ready{RigFile: opts.OutRig, RTSP: s.rtsp.Addr()})
	}
	if err := s.waitClients(ctx); err != nil {
		return s.result, fmt.Errorf("wait for the recorder: %w", err)
	}
	for n := range opts.Episodes {
		if err := s.play(ctx, n, episode(n)); err != nil {
			return s.result, fmt.Errorf("episode %d: %w", n, err)
		}
	}
	return s.result, s.finish(ctx)
}

// server holds the open devices.
type server struct {
	opts     Options
	rtsp     *rtspserve.Server
	wrist    [2]*rtspserve.Stream
	center   *rtspserve.Stream
	h264     *rtspserve.H264Encoder
	encoders [2]*encoderServer
	tracker  *trackerServer
	pedal    *pedalServer
	result   Result
	pace     pace
}

func (s *server) open(ctx context.Context) error {
	var err error
	if s.rtsp, err = rtspserve.Listen(s.opts.ListenHost + ":0"); err != nil {
		return err
	}
	for _, side := range sim.Sides {
		if s.wrist[side], err = s.rtsp.AddMJPEG(side.String()); err != nil {
			return err
		}
		if s.encoders[side], err = newEncoderServer(side); err != nil {
			return err
		}
	}
	if s.opts.Rates.CenterHz > 0 {
		if err := s.openCenter(ctx); err != nil {
			return err
		}
	}
	if s.tracker, err = newTrackerServer(s.opts.ListenHost); err != nil {
		return err
	}
	s.pedal, err = newPedalServer()
	return err
}

func (s *server) openCenter(ctx context.Context) error {
	var err error
	if s.center, err = s.rtsp.AddH264("center", nil, nil); err != nil {
		return err
	}
	s.h264, err = rtspserve.StartH264(ctx, s.opts.Center.Width, s.opts.Center.Height, s.opts.Rates.CenterHz, func(nalus [][]byte, at frames.DeviceTime) error {
		return s.center.WriteH264(ctx, nalus, at)
	})
	return err
}

// waitClients returns when the recorder is connected to every device, and sends the encoders' greeting.
func (s *server) waitClients(ctx context.Context) error {
	if err := s.rtsp.WaitReaders(ctx); err != nil {
		return err
	}
	if err := s.tracker.accept(ctx); err != nil {
		return err
	}
	if err := s.pedal.accept(ctx); err != nil {
		return err
	}
	for _, e := range s.encoders {
		if err := e.waitOpen(ctx); err != nil {
			return err
		}
		if err := e.greet(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *server) play(ctx context.Context, n int, samples iter.Seq2[sim.Sample, error]) error {
	for sample, err := range samples {
		if err != nil {
			return err
		}
		if err := s.pace.wait(ctx, sample.Time, s.opts.Speed); err != nil {
			return err
		}
		s.tracker.now.Store(int64(sample.Time))
		if err := s.send(ctx, sample); err != nil {
			return err
		}
		s.result.Samples++
	}
	s.result.Episodes = n + 1
	s.opts.Log.Info("episode played", "number", n)
	return nil
}

// send passes one sample to its device.
func (s *server) send(ctx context.Context, x sim.Sample) error {
	if x.Pedal == nil {
		if err := s.pedal.tick(ctx, x.Time); err != nil {
			return fmt.Errorf("pedal: the recorder left: %w", err)
		}
	}
	switch {
	case x.Image != nil:
		return s.sendImage(ctx, x)
	case x.Encoder != nil:
		if err := s.encoders[x.Encoder.Side].send(ctx, x.Time, x.Encoder.RawRad); err != nil {
			return fmt.Errorf("%s encoder: the recorder left: %w", x.Encoder.Side, err)
		}
	case x.Tracker != nil:
		if err := s.tracker.send(ctx, x.Time, x.Tracker); err != nil {
			return fmt.Errorf("tracker: the recorder left: %w", err)
		}
	case x.Pedal != nil:
		if err := s.pedal.send(ctx, x.Time, x.Pedal); err != nil {
			return fmt.Errorf("pedal: the recorder left: %w", err)
		}
	}
	return nil
}

func (s *server) sendImage(ctx context.Context, x sim.Sample) error {
	s.result.Frames[x.Image.Camera]++
	switch x.Image.Camera {
	case sim.LeftWrist:
		return s.wrist[sim.Left].WriteJPEG(ctx, x.Image.JPEG, x.Time)
	case sim.RightWrist:
		return s.wrist[sim.Right].WriteJPEG(ctx, x.Image.JPEG, x.Time)
	case sim.Center:
		if s.h264 == nil {
			return nil
		}
		return s.h264.Write(x.Image.RGB, x.Time)
	}
	return fmt.Errorf("image of camera %q, which the handheld rig does not have", x.Image.Camera)
}

// leaveTimeout is how long the recorder may take to finish its last recording and leave.
const leaveTimeout = 60 * time.Second

// finish sees that the recorder has everything, ends its session and waits until it has left.
func (s *server) finish(ctx context.Context) error {
	if s.h264 != nil {
		err := s.h264.Close()
		s.h264 = nil
		if err != nil {
			return err
		}
	}
	streams := s.wrist[:]
	if s.center != nil {
		streams = append(streams[:len(streams):len(streams)], s.center)
	}
	for _, st := range streams {
		if err := st.Flush(ctx); err != nil {
			return err
		}
	}
	s.result.Dropped = s.rtsp.Dropped()
	_ = s.pedal.conn.Close() // the end of the session
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	if err := s.rtsp.WaitNoReaders(ctx); err != nil {
		return fmt.Errorf("wait for the recorder to finish: %w", err)
	}
	return nil
}

func (s *server) close() {
	if s.h264 != nil {
		s.h264.Kill()
		_ = s.h264.Close()
	}
	if s.rtsp != nil {
		s.rtsp.Close()
	}
	if s.tracker != nil {
		s.tracker.close()
	}
	if s.pedal != nil {
		s.pedal.close()
	}
	for _, e := range s.encoders {
		if e != nil {
			e.close()
		}
	}
}

// pace keeps the samples in step with real time.
type pace struct {
	started time.Time
	first   frames.DeviceTime
}

func (p *pace) wait(ctx context.Context, at frames.DeviceTime, speed float64) error {
	if speed <= 0 {
		return ctx.Err()
	}
	if p.started.IsZero() {
		p.started, p.first = time.Now(), at
	}
	due := p.started.Add(time.Duration(float64(at.Sub(p.first)) / speed))
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Until(due)):
		return nil
	}
}
