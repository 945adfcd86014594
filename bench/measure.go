package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"path/filepath"
	"slices"
	"time"

	"github.com/pinch-robotics/pinch/capture"
	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/dataset/ingest"
	"github.com/pinch-robotics/pinch/dataset/loader"
	"github.com/pinch-robotics/pinch/deploy"
	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/imaging"
	"github.com/pinch-robotics/pinch/internal/quantile"
	"github.com/pinch-robotics/pinch/policy"
	"github.com/pinch-robotics/pinch/train"
)

// captureRows records three cameras at 60 Hz from pre-encoded clips over RTSP on this machine.
func captureRows(ctx context.Context, b *run) ([]Row, error) {
	res, err := capture.Bench(ctx, capture.BenchOptions{Dir: b.dir})
	if err != nil {
		return nil, err
	}
	var rows []Row
	for _, c := range res.Cameras {
		rows = append(rows,
			Row{What: fmt.Sprintf("%s camera, %s, sent", c.Name, c.Codec), Value: float64(c.Sent), Unit: "frames"},
			Row{What: fmt.Sprintf("%s camera, %s, logged", c.Name, c.Codec), Value: float64(c.Logged), Unit: "frames"},
			Row{What: fmt.Sprintf("%s camera, %s, lost", c.Name, c.Codec), Value: float64(c.Lost), Unit: "frames"})
	}
	return append(rows, Row{What: "processor, senders and recorder", Value: res.CPUPercent, Unit: "% of one core"},
		Row{What: "log", Value: float64(res.Bytes) / 1e6 / res.Duration.Seconds(), Unit: "MB/s"}), nil
}

// ingestRows turns the recordings into a dataset.
func ingestRows(ctx context.Context, b *run) ([]Row, error) {
	if b.Recordings == "" && b.Record == nil {
		return nil, fmt.Errorf("%w: no recordings were given", errSkip)
	}
	if b.Recordings == "" {
		if err := b.Record(ctx, b.dir); err != nil {
			return nil, fmt.Errorf("record something to measure with: %w", err)
		}
		b.Recordings = filepath.Join(b.dir, "recordings")
	}
	out := filepath.Join(b.dir, "dataset")
	start := time.Now()
	report, err := ingest.Run(ctx, ingest.Options{Sources: []string{b.Recordings}, Out: out, Logger: b.Logger})
	if err != nil {
		return nil, err
	}
	took := time.Since(start).Seconds()
	b.dataset = out
	return []Row{
		{What: "recorded time", Value: report.RecordedSeconds, Unit: "s"},
		{What: "speed", Value: report.RecordedSeconds / took, Unit: "x real time"},
		{What: "rows", Value: float64(report.Rows) / took, Unit: "rows/s"},
	}, nil
}

// loaderRows decodes every wrist frame to the network's size, then serves frames from memory as training does.
func loaderRows(ctx context.Context, b *run) ([]Row, error) {
	if b.dataset == "" {
		return nil, fmt.Errorf("%w: needs the dataset of ingest", errSkip)
	}
	ds, err := dataset.Open(b.dataset)
	if err != nil {
		return nil, err
	}
	c := train.DefaultConfig()
	geometry := imaging.Geometry{Mode: c.ImageMode, Width: c.ImageSize, Height: c.ImageSize}
	data, err := loader.Open(ctx, ds, loader.Options{Logger: b.Logger, Cameras: []loader.Camera{
		{Feature: policy.LeftImage, Geometry: geometry}, {Feature: policy.RightImage, Geometry: geometry}}})
	if err != nil {
		return nil, err
	}
	defer data.Close()
	const served = 20_000
	rows := make([]int, data.Len())
	for i := range rows {
		rows[i] = i
	}
	order, rng := loader.NewOrder(rows, 1), rand.New(rand.NewPCG(1, 2))
	picture := make([]byte, 3*geometry.Width*geometry.Height)
	start := time.Now()
	for n := range served {
		src := imaging.RGB{Width: geometry.Width, Height: geometry.Height, Pix: data.Image(n%2, order.At(n))}
		c.Augment.Apply(picture, src, rng)
	}
	rate := served / time.Since(start).Seconds()
	return []Row{
		{What: fmt.Sprintf("decode 640x480 to %dx%d", c.ImageSize, c.ImageSize), Value: data.Decoding().FramesPerSecond(), Unit: "frames/s"},
		{What: "serve from memory, shuffled and augmented, one core", Value: rate, Unit: "frames/s"},
	}, nil
}

