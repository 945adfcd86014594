package faultplant

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/spatial/r3"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/feature"
)

// handKinds are hands that the tracker saw wrong, and motions that do not belong to the poses.
var handKinds = []Kind{
	{"pose-jump", "content", "A hand's pose is 5 to 73 cm off for 1 to 10 rows while it counts as tracked (IsaacTeleop #731; oculus_reader #5, #12).", func(s *site) error {
		side := s.side()
		poses, err := s.hand(side)
		if err != nil {
			return err
		}
		w, d := 1+s.rng.IntN(10), s.logBetween(0.05, 0.73)
		from, err := s.window(w, 0, func(int) float64 { return 0 })
		if err != nil {
			return err
		}
		off := r3.Scale(d, s.direction())
		for r := from; r < from+w; r++ {
			poses[r].Pos = r3.Add(poses[r].Pos, off)
		}
		s.at(from, w, handName(side), "%.0f mm off", 1000*d)
		return s.setHand(side, poses)
	}},
	{"pose-recentred", "content", "The tracking space is set anew within the episode: from one row on all poses are turned by 2 to 20 degrees about the vertical and 5 to 50 cm off (yubi facts 1.5).", func(s *site) error {
		row, err := s.window(1, 0, func(int) float64 { return 0 })
		if err != nil {
			return err
		}
		turn := frames.Pose{Pos: r3.Scale(s.logBetween(0.05, 0.5), s.direction()), Rot: frames.QuatFromRPY(0, 0, s.logBetween(2, 20)*math.Pi/180)}
		for _, side := range []string{"left", "right"} {
			poses, err := s.hand(side)
			if err != nil {
				return err
			}
			for r := row; r < s.n; r++ {
				poses[r] = turn.Mul(poses[r])
			}
			if err := s.setHand(side, poses); err != nil {
				return err
			}
		}
		s.at(row, s.n-row, handName("left"), "both hands, %.0f mm", 1000*r3.Norm(turn.Pos))
		return nil
	}},
	{"pose-held", "content", "A hand's pose stands still for 0.3 to 1.5 s while the hand moves 3 cm or more, then jumps to where it is: the tracker lost it and repeats the last pose (yubi facts 1.4).", func(s *site) error {
		side := s.side()
		poses, err := s.hand(side)
		if err != nil {
			return err
		}
		w := s.seconds(s.between(0.3, 1.5))
		from, err := s.whereHandMoves(side, w, 0.03)
		if err != nil {
			return err
		}
		for r := from + 1; r < from+w; r++ {
			poses[r] = poses[from]
		}
		s.at(from, w, handName(side), "one pose for %d rows", w)
		return s.setHand(side, poses)
	}},
	{"pose-zero", "content", "A hand's pose is the origin with no rotation for 1 to 15 rows: what a lost tracker sends becomes the identity (yubi facts 1.4).", func(s *site) error {
		side := s.side()
		poses, err := s.hand(side)
		if err != nil {
			return err
		}
		w := 1 + s.rng.IntN(15)
		from, err := s.window(w, 0.05, func(from int) float64 { return r3.Norm(poses[from].Pos) })
		if err != nil {
			return err
		}
		for r := from; r < from+w; r++ {
			poses[r] = frames.Identity
		}
		s.at(from, w, handName(side), "identity")
		return s.setHand(side, poses)
	}},
	{"pose-late", "content", "One hand's poses come 0.2 to 0.4 s late against its camera and its fingers: network delay in receive times (yubi facts 1.4; UMI #76 asks for the estimate).", func(s *site) error {
		side := s.side()
		poses, err := s.hand(side)
		if err != nil {
			return err
		}
		lag := s.seconds(s.between(0.2, 0.4))
		if _, err := s.whereHandMoves(side, s.seconds(1), 0.05); err != nil {
			return err
		}
		late := make([]frames.Pose, s.n)
		for r := range late {
			late[r] = poses[max(0, r-lag)]
		}
		s.at(0, s.n, handName(side), "%d rows late", lag)
		return s.setHand(side, late)
	}},
	{"pose-noise", "content", "A hand's poses shake by 5 to 20 mm from row to row for 1 to 3 s: poor light or an occluded controller (UMI #60, #66).", func(s *site) error {
		side := s.side()
		poses, err := s.hand(side)
		if err != nil {
			return err
		}
		w, size := s.seconds(s.between(1, 3)), s.between(0.005, 0.020)
		from, err := s.window(w, 0, func(int) float64 { return 0 })
		if err != nil {
			return err
		}
		for r := from; r < from+w; r++ {
			poses[r].Pos = r3.Add(poses[r].Pos, r3.Scale(size, r3.Vec{X: s.rng.NormFloat64(), Y: s.rng.NormFloat64(), Z: s.rng.NormFloat64()}))
		}
		s.at(from, w, handName(side), "deviation %.0f mm per axis", 1000*size)
		return s.setHand(side, poses)
	}},
	{"quaternion-sign", "content", "From one row on a hand's quaternion has the other sign: the same rotation, but a jump to who learns its numbers (yubi facts 2.3, 8.2).", func(s *site) error {
		side := s.side()
		v, err := column[float64](s, handName(side))
		if err != nil {
			return err
		}
		row, err := s.window(1, 0, func(int) float64 { return 0 })
		if err != nil {
			return err
		}
		v = slices.Clone(v)
		for r := row; r < s.n; r++ {
			for i := 3; i < 7; i++ {
				v[7*r+i] = -v[7*r+i]
			}
		}
		s.at(row, s.n-row, handName(side), "sign turned")
		s.recorded = true
		return s.setColumn(handName(side), v)
	}},
	{"quaternion-length", "content", "A hand's quaternions are 2 to 30 % too short: poses were averaged or filtered number by number.", func(s *site) error {
		side := s.side()
		v, err := column[float64](s, handName(side))
		if err != nil {
			return err
		}
		v = slices.Clone(v)
		scale := 1 - s.logBetween(0.02, 0.3)
		for r := range s.n {
			for i := 3; i < 7; i++ {
				v[7*r+i] *= scale
			}
		}
		s.at(0, s.n, handName(side), "length %.2f", scale)
		s.recorded = true
		return s.setColumn(handName(side), v)
	}},
	{"hand-untracked", "content", "The tracker says for 0.3 to 2 s that it does not see a hand; poses go on (yubi facts 1.4).", func(s *site) error {
		name := "observation.pose." + s.side() + "_hand_root.is_tracked"
		v, err := column[bool](s, name)
		if err != nil {
			return err
		}
		w := s.seconds(s.between(0.3, 2))
		from, err := s.window(w, 0, func(int) float64 { return 0 })
		if err != nil {
			return err
		}
		v = slices.Clone(v)
		for r := from; r < from+w; r++ {
			v[r] = false
		}
		s.at(from, w, name, "not tracked")
		s.recorded = true
		return s.setColumn(name, v)
	}},
	{"action-one-row-late", "content", "action.next.pose holds the motion that led to the row instead of the one that follows (yubi facts 2.3: pose actions are one row apart).", func(s *site) error {
		name := ""
		for _, side := range []string{"left", "right"} {
			v, err := column[float64](s, "action.pose."+side+"_hand_root.relative")
			if err != nil {
				return err
			}
			name = "action.next.pose." + side + "_hand_root.relative"
			if err := s.setColumn(name, slices.Clone(v)); err != nil {
				return err
			}
		}
		if _, err := s.whereHandMoves("left", s.seconds(1), 0.05); err != nil {
			if _, err = s.whereHandMoves("right", s.seconds(1), 0.05); err != nil {
				return err
			}
		}
		s.at(0, s.n, name, "previous instead of next")
		s.recorded = true
		return nil
	}},
	{"first-row-motion", "content", "The first row's motion reaches back across the cut to the segment before, 5 to 50 mm (yubi facts 2.3).", func(s *site) error {
		side := s.side()
		d := s.logBetween(0.005, 0.05)
		move := r3.Scale(d, s.direction())
		for _, name := range []string{"observation.pose." + side + "_hand_root.relative", "action.pose." + side + "_hand_root.relative"} {
			v, err := column[float64](s, name)
			if err != nil {
				return err
			}
			v = slices.Clone(v)
			v[0], v[1], v[2] = move.X, move.Y, move.Z
			if err := s.setColumn(name, v); err != nil {
				return err
			}
			s.at(0, 1, name, "%.0f mm", 1000*d)
		}
		s.recorded = true
		return nil
	}},
}

