package node

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pinch-robotics/pinch/cmd/internal/program"
	"github.com/pinch-robotics/pinch/dataset"
)

// Dataset makes `pinch dataset` with its verbs.
func Dataset() *cobra.Command {
	verbs := []*cobra.Command{datasetCheck(), datasetRepair(), datasetInfo(), datasetView(), datasetExport(), datasetExtract(), datasetCache(), datasetWindows()}
	return program.Group("dataset", "check, describe, show and edit datasets", append(verbs, datasetEdits()...)...)
}

func datasetInfo() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "info DATASET", Short: "say what a dataset holds", Args: cobra.ExactArgs(1),
		Long: "Prints version, episodes, features, tasks, sizes and identity of a dataset.\n" + program.ExitHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			summary, err := dataset.Summarize(args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return summary.WriteJSON(cmd.OutOrStdout())
			}
			return summary.WriteText(cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the summary as JSON")
	return cmd
}

type extractOptions struct {
	Episodes string
	Log      program.LogFlags
}

// AddFlags adds the flags of `pinch dataset extract`.
func (o *extractOptions) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Episodes, "episodes", "", "which `episodes`: 3 or 0-4 or 1,5,7-9 (default: all that are present)")
	o.Log.AddFlags(f)
}

func datasetExtract() *cobra.Command {
	var o extractOptions
	cmd := &cobra.Command{
		Use: "extract SOURCE TARGET", Short: "copy episodes of any dataset into a new, valid v3.0 dataset", Args: cobra.ExactArgs(2),
		Long: "Copies episodes of a v2.1 or v3.0 dataset into a new v3.0 dataset. Video packets are copied, not encoded again; indices,\n" +
			"statistics and tasks are computed anew, so an incomplete copy becomes a complete dataset.\n" + program.ExitHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			episodes, err := program.ParseEpisodes(o.Episodes)
			if err != nil {
				return err
			}
			return runExtract(cmd.Context(), args[0], args[1], episodes, o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

func runExtract(ctx context.Context, src, dst string, episodes []int, o extractOptions, out, progress io.Writer) error {
	result, err := dataset.Extract(ctx, src, dst, episodes, dataset.ExtractOptions{
		Progress:      func(done, total int) { fmt.Fprintf(progress, "extract: %d of %d episodes\n", done, total) },
		WriterOptions: dataset.WriterOptions{Logger: o.Log.Logger(progress)},
	})
	if err != nil {
		return err
	}
	for _, change := range result.Changes {
		fmt.Fprintln(out, "corrected:", change)
	}
	_, err = fmt.Fprintf(out, "%s: %d episodes, %d frames\n", dst, len(result.Episodes), result.Frames)
	return err
}
