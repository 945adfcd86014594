package rig

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pinch-robotics/pinch/cmd/internal/program"
	"github.com/pinch-robotics/pinch/deploy"
	"github.com/pinch-robotics/pinch/deploy/calibrate"
)

type calibrateOptions struct {
	Write string
	Hand  string
	Cell  cellFlags
	Log   program.LogFlags
}

// AddFlags adds the flags of `pinch calibrate`.
func (o *calibrateOptions) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Write, "write", "", "write what was measured into this cell `file`; without it, only show")
	o.Cell.AddFlags(f)
	o.Log.AddFlags(f)
}

// bench is a measurement under way: the cell, the person, and where results go.
type bench struct {
	robot    *session
	in       *bufio.Scanner
	out      io.Writer
	settings []calibrate.Setting
}

// ask tells the person to do something and waits for Enter.
func (b *bench) ask(what string) error {
	fmt.Fprintf(b.out, "%s; then press Enter: ", what)
	if !b.in.Scan() {
		return errors.New("the input has ended before the measurement was done")
	}
	return nil
}

// confirm asks a question until it is answered with yes or no.
func (b *bench) confirm(question string) (bool, error) {
	for {
		fmt.Fprintf(b.out, "%s [y/n] ", question)
		if !b.in.Scan() {
			return false, errors.New("the input has ended without an answer")
		}
		switch strings.ToLower(strings.TrimSpace(b.in.Text())) {
		case "y", "yes":
			return true, nil
		case "n", "no":
			return false, nil
		}
	}
}

func (b *bench) set(key, format string, v ...any) {
	b.settings = append(b.settings, calibrate.Setting{Key: key, Value: fmt.Sprintf(format, v...)})
}

// Calibrate makes `pinch calibrate` with its verbs.
func Calibrate() *cobra.Command {
	return program.Group("calibrate", "measure what the cell file has to say", calibrateVerb("latency", "measure how late arms and wrist cameras are",
		"Both hands swing 15 mm up and down for ten seconds. Commanded against measured hands gives the arms' lag; measured hands against how much the\n"+
			"wrist pictures change gives how late the cameras' stamps are. The cameras have to see something that does not move.", nil, measureLatency),
		calibrateVerb("gripper", "measure how late the fingers are and whether they go where they are told",
			"The fingers of both hands swing and stand for eighteen seconds, with nothing between them.", nil, measureGripper),
		calibrateVerb("tcp", "measure where the finger tips of a hand are",
			"You guide the arm by hand, fingers closed, tips in one fixed dimple, to six postures that are turned against each other.", handFlag, measureTCP),
		calibrateVerb("base", "measure where the right arm stands against the left one",
			"You guide both arms by hand: the tips of one, then of the other, touch five points that span the work space.", nil, measureBase),
		calibrateVerb("frames", "move each hand along +x, +y and +z and ask whether that was right",
			"Each hand moves 3 cm along an axis of its own frame and back, and you say whether it went where it should. Do it before the first policy\n"+
				"drives an arm: a wrong flange_from_hand sends it somewhere else.", nil, checkFrames))
}

func handFlag(f *pflag.FlagSet, o *calibrateOptions) {
	f.StringVar(&o.Hand, "hand", "", "left or right")
}

func calibrateVerb(name, short, long string, flags func(*pflag.FlagSet, *calibrateOptions), measure func(context.Context, *bench, *calibrateOptions) error) *cobra.Command {
	var o calibrateOptions
	cmd := &cobra.Command{
		Use: name, Short: short, Args: cobra.NoArgs, Long: long + "\n" + program.ExitHelp,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if flags != nil && o.Hand != deploy.Hands[0] && o.Hand != deploy.Hands[1] {
				return program.Usage("--hand: %q, want left or right", o.Hand)
			}
			return runCalibrate(cmd, &o, measure)
		},
	}
	o.AddFlags(cmd.Flags())
	if flags != nil {
		flags(cmd.Flags(), &o)
	}
	return cmd
}

// clear takes out of the cell what is going to be measured, so that the value is whole and not a correction of the last one.
func (o *calibrateOptions) clear(name string, c *deploy.Cell) {
	switch {
	case name == "latency":
		c.Control.LeftCameraOffsetMS, c.Control.RightCameraOffsetMS = 0, 0
	case name == "base":
		c.Calibration.RightBaseMRad = nil
	case name == "tcp" && o.Hand == deploy.Hands[0]:
		c.Calibration.LeftTipM = nil
	case name == "tcp":
		c.Calibration.RightTipM = nil
	}
}

