package node

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pinch-robotics/pinch/cmd/internal/program"
	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/dataset/check"
	"github.com/pinch-robotics/pinch/dataset/repair"
)

type repairOptions struct {
	repair.Options
	Quiet bool
}

// AddFlags adds the flags of `pinch dataset repair`.
func (o *repairOptions) AddFlags(f *pflag.FlagSet) {
	f.BoolVar(&o.InPlace, "in-place", false, "repair the dataset itself; what is replaced goes to .pinch/repair/aside-N")
	f.BoolVar(&o.DryRun, "dry-run", false, "only say what would be done")
	f.IntVar(&o.MaxTrim, "max-trim", -1, "cut at most this `number` of rows from an episode whose video ends early; episodes that lack more are left out (default: one second)")
	f.BoolVar(&o.Quiet, "quiet", false, "show no progress")
}

func (o *repairOptions) checkFlags(args []string) error {
	if len(args) == 2 {
		o.To = args[1]
	}
	switch {
	case o.InPlace && o.To != "":
		return errors.New("give either a target folder or --in-place")
	case !o.InPlace && o.To == "" && !o.DryRun:
		return errors.New("give a target folder for the repaired dataset, or --in-place")
	case !o.InPlace && o.To == "":
		o.InPlace = true // a dry run writes nothing either way
	}
	return nil
}

func datasetRepair() *cobra.Command {
	var o repairOptions
	cmd := &cobra.Command{
		Use: "repair DATASET [TARGET]", Short: "mend what is mechanical in a dataset", Args: cobra.RangeArgs(1, 2),
		Long: "Mends counters, index columns, row times, tails that rows or videos lack, a broken last episode, files in wrong places, what\n" +
			"info.json says of the videos, tables and statistics, of version 3.0 and 2.1, into a new dataset or in place. Rows and pictures\n" +
			"are never invented: an episode that lacks some is cut or left out, and named. An interrupted repair goes on when it is\n" +
			"started again. Exits with 3 when a check still finds errors afterwards.\n" + program.ExitHelpFound,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.checkFlags(args); err != nil {
				return program.UsageError{Err: err}
			}
			return runRepair(cmd.Context(), args[0], o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

func runRepair(ctx context.Context, root string, o repairOptions, out, progress io.Writer) error {
	if !o.Quiet {
		o.Progress = stageProgress(progress)
	}
	result, err := repair.Run(ctx, root, o.Options)
	if err != nil {
		return err
	}
	for _, line := range result.Done {
		fmt.Fprintln(out, "repaired:", line)
	}
	for _, line := range result.Left {
		fmt.Fprintln(out, "not repaired:", line)
	}
	verb := map[bool]string{true: "would be", false: "were"}[o.DryRun]
	fmt.Fprintf(out, "%d episodes, %d rows; %d files %s written, %d moved, %d put aside\n", len(result.Episodes), result.Frames, result.Written, verb, result.Moved, result.Aside)
	if o.DryRun {
		return nil
	}
	target := root
	if o.To != "" {
		target = o.To
	}
	return reportLeft(ctx, target, out)
}

// reportLeft checks the repaired dataset and names what a repair can not mend.
func reportLeft(ctx context.Context, root string, out io.Writer) error {
	report, err := check.Run(ctx, root, check.Options{})
	if err != nil {
		return err
	}
	for _, f := range report.Findings {
		if f.Severity == dataset.Error {
			fmt.Fprintf(out, "left: %s: %s; %s\n", f.Code, f.Message, f.Fix)
		}
	}
	fmt.Fprintf(out, "%s: %d errors, %d warnings, %d notes are left (pinch dataset check)\n", root, report.Number(dataset.Error), report.Number(dataset.Warn), report.Number(dataset.Note))
	if !report.OK() {
		return program.ErrFound
	}
	return nil
}
