package sim

import (
	"errors"
	"fmt"

	"github.com/pinch-robotics/pinch/frames"
)

// ErrNotBuilt is returned by New in programs built without the tag mujoco.
var ErrNotBuilt = errors.New("this program was built without the simulator; build pinch-sim with the tag mujoco (make build), which needs the Debian packages libmujoco-dev, libosmesa6-dev and libturbojpeg0-dev")

// StartTime is the cell's clock when it is made: 1000 s, so that a host clock taken for a device clock shows at once.
const StartTime frames.DeviceTime = 1000 * 1_000_000_000

// TickNS is the physics step, 1 ms, which is also the control period of the arms.
const TickNS = 1_000_000

// ClockName is the name of the cell's clock in logs: every simulated device keeps this one clock.
const ClockName = "cell"

// Size is an image size in pixels.
type Size struct{ Width, Height int }

// Config says what kind of cell to make. Zero fields take the defaults.
type Config struct {
	Mode          Mode // required
	Wrist         Size // wrist cameras, default 640x480
	Center        Size // centre camera, default 320x240
	Scene         Size // scene camera, default 640x480
	JPEGQuality   int  // 1..100, default 90
	RenderThreads int  // operating-system threads that render, each with its own GL context, default 2
}

func (c Config) withDefaults() (Config, error) {
	if c.Mode != ModeHandheld && c.Mode != ModeRobot {
		return c, fmt.Errorf("simulated cell: mode %q, want %s or %s", c.Mode, ModeHandheld, ModeRobot)
	}
	fill := func(s *Size, w, h int) {
		if *s == (Size{}) {
			*s = Size{w, h}
		}
	}
	fill(&c.Wrist, 640, 480)
	fill(&c.Center, 320, 240)
	fill(&c.Scene, 640, 480)
	for _, s := range []Size{c.Wrist, c.Center, c.Scene} {
		if s.Width < 16 || s.Height < 16 || s.Width > 1920 || s.Height > 1080 {
			return c, fmt.Errorf("simulated cell: image size %dx%d, want 16x16 to 1920x1080", s.Width, s.Height)
		}
	}
	if c.JPEGQuality == 0 {
		c.JPEGQuality = 90
	}
	if c.JPEGQuality < 1 || c.JPEGQuality > 100 {
		return c, fmt.Errorf("simulated cell: JPEG quality %d, want 1 to 100", c.JPEGQuality)
	}
	if c.RenderThreads == 0 {
		c.RenderThreads = 2
	}
	if c.RenderThreads < 1 || c.RenderThreads > 64 {
		return c, fmt.Errorf("simulated cell: %d render threads, want 1 to 64", c.RenderThreads)
	}
	return c, nil
}

// size is the image size of one camera.
func (c Config) size(cam Camera) Size {
	switch cam {
	case Center:
		return c.Center
	case SceneView:
		return c.Scene
	}
	return c.Wrist
}
