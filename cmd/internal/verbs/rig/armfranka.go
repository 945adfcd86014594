package rig

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pinch-robotics/pinch/cmd/internal/program"
	"github.com/pinch-robotics/pinch/deploy/arm/franka"
)

type armFrankaOptions struct {
	File     string
	Name     string
	Address  string
	Listen   string
	Realtime string
	LockStep bool
	JSON     bool
	Log      program.LogFlags
}

// AddFlags adds the flags of `pinch arm franka`.
func (o *armFrankaOptions) AddFlags(f *pflag.FlagSet) {
	f.StringVarP(&o.File, "file", "f", "", "the arm's `file` (arm.yaml); flags win over it")
	f.StringVar(&o.Name, "name", "", "left or right")
	f.StringVar(&o.Address, "address", "", "the arm's control: `host` or host:port")
	f.StringVar(&o.Listen, "listen", "", "where the executor finds this process: tcp:HOST:PORT or unix:PATH")
	f.StringVar(&o.Realtime, "realtime", "", "require: a real-time machine or no start; try: warn; off (default require)")
	f.BoolVar(&o.LockStep, "lockstep", false, "time passes as the executor grants it; for simulated arms in lock-step")
	f.BoolVar(&o.JSON, "json", false, "announce the address as one line of JSON")
	o.Log.AddFlags(f)
}

// options joins file and flags.
func (o *armFrankaOptions) options() (franka.Options, error) {
	c := franka.DefaultConfig()
	if o.File != "" {
		var err error
		if c, err = franka.LoadConfig(o.File); err != nil {
			return franka.Options{}, err
		}
	}
	for _, s := range []struct {
		flag string
		key  *string
	}{{o.Name, &c.Name}, {o.Address, &c.Address}, {o.Listen, &c.Listen}} {
		if s.flag != "" {
			*s.key = s.flag
		}
	}
	if o.Realtime != "" {
		c.Realtime = franka.Realtime(o.Realtime)
	}
	switch {
	case c.Name != "left" && c.Name != "right":
		return franka.Options{}, program.Usage("--name: %q, want left or right (or name: in the arm's file)", c.Name)
	case c.Address == "":
		return franka.Options{}, program.Usage("--address: the arm's address is missing (or address: in the arm's file)")
	case c.Realtime != franka.RealtimeRequire && c.Realtime != franka.RealtimeTry && c.Realtime != franka.RealtimeOff:
		return franka.Options{}, program.Usage("--realtime: %q, want require, try or off", c.Realtime)
	}
	opts, err := c.Options()
	opts.LockStep = o.LockStep
	return opts, err
}

// ArmFranka makes `pinch arm franka`.
func ArmFranka() *cobra.Command {
	var o armFrankaOptions
	cmd := &cobra.Command{
		Use: "franka", Short: "own one Franka arm: answer it every millisecond, take segments from `pinch deploy`", Args: cobra.NoArgs,
		Long: "Connects to a Franka arm (interface versions 5 to 10) and serves it to the executor over armlink. Nothing moves before the executor\n" +
			"sends segments. One process for each arm, on a machine with a real-time kernel and a direct cable to the arm. This client is not the\n" +
			"arm vendor's. See docs/franka.md.\n" + program.ExitHelp,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts, err := o.options()
			if err != nil {
				return err
			}
			return runArmFranka(cmd.Context(), o, opts, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

func runArmFranka(ctx context.Context, o armFrankaOptions, opts franka.Options, out, errOut io.Writer) error {
	opts.Logger = o.Log.Logger(errOut)
	opts.Ready = func(addr string) {
		if o.JSON {
			_ = json.NewEncoder(out).Encode(map[string]any{"ready": true, "armlink": addr})
			return
		}
		fmt.Fprintf(out, "%s arm at %s\n", opts.Name, addr)
	}
	opts.Timing = func(t franka.Timing) {
		if o.JSON {
			_ = json.NewEncoder(out).Encode(map[string]any{"timing": t})
			return
		}
		fmt.Fprintf(out, "answers after: %s\nstates apart: %s\ncommands lost: %d, at most %d in a row\n", t.Answer, t.Gap, t.Link.Lost, t.LongestLate)
	}
	if err := franka.Serve(ctx, opts); err != nil {
		return err
	}
	return ctx.Err()
}
