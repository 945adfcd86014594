// Package join makes one cell of two arm processes: it speaks armlink to the executor, and to each arm process as its only executor.
//
//	executor ── armlink ──► join ── armlink ──► left arm process
//	                          └─── armlink ──► right arm process
//
// One state for both arms goes out with each state of the left one; the right one's is carried to the same moment by its velocity. Segments go
// to the arm they name, stops and acknowledgements to both. What happens to one arm stops the other: when it ramps or stops, when its process
// falls silent or ends. When the executor or this process goes away, each arm process stops its arm by itself.
//
// Arms of a simulated cell may keep a clock in lock-step: grants go to both, a state goes out when both have reached the same moment, and nothing depends on how
// fast anybody is. Their scene, which stands for the person and the judge beside the table, is forwarded to.
package join

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/pinch-robotics/pinch/internal/config"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
)

// Config is the file of a joined cell (join.yaml).
type Config struct {
	Listen string `yaml:"listen"` // where the executor finds the cell
	Left   string `yaml:"left"`   // the arm processes, tcp:host:port or unix:/path
	Right  string `yaml:"right"`
	// SilenceMS is the silence of an arm process after which the other arm is stopped.
	SilenceMS float64 `yaml:"silence_ms"`
	// Scene is where the scene of a simulated cell is found; empty: the cell is real.
	Scene   string   `yaml:"scene"`
	Cameras []Camera `yaml:"cameras"`
}

// Camera is a camera of the cell, as armlink announces it.
type Camera struct {
	Name   string  `yaml:"name"`    // left, right (wrist), center or scene
	URL    string  `yaml:"url"`     // rtsp://...
	Kind   string  `yaml:"kind"`    // mjpeg or h264
	RateHz float64 `yaml:"rate_hz"` // frames per second
}

// Default returns the values used where the file says nothing.
func Default() Config {
	return Config{Listen: "tcp:127.0.0.1:7480", Left: "tcp:127.0.0.1:7481", Right: "tcp:127.0.0.1:7482", SilenceMS: 100}
}

// Load reads a file strictly over Default.
func Load(path string) (Config, error) {
	c := Default()
	if err := config.Load(path, &c); err != nil {
		return Config{}, err
	}
	return c, nil
}

// Validate refuses values without meaning; the error starts with the key.
func (c *Config) Validate() error {
	if c.Left == "" || c.Right == "" || c.Left == c.Right {
		return errors.New("left, right: want the addresses of two arm processes")
	}
	if !(c.SilenceMS >= 20 && c.SilenceMS <= 5000) {
		return fmt.Errorf("silence_ms: %v is outside 20 to 5000", c.SilenceMS)
	}
	for i, cam := range c.Cameras {
		if cam.Name == "" || cam.URL == "" || (cam.Kind != "mjpeg" && cam.Kind != "h264") || !(cam.RateHz > 0 && cam.RateHz <= 1000) {
			return fmt.Errorf("cameras: entry %d: want name, url, kind (mjpeg or h264) and rate_hz above 0", i+1)
		}
	}
	return nil
}

// Options complete a Config for Serve.
type Options struct {
	Config
	Logger *slog.Logger      // nil: silent
	Ready  func(addr string) // called once with the address to dial; nil: nobody waits
}

// Serve takes executors, one after the other, until ctx ends; it returns nil then. Each one needs both arm processes.
func Serve(ctx context.Context, o Options) error {
	if err := o.Validate(); err != nil {
		return fmt.Errorf("join arms: %w", err)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	log := o.Logger.With("component", "join")
	l, err := armlink.Listen(o.Listen)
	if err != nil {
		return err
	}
	defer l.Close()
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	if o.Ready != nil {
		o.Ready(l.Addr().Network() + ":" + l.Addr().String())
	}
	for {
		nc, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("accept the executor: %w", err)
		}
		err = serve(ctx, o.Config, nc)
		if ctx.Err() != nil {
			return nil
		}
		log.Info("the executor's connection ended", "err", err)
	}
}

// dialTime is how long the arm processes may take to answer a new executor.
const dialTime = 5 * time.Second

// serve joins the arms for one executor until it or an arm leaves.
func serve(ctx context.Context, c Config, nc net.Conn) error {
	client := armlink.NewConn(nc)
	defer client.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := &pairing{client: client, silence: time.Duration(c.SilenceMS * float64(time.Millisecond)), events: make(chan event, 64), ctx: ctx}
	defer p.close()
	stop := context.AfterFunc(ctx, p.close)
	defer stop()
	hello, err := p.meet(c)
	if err != nil {
		_ = client.Write(&armlink.Fault{Text: err.Error()})
		return err
	}
	if err := client.Write(hello); err != nil {
		return err
	}
	for _, f := range p.faults {
		if err := client.Write(f); err != nil {
			return err
		}
	}
	if p.lockStep {
		if err := p.report(); err != nil {
			return err
		}
	}
	p.read(fromClient, client)
	return p.run()
}
