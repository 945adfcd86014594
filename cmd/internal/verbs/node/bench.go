package node

import (
	"context"
	"encoding/json"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pinch-robotics/pinch/bench"
	"github.com/pinch-robotics/pinch/cmd/internal/child"
	"github.com/pinch-robotics/pinch/cmd/internal/program"
)

type benchOptions struct {
	bench.Options
	JSON bool
	Log  program.LogFlags
}

// AddFlags adds the flags of `pinch bench`.
func (o *benchOptions) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Recordings, "recordings", "", "`folder` of recordings for ingest and what follows (default: three are recorded from the simulated rig)")
	f.StringVar(&o.Checkpoint, "checkpoint", "", "`folder` of the checkpoint whose latency is measured (default: one that is trained for it)")
	f.StringSliceVar(&o.Only, "only", nil, "`names` of measurements: capture, ingest, loader, train, policy, control (default: all)")
	f.BoolVar(&o.JSON, "json", false, "print the table as JSON")
	o.Log.AddFlags(f)
}

// Bench makes `pinch bench`.
func Bench() *cobra.Command {
	var o benchOptions
	cmd := &cobra.Command{
		Use: "bench", Short: "measure this machine", Args: cobra.NoArgs,
		Long: "Measures capture (frames sent against frames logged at 3 cameras x 60 frames/s), ingest, loader, training, policy latency and\n" +
			"the control loop, one after the other. `pinch bench eval` repeats the demo's evaluation with more trials.\n" + program.ExitHelp,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runBench(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.AddFlags(cmd.Flags())
	cmd.AddCommand(benchData(), benchFaults())
	return cmd
}

func runBench(ctx context.Context, o benchOptions, out, errOut io.Writer) error {
	o.Progress, o.Logger = errOut, o.Log.Logger(errOut)
	if o.Recordings == "" {
		o.Record = recordSome
	}
	table, err := bench.Run(ctx, o.Options)
	if err != nil {
		return err
	}
	if o.JSON {
		return json.NewEncoder(out).Encode(table)
	}
	return table.WriteText(out)
}

// recordSome records three demonstrations from the simulated rig into a folder.
func recordSome(ctx context.Context, dir string) error {
	sim, err := program.HelperPath("pinch-sim")
	if err != nil {
		return err
	}
	recorder, err := program.HelperPath("pinch-rig")
	if err != nil {
		return err
	}
	var ready struct {
		Rig string `json:"rig_file"`
	}
	rig, err := child.Start(ctx, child.Options{Path: sim, Ready: &ready,
		Args: []string{"sim", "handheld", "--json", "--episodes", "3", "--rig", filepath.Join(dir, "rig", "rig.yaml")}})
	if err != nil {
		return err
	}
	defer rig.Stop() //nolint:errcheck // it has nothing to save
	c, err := child.Start(ctx, child.Options{Path: recorder, Args: []string{"record", "--rig", ready.Rig, "--out", filepath.Join(dir, "recordings"), "--episodes", "3"}})
	if err != nil {
		return err
	}
	return c.Wait(ctx)
}
