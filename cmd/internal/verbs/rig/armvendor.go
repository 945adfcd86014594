package rig

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pinch-robotics/pinch/cmd/internal/program"
	"github.com/pinch-robotics/pinch/deploy/arm"
	"github.com/pinch-robotics/pinch/deploy/arm/armfile"
	"github.com/pinch-robotics/pinch/deploy/arm/join"
)

type armVendorOptions struct {
	Name   string
	Host   string
	Model  string
	Listen string
	JSON   bool
	Log    program.LogFlags
}

// AddFlags adds the flags of `pinch arm ur` and `pinch arm xarm`.
func (o *armVendorOptions) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Name, "name", "", "left or right")
	f.StringVar(&o.Host, "host", "", "`address` of the arm's controller")
	f.StringVar(&o.Model, "model", "", "the arm's model (ur5e, xarm7 and so on)")
	f.StringVar(&o.Listen, "listen", "", "where the executor finds this process: tcp:HOST:PORT or unix:PATH")
	f.BoolVar(&o.JSON, "json", false, "announce the address as one line of JSON")
	o.Log.AddFlags(f)
}

// config joins file and flags; flags win.
func (o *armVendorOptions) config(kind string, args []string) (armfile.Config, error) {
	c := armfile.Default()
	if len(args) == 1 {
		var err error
		if c, err = armfile.Load(args[0]); err != nil {
			return c, program.UsageError{Err: err}
		}
	}
	host, model := &c.UR.Host, &c.UR.Model
	if kind == "xarm" {
		host, model = &c.XArm.Host, &c.XArm.Model
	}
	for _, s := range []struct {
		flag string
		key  *string
	}{{o.Name, &c.Name}, {o.Host, host}, {o.Model, model}, {o.Listen, &c.Listen}} {
		if s.flag != "" {
			*s.key = s.flag
		}
	}
	return c, nil
}

// ArmUR makes `pinch arm ur`.
func ArmUR() *cobra.Command {
	return armVendor("ur", "own one arm of Universal Robots (e-series, CB3)",
		"Streams to a program of ours on the controller (RTDE and URScript), which stops the arm by itself when this process falls silent.\n"+
			"The robot has to be in remote control, its speed slider at 100 %.")
}

// ArmXArm makes `pinch arm xarm`.
func ArmXArm() *cobra.Command {
	return armVendor("xarm", "own one UFACTORY xArm", "Streams joint targets in servo mode, 250 a second, with limits of our own.")
}

func armVendor(kind, short, long string) *cobra.Command {
	var o armVendorOptions
	cmd := &cobra.Command{
		Use: kind + " [ARM.yaml]", Short: short, Args: cobra.MaximumNArgs(1),
		Long: long + "\nNothing moves before the executor sends segments. One process for each arm; see docs/arms.md for the file.\n" + program.ExitHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := o.config(kind, args)
			if err != nil {
				return err
			}
			return runArmVendor(cmd.Context(), kind, c, o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

func runArmVendor(ctx context.Context, kind string, c armfile.Config, o armVendorOptions, out, errOut io.Writer) error {
	opts, err := c.Options()
	if err != nil {
		return program.UsageError{Err: err}
	}
	log := o.Log.Logger(errOut)
	driver, err := c.Driver(kind, log)
	if err != nil {
		return program.UsageError{Err: err}
	}
	hand, err := c.Hand.Open()
	if err != nil {
		return program.UsageError{Err: err}
	}
	opts.Logger, opts.Ready = log, announceArm(opts.Name+" arm", o.JSON, out)
	if err := arm.Serve(ctx, driver, hand, opts); err != nil {
		return err
	}
	return ctx.Err()
}

func announceArm(what string, asJSON bool, out io.Writer) func(string) {
	return func(addr string) {
		if asJSON {
			_ = json.NewEncoder(out).Encode(map[string]any{"ready": true, "armlink": addr})
			return
		}
		fmt.Fprintf(out, "%s at %s\n", what, addr)
	}
}

type armJoinOptions struct {
	Left, Right, Listen string
	JSON                bool
	Log                 program.LogFlags
}

// AddFlags adds the flags of `pinch arm join`.
func (o *armJoinOptions) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Left, "left", "", "`address` of the left arm's process: tcp:HOST:PORT or unix:PATH")
	f.StringVar(&o.Right, "right", "", "`address` of the right arm's process")
	f.StringVar(&o.Listen, "listen", "", "where the executor finds both: tcp:HOST:PORT or unix:PATH")
	f.BoolVar(&o.JSON, "json", false, "announce the address as one line of JSON")
	o.Log.AddFlags(f)
}

// ArmJoin makes `pinch arm join`.
func ArmJoin() *cobra.Command {
	var o armJoinOptions
	cmd := &cobra.Command{
		Use: "join [JOIN.yaml]", Short: "make one cell of two arm processes and their cameras", Args: cobra.MaximumNArgs(1),
		Long: "Speaks to the executor as one cell, and to each arm process as its executor. What stops one arm stops the other.\n" + program.ExitHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			c := join.Default()
			if len(args) == 1 {
				var err error
				if c, err = join.Load(args[0]); err != nil {
					return program.UsageError{Err: err}
				}
			}
			for _, s := range []struct {
				flag string
				key  *string
			}{{o.Left, &c.Left}, {o.Right, &c.Right}, {o.Listen, &c.Listen}} {
				if s.flag != "" {
					*s.key = s.flag
				}
			}
			if err := c.Validate(); err != nil {
				return program.UsageError{Err: err}
			}
			err := join.Serve(cmd.Context(), join.Options{Config: c, Logger: o.Log.Logger(cmd.ErrOrStderr()),
				Ready: announceArm("both arms", o.JSON, cmd.OutOrStdout())})
			if err != nil {
				return err
			}
			return cmd.Context().Err()
		},
	}
	o.AddFlags(cmd.Flags())
	return cmd
}
