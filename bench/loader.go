package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/pinch-robotics/pinch/dataset/loader"
)

// WindowsOptions say which windows MeasureWindows reads.
type WindowsOptions struct {
	Mixture loader.Mixture
	Config  loader.Config
	// Steps that are measured, after Warm steps that are not.
	Steps, Warm int
	// FillCache waits until the frame cache is complete before measuring.
	FillCache bool
	// List, when not nil, gets the pictures of the measured steps, one JSON object in a line, so that other readers can be timed
	// on the same frames.
	List io.Writer
	// Progress tells how full the frame cache is. May be nil.
	Progress func(done, total int)
}

// WindowsReport is what was measured. CPU is processor time of the whole process, which does not depend on what else runs.
type WindowsReport struct {
	Windows        int     `json:"windows"`
	Pictures       int     `json:"pictures"`
	Decoded        int64   `json:"decoded"`
	Cached         int64   `json:"cached"`
	Bytes          int64   `json:"fetched_bytes"`
	Seconds        float64 `json:"seconds"`
	CPUSeconds     float64 `json:"cpu_seconds"`
	OpenSeconds    float64 `json:"open_seconds"`
	PicturesPerSec float64 `json:"pictures_per_second"`
	PicturesPerCPU float64 `json:"pictures_per_cpu_second"`
	WindowMicros   float64 `json:"window_microseconds"`
	PeakMemoryMB   float64 `json:"peak_memory_mb"`
}

// MeasureWindows reads windows as a trainer would, batch after batch, and says how fast they came.
func MeasureWindows(ctx context.Context, o WindowsOptions) (r WindowsReport, err error) {
	start := time.Now()
	l, err := loader.New(ctx, o.Mixture, o.Config)
	if err != nil {
		return r, err
	}
	defer func() {
		if e := l.Close(); err == nil {
			err = e
		}
	}()
	if o.FillCache {
		if err := l.WaitCache(ctx, o.Progress); err != nil {
			return r, err
		}
	}
	r.OpenSeconds = time.Since(start).Seconds()
	if err := consume(ctx, l, 0, o.Warm, nil); err != nil {
		return r, err
	}
	before, cpu, begin := l.Stats(), cpuSeconds(), time.Now()
	if err := consume(ctx, l, o.Warm, o.Warm+o.Steps, &r); err != nil {
		return r, err
	}
	r.Seconds, r.CPUSeconds, r.PeakMemoryMB = time.Since(begin).Seconds(), cpuSeconds()-cpu, peakMemoryMB()
	after := l.Stats()
	r.Decoded, r.Cached, r.Bytes = after.Decoded-before.Decoded, after.Cached-before.Cached, after.Fetched-before.Fetched
	r.PicturesPerSec, r.WindowMicros = float64(r.Pictures)/r.Seconds, r.Seconds/float64(r.Windows)*1e6
	if r.CPUSeconds > 0 {
		r.PicturesPerCPU = float64(r.Pictures) / r.CPUSeconds
	}
	return r, list(l, o)
}

// consume takes batches as they come.
func consume(ctx context.Context, l *loader.Loader, first, end int, r *WindowsReport) error {
	s := l.Start(ctx, first, end)
	defer s.Close()
	for {
		b, ok, err := s.Next()
		if err != nil || !ok {
			return err
		}
		if r != nil {
			r.Windows += len(b.Samples)
			for _, im := range b.Images {
				r.Pictures += len(b.Samples) * im.Times
			}
		}
		b.Release()
	}
}

func list(l *loader.Loader, o WindowsOptions) error {
	if o.List == nil {
		return nil
	}
	enc := json.NewEncoder(o.List)
	for step := o.Warm; step < o.Warm+o.Steps; step++ {
		for _, p := range l.Pictures(step) {
			if err := enc.Encode(p); err != nil {
				return fmt.Errorf("list pictures: %w", err)
			}
		}
	}
	return nil
}

// WriteText prints the report as a table.
func (r WindowsReport) WriteText(w io.Writer) error {
	rows := []Row{
		{What: "opened in", Value: r.OpenSeconds, Unit: "s"},
		{What: "windows", Value: float64(r.Windows), Unit: ""},
		{What: "time for each", Value: r.WindowMicros, Unit: "us"},
		{What: "most memory", Value: r.PeakMemoryMB, Unit: "MB"},
	}
	if r.Pictures > 0 {
		rows = append(rows, Row{What: "pictures", Value: r.PicturesPerSec, Unit: "frames/s"},
			Row{What: "pictures for each second of processor time", Value: r.PicturesPerCPU, Unit: "frames/s"},
			Row{What: "of these decoded", Value: float64(r.Decoded)}, Row{What: "from the frame cache", Value: float64(r.Cached)})
	}
	if r.Bytes > 0 {
		rows = append(rows, Row{What: "fetched", Value: float64(r.Bytes) / 1e6, Unit: "MB"})
	}
	for _, row := range rows {
		if _, err := fmt.Fprintf(w, "%-44s %12.1f %s\n", row.What, row.Value, row.Unit); err != nil {
			return err
		}
	}
	return nil
}
