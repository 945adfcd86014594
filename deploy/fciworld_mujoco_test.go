//go:build mujoco && cgo && linux

package deploy

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/pinch-robotics/pinch/deploy/arm/franka"
	"github.com/pinch-robotics/pinch/deploy/arm/join"
	"github.com/pinch-robotics/pinch/internal/rawlog"
	"github.com/pinch-robotics/pinch/internal/sim"
	"github.com/pinch-robotics/pinch/internal/sim/cellserve"
	"github.com/pinch-robotics/pinch/internal/sim/fciserve"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
)

// laboratory is the simulated cell as a laboratory has it, with every process between it and the executor, on the files that `pinch sim fci --files` writes.
type laboratory struct {
	robots  [2]*fciserve.Robot
	session *Session
}

func newLaboratory(t *testing.T) *laboratory {
	t.Helper()
	dir := t.TempDir()
	world, err := cellserve.OpenWorld(cellserve.WorldOptions{Clock: armlink.LockStep, Cell: sim.Config{Wrist: sim.Size{Width: 160, Height: 120}, RenderThreads: 1}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ends := make(chan error, 4)
	lab, running := &laboratory{}, 0
	run := func(f func() error) {
		running++
		go func() { ends <- f() }()
	}
	t.Cleanup(func() {
		if lab.session != nil {
			if err := lab.session.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		}
		cancel()
		for range running {
			if err := <-ends; err != nil {
				t.Error(err)
			}
		}
		if err := world.Close(); err != nil {
			t.Error(err)
		}
	})
	ready := func(ch chan string) string {
		t.Helper()
		select {
		case a := <-ch:
			return a
		case err := <-ends:
			running--
			t.Fatal(err)
		}
		return ""
	}
	addrs := make(chan string, 2)
	run(func() error { return serveFCI(ctx, world, dir, &lab.robots, addrs) })
	ready(addrs)
	joined, err := join.Load(filepath.Join(dir, cellserve.JoinFile))
	if err != nil {
		t.Fatal(err)
	}
	var at [2]chan string
	for _, s := range sim.Sides {
		c, err := franka.LoadConfig(filepath.Join(dir, cellserve.ArmFile(s)))
		if err != nil {
			t.Fatal(err)
		}
		o, err := c.Options()
		if err != nil {
			t.Fatal(err)
		}
		at[s] = make(chan string, 1)
		o.LockStep, o.Listen, o.Ready = true, "tcp:127.0.0.1:0", func(a string) { at[s] <- a }
		o.Logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
		run(func() error { return franka.Serve(ctx, o) })
	}
	joined.Left, joined.Right, joined.Listen = ready(at[0]), ready(at[1]), "tcp:127.0.0.1:0" // time passes only when both are there
	cells := make(chan string, 1)
	run(func() error {
		return join.Serve(ctx, join.Options{Config: joined, Ready: func(a string) { cells <- a }})
	})
	cell, err := LoadCell(filepath.Join(dir, cellserve.CellFile))
	if err != nil {
		t.Fatal(err)
	}
	cell.ArmLink = ready(cells)
	if lab.session, err = Connect(ctx, cell, ConnectOptions{}); err != nil {
		t.Fatal(err)
	}
	return lab
}

// serveFCI serves the world's arms and writes its files.
func serveFCI(ctx context.Context, world *cellserve.World, dir string, robots *[2]*fciserve.Robot, ready chan string) error {
	plants, starts, advance, err := world.Arms()
	if err != nil {
		return err
	}
	opts := fciserve.Options{LockStep: true, Shared: advance}
	for i := range robots {
		if robots[i], err = fciserve.NewRobot(fciserve.RobotOptions{Plant: plants[i], Start: starts[i], FirstID: cellserve.FirstID}); err != nil {
			return err
		}
		opts.Arms = append(opts.Arms, fciserve.ArmOptions{Robot: robots[i], Listen: "127.0.0.1:0"})
	}
	failed := make(chan error, 1)
	opts.Ready = func(a []string) {
		if err := world.WriteFiles(dir, [2]string(a)); err != nil {
			failed <- err
			return
		}
		ready <- dir
	}
	ended := make(chan error, 1)
	go func() { ended <- fciserve.Serve(ctx, opts) }()
	select {
	case err := <-failed:
		return err
	case err := <-ended:
		return err
	}
}

// A demonstration is played through everything that stands between the executor and a laboratory's devices: joined arm processes over the Franka Control
// Interface, gripper buses, cameras. It does the task, the strict arms find nothing to object to, the scene's judge sees it, and the log is decided again.
func TestTheWholeChainOverFCIDoesTheTask(t *testing.T) {
	lab := newLaboratory(t)
	s, ctx := lab.session, context.Background()
	cond := sim.NewCondition(sim.Train, 10)
	demo := demonstrate(t, cond)
	policy, err := NewReplay(demo)
	if err != nil {
		t.Fatal(err)
	}
	if h := s.Hello(); !h.Sim || h.Clock != armlink.LockStep || h.StartNS%1e9 != 0 {
		t.Fatalf("%+v", h)
	}
	prepare(t, s, cond)
	path := filepath.Join(t.TempDir(), "run.mcap")
	w, err := rawlog.Create(path, rawlog.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	log, err := NewTrialLog(w, s.Hello())
	if err != nil {
		t.Fatal(err)
	}
	length := time.Duration(float64(len(demo.Hands)) / demo.RateHz * float64(time.Second))
	res, err := s.Run(ctx, RunOptions{Policy: policy, Prompt: sim.Prompts[0], MaxDuration: length + 2*time.Second, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	truth, err := s.Truth(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if res.Outcome != OutcomeTime || res.Rejected > 0 || !truth.Flags["placed"] {
		t.Errorf("%+v, truth %+v", res, truth.Flags)
	}
	for h := range Hands {
		if m, _ := s.HandPose(h).Distance(demo.Hands[len(demo.Hands)-1][h]); m > 0.0015 {
			t.Errorf("the %s hand ends %.1f mm from where the demonstration ended", Hands[h], 1000*m)
		}
	}
	for i, r := range lab.robots {
		if r.Stats.Violations > 0 || r.Stats.Lost > 0 || r.Stats.Motions != 1 || r.Stats.Accepted < 5000 { // time stands: nobody else looks
			t.Errorf("%s arm: %+v", Hands[i], r.Stats)
		}
	}
	again(t, path)
}
