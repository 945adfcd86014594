package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pinch-robotics/pinch/cmd/internal/program"
	"github.com/pinch-robotics/pinch/internal/sim"
	"github.com/pinch-robotics/pinch/internal/sim/rigserve"
)

type handheldOptions struct {
	rigserve.Options
	Split    string
	NoCenter bool
	JSON     bool
	Logs     program.LogFlags
}

// AddFlags adds the flags of `pinch sim handheld`.
func (o *handheldOptions) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.OutRig, "rig", "rig.yaml", "the rig `file` that is written for `pinch record`")
	f.IntVar(&o.Episodes, "episodes", 1, "demonstrations to give")
	f.IntVar(&o.First, "first", 0, "number of the first initial condition")
	f.StringVar(&o.Split, "split", string(sim.Train), "stream of initial conditions: train or eval")
	f.Float64Var(&o.Speed, "speed", 0, "1 is real time, 2 twice as fast, 0 as fast as the recorder takes it")
	f.StringVar(&o.ListenHost, "host", "127.0.0.1", "`address` that cameras and tracker listen on")
	f.Float64Var(&o.Rates.WristHz, "wrist-hz", 30, "frames per second of each wrist camera")
	f.BoolVar(&o.Rates.Mistakes, "mistakes", false, "some demonstrations hold a rejected attempt or end in a cancel")
	f.BoolVar(&o.NoCenter, "no-center", false, "leave the centre camera out")
	f.BoolVar(&o.JSON, "json", false, "announce the addresses as one line of JSON")
	o.Logs.AddFlags(f)
}

func (o *handheldOptions) checkFlags() error {
	o.Options.Split = sim.Split(o.Split)
	if o.Options.Split != sim.Train && o.Options.Split != sim.Eval {
		return program.Usage("--split: %q, want %s or %s", o.Split, sim.Train, sim.Eval)
	}
	if err := program.CheckCount("--episodes", o.Episodes, 1, 1_000_000); err != nil {
		return err
	}
	if err := program.CheckCount("--first", o.First, 0, 1_000_000); err != nil {
		return err
	}
	if err := program.CheckNumber("--speed", o.Speed, 0, 1000); err != nil {
		return err
	}
	if !(o.Rates.WristHz > 0 && o.Rates.WristHz <= 240) {
		return program.Usage("--wrist-hz: %v, want more than 0 and at most 240", o.Rates.WristHz)
	}
	if o.NoCenter {
		o.Rates.CenterHz = -1
	}
	return nil
}

// Handheld makes `pinch sim handheld`.
func Handheld() *cobra.Command {
	var o handheldOptions
	cmd := &cobra.Command{
		Use: "handheld", Short: "serve the simulated cell as a handheld rig with a demonstrator", Args: cobra.NoArgs,
		Long: "Serves two grippers, carried by a scripted and imperfect demonstrator, through the protocols of the hardware: cameras over RTSP,\n" +
			"encoders on serial ports, the tracker over TCP, the pedal as input events. Writes the rig file that `pinch record --rig` reads.\n" +
			program.ExitHelp,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.checkFlags(); err != nil {
				return err
			}
			return runHandheld(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

func runHandheld(ctx context.Context, o handheldOptions, out, errOut io.Writer) error {
	o.Log = o.Logs.Logger(errOut)
	if err := os.MkdirAll(filepath.Dir(o.OutRig), 0o755); err != nil {
		return fmt.Errorf("make the rig file's folder: %w", err)
	}
	o.Episode = func(r rigserve.EpisodeReport) {
		fmt.Fprintf(errOut, "demonstration %d: %s, %d of 4 milestones\n", r.Number, r.Outcome.Condition.Name, r.Outcome.Progress.Done)
	}
	o.Ready = func(r rigserve.Ready) {
		if o.JSON {
			_ = json.NewEncoder(out).Encode(r)
			return
		}
		fmt.Fprintf(out, "rig file %s, cameras at %s; now run: pinch record --rig %s\n", r.RigFile, r.RTSP, r.RigFile)
	}
	result, err := rigserve.Serve(ctx, o.Options)
	if err != nil {
		return err
	}
	fmt.Fprintf(errOut, "%d demonstrations given, %d samples sent", result.Episodes, result.Samples)
	for _, cam := range sim.Cameras {
		if n, ok := result.Frames[cam]; ok {
			fmt.Fprintf(errOut, ", %d frames of camera %s", n, cam)
		}
	}
	fmt.Fprintln(errOut)
	return ctx.Err()
}
