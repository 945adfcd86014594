package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pinch-robotics/pinch/cmd/internal/program"
	"github.com/pinch-robotics/pinch/internal/sim/cellserve"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
)

type robotOptions struct {
	cellserve.Options
	Clock string
	JSON  bool
	Log   program.LogFlags
}

// AddFlags adds the flags of `pinch sim robot`.
func (o *robotOptions) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Listen, "listen", "tcp:127.0.0.1:7480", "where arms are served: tcp:HOST:PORT or unix:PATH; port 0 takes a free one")
	f.StringVar(&o.RTSP, "rtsp", "127.0.0.1:0", "`address` of the cameras' server; port 0 takes a free one")
	f.StringVar(&o.Clock, "clock", string(armlink.LockStep), "who moves time: lockstep (the client, at any speed) or realtime")
	f.Float64Var(&o.WristHz, "wrist-hz", 10, "frames per second of each wrist camera, in `Hz`")
	f.Float64Var(&o.SceneHz, "scene-hz", 0, "frames per second of the scene camera, in `Hz`; 0 switches it off")
	f.IntVar(&o.Clients, "clients", 0, "end after this many clients have left; 0: serve until interrupted")
	f.BoolVar(&o.JSON, "json", false, "announce the addresses as one line of JSON")
	o.Log.AddFlags(f)
}

func (o *robotOptions) checkFlags() error {
	o.Options.Clock = armlink.Clock(o.Clock)
	if o.Options.Clock != armlink.LockStep && o.Options.Clock != armlink.RealTime {
		return program.Usage("--clock: %q, want %s or %s", o.Clock, armlink.LockStep, armlink.RealTime)
	}
	for flag, hz := range map[string]float64{"--wrist-hz": o.WristHz, "--scene-hz": o.SceneHz} {
		if err := program.CheckNumber(flag, hz, 0, 1000); err != nil {
			return err
		}
	}
	return program.CheckCount("--clients", o.Clients, 0, 1_000_000)
}

// Robot makes `pinch sim robot`.
func Robot() *cobra.Command {
	var o robotOptions
	cmd := &cobra.Command{
		Use: "robot", Short: "serve the simulated cell as two arms with wrist cameras", Args: cobra.NoArgs,
		Long: "Serves two simulated FR3 arms with grippers over armlink and their wrist cameras over RTSP, for `pinch deploy` and `pinch eval`.\n" +
			program.ExitHelp,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.checkFlags(); err != nil {
				return err
			}
			return runRobot(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

func runRobot(ctx context.Context, o robotOptions, out, errOut io.Writer) error {
	o.Logger = o.Log.Logger(errOut)
	o.Ready = func(r cellserve.Ready) {
		if o.JSON {
			_ = json.NewEncoder(out).Encode(r)
			return
		}
		fmt.Fprintf(out, "arms at %s, cameras at %s\n", r.ArmLink, r.RTSP)
	}
	if err := cellserve.Serve(ctx, o.Options); err != nil {
		return err
	}
	return ctx.Err()
}
