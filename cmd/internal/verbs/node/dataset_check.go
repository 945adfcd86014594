package node

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pinch-robotics/pinch/cmd/internal/program"
	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/dataset/check"
	"github.com/pinch-robotics/pinch/internal/atomicfile"
)

type checkOptions struct {
	check.Options
	JSON  bool
	HTML  string
	List  bool
	Quiet bool
}

// AddFlags adds the flags of `pinch dataset check`.
func (o *checkOptions) AddFlags(f *pflag.FlagSet) {
	f.BoolVar(&o.Decode, "decode", false, "also decode every video: frames that do not decode, frozen, black or swapped pictures, pictures that lag, image statistics")
	f.BoolVar(&o.JSON, "json", false, "print the report as JSON")
	f.StringVar(&o.HTML, "html", "", "also write the report as one HTML `file` with pictures and curves around each finding")
	f.BoolVar(&o.List, "list", false, "list all checks and what they mean, and check nothing")
	f.BoolVar(&o.Quiet, "quiet", false, "show no progress")
	f.IntVar(&o.Workers, "workers", 0, "`number` of files read at a time (default: one for each processor)")
}

func datasetCheck() *cobra.Command {
	var o checkOptions
	cmd := &cobra.Command{
		Use: "check DATASET", Short: "say exactly what is wrong with a dataset",
		Args: func(cmd *cobra.Command, args []string) error {
			if o.List {
				return cobra.NoArgs(cmd, args)
			}
			return cobra.ExactArgs(1)(cmd, args)
		},
		Long: "Looks for everything that makes the official LeRobot loader fail or training wrong, in datasets of version 3.0 and 2.1\n" +
			"made by any software. Each finding names the file, the episode, the row, the numbers and the fix; what is usual is learned\n" +
			"from the dataset itself. pinch dataset repair mends what is mechanical.\n" + program.ExitHelpFound,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.List {
				return check.WriteMarkdown(cmd.OutOrStdout())
			}
			return runCheck(cmd.Context(), args[0], o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

func runCheck(ctx context.Context, root string, o checkOptions, out, progress io.Writer) error {
	if !o.Quiet && o.Decode {
		o.Progress = stageProgress(progress)
	}
	report, err := check.Run(ctx, root, o.Options)
	if err != nil {
		return err
	}
	if o.HTML != "" {
		err := atomicfile.Write(atomicfile.OS, o.HTML, 0o644, func(w io.Writer) error { return check.WriteHTML(ctx, w, report) })
		if err != nil {
			return fmt.Errorf("write report %s: %w", o.HTML, err)
		}
	}
	return printReport(report, o.JSON, out)
}

func printReport(report *dataset.Report, asJSON bool, out io.Writer) error {
	write := report.WriteText
	if asJSON {
		write = report.WriteJSON
	}
	if err := write(out); err != nil {
		return err
	}
	if !report.OK() {
		return program.ErrFound
	}
	return nil
}

// stageProgress prints a line whenever a tenth of a stage is done.
func stageProgress(w io.Writer) func(stage string, done, total int) {
	return func(stage string, done, total int) {
		if step := max(1, total/10); done%step == 0 || done == total {
			fmt.Fprintf(w, "%s: %d of %d\n", strings.ToLower(stage), done, total)
		}
	}
}