// trainRows makes a short training run with the built-in settings.
func trainRows(ctx context.Context, b *run) ([]Row, error) {
	if b.dataset == "" {
		return nil, fmt.Errorf("%w: needs the dataset of ingest", errSkip)
	}
	c := train.DefaultConfig()
	c.Data, c.Out = b.dataset, filepath.Join(b.dir, "run")
	c.Steps, c.Warmup, c.ValEvery, c.SaveEvery, c.ReportRows, c.ValShare = 60, 10, 0, 0, 0, 0
	res, err := train.Run(ctx, c, train.Options{Logger: b.Logger})
	if err != nil {
		return nil, err
	}
	if b.checkpoint == "" {
		b.checkpoint = res.Checkpoint
	}
	return []Row{{What: fmt.Sprintf("size %s, batch %d", c.Size, c.Batch), Value: res.SamplesPerSecond, Unit: "samples/s"}}, nil
}

// policyRows asks a policy server over its WebSocket with full camera pictures.
func policyRows(ctx context.Context, b *run) ([]Row, error) {
	if b.checkpoint == "" {
		return nil, fmt.Errorf("%w: give a checkpoint or recordings", errSkip)
	}
	p, err := deploy.LoadCheckpoint(b.checkpoint, policy.Options{Seed: 1})
	if err != nil {
		return nil, err
	}
	url, stop, err := serve(ctx, p)
	if err != nil {
		return nil, err
	}
	defer stop()
	client, err := deploy.Dial(ctx, url, deploy.ClientOptions{})
	if err != nil {
		return nil, err
	}
	defer client.Close()
	obs := deploy.Observation{Left: imaging.NewRGB(640, 480), Right: imaging.NewRGB(640, 480), LeftFromRight: frames.Identity,
		FingerRad: [2]float64{0.4, 0.4}, Prompt: "pick up the block"}
	const warm, calls = 3, 100
	var times []time.Duration
	for n := range warm + calls {
		start := time.Now()
		if _, err := client.Infer(ctx, obs); err != nil {
			return nil, err
		}
		if n >= warm {
			times = append(times, time.Since(start))
		}
	}
	return percentiles("request to answer, two 640x480 pictures", times), nil
}

// serve starts a server in this process; stop ends it and waits.
func serve(ctx context.Context, p deploy.Policy) (url string, stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	ready, done := make(chan string, 1), make(chan error, 1)
	go func() {
		done <- deploy.Serve(ctx, p, deploy.ServeOptions{Addr: "127.0.0.1:0", Ready: func(a net.Addr) { ready <- "ws://" + a.String() }})
	}()
	select {
	case url = <-ready:
		return url, func() { cancel(); <-done }, nil
	case err = <-done:
		cancel()
		return "", nil, err
	}
}

// percentiles are the median, the 99th percentile and the largest of some times.
func percentiles(what string, times []time.Duration) []Row {
	ms := make([]float64, len(times))
	for i, d := range times {
		ms[i] = float64(d) / 1e6
	}
	slices.Sort(ms)
	return []Row{
		{What: what + ", p50", Value: quantile.Linear(ms, 0.5), Unit: "ms"},
		{What: what + ", p99", Value: quantile.Linear(ms, 0.99), Unit: "ms"},
		{What: what + ", largest", Value: quantile.Linear(ms, 1), Unit: "ms"},
	}
}

// controlSeconds is how long the control loop is watched: a thousand steps.
const controlSeconds = 10

// controlRows runs the executor against a fake cell in real time and measures how long after a state's own time the control step for it
// begins: the arm process's timer, the socket and the executor together.
func controlRows(ctx context.Context, b *run) ([]Row, error) {
	fake, err := deploy.NewFake(deploy.FakeOptions{RealTime: true})
	if err != nil {
		return nil, err
	}
	s, err := deploy.Connect(ctx, deploy.DefaultCell(), deploy.ConnectOptions{Conn: fake.Conn(), OpenCamera: fake.OpenCamera, Logger: b.Logger})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	var late []time.Duration
	res, err := s.Run(ctx, deploy.RunOptions{
		Policy: deploy.Hold{RateHz: 10}, Prompt: "hold", MaxDuration: controlSeconds * time.Second,
		Step: func(_ context.Context, st deploy.Step) (deploy.Directive, error) {
			late = append(late, time.Duration(time.Now().UnixNano()-st.TNS))
			return deploy.Directive{}, nil
		},
	})
	if err != nil {
		return nil, err
	}
	if res.Stopped() || len(late) == 0 {
		return nil, fmt.Errorf("the run ended early: %s %s", res.Outcome, res.Reason)
	}
	rows := percentiles("control step after its state", late)
	return append(rows, Row{What: "times the path ran out", Value: float64(res.Starved), Unit: ""}), nil
}
