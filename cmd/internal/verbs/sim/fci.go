package sim

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pinch-robotics/pinch/cmd/internal/program"
	"github.com/pinch-robotics/pinch/internal/sim/cellserve"
	"github.com/pinch-robotics/pinch/internal/sim/fciserve"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
)

type fciOptions struct {
	Listen  []string
	Version int
	Clock   string
	Cell    bool
	Files   string
	WristHz float64
	Faults  fciserve.Faults
	Jitter  time.Duration
	Phase   []string
	Stats   bool
	JSON    bool
	Log     program.LogFlags
}

// AddFlags adds the flags of `pinch sim fci`.
func (o *fciOptions) AddFlags(f *pflag.FlagSet) {
	f.StringSliceVar(&o.Listen, "listen", []string{"127.0.0.1:1337"}, "one `address` (host:port) for each arm, at most two; clients of the vendor's know port 1337 only")
	f.IntVar(&o.Version, "version", 10, "interface version, 5 to 10")
	f.StringVar(&o.Clock, "clock", string(armlink.RealTime), "who moves time: realtime, or lockstep (the clients' answers)")
	f.BoolVar(&o.Cell, "cell", false, "the arms are those of the simulated cell, left first; else each is kinematic, on its own")
	f.StringVar(&o.Files, "files", "", "with --cell: write arm files, join.yaml and cell.yaml for this cell into this `folder`")
	f.Float64Var(&o.WristHz, "wrist-hz", 10, "rate of the cell's wrist cameras; must divide 1000")
	f.Float64Var(&o.Faults.Loss, "loss", 0, "`share` of commands that are lost, 0 to 1")
	f.IntVar(&o.Faults.BurstEvery, "burst-every", 0, "a burst of lost commands begins this often, in `ms`; 0: never")
	f.IntVar(&o.Faults.BurstLen, "burst", 0, "commands lost in a row in a burst")
	f.Uint64Var(&o.Faults.Seed, "seed", 1, "of the losses")
	f.DurationVar(&o.Jitter, "jitter", 0, "states are late by up to this, e.g. 300us; real time only")
	f.StringSliceVar(&o.Phase, "phase", nil, "clock `phase` of each arm, e.g. 0us,400us; real time without --cell only")
	f.BoolVar(&o.Stats, "stats", true, "print what each arm counted at the end")
	f.BoolVar(&o.JSON, "json", false, "announce the addresses, and count, as lines of JSON")
	o.Log.AddFlags(f)
}

func (o *fciOptions) checkFlags() error {
	if len(o.Listen) < 1 || len(o.Listen) > 2 {
		return program.Usage("--listen: %d addresses, want one or two", len(o.Listen))
	}
	if o.Cell && len(o.Listen) != 2 {
		return program.Usage("--listen: the cell has two arms, want two addresses")
	}
	if o.Files != "" && !o.Cell {
		return program.Usage("--files: only the simulated cell has cameras, grippers and a scene; add --cell")
	}
	if c := armlink.Clock(o.Clock); c != armlink.LockStep && c != armlink.RealTime {
		return program.Usage("--clock: %q, want %s or %s", o.Clock, armlink.LockStep, armlink.RealTime)
	}
	if err := program.CheckCount("--version", o.Version, 5, 10); err != nil {
		return err
	}
	return program.CheckNumber("--loss", o.Faults.Loss, 0, 1)
}

