package faultplant

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/spatial/r3"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/feature"
	"github.com/pinch-robotics/pinch/internal/robotmodel"
)

// gripperKinds are finger angles that are not the fingers'.
var gripperKinds = []Kind{
	{"encoder-stall", "content", "A finger angle repeats for 0.3 to 0.5 s while the finger moves 0.1 rad or more: a dead encoder's last value is published until it counts as stale (yubi facts 1.2).", func(s *site) error {
		return s.angles(func(q []float64, k int) error {
			w := max(3, s.seconds(s.between(0.3, 0.5)))
			from, err := s.window(w, 0.1, func(from int) float64 { return spread(q[from : from+w]) })
			if err != nil {
				return err
			}
			s.at(from, w, feature.JointStates, "%s: one angle while the finger moves %.2f rad", feature.JointNames[k], spread(q[from:from+w]))
			for r := from + 1; r < from+w; r++ {
				q[r] = q[from]
			}
			return nil
		})
	}},
	{"encoder-zero", "content", "1 to 3 single rows have the angle of the count 0, at least 0.15 rad from their neighbours: failed reads of the sensor (yubi facts 1.2, 8.3).", func(s *site) error {
		return s.angles(func(q []float64, k int) error {
			first, n := -1, 1+s.rng.IntN(3)
			for range n {
				r, err := s.window(1, 0.15, func(r int) float64 { return math.Min(math.Abs(q[r-1]), math.Min(math.Abs(q[r]), math.Abs(q[r+1]))) })
				if err != nil {
					break
				}
				q[r] = 0
				if first < 0 || r < first {
					first = r
				}
			}
			if first < 0 {
				return errNowhere
			}
			s.at(first, 1, feature.JointStates, "%s: up to %d rows are 0", feature.JointNames[k], n)
			return nil
		})
	}},
	{"encoder-turn", "content", "From one row on a finger angle is a whole turn off: the sum of turns started anew when the encoder was connected again (yubi facts 1.2).", func(s *site) error {
		return s.angles(func(q []float64, k int) error {
			row, err := s.window(1, 0, func(int) float64 { return 0 })
			if err != nil {
				return err
			}
			turn := 2 * math.Pi
			if s.rng.IntN(2) == 0 {
				turn = -turn
			}
			for r := row; r < s.n; r++ {
				q[r] += turn
			}
			s.at(row, s.n-row, feature.JointStates, "%s: %+.2f rad", feature.JointNames[k], turn)
			return nil
		})
	}},
	{"angle-nan", "content", "From one row on a finger angle is not a number: a line \"nan\" entered the sum of turns and stays (yubi facts 1.2).", func(s *site) error {
		k := s.rng.IntN(2)
		row, err := s.window(1, 0, func(int) float64 { return 0 })
		if err != nil {
			return err
		}
		for _, name := range []string{feature.JointStates, "action.joint_states", feature.JointStatesNext} {
			v, err := column[float64](s, name)
			if err != nil {
				return err
			}
			v = slices.Clone(v)
			for r := row; r < s.n; r++ {
				v[2*r+k] = math.NaN()
			}
			if err := s.setColumn(name, v); err != nil {
				return err
			}
		}
		s.at(row, s.n-row, feature.JointStates, "%s", feature.JointNames[k])
		return nil
	}},
	{"encoder-dead", "content", "A finger angle is constant in the whole episode while the finger moved 0.2 rad or more: cable or magnet off (lerobot #3280: constant dimension).", func(s *site) error {
		return s.angles(func(q []float64, k int) error {
			if spread(q) < 0.2 {
				return errNowhere
			}
			for r := range q {
				q[r] = q[0]
			}
			s.at(0, s.n, feature.JointStates, "%s", feature.JointNames[k])
			return nil
		})
	}},
	{"angle-clipped", "content", "A finger angle ends at 50 to 80 % of its range in 10 % or more of the rows: the calibrated stop is wrong (validators list clipped dimensions).", func(s *site) error {
		return s.angles(func(q []float64, k int) error {
			lo, hi := slices.Min(q), slices.Max(q)
			limit := lo + s.between(0.5, 0.8)*(hi-lo)
			n := 0
			for _, x := range q {
				if x > limit {
					n++
				}
			}
			if hi-lo < 0.3 || n < s.n/10 || n == s.n {
				return errNowhere
			}
			for r := range q {
				q[r] = math.Min(q[r], limit)
			}
			s.at(0, s.n, feature.JointStates, "%s: %d rows at %.2f rad", feature.JointNames[k], n, limit)
			return nil
		})
	}},
	{"angle-degrees", "content", "Finger angles are in degrees (UMI #24: frames and scales were not checked).", func(s *site) error {
		moves, err := s.fingersMove()
		if err != nil {
			return err
		}
		if moves < 0.2 {
			return errNowhere
		}
		for k := range 2 {
			q, err := s.angle(k)
			if err != nil {
				return err
			}
			for r := range q {
				q[r] *= 180 / math.Pi
			}
			if err := s.setAngle(k, q); err != nil {
				return err
			}
		}
		s.at(0, s.n, feature.JointStates, "degrees")
		return nil
	}},
	{"action-ahead", "content", "The gripper's action leads its state by 0.5 to 0.9 s instead of one row (AgiBot-World #113).", func(s *site) error {
		lead := s.seconds(s.between(0.5, 0.9))
		v, err := column[float64](s, feature.JointStates)
		if err != nil {
			return err
		}
		moves, err := s.fingersMove()
		if err != nil {
			return err
		}
		if moves < 0.2 || s.n < 2*lead {
			return errNowhere
		}
		ahead := make([]float64, len(v))
		for r := range s.n {
			copy(ahead[2*r:2*r+2], v[2*min(s.n-1, r+1+lead):])
		}
		for _, name := range []string{"action.joint_states", feature.JointStatesNext} {
			if err := s.setColumn(name, slices.Clone(ahead)); err != nil {
				return err
			}
		}
		s.at(0, s.n, feature.JointStatesNext, "%d rows ahead", lead)
		s.recorded = true
		return nil
	}},
}

