//go:build mujoco && cgo

package deploy

import (
	"context"
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/rawlog"
	"github.com/pinch-robotics/pinch/internal/sim"
	"github.com/pinch-robotics/pinch/internal/sim/cellserve"
)

// demonstrate lets the scripted person do the task once and keeps true hand poses and measured finger angles at 30 Hz.
func demonstrate(t *testing.T, cond sim.Condition) Demonstration {
	t.Helper()
	cell, err := sim.New(sim.Config{Mode: sim.ModeHandheld, Wrist: sim.Size{Width: 160, Height: 120}, RenderThreads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer cell.Close()
	if err := cell.Reset(cond); err != nil {
		t.Fatal(err)
	}
	d := Demonstration{RateHz: 30}
	person := sim.NewDemonstrator(cond, false)
	begun, next := cell.Now(), cell.Now()
	const dt = 5 * sim.TickNS
	for {
		if cell.Now() >= next {
			d.Hands = append(d.Hands, [2]frames.Pose{cell.HandPose(sim.Left), cell.HandPose(sim.Right)})
			d.FingerRad = append(d.FingerRad, [2]float64{cell.GripperAngle(sim.Left), cell.GripperAngle(sim.Right)})
			next = begun + frames.DeviceTime(int64(len(d.Hands))*1_000_000_000/30)
		}
		cmd := person.Next(cell.View(), float64(dt)*1e-9)
		for _, s := range sim.Sides {
			cell.SetHand(s, cmd.Hands[s])
			cell.SetGripper(s, cmd.FingerRad[s])
		}
		if err := cell.Advance(cell.Now() + dt); err != nil {
			t.Fatal(err)
		}
		if cmd.Done || cell.Now()-begun > 30e9 {
			if !cell.Truth().Milestones().Placed {
				t.Fatalf("the demonstrator failed in condition %s", cond.Name)
			}
			return d
		}
	}
}

func simSession(t *testing.T) *Session {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready := make(chan cellserve.Ready, 1)
	ended := make(chan error, 1)
	go func() {
		ended <- cellserve.Serve(ctx, cellserve.Options{Clients: 1, Ready: func(r cellserve.Ready) { ready <- r },
			Cell: sim.Config{Wrist: sim.Size{Width: 160, Height: 120}, RenderThreads: 1}})
	}()
	var r cellserve.Ready
	select {
	case r = <-ready:
	case err := <-ended:
		cancel()
		t.Fatal(err)
	}
	cell := DefaultCell()
	cell.ArmLink = r.ArmLink
	s, err := Connect(ctx, cell, ConnectOptions{})
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("cell: %v", err)
		}
	})
	return s
}

func prepare(t *testing.T, s *Session, cond sim.Condition) {
	t.Helper()
	data, err := cond.Encode()
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	if err := s.SetScene(ctx, data); err != nil {
		t.Fatal(err)
	}
	var starts [2]HandStart
	for i, side := range sim.Sides {
		starts[i] = HandStart{Pose: cond.Hand(side).Pose(), FingerRad: cond.Hand(side).Angle}
	}
	if err := s.Home(ctx, starts); err != nil {
		t.Fatal(err)
	}
}

// A demonstration played open loop on the arms, in the condition it was made in, does the task: contract, anchoring, timing, kinematics,
// tracking and gripper are then right together. The log holds what ingest needs.
func TestReplayOfADemonstrationDoesTheTask(t *testing.T) {
	s := simSession(t)
	ctx := context.Background()
	placed := 0
	const trials = 3
	for i := 0; i < trials; i++ {
		cond := sim.NewCondition(sim.Train, 10+i)
		demo := demonstrate(t, cond)
		replay, err := NewReplay(demo)
		if err != nil {
			t.Fatal(err)
		}
		prepare(t, s, cond)
		w, err := rawlog.Create(filepath.Join(t.TempDir(), "trial.mcap"), rawlog.WriterOptions{})
		if err != nil {
			t.Fatal(err)
		}
		log, err := NewTrialLog(w, s.Hello())
		if err != nil {
			t.Fatal(err)
		}
		worst := 0.0
		begun := s.Now()
		length := time.Duration(float64(len(demo.Hands)) / demo.RateHz * float64(time.Second))
		res, err := s.Run(ctx, RunOptions{Policy: replay, Prompt: sim.Prompts[0], MaxDuration: length + 2*time.Second, Log: log,
			Step: func(_ context.Context, st Step) (Directive, error) {
				return Directive{}, nil
			}})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		for h := range Hands {
			m, _ := s.HandPose(h).Distance(demo.Hands[len(demo.Hands)-1][h])
			worst = math.Max(worst, m)
		}
		truth, err := s.Truth(ctx)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("trial %d: %.0f milestones, hands end %.1f mm from the demonstration's end, %+v, demo %v, took %.1f s",
			i, truth.Values["milestones_done"], 1000*worst, res, length, float64(s.Now()-begun)/1e9)
		if res.Outcome != OutcomeTime || res.Rejected > 0 {
			t.Errorf("trial %d: %+v", i, res)
		}
		if worst > 0.0005 {
			t.Errorf("trial %d: a hand ends %.1f mm from where the demonstration ended", i, 1000*worst)
		}
		if truth.Flags["placed"] {
			placed++
		}
		if res.Stopped() {
			if err := s.Recover(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	if placed < trials-1 {
		t.Errorf("%d of %d replays placed the block", placed, trials)
	}
}
