package cellserve

import (
	"context"
	"log/slog"
	"sync"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/rtspserve"
	"github.com/pinch-robotics/pinch/internal/sim"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
)

// cameras renders each camera on its grid of the cell's clock and serves it over RTSP. A camera has one goroutine that sends its
// frames in order; the physics goes on meanwhile.
type cameras struct {
	srv  *rtspserve.Server
	all  []*cameraFeed
	work sync.WaitGroup
}

type cameraFeed struct {
	name   sim.Camera
	period int64 // ns; frame k is captured at sim.StartTime + k*period
	stream *rtspserve.Stream
	queue  chan picture
}

// picture is a frame being rendered and the capture time it goes out with.
type picture struct {
	pending *sim.Pending
	at      frames.DeviceTime
}

// queueFrames is how many frames may wait for a slow reader before the cell waits too.
const queueFrames = 32

func openCameras(ctx context.Context, o Options) (*cameras, error) {
	srv, err := rtspserve.Listen(o.RTSP)
	if err != nil {
		return nil, err
	}
	c := &cameras{srv: srv}
	rates := []struct {
		cam sim.Camera
		hz  float64
	}{{sim.LeftWrist, o.WristHz}, {sim.RightWrist, o.WristHz}, {sim.SceneView, o.SceneHz}}
	for _, r := range rates {
		if r.hz == 0 {
			continue
		}
		stream, err := srv.AddMJPEG(string(r.cam))
		if err != nil {
			srv.Close()
			return nil, err
		}
		f := &cameraFeed{name: r.cam, period: int64(1000/r.hz) * 1_000_000, stream: stream, queue: make(chan picture, queueFrames)}
		c.all = append(c.all, f)
		c.work.Add(1)
		go func() {
			defer c.work.Done()
			f.send(ctx, o.Logger)
		}()
	}
	return c, nil
}

// close sends what is rendered, then ends the server. Nothing may be captured any more.
func (c *cameras) close() {
	for _, f := range c.all {
		close(f.queue)
	}
	c.work.Wait()
	c.srv.Close()
}

func (f *cameraFeed) send(ctx context.Context, log *slog.Logger) {
	for p := range f.queue {
		frame, err := p.pending.Wait()
		if err == nil {
			err = f.stream.WriteJPEG(ctx, frame.JPEG, p.at)
		}
		if err != nil && ctx.Err() == nil {
			log.Warn("a camera frame was lost", "camera", f.name, "err", err)
		}
	}
}

// capture renders every camera that is due now; its frame is stamped at, the cell's clock unless others keep another.
func (c *cameras) capture(ctx context.Context, cell *sim.Cell, at frames.DeviceTime) error {
	for _, f := range c.all {
		if int64(cell.Now()-sim.StartTime)%f.period != 0 {
			continue
		}
		select {
		case f.queue <- picture{cell.Capture(sim.Shot{Camera: f.name, JPEG: true})[0], at}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// infos describes the cameras to a client that connects now: phase is from now to the next frame, never zero, since a frame
// captured before the client came is not its own.
func (c *cameras) infos(now frames.DeviceTime) []armlink.CameraInfo {
	var out []armlink.CameraInfo
	for _, f := range c.all {
		out = append(out, armlink.CameraInfo{
			Name: string(f.name), URL: f.stream.URL(), Kind: "mjpeg", PeriodNS: f.period,
			PhaseNS: f.period - int64(now-sim.StartTime)%f.period,
		})
	}
	return out
}