// spread is greatest minus least.
func spread(v []float64) float64 { return slices.Max(v) - slices.Min(v) }

// fingersMove is the greater spread of both angles.
func (s *site) fingersMove() (float64, error) {
	moves := 0.0
	for k := range 2 {
		q, err := s.angle(k)
		if err != nil {
			return 0, err
		}
		moves = max(moves, spread(q))
	}
	return moves, nil
}

// angle reads one finger's angle; 0 is the left hand, 1 the right one.
func (s *site) angle(k int) ([]float64, error) {
	v, err := column[float64](s, feature.JointStates)
	if err != nil {
		return nil, err
	}
	q := make([]float64, s.n)
	for r := range q {
		q[r] = v[2*r+k]
	}
	return q, nil
}

// angles changes the angle of a hand in place and what follows from it; the hand is drawn, the other one is next when it has no place.
func (s *site) angles(change func(q []float64, k int) error) error {
	first := s.rng.IntN(2)
	for _, k := range []int{first, 1 - first} {
		q, err := s.angle(k)
		if err != nil {
			return err
		}
		if err := change(q, k); err == errNowhere {
			continue
		} else if err != nil {
			return err
		}
		return s.setAngle(k, q)
	}
	return errNowhere
}

// setAngle changes a finger's angle with actions and finger tips.
func (s *site) setAngle(k int, q []float64) error {
	s.recorded = true
	v, err := column[float64](s, feature.JointStates)
	if err != nil {
		return err
	}
	v = slices.Clone(v)
	before, err := s.angle(k)
	if err != nil {
		return err
	}
	for r := range q {
		v[2*r+k] = q[r]
	}
	if err := s.setColumn(feature.JointStates, v); err != nil {
		return err
	}
	for _, name := range []string{"action.joint_states", feature.JointStatesNext} {
		if !s.has(name) {
			continue
		}
		a, err := column[float64](s, name)
		if err != nil {
			return err
		}
		a = slices.Clone(a)
		for r := range s.n {
			a[2*r+k] = q[min(r+1, s.n-1)]
		}
		if err := s.setColumn(name, a); err != nil {
			return err
		}
	}
	return s.setTips([2]string{"left", "right"}[k], before, q)
}

// setTips moves the finger tips of a hand from the places of one angle to those of another.
func (s *site) setTips(side string, before, q []float64) error {
	for _, finger := range []string{"left", "right"} {
		name := "observation.pose." + side + "_" + finger + "_finger_tip"
		err := s.movePoses(name+".absolute", map[string]bool{name + ".relative": false}, func(r int, p frames.Pose) frames.Pose {
			if q[r] == before[r] {
				return p
			}
			return p.Mul(tip(finger, before[r]).Inv()).Mul(tip(finger, q[r]))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// tip is the pose of a finger tip in the hand for a finger angle in rad.
func tip(finger string, q float64) frames.Pose {
	g := robotmodel.YUBI()
	right, left := g.Tips(q)
	if finger == "right" {
		return frames.Pose{Pos: r3.Vec{X: right[0], Y: right[1], Z: right[2]}, Rot: frames.QuatFromAxisAngle(r3.Vec{Z: 1}, -q)}
	}
	return frames.Pose{Pos: r3.Vec{X: left[0], Y: left[1], Z: left[2]}, Rot: frames.QuatFromAxisAngle(r3.Vec{Z: 1}, q)}
}
