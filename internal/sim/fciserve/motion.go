package fciserve

import (
	"fmt"
	"math"
)

// cycle judges one cycle of the running motion.
func (r *Robot) cycle(cmd *command) {
	m := &r.motion
	m.cycles++
	if cmd == nil {
		r.lose()
		return
	}
	m.count(true)
	m.lost = 0
	target := cmd.qc
	if m.generator == 2 {
		for j := range target {
			target[j] = r.qd[j] + cmd.dqc[j]*dt
		}
	}
	for j := range target {
		if math.IsNaN(target[j]) || math.IsInf(target[j], 0) {
			r.Stats.Violations++
			r.Stats.LastViolation = fmt.Sprintf("joint %d was commanded to %v", j+1, target[j])
			r.breakOff(moveInputError)
			return
		}
	}
	if flag, text := r.judge(target, !m.armed); flag >= 0 {
		r.Stats.Violations++
		r.fault(flag, text)
		return
	}
	m.armed = true
	r.accept(target)
	r.Stats.Accepted++
	if cmd.finished {
		r.finish()
	}
}

// judge returns the error flag that a new desired position raises, -1 for none. Discontinuities come before limits, as on the robot.
func (r *Robot) judge(q [7]float64, first bool) (flag int, text string) {
	l := &r.o.Arm.Limits
	if first && r.motion.generator == 1 {
		for j := range q {
			if gap := math.Abs(q[j] - r.qd[j]); gap > 0.1 {
				return errStartPose, fmt.Sprintf("joint %d starts %.4f rad from its desired position", j+1, gap)
			}
		}
	}
	jerkFlag, accFlag := errAccelerationDiscontinue, errVelocityDiscontinuity
	if r.motion.generator == 2 {
		accFlag = errAccelerationDiscontinue
	}
	for j := range q {
		v := (q[j] - r.qd[j]) / dt
		a := (v - r.dqd[j]) / dt
		jerk := (a - r.ddqd[j]) / dt
		switch {
		case math.Abs(a) > l.DDQ[j]:
			return accFlag, fmt.Sprintf("joint %d: acceleration %.4f over %.4f rad/s²", j+1, a, l.DDQ[j])
		case math.Abs(jerk) > l.DDDQ[j]:
			return jerkFlag, fmt.Sprintf("joint %d: jerk %.1f over %.1f rad/s³", j+1, jerk, l.DDDQ[j])
		}
		if flag, text := r.inside(j, q[j], v); flag >= 0 {
			return flag, text
		}
	}
	return -1, ""
}

// inside judges speed and position of one joint.
func (r *Robot) inside(j int, q, v float64) (flag int, text string) {
	l := &r.o.Arm.Limits
	switch {
	case v > l.VelocityUp(j, q) || v < l.VelocityLow(j, q):
		if v == 0 {
			break // standing is no violation, wherever
		}
		return errVelocityLimits, fmt.Sprintf("joint %d: speed %.4f outside %.4f to %.4f rad/s at %.4f rad", j+1, v, l.VelocityLow(j, q), l.VelocityUp(j, q), q)
	case q > l.QMax[j] || q < l.QMin[j]:
		return errPositionLimits, fmt.Sprintf("joint %d: position %.4f outside %.4f to %.4f rad", j+1, q, l.QMin[j], l.QMax[j])
	}
	return -1, ""
}

// accept makes q the last accepted position, with backward differences.
func (r *Robot) accept(q [7]float64) {
	for j := range q {
		v := (q[j] - r.qd[j]) / dt
		r.ddqd[j] = (v - r.dqd[j]) / dt
		r.dqd[j] = v
	}
	r.qd = q
}

// lose goes on without a command: constant acceleration, until too many are missing.
func (r *Robot) lose() {
	m := &r.motion
	if !m.armed {
		if m.cycles >= startGrace {
			r.fault(errCommunication, fmt.Sprintf("no command within %d cycles of the start", startGrace))
		}
		return
	}
	m.count(false)
	m.lost++
	r.Stats.Lost++
	r.Stats.LongestLoss = max(r.Stats.LongestLoss, m.lost)
	if m.lost >= maxLost {
		r.fault(errCommunication, fmt.Sprintf("%d commands in a row are missing", m.lost))
		return
	}
	for j := range r.qd {
		r.dqd[j] += r.ddqd[j] * dt
		r.qd[j] += r.dqd[j] * dt
		if flag, text := r.inside(j, r.qd[j], r.dqd[j]); flag >= 0 {
			r.Stats.Violations++
			r.fault(flag, "without a command: "+text)
			return
		}
	}
}

// finish ends a motion whose client said that it is done: the arm has to stand, or nearly so.
func (r *Robot) finish() {
	for j, v := range r.dqd {
		if step := r.o.Arm.Limits.DDQ[j] * dt; math.Abs(v) > step {
			r.Stats.Violations++
			r.fault(errVelocityDiscontinuity, fmt.Sprintf("joint %d still moves at %.4f rad/s where the motion ends", j+1, v))
			return
		}
	}
	r.answerMove(moveSuccess)
	r.motion = motion{}
	r.mode = modeIdle
	r.dqd, r.ddqd = [7]float64{}, [7]float64{}
}

// fault sets an error flag and stops the arm by reflex.
func (r *Robot) fault(flag int, text string) {
	r.errors[flag] = true
	r.reflex = [41]bool{}
	r.reflex[flag] = true
	r.Stats.LastViolation = fmt.Sprintf("%s: %s", errNames[flag], text)
	r.breakOff(moveReflexAborted)
	r.mode = modeReflex
}

// breakOff ends a running motion with a status; the arm brakes.
func (r *Robot) breakOff(status byte) {
	if r.motion.generator == 0 {
		return
	}
	r.Stats.Stops++
	r.Stats.StopTick = r.Stats.Ticks
	r.answerMove(status)
	r.motion = motion{}
	r.braking = true
	r.mode = 0
	r.brake()
}

func (r *Robot) answerMove(status byte) {
	r.answers = append(r.answers, message(r.motion.wire, r.motion.id, status))
}

// brake slows every joint down as fast as its acceleration limit allows.
func (r *Robot) brake() {
	still := true
	for j := range r.qd {
		v := math.Abs(r.dqd[j]) - r.o.Arm.Limits.DDQ[j]*dt
		v = math.Copysign(math.Max(0, v), r.dqd[j])
		r.ddqd[j] = (v - r.dqd[j]) / dt
		r.dqd[j] = v
		r.qd[j] += v * dt
		still = still && v == 0
	}
	if still {
		r.braking = false
		r.ddqd = [7]float64{}
		if r.mode == 0 {
			r.mode = modeIdle
		}
	}
}

// count notes whether a cycle had its command.
func (m *motion) count(arrived bool) {
	m.window[m.at] = arrived
	m.at = (m.at + 1) % rateWindow
	m.filled = min(m.filled+1, rateWindow)
}

// rate is the share of the last 100 commands that arrived.
func (m *motion) rate() float64 {
	if m.generator == 0 || m.filled == 0 {
		return 0
	}
	n := 0
	for _, ok := range m.window[:m.filled] {
		if ok {
			n++
		}
	}
	return float64(n) / float64(m.filled)
}
