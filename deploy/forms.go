package deploy

import (
	"fmt"

	"github.com/pinch-robotics/pinch/frames"
)

// deltas writes an answer in any form as body deltas of timing next, which the executor follows. at are the hands at the observation, as the policy was
// told; only absolute poses need them. An answer in deltas is returned as it is.
func deltas(c Chunk, form AnswerForm, at [2]frames.Pose) (Chunk, error) {
	before := [2]frames.Pose{frames.Identity, frames.Identity}
	switch form {
	case AnswerChunkPoses:
	case AnswerAbsolute:
		before = at
	default:
		return c, nil
	}
	out := Chunk{Rows: c.Rows, Cols: c.Cols, Checkpoint: c.Checkpoint, Data: append([]float32(nil), c.Data...)}
	for k := 0; k < c.Rows; k++ {
		for h := range before {
			var v [7]float64
			for i := range v {
				v[i] = float64(c.At(k, 7*h+i))
			}
			now, err := frames.PoseFromXYZXYZW(v)
			if err != nil {
				return Chunk{}, fmt.Errorf("actions row %d, %s hand: %w", k, Hands[h], err)
			}
			for i, x := range before[h].Inv().Mul(now).ArrayXYZXYZW() {
				out.Data[k*c.Cols+7*h+i] = float32(x)
			}
			before[h] = now
		}
	}
	return out, nil
}

// prefix is what the arms will do, whatever an answer says, between the observation (policy time origin) and the policy time at which that answer can take over:
// whole rows, at most most, as body deltas of timing next.
func (e *executor) prefix(origin, takeOver float64, most int) (rows []float32) {
	step := 1 / e.contract.RateHz
	const rounding = 1e-6 // rows
	n := min(int((takeOver-origin)/step+rounding), most)
	for k := 0; k < n; k++ {
		from, to := e.wanted(origin+float64(k)*step), e.wanted(origin+float64(k+1)*step)
		for h := range from.pose {
			rows = poseFloats(rows, from.pose[h].Inv().Mul(to.pose[h]))
		}
		rows = append(rows, float32(to.finger[0]), float32(to.finger[1]))
	}
	return rows
}

// wanted is where the hands are at a policy time: as commanded by the commits, beyond them by the path.
func (e *executor) wanted(tau float64) hands {
	i := len(e.commits) - 1
	if tau > e.commits[i].tau {
		return e.path.at(tau)
	}
	for i > 0 && e.commits[i].tau > tau {
		i--
	}
	c := e.commits[i]
	if i == len(e.commits)-1 || e.commits[i+1].tau <= c.tau {
		return c.hands
	}
	next := e.commits[i+1]
	return mix(c.hands, next.hands, (tau-c.tau)/(next.tau-c.tau))
}

// policyTimeAhead is the policy time that t will have if nothing changes: the commits, and beyond them the path at the rate of the last.
func (e *executor) policyTimeAhead(t int64) float64 {
	last := e.commits[len(e.commits)-1]
	if t <= last.t {
		return e.policyTime(t)
	}
	return min(last.tau+last.rate*float64(t-last.t)*1e-9, max(e.path.end(), last.tau))
}
