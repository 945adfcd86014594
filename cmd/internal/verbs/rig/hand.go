package rig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pinch-robotics/pinch/cmd/internal/program"
	"github.com/pinch-robotics/pinch/deploy/arm"
	"github.com/pinch-robotics/pinch/deploy/arm/armfile"
	"github.com/pinch-robotics/pinch/deploy/hand/dynamixel"
	"github.com/pinch-robotics/pinch/deploy/hand/robotiq"
)

// handOptions name a gripper, by an arm's file or by flags.
type handOptions struct {
	File    string
	Port    string
	Baud    int
	ID      int
	Robotiq string
	JSON    bool
}

// AddFlags adds the flags that name a gripper.
func (o *handOptions) AddFlags(f *pflag.FlagSet) {
	f.StringVarP(&o.File, "file", "f", "", "the arm's `file` (arm.yaml) whose hand: is meant")
	f.StringVar(&o.Port, "dynamixel", "", "serial `port` of a Dynamixel servo, instead of a file")
	f.IntVar(&o.Baud, "baud", 57600, "of that port")
	f.IntVar(&o.ID, "id", 1, "of that servo")
	f.StringVar(&o.Robotiq, "robotiq", "", "`address` of a Robotiq gripper, instead of a file: rtu:/dev/..., tcp:HOST:PORT or rtutcp:HOST:PORT")
	f.BoolVar(&o.JSON, "json", false, "print states as lines of JSON")
}

func (o *handOptions) hand() (armfile.Hand, error) {
	switch {
	case o.File != "":
		c, err := armfile.Load(o.File)
		if err != nil {
			return armfile.Hand{}, program.UsageError{Err: err}
		}
		if c.Hand.Dynamixel == nil && c.Hand.Robotiq == nil {
			return c.Hand, program.Usage("--file: %s names no hand", o.File)
		}
		return c.Hand, nil
	case o.Port != "":
		return armfile.Hand{Dynamixel: &dynamixel.Options{Port: o.Port, Baud: o.Baud, ID: o.ID}}, nil
	case o.Robotiq != "":
		return armfile.Hand{Robotiq: &robotiq.Options{Address: o.Robotiq}}, nil
	}
	return armfile.Hand{}, program.Usage("name a gripper: --file, --dynamixel or --robotiq")
}

// Hand makes `pinch hand` with its verbs.
func Hand() *cobra.Command {
	return program.Group("hand", "look at, move or reset a gripper", handShow(), handMove(), handReset())
}

func handShow() *cobra.Command {
	var o handOptions
	cmd := &cobra.Command{
		Use: "show", Short: "start a gripper and show its state; a servo does not move", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withHand(cmd.Context(), o, func(_ arm.Hand, st arm.HandState) error { return showHand(o.JSON, cmd.OutOrStdout(), st) })
		},
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

func handMove() *cobra.Command {
	var o handOptions
	var rad, seconds float64
	cmd := &cobra.Command{
		Use: "move --rad ANGLE", Short: "move the fingers to an angle at a calm speed", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := program.CheckNumber("--rad", rad, -1, 3); err != nil {
				return err
			}
			if err := program.CheckNumber("--seconds", seconds, 0.2, 60); err != nil {
				return err
			}
			return withHand(cmd.Context(), o, func(h arm.Hand, st arm.HandState) error {
				return moveHand(cmd.Context(), h, st, rad, seconds, o.JSON, cmd.OutOrStdout())
			})
		},
	}
	o.AddFlags(cmd.Flags())
	cmd.Flags().Float64Var(&rad, "rad", 0, "the finger angle, in `rad`")
	cmd.Flags().Float64Var(&seconds, "seconds", 1, "how long the motion takes")
	return cmd
}

func handReset() *cobra.Command {
	var o handOptions
	cmd := &cobra.Command{
		Use: "reset", Short: "restart a Dynamixel servo that has shut down; it lets go of what it holds", Args: cobra.NoArgs,
		RunE: func(_ *cobra.Command, _ []string) error {
			h, err := o.hand()
			if err != nil {
				return err
			}
			if h.Dynamixel == nil {
				return program.Usage("only a Dynamixel servo is reset this way; a Robotiq gripper activates again at its next start")
			}
			return dynamixel.Reset(*h.Dynamixel)
		},
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

// withHand starts a gripper, hands it to f and closes it.
func withHand(ctx context.Context, o handOptions, f func(arm.Hand, arm.HandState) error) (err error) {
	c, err := o.hand()
	if err != nil {
		return err
	}
	h, err := c.Open()
	if err != nil {
		return program.UsageError{Err: err}
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	st, err := h.Start(ctx)
	if err != nil {
		return err
	}
	return f(h, st)
}

func moveHand(ctx context.Context, h arm.Hand, st arm.HandState, rad, seconds float64, asJSON bool, out io.Writer) error {
	tick := time.NewTicker(h.Period())
	defer tick.Stop()
	from, begin := st.Rad, time.Now()
	for {
		s := math.Min(1, time.Since(begin).Seconds()/seconds)
		var err error
		if st, err = h.Exchange(ctx, from+(rad-from)*s*s*(3-2*s)); err != nil {
			return err
		}
		if s == 1 && time.Since(begin).Seconds() > seconds+0.3 {
			return showHand(asJSON, out, st)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

func showHand(asJSON bool, out io.Writer, st arm.HandState) error {
	if asJSON {
		return json.NewEncoder(out).Encode(map[string]any{"rad": st.Rad, "current_a": st.CurrentA, "temperature_c": st.TemperatureC, "holding": st.Holding})
	}
	_, err := fmt.Fprintf(out, "fingers at %.3f rad, %.2f A, %.0f °C, holding: %v\n", st.Rad, st.CurrentA, st.TemperatureC, st.Holding)
	return err
}
