package node

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pinch-robotics/pinch/cmd/internal/program"
	"github.com/pinch-robotics/pinch/dataset/export"
)

type exportOptions struct {
	Foxglove string
	Rerun    string
	Episodes string

	episodes []int
}

// AddFlags adds the flags of `pinch dataset export`.
func (o *exportOptions) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Foxglove, "foxglove", "", "write this MCAP `file` for Foxglove")
	f.StringVar(&o.Rerun, "rerun", "", "write this MCAP `file` for Rerun, which opens such files and plots this one's numbers")
	f.StringVar(&o.Episodes, "episodes", "", "which `episodes`: 3 or 0-4 or 1,5,7-9 (default: all that are present)")
}

func (o *exportOptions) checkFlags() (err error) {
	if o.Foxglove == "" && o.Rerun == "" {
		return program.Usage("give --foxglove FILE.mcap or --rerun FILE.mcap")
	}
	for flag, path := range map[string]string{"--foxglove": o.Foxglove, "--rerun": o.Rerun} {
		if ext := filepath.Ext(path); path != "" && ext == ".rrd" {
			return program.Usage("%s %s: the format of .rrd files has no published description, so pinch writes MCAP, which Rerun opens too; "+
				"name it FILE.mcap, and if you need an .rrd file: rerun mcap convert FILE.mcap -o FILE.rrd", flag, path)
		} else if path != "" && ext != ".mcap" {
			return program.Usage("%s %s: the name of an MCAP file ends in .mcap", flag, path)
		}
	}
	if o.Foxglove == o.Rerun {
		return program.Usage("--foxglove and --rerun name the same file")
	}
	o.episodes, err = program.ParseEpisodes(o.Episodes)
	return err
}

func datasetExport() *cobra.Command {
	var o exportOptions
	cmd := &cobra.Command{
		Use: "export DATASET", Short: "write episodes as a log for Foxglove or Rerun", Args: cobra.ExactArgs(1),
		Long: "Writes episodes as an MCAP log: coded pictures as they are, poses, transforms, numbers and instructions.\n" + program.ExitHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.checkFlags(); err != nil {
				return err
			}
			return runExport(cmd.Context(), args[0], o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

func runExport(ctx context.Context, root string, o exportOptions, out, progress io.Writer) error {
	for _, job := range []struct {
		viewer export.Viewer
		path   string
	}{{export.Foxglove, o.Foxglove}, {export.Rerun, o.Rerun}} {
		if job.path == "" {
			continue
		}
		r, err := export.Write(ctx, root, job.path, export.Options{Viewer: job.viewer, Episodes: o.episodes,
			Progress: func(done, total int) { stageProgress(progress)("episodes", done, total) }})
		if err != nil {
			return err
		}
		for _, n := range r.Notes {
			fmt.Fprintln(out, "note:", n)
		}
		if _, err := fmt.Fprintf(out, "%s: %d episodes, %d messages\n", job.path, len(r.Episodes), r.Messages); err != nil {
			return err
		}
	}
	return nil
}
