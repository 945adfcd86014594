package cellserve

import (
	"fmt"
	"math"

	"github.com/pinch-robotics/pinch/internal/armrt"
	"github.com/pinch-robotics/pinch/internal/robotmodel"
	"github.com/pinch-robotics/pinch/internal/sim"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
)

// arms are the two arm runtimes over one cell: each tick they turn their plans into joint commands and watch each other.
type arms struct {
	cell    *sim.Cell
	rt      [2]*armrt.Runtime
	last    [2]armrt.Command
	blocked [2]int // ticks for which a joint has been held away from its command
}

// A joint this far from its command for this long is blocked: its motor is at its torque limit. Free motion stays within 0.002 rad.
const (
	blockedRad   = 0.02
	blockedTicks = 50
)

func newArms(cell *sim.Cell) (*arms, error) {
	a := &arms{cell: cell}
	for _, s := range sim.Sides {
		q, _ := cell.Joints(s)
		rt, err := armrt.New(armrt.Config{Limits: robotmodel.FR3().Limits, Gripper: robotmodel.YUBI()}, q, cell.GripperAngle(s))
		if err != nil {
			return nil, fmt.Errorf("start the %s arm: %w", s, err)
		}
		a.rt[s] = rt
		a.last[s] = armrt.Command{Q: q, GripperRad: cell.GripperAngle(s), Mode: armlink.ModeIdle}
	}
	return a, nil
}

// tick commands both arms for the millisecond that begins at now and lets it pass.
func (a *arms) tick() error {
	now := a.cell.Now()
	for _, s := range sim.Sides {
		cmd := a.rt[s].Step(int64(now) + sim.TickNS)
		a.last[s] = cmd
		a.cell.SetJoints(s, cmd.Q, cmd.DQ)
		a.cell.SetGripper(s, cmd.GripperRad)
	}
	if err := a.cell.Advance(now + sim.TickNS); err != nil {
		return err
	}
	for _, s := range sim.Sides {
		a.watch(s)
	}
	return nil
}

// watch turns a blocked arm into a reflex, as the arm's own controller does, and stops the other arm with it.
func (a *arms) watch(s sim.Side) {
	q, _ := a.cell.Joints(s)
	joint, gap := 0, 0.0
	for j := range q {
		if d := math.Abs(a.last[s].Q[j] - q[j]); d > gap {
			joint, gap = j, d
		}
	}
	if gap > blockedRad {
		a.blocked[s]++
	} else {
		a.blocked[s] = 0
	}
	mode, reason := a.rt[s].Mode()
	if a.blocked[s] >= blockedTicks && mode != armlink.ModeReflex {
		reason = fmt.Sprintf("joint %d is held %.3f rad from its command: something blocks the arm", joint+1, gap)
		a.rt[s].Reflex(reason)
		mode = armlink.ModeReflex
	}
	if mode.NeedsRecover() {
		a.rt[1-s].Stop(int64(a.cell.Now()), fmt.Sprintf("the %s arm stopped: %s", s, reason))
	}
}

func (a *arms) plan(seg *armlink.Segment) error {
	s, err := sim.ParseSide(seg.Arm)
	if err != nil {
		return fmt.Errorf("segment: %w", err)
	}
	return a.rt[s].Plan(int64(a.cell.Now()), seg.Knots)
}

func (a *arms) stop(reason string) {
	for _, s := range sim.Sides {
		a.rt[s].Stop(int64(a.cell.Now()), reason)
	}
}

// abandon stops arms whose client is gone; arms at rest stay ready for the next one.
func (a *arms) abandon(reason string) {
	for _, rt := range a.rt {
		if mode, _ := rt.Mode(); mode != armlink.ModeIdle {
			a.stop(reason)
			return
		}
	}
}

// recover acknowledges a stop on both arms; with one still moving neither recovers.
func (a *arms) recover() error {
	for _, s := range sim.Sides {
		if mode, _ := a.rt[s].Mode(); mode == armlink.ModeRamp {
			return fmt.Errorf("recover: the %s arm still moves", s)
		}
	}
	for _, s := range sim.Sides {
		mode, _ := a.rt[s].Mode()
		if err := a.rt[s].Recover(); err != nil {
			return fmt.Errorf("%s arm: %w", s, err)
		}
		a.blocked[s] = 0
		if mode != armlink.ModeReflex {
			continue
		}
		// Start again from where the arm is: the command it was held from would press on, and trip the reflex again.
		q, _ := a.cell.Joints(s)
		if err := a.rt[s].Place(inside(q), a.last[s].GripperRad); err != nil {
			return fmt.Errorf("%s arm: %w", s, err)
		}
	}
	return nil
}

// inside pulls measured joints, which may lie a hair beyond an end, to where a command may be.
func inside(q armlink.Joints) armlink.Joints {
	const margin = 0.003 // rad; the runtime keeps 0.002 from each end
	l := robotmodel.FR3().Limits
	for j := range q {
		q[j] = min(max(q[j], l.QMin[j]+margin), l.QMax[j]-margin)
	}
	return q
}

// place puts one arm somewhere without motion.
func (a *arms) place(p armlink.SceneArm) error {
	s, err := sim.ParseSide(p.Name)
	if err != nil {
		return err
	}
	if err := a.rt[s].Place(p.Q, p.GripperRad); err != nil {
		return fmt.Errorf("%s arm: %w", s, err)
	}
	a.blocked[s] = 0
	a.last[s] = armrt.Command{Q: p.Q, GripperRad: p.GripperRad, Mode: armlink.ModeIdle}
	return a.cell.SetArm(s, p.Q, p.GripperRad)
}

// state is the newest measurement of both arms.
func (a *arms) state() *armlink.State {
	st := &armlink.State{TNS: int64(a.cell.Now())}
	for _, s := range sim.Sides {
		q, dq := a.cell.Joints(s)
		mode, reason := a.rt[s].Mode()
		st.Arms = append(st.Arms, armlink.ArmState{
			Q: q, DQ: dq, QCmd: a.last[s].Q, DQCmd: a.last[s].DQ,
			GripperRad: a.cell.GripperAngle(s), GripperCmdRad: a.last[s].GripperRad, Mode: mode, Reason: reason,
		})
	}
	return st
}