func runCalibrate(cmd *cobra.Command, o *calibrateOptions, measure func(context.Context, *bench, *calibrateOptions) error) error {
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	cell, err := o.Cell.load()
	if err != nil {
		return err
	}
	o.clear(cmd.Name(), &cell)
	s, err := connect(ctx, cell, o.Cell.Sim, o.Log.Logger(cmd.ErrOrStderr()), cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer s.Close()
	b := &bench{robot: s, in: bufio.NewScanner(cmd.InOrStdin()), out: out}
	if err := measure(ctx, b, o); err != nil {
		return err
	}
	if o.Write == "" || len(b.settings) == 0 {
		return nil
	}
	if err := calibrate.Save(o.Write, b.settings); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "written into %s\n", o.Write)
	return err
}

func measureLatency(ctx context.Context, b *bench, _ *calibrateOptions) error {
	l, err := calibrate.Latencies(ctx, b.robot)
	if err != nil {
		return err
	}
	worst := 0.0
	for h, name := range deploy.Hands {
		fmt.Fprintf(b.out, "%s arm: %.1f ms after its command, ± %.1f\n", name, l.Action[h].Value, l.Action[h].Error)
		worst = max(worst, l.Action[h].Value)
	}
	b.set("control.action_latency_ms", "%.1f", worst)
	for h, name := range deploy.Hands {
		if l.Blind[h] != nil {
			fmt.Fprintf(b.out, "%s wrist camera: not measured, %v\n", name, l.Blind[h])
			continue
		}
		fmt.Fprintf(b.out, "%s wrist camera: stamps %.1f ms late, ± %.1f\n", name, l.Camera[h].Value, l.Camera[h].Error)
		b.set("control."+name+"_camera_offset_ms", "%.1f", l.Camera[h].Value)
	}
	return nil
}

func measureGripper(ctx context.Context, b *bench, _ *calibrateOptions) error {
	g, err := calibrate.Grippers(ctx, b.robot)
	if err != nil {
		return err
	}
	worst := 0.0
	for h, name := range deploy.Hands {
		fmt.Fprintf(b.out, "%s gripper: %.1f ms after its command, ± %.1f; standing it is %.4f rad off, %.4f at most\n", name, g[h].Latency.Value, g[h].Latency.Error,
			g[h].Offset, g[h].Worst)
		worst = max(worst, g[h].Latency.Value)
		if g[h].Worst > 0.03 {
			fmt.Fprintf(b.out, "the %s fingers do not go where they are told: correct the points of the hand in that arm's file\n", name)
		}
	}
	b.set("control.gripper_latency_ms", "%.1f", worst)
	return nil
}

func measureTCP(ctx context.Context, b *bench, o *calibrateOptions) error {
	hand := 0
	if o.Hand == deploy.Hands[1] {
		hand = 1
	}
	p, err := calibrate.TCP(ctx, b.robot, hand, b.ask)
	if err != nil {
		return err
	}
	fmt.Fprintf(b.out, "%s tips: (%.2f, %.2f, %.2f) mm from where flange_from_hand puts them, ± %.2f; the postures agree within %.2f mm\n", o.Hand, 1e3*p.Value.X, 1e3*p.Value.Y,
		1e3*p.Value.Z, 1e3*p.Error, 1e3*p.Rest)
	const most = 2e-3 // m: what the tips may stray while the hand turns
	if p.Rest > most {
		return fmt.Errorf("the postures disagree by more than %.0f mm: the tips left the dimple, or the arm's model is wrong; nothing is written", 1e3*most)
	}
	b.set("calibration."+o.Hand+"_tip_m", "[%.5f, %.5f, %.5f]", p.Value.X, p.Value.Y, p.Value.Z)
	return nil
}

func measureBase(ctx context.Context, b *bench, _ *calibrateOptions) error {
	r, err := calibrate.Bases(ctx, b.robot, b.ask)
	if err != nil {
		return err
	}
	v, t := r.Correction.Rot.Log(), r.Correction.Pos
	fmt.Fprintf(b.out, "right base: moved by (%.1f, %.1f, %.1f) mm, turned by (%.4f, %.4f, %.4f) rad; the points agree within %.2f mm\n", 1e3*t.X, 1e3*t.Y, 1e3*t.Z, v.X, v.Y, v.Z, 1e3*r.Rest)
	const most = 5e-3
	if r.Rest > most {
		return fmt.Errorf("the points disagree by more than %.0f mm: measure the tips first (pinch calibrate tcp); nothing is written", 1e3*most)
	}
	b.set("calibration.right_base_m_rad", "[%.5f, %.5f, %.5f, %.6f, %.6f, %.6f]", t.X, t.Y, t.Z, v.X, v.Y, v.Z)
	return nil
}

func checkFrames(ctx context.Context, b *bench, _ *calibrateOptions) error {
	if err := calibrate.Frames(ctx, b.robot, b.confirm); err != nil {
		return err
	}
	_, err := fmt.Fprintln(b.out, "both hands move along their axes")
	return err
}