// FCI makes `pinch sim fci`.
func FCI() *cobra.Command {
	var o fciOptions
	cmd := &cobra.Command{
		Use: "fci", Short: "serve simulated Franka arms that are as strict as the robot", Args: cobra.NoArgs,
		Long: "Serves one or two Franka arms over the Franka Control Interface and enforces what the robot enforces: limits, discontinuities, the start\n" +
			"position, lost commands, reflexes, the user stop. With --cell they are the arms of the simulated cell, whose wrist cameras, grippers and\n" +
			"scene are served too: `pinch arm franka`, `pinch arm join` and `pinch deploy` run on the files that --files writes (docs/franka.md).\n\n" +
			"Lines on standard input cause faults: `stop [ARM]` presses the user stop, `release [ARM]` lets it go, `drop N [ARM]` loses the next N commands,\n" +
			"`place Q1 ... Q7 [ARM]` puts the arm somewhere, `stats` prints the counts. ARM is 0 or 1, default 0.\n" + program.ExitHelp,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.checkFlags(); err != nil {
				return err
			}
			return runFCI(cmd.Context(), o, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

func runFCI(ctx context.Context, o fciOptions, in io.Reader, out, errOut io.Writer) error {
	opts := fciserve.Options{LockStep: o.Clock == string(armlink.LockStep), Jitter: o.Jitter, Priority: 70, Logger: o.Log.Logger(errOut)}
	world, err := o.world(opts.Logger)
	if err != nil {
		return err
	}
	if world != nil {
		defer world.Close()
	}
	robots, err := o.robots(world, &opts)
	if err != nil {
		return err
	}
	orders := make([]chan order, len(robots))
	for i := range orders {
		orders[i] = make(chan order)
	}
	go readOrders(ctx, in, errOut, orders)
	opts.Control = func(i int, r *fciserve.Robot) {
		select {
		case ord := <-orders[i]:
			ord.do(r, out)
		default:
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	opts.Ready = func(addrs []string) {
		if err := o.announce(world, addrs, out); err != nil {
			cancel(err)
		}
	}
	if err := fciserve.Serve(ctx, opts); err != nil {
		return err
	}
	if o.Stats {
		for _, r := range robots {
			printStats(out, r, o.JSON)
		}
	}
	return context.Cause(ctx)
}

// world opens the simulated cell, nil without --cell.
func (o *fciOptions) world(log *slog.Logger) (*cellserve.World, error) {
	if !o.Cell {
		return nil, nil
	}
	return cellserve.OpenWorld(cellserve.WorldOptions{Clock: armlink.Clock(o.Clock), WristHz: o.WristHz, Logger: log})
}

// announce says where everything is, and writes the files that were asked for.
func (o *fciOptions) announce(world *cellserve.World, addrs []string, out io.Writer) error {
	if o.Files != "" {
		if err := world.WriteFiles(o.Files, [2]string(addrs)); err != nil {
			return err
		}
	}
	if o.JSON {
		ready := map[string]any{"ready": true, "fci": addrs}
		if world != nil {
			ready["world"] = world.Ready()
		}
		return json.NewEncoder(out).Encode(ready)
	}
	fmt.Fprintf(out, "arms at %s, interface version %d\n", strings.Join(addrs, " and "), o.Version)
	if o.Files != "" {
		fmt.Fprintf(out, "now run, each in a terminal of its own:\n%s", world.Commands(o.Files))
	}
	return nil
}

// robots makes the arms, those of the world where there is one.
func (o *fciOptions) robots(world *cellserve.World, opts *fciserve.Options) (robots []*fciserve.Robot, err error) {
	var plants [2]fciserve.Plant
	var starts [2][7]float64
	if world != nil {
		if plants, starts, opts.Shared, err = world.Arms(); err != nil {
			return nil, err
		}
	}
	for i, addr := range o.Listen {
		ro := fciserve.RobotOptions{Version: o.Version, Faults: o.Faults}
		ro.Faults.Seed += uint64(i)
		if world != nil {
			ro.Plant, ro.Start, ro.FirstID = plants[i], starts[i], cellserve.FirstID
		}
		r, err := fciserve.NewRobot(ro)
		if err != nil {
			return nil, err
		}
		a := fciserve.ArmOptions{Robot: r, Listen: addr}
		if i < len(o.Phase) {
			if a.Phase, err = time.ParseDuration(o.Phase[i]); err != nil {
				return nil, program.Usage("--phase: %v", err)
			}
		}
		robots = append(robots, r)
		opts.Arms = append(opts.Arms, a)
	}
	return robots, nil
}

func printStats(out io.Writer, r *fciserve.Robot, asJSON bool) {
	if asJSON {
		_ = json.NewEncoder(out).Encode(map[string]any{"stats": r.Stats})
		return
	}
	s := r.Stats
	fmt.Fprintf(out, "%d ms: %d commands accepted, %d lost (at most %d in a row), %d late, %d motions, %d broken off, %d violations", s.Ticks, s.Accepted, s.Lost,
		s.LongestLoss, s.Late, s.Motions, s.Stops, s.Violations)
	if s.LastViolation != "" {
		fmt.Fprintf(out, "; last: %s", s.LastViolation)
	}
	fmt.Fprintln(out)
}

// order is one line of standard input.
type order struct {
	arm int
	do  func(r *fciserve.Robot, out io.Writer)
}

// readOrders hands each line to its arm.
func readOrders(ctx context.Context, in io.Reader, errOut io.Writer, orders []chan order) {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		if strings.TrimSpace(lines.Text()) == "" {
			continue
		}
		ord, err := parseOrder(strings.Fields(lines.Text()), len(orders))
		if err != nil {
			fmt.Fprintln(errOut, err)
			continue
		}
		select {
		case orders[ord.arm] <- ord:
		case <-ctx.Done():
			return
		}
	}
}

func parseOrder(words []string, arms int) (ord order, err error) {
	numbers := make([]float64, 0, 8)
	for _, w := range words[1:] {
		v, err := strconv.ParseFloat(w, 64)
		if err != nil {
			return ord, fmt.Errorf("%s: %q is no number", words[0], w)
		}
		numbers = append(numbers, v)
	}
	want := map[string]int{"stop": 0, "release": 0, "drop": 1, "place": 7, "stats": 0}
	n, known := want[words[0]]
	if !known || len(numbers) < n || len(numbers) > n+1 {
		return ord, fmt.Errorf("%q: want stop [ARM], release [ARM], drop N [ARM], place Q1 ... Q7 [ARM] or stats [ARM]", strings.Join(words, " "))
	}
	if len(numbers) == n+1 {
		ord.arm = int(numbers[n])
	}
	if ord.arm < 0 || ord.arm >= arms {
		return ord, fmt.Errorf("%s: there is no arm %d", words[0], ord.arm)
	}
	switch words[0] {
	case "stop", "release":
		ord.do = func(r *fciserve.Robot, _ io.Writer) { r.UserStop(words[0] == "stop") }
	case "drop":
		ord.do = func(r *fciserve.Robot, _ io.Writer) { r.DropNext(int(numbers[0])) }
	case "place":
		ord.do = func(r *fciserve.Robot, _ io.Writer) { r.Place([7]float64(numbers[:7])) }
	case "stats":
		ord.do = func(r *fciserve.Robot, out io.Writer) { printStats(out, r, true) }
	}
	return ord, nil
}