func handName(side string) string { return "observation.pose." + side + "_hand_root.absolute" }

func (s *site) direction() r3.Vec {
	for {
		v := r3.Vec{X: s.rng.NormFloat64(), Y: s.rng.NormFloat64(), Z: s.rng.NormFloat64()}
		if n := r3.Norm(v); n > 0.1 {
			return r3.Scale(1/n, v)
		}
	}
}

// hand reads a hand's poses.
func (s *site) hand(side string) ([]frames.Pose, error) {
	v, err := column[float64](s, handName(side))
	if err != nil {
		return nil, err
	}
	return posesOf(v)
}

func posesOf(v []float64) ([]frames.Pose, error) {
	out := make([]frames.Pose, len(v)/7)
	for r := range out {
		var err error
		if out[r], err = frames.PoseFromXYZXYZW([7]float64(v[7*r : 7*r+7])); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// travel says how far a hand gets away from where it is at row from, up to row to.
func (s *site) travel(side string) (func(from, to int) float64, error) {
	poses, err := s.hand(side)
	if err != nil {
		return nil, err
	}
	return func(from, to int) float64 {
		far := 0.0
		for r := from; r < to; r++ {
			far = max(far, r3.Norm(r3.Sub(poses[r].Pos, poses[from].Pos)))
		}
		return far
	}, nil
}

// whereHandMoves draws a stretch of w rows in which a hand gets least metres away from its start.
func (s *site) whereHandMoves(side string, w int, least float64) (int, error) {
	travel, err := s.travel(side)
	if err != nil {
		return 0, err
	}
	return s.window(w, least, func(from int) float64 { return travel(from, from+w) })
}

// setHand changes a hand's poses and all that follows from them: what is fixed to the hand, motions and actions.
func (s *site) setHand(side string, moved []frames.Pose) error {
	s.recorded = true
	before, err := s.hand(side)
	if err != nil {
		return err
	}
	for _, part := range []string{"_controller", "_hand_cam", "_left_finger_tip", "_right_finger_tip", "_hand_root"} {
		name := "observation.pose." + side + part
		err := s.movePoses(name+".absolute", s.motionsOf(side, part), func(r int, p frames.Pose) frames.Pose {
			if moved[r] == before[r] {
				return p
			}
			return moved[r].Mul(before[r].Inv()).Mul(p)
		})
		if err != nil {
			return err
		}
	}
	return s.setHandToHand()
}

// movePoses changes the pose of each row and the motions that follow from it; a set without the feature stays as it is.
func (s *site) movePoses(name string, motions map[string]bool, move func(r int, p frames.Pose) frames.Pose) error {
	if !s.has(name) {
		return nil
	}
	v, err := column[float64](s, name)
	if err != nil {
		return err
	}
	poses, err := posesOf(v)
	if err != nil {
		return err
	}
	for r := range poses {
		poses[r] = move(r, poses[r])
	}
	return s.setPoses(name, poses, motions)
}

// motionsOf lists the motions of a part of a hand: names, true for those of timing next.
func (s *site) motionsOf(side, part string) map[string]bool {
	names := map[string]bool{"observation.pose." + side + part + ".relative": false}
	switch part {
	case "_controller":
		names["action."+side+"_controller.relative"] = false
	case "_hand_root":
		names["action.pose."+side+"_hand_root.relative"] = false
		names["action.next.pose."+side+"_hand_root.relative"] = true
	}
	return names
}

// setHandToHand computes the pose between the hands anew.
func (s *site) setHandToHand() error {
	if !s.has(feature.HandToHand) {
		return nil
	}
	left, err := s.hand("left")
	if err != nil {
		return err
	}
	right, err := s.hand("right")
	if err != nil {
		return err
	}
	poses := make([]frames.Pose, s.n)
	for r := range poses {
		poses[r] = left[r].Inv().Mul(right[r])
	}
	return s.setPoses(feature.HandToHand, poses, map[string]bool{"observation.pose.left_hand_to_right_hand.relative": false})
}

// setPoses changes a column of poses and its motions; rows in which nothing moved keep their numbers to the bit.
func (s *site) setPoses(name string, poses []frames.Pose, motions map[string]bool) error {
	v, err := column[float64](s, name)
	if err != nil {
		return err
	}
	v = slices.Clone(v)
	changed := make([]bool, s.n+1)
	for r, p := range poses {
		if old, err := frames.PoseFromXYZXYZW([7]float64(v[7*r : 7*r+7])); err == nil {
			if m, a := old.Distance(p); m < 1e-9 && a < 1e-9 {
				continue
			}
		}
		a := p.ArrayXYZXYZW()
		copy(v[7*r:], a[:])
		changed[r] = true
	}
	if !slices.Contains(changed, true) {
		return nil
	}
	if err := s.setColumn(name, v); err != nil {
		return err
	}
	for motion, next := range motions {
		if !s.has(motion) {
			continue
		}
		m, err := column[float64](s, motion)
		if err != nil {
			return err
		}
		m = slices.Clone(m)
		for r := 1; r < s.n; r++ {
			if !changed[r] && !changed[r-1] {
				continue
			}
			a := poses[r-1].Inv().Mul(poses[r]).ArrayXYZXYZW()
			if next {
				copy(m[7*(r-1):], a[:])
			} else {
				copy(m[7*r:], a[:])
			}
		}
		if err := s.setColumn(motion, m); err != nil {
			return err
		}
	}
	return nil
}
