package node

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pinch-robotics/pinch/cmd/internal/program"
	"github.com/pinch-robotics/pinch/dataset/ingest"
	"github.com/pinch-robotics/pinch/dataset/video"
)

type ingestOptions struct {
	ingest.Options
	Codec   string
	MapFile string
	JSON    bool
	Log     program.LogFlags
}

// AddFlags adds the flags of `pinch ingest`.
func (o *ingestOptions) AddFlags(f *pflag.FlagSet) {
	f.StringVarP(&o.Out, "out", "o", "", "the dataset's `folder`: new, empty, or a dataset to add to")
	f.IntVar(&o.FPS, "fps", 0, "rows per second, in `Hz` (default: that of the dataset, 30 for a new one)")
	f.IntVar(&o.Workers, "workers", 0, "recordings converted at the same time (default: one for each processor)")
	f.StringVar(&o.Codec, "codec", string(video.H264), "video `codec`: h264 or av1")
	f.IntVar(&o.CRF, "crf", 0, "constant rate factor of the codec (default: the codec's own)")
	f.StringVar(&o.Preset, "preset", "", "speed preset of the codec (default: the codec's own)")
	f.StringVar(&o.Task, "task", "", "the `instruction` for logs without a meta.json; each is then one episode")
	f.StringVar(&o.MapFile, "map", "", "YAML `file` that names the topics of the rig (default: a built-in map that fits the recording)")
	f.BoolVar(&o.Salvage, "salvage", false, "take what is left of logs that are cut or damaged")
	f.StringVar(&o.Compat, "compat", "", "follow the rules of another `tool`, to compare with its datasets: rebake")
	f.BoolVar(&o.JSON, "json", false, "print the report as JSON")
	o.Log.AddFlags(f)
}

func (o *ingestOptions) checkFlags(args []string) error {
	if o.Out == "" {
		return program.Usage("--out: name the dataset's folder")
	}
	if err := program.CheckCount("--fps", o.FPS, 0, 1000); err != nil {
		return err
	}
	if err := program.CheckCount("--workers", o.Workers, 0, 1024); err != nil {
		return err
	}
	if o.Compat != "" && o.Compat != ingest.CompatRebake {
		return program.Usage("--compat %s: the only tool is %s", o.Compat, ingest.CompatRebake)
	}
	o.Sources = args
	o.Options.Codec = video.Codec(strings.ToLower(o.Codec))
	if o.MapFile == "" {
		return nil
	}
	m, err := ingest.LoadMap(o.MapFile)
	if err != nil {
		return program.UsageError{Err: err}
	}
	o.Map = m
	return nil
}

// Ingest makes `pinch ingest`.
func Ingest() *cobra.Command {
	var o ingestOptions
	cmd := &cobra.Command{
		Use: "ingest RECORDING... --out DATASET", Short: "turn raw logs into a LeRobot dataset", Args: cobra.MinimumNArgs(1),
		Long: "Turns recordings (MCAP with a meta.json beside it; a folder is searched for them) into episodes of a LeRobot v3.0 dataset.\n" +
			"A recording that is in the dataset already is left out, so a run that was killed can be repeated.\n" + program.ExitHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.checkFlags(args); err != nil {
				return err
			}
			return runIngest(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

func runIngest(ctx context.Context, o ingestOptions, out, progress io.Writer) error {
	o.Logger = o.Log.Logger(progress)
	if !o.JSON {
		o.Progress = func(p ingest.Progress) {
			fmt.Fprintf(progress, "ingest: %d of %d recordings, %d rows, %.0f s recorded\n", p.Done, p.Total, p.Rows, p.Seconds)
		}
	}
	report, err := ingest.Run(ctx, o.Options)
	if o.JSON {
		if jsonErr := json.NewEncoder(out).Encode(report); err == nil {
			err = jsonErr
		}
		return err
	}
	if err != nil && len(report.Recordings) == 0 {
		return err // nothing to tell beside it
	}
	for _, r := range report.Recordings {
		for _, w := range r.Warnings {
			fmt.Fprintf(out, "warning: %s: %s\n", r.Path, w)
		}
		for _, stream := range slices.Sorted(maps.Keys(r.Marks)) {
			m := r.Marks[stream]
			fmt.Fprintf(out, "marked: %s: %s: %d rows late, %d lost, %d repeated\n", r.Path, stream, m.Late, m.Lost, m.Repeated)
		}
	}
	fmt.Fprintf(out, "%s: %d episodes and %d rows at %d Hz added, %d recordings in it already, %d failed\n",
		report.Out, report.Episodes, report.Rows, report.FPS, report.Skipped, report.Failed)
	return err
}
