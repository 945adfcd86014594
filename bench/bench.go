package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"
)

// Options of a run of all measurements.
type Options struct {
	// Recordings is a folder of recordings for ingest; "" makes some with Record.
	Recordings string
	// Record makes recordings in dir/recordings; nil (and no Recordings) leaves out ingest and what needs its dataset.
	Record func(ctx context.Context, dir string) error
	// Checkpoint is served for the latency; "" takes the one that the training measurement just made, whose weights are of no
	// use but whose speed is the same.
	Checkpoint string
	Only       []string // names of measurements; nil: all
	Progress   io.Writer
	Logger     *slog.Logger
}

// Row is one measured number.
type Row struct {
	Measurement string  `json:"measurement"` // capture, ingest, loader, train, policy, control
	What        string  `json:"what"`
	Value       float64 `json:"value"`
	Unit        string  `json:"unit"`
}

// Table is all rows with the machine they come from.
type Table struct {
	Machine string   `json:"machine"`
	Rows    []Row    `json:"rows"`
	Skipped []string `json:"skipped,omitempty"` // measurements that could not be made, and why
}

// errSkip marks a measurement that lacks what it needs.
var errSkip = errors.New("not measured")

// Names lists the measurements in order.
var Names = []string{"capture", "ingest", "loader", "train", "policy", "control"}

var measurements = map[string]func(context.Context, *run) ([]Row, error){
	"capture": captureRows, "ingest": ingestRows, "loader": loaderRows, "train": trainRows, "policy": policyRows, "control": controlRows,
}

// run is the state that measurements share: later ones use the dataset and the checkpoint of earlier ones.
type run struct {
	Options
	dir        string // working folder, removed at the end
	dataset    string // "" until ingest made it
	checkpoint string
}

// Run makes all measurements, one after the other so that they do not disturb each other. One that lacks what it needs is skipped with
// the reason; any other error ends the run.
func Run(ctx context.Context, o Options) (Table, error) {
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	if o.Only == nil {
		o.Only = Names
	}
	dir, err := os.MkdirTemp("", "pinch-bench-")
	if err != nil {
		return Table{}, fmt.Errorf("bench: %w", err)
	}
	defer os.RemoveAll(dir)
	b := &run{Options: o, dir: dir, checkpoint: o.Checkpoint}
	table := Table{Machine: Machine()}
	for _, name := range o.Only {
		measure, ok := measurements[name]
		if !ok {
			return table, fmt.Errorf("bench: no measurement %q; there are %s", name, strings.Join(Names, ", "))
		}
		start := time.Now()
		fmt.Fprintf(o.Progress, "bench: %s\n", name)
		rows, err := measure(ctx, b)
		switch {
		case errors.Is(err, errSkip):
			table.Skipped = append(table.Skipped, fmt.Sprintf("%s: %v", name, err))
		case err != nil:
			return table, fmt.Errorf("bench %s: %w", name, err)
		}
		for i := range rows {
			rows[i].Measurement = name
		}
		table.Rows = append(table.Rows, rows...)
		fmt.Fprintf(o.Progress, "bench: %s took %.1f s\n", name, time.Since(start).Seconds())
	}
	return table, nil
}

// Machine is the processor, its cores and the operating system in one line.
func Machine() string {
	model := "unknown processor"
	if data, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if _, rest, ok := strings.Cut(string(data), "model name"); ok {
			line, _, _ := strings.Cut(rest, "\n")
			model = strings.TrimSpace(strings.TrimLeft(line, "\t :"))
		}
	}
	return fmt.Sprintf("%s, %d cores, %s/%s, %s", model, runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
}

// WriteText prints the table.
func (t Table) WriteText(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tw, t.Machine)
	for _, r := range t.Rows {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", r.Measurement, r.What, number(r.Value), r.Unit)
	}
	for _, s := range t.Skipped {
		fmt.Fprintln(tw, s)
	}
	return tw.Flush()
}

// number prints three digits, and whole numbers from 100 on.
func number(v float64) string {
	if v >= 100 || v == float64(int(v)) {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}
