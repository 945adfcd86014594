package capture

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pinch-robotics/pinch/internal/device"
	"github.com/pinch-robotics/pinch/internal/folderlock"
	"github.com/pinch-robotics/pinch/internal/rawlog"
)

// Options says what Record does. RigFile or Rig, and Out, are required.
type Options struct {
	RigFile string // path of the rig file; "" uses Rig
	Rig     *Rig   // the rig when there is no file
	Out     string // folder of the recordings; made when it does not exist
	// Episodes ends the session after that many saved recordings; 0 goes on until the context ends or a rig with
	// `pedal.ends_session` closes its pedal.
	Episodes       int
	ConnectTimeout time.Duration        // every device must answer within it; default 15 s
	MinFreeBytes   int64                // no recording starts with less free disk; default 1 GiB, negative: no check
	Console        io.Writer            // what the operator sees; nil: nothing
	Live           bool                 // Console is a terminal: keep one status line up to date
	Log            *slog.Logger         // nil: silent
	Clock          device.Clock         // nil: device.NewClock()
	Writer         rawlog.WriterOptions // of the raw log; zero: its defaults
}

func (o Options) filled() (Options, error) {
	if o.RigFile != "" {
		rig, err := LoadRig(o.RigFile)
		if err != nil {
			return o, err
		}
		o.Rig = &rig
	}
	if o.Rig == nil {
		return o, errors.New("record: no rig: name a rig file")
	}
	if err := o.Rig.Validate(); err != nil {
		return o, fmt.Errorf("rig: %w", err)
	}
	if o.Out == "" {
		return o, errors.New("record: no output folder")
	}
	if o.ConnectTimeout <= 0 {
		o.ConnectTimeout = 15 * time.Second
	}
	if o.MinFreeBytes == 0 {
		o.MinFreeBytes = 1 << 30
	}
	if o.Console == nil {
		o.Console = io.Discard
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = device.NewClock()
	}
	return o, nil
}

// Result tells what a session did.
type Result struct {
	Saved     []string // folders of the finished recordings
	Discarded []string // folders of the cancelled ones
	Cameras   []CameraCount
	Messages  uint64 // logged in saved and discarded recordings
	Faults    uint64 // device faults that began during recordings
}

// CameraCount is the frame account of one camera over the whole session.
type CameraCount struct {
	Name        string
	Frames      uint64 // good frames received
	Bad         uint64 // damaged frames
	PacketsLost uint64
	Logged      uint64 // of them written to a recording
}

// Record connects to the devices of a rig and records what the operator's pedal asks for, until the session is over (see
// Options.Episodes) or ctx ends; then the current recording is finished (kept when something in it was accepted) and the result is
// returned without an error. A device that does not answer in time, a wrong device, or a full disk ends the session with one error
// that names the device or file and the fix, and so does a rig that ends the session before Options.Episodes; finished recordings are
// never touched.
func Record(ctx context.Context, opts Options) (Result, error) {
	opts, err := opts.filled()
	if err != nil {
		return Result{}, err
	}
	if err := os.MkdirAll(opts.Out, 0o755); err != nil {
		return Result{}, fmt.Errorf("make output folder: %w", err)
	}
	lock, err := folderlock.Take(opts.Out) // recordings of two sessions would take each other's names
	if err != nil {
		return Result{}, fmt.Errorf("record: %w", err)
	}
	defer lock.Release()
	if err := checkFree(opts.Out, opts.MinFreeBytes); err != nil {
		return Result{}, err
	}
	reportUnfinished(opts.Out, opts.Console)
	e := newEngine(opts)
	sources, stopSources := context.WithCancel(ctx)
	defer stopSources()
	g, running := errgroup.WithContext(sources)
	e.startDevices(running, g)
	loopErr := e.loop(ctx, running.Done())
	stopSources()
	deviceErr := g.Wait()
	err = e.firstError(deviceErr, loopErr)
	if n := len(e.res.Saved); err == nil && n < opts.Episodes && ctx.Err() == nil {
		err = fmt.Errorf("record: the rig ended the session after %d of %d recordings; what was saved is in %s", n, opts.Episodes, opts.Out)
	}
	return e.result(), err
}

// firstError prefers the device's error: the loop only sees that the devices stopped.
func (e *engine) firstError(deviceErr, loopErr error) error {
	if deviceErr != nil && !errors.Is(deviceErr, context.Canceled) {
		return deviceErr
	}
	return loopErr
}

// reportUnfinished tells of recordings that an earlier process left open.
func reportUnfinished(out string, console io.Writer) {
	names, err := unfinished(out)
	if err == nil && len(names) > 0 {
		fmt.Fprintf(console, "%d unfinished recordings of an earlier session in %s: `pinch record --recover %s` finishes them\n", len(names), out, out)
	}
}

// unfinished lists the names of recordings under way or left behind in a folder.
func unfinished(out string) ([]string, error) {
	entries, err := os.ReadDir(out)
	if err != nil {
		return nil, fmt.Errorf("look for recordings: %w", err)
	}
	var names []string
	for _, e := range entries {
		name, isWork := strings.CutSuffix(e.Name(), ".recording")
		if e.IsDir() && isWork && strings.HasPrefix(name, ".") {
			names = append(names, name[1:])
		}
	}
	return names, nil
}
