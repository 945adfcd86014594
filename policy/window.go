package policy

import (
	"fmt"
	"slices"

	"github.com/pinch-robotics/pinch/frames"
)

// Column is a numeric dataset feature that a Spec reads.
type Column struct {
	Feature string
	Dim     int // numbers of one row
}

// Columns lists the numeric features that the Spec reads, each once, state first.
func (s Spec) Columns() []Column {
	var cols []Column
	add := func(name string, dim int) {
		if !slices.ContainsFunc(cols, func(c Column) bool { return c.Feature == name }) {
			cols = append(cols, Column{name, dim})
		}
	}
	for _, in := range s.State {
		add(in.Feature, in.SourceDim)
	}
	for _, out := range s.Action {
		add(out.Feature, out.SourceDim)
		if out.Representation == DeltaToState {
			add(out.StateFeature, out.SourceDim)
		}
	}
	return cols
}

// Episode gives the numbers of one episode: feature name to Length*dim numbers, row after row.
type Episode struct {
	Length  int
	Columns map[string][]float64
}

// Rows gives numbers of rows around an observation; row 0 is the observation's own.
type Rows interface {
	// At gives the dim numbers of a feature at a row. inside is false where the row lies outside the episode.
	At(feature string, dim, row int) (numbers []float64, inside bool, err error)
}

// around is an episode seen from one of its rows.
type around struct {
	Episode
	t int
}

// At implements Rows.
func (a around) At(feature string, dim, row int) ([]float64, bool, error) {
	if at := a.t + row; at < 0 || at >= a.Length {
		return nil, false, nil
	}
	v, err := a.row(feature, dim, a.t+row)
	return v, true, err
}

// row gives the dim numbers of one row of a feature.
func (e Episode) row(feature string, dim, t int) ([]float64, error) {
	col, ok := e.Columns[feature]
	if !ok {
		return nil, fmt.Errorf("episode has no column %q", feature)
	}
	if len(col) != e.Length*dim {
		return nil, fmt.Errorf("column %q has %d numbers, want %d rows of %d", feature, len(col), e.Length, dim)
	}
	if t < 0 || t >= e.Length {
		return nil, fmt.Errorf("row %d of column %q: the episode has rows 0 to %d", t, feature, e.Length-1)
	}
	return col[t*dim : (t+1)*dim], nil
}

// EncodeState writes the state vector of row t of an episode to dst (StateDim numbers, not normalised).
func (s Spec) EncodeState(dst []float64, e Episode, t int) error {
	return s.encodeState(dst, func(in Input) ([]float64, error) { return e.row(in.Feature, in.SourceDim, t) })
}

// EncodeStateValues is EncodeState for an observation: feature name to one row of numbers.
func (s Spec) EncodeStateValues(dst []float64, values map[string][]float64) error {
	return s.encodeState(dst, func(in Input) ([]float64, error) {
		v, ok := values[in.Feature]
		if !ok {
			return nil, fmt.Errorf("observation lacks %q", in.Feature)
		}
		if len(v) != in.SourceDim {
			return nil, fmt.Errorf("observation %q has %d numbers, want %d", in.Feature, len(v), in.SourceDim)
		}
		return v, nil
	})
}

func (s Spec) encodeState(dst []float64, row func(Input) ([]float64, error)) error {
	if len(dst) != s.StateDim() {
		return fmt.Errorf("state vector has room for %d numbers, want %d", len(dst), s.StateDim())
	}
	for _, in := range s.State {
		v, err := row(in)
		if err != nil {
			return err
		}
		if in.Representation == PoseRot6D {
			p, err := poseOf(v)
			if err != nil {
				return fmt.Errorf("%q: %w", in.Feature, err)
			}
			putPose(dst, p)
		} else {
			if err := checkFinite(v); err != nil {
				return fmt.Errorf("%q: %w", in.Feature, err)
			}
			copy(dst, v)
		}
		dst = dst[in.Dim():]
	}
	return nil
}

// EncodeTargets writes the chunk after row t of an episode to dst (Horizon*ActionDim numbers, not normalised) and says in
// valid (Horizon) which steps lie inside the episode. Steps beyond its end are left zero and invalid: they are never trained on.
func (s Spec) EncodeTargets(dst []float64, valid []bool, e Episode, t int) error {
	return s.EncodeTargetRows(dst, valid, around{e, t})
}

// EncodeTargetRows is EncodeTargets for rows from anywhere.
func (s Spec) EncodeTargetRows(dst []float64, valid []bool, rows Rows) error {
	if len(dst) != s.Horizon*s.ActionDim() || len(valid) != s.Horizon {
		return fmt.Errorf("chunk has room for %d numbers and %d steps, want %d and %d", len(dst), len(valid), s.Horizon*s.ActionDim(), s.Horizon)
	}
	clear(dst)
	for k := range s.Horizon {
		row, before := dst[k*s.ActionDim():(k+1)*s.ActionDim()], 0
		if k > 0 {
			before = s.Row(k - 1)
		}
		for i, out := range s.Action {
			v, inside, err := rows.At(out.Feature, out.SourceDim, s.Row(k))
			if err != nil {
				return fmt.Errorf("action %q, %d rows after the observation: %w", out.Name, s.Row(k), err)
			}
			if i == 0 {
				valid[k] = inside
			}
			if !inside {
				break
			}
			if err := out.encode(row, v, rows, before); err != nil {
				return fmt.Errorf("action %q, %d rows after the observation: %w", out.Name, s.Row(k), err)
			}
			row = row[out.Dim():]
		}
	}
	return nil
}

// EncodeStateRows is EncodeState for moment f of an observation (see Spec.FrameRow), from rows from anywhere. Before an episode's
// start its first row stands.
func (s Spec) EncodeStateRows(dst []float64, rows Rows, f int) error {
	return s.encodeState(dst, func(in Input) ([]float64, error) {
		for row := s.FrameRow(f); ; row++ {
			if v, inside, err := rows.At(in.Feature, in.SourceDim, row); err != nil || inside {
				return v, err
			}
			if row >= 0 {
				return nil, fmt.Errorf("%q has no row at the observation", in.Feature)
			}
		}
	})
}

// here gives the numbers of a feature at a row that must lie in the episode.
func here(rows Rows, feature string, dim, row int) ([]float64, error) {
	v, inside, err := rows.At(feature, dim, row)
	if err == nil && !inside {
		err = fmt.Errorf("row %d of %q lies outside the episode", row, feature)
	}
	return v, err
}

// encode writes the output's numbers v, seen from the observation or from the row of the step before.
func (out Output) encode(dst, v []float64, rows Rows, before int) error {
	t := 0
	if out.Representation == StepPoseRot6D {
		t = before
	}
	switch out.Representation {
	case PoseRot6D:
		p, err := poseOf(v)
		if err != nil {
			return err
		}
		putPose(dst, p)
		return nil
	case ChunkPoseRot6D, StepPoseRot6D:
		from, err := here(rows, out.Feature, out.SourceDim, t)
		if err != nil {
			return err
		}
		originFromThen, err := poseOf(v)
		if err != nil {
			return err
		}
		originFromNow, err := poseOf(from)
		if err != nil {
			return err
		}
		putPose(dst, originFromNow.Inv().Mul(originFromThen))
		return nil
	case DeltaToState:
		base, err := here(rows, out.StateFeature, out.SourceDim, 0)
		if err != nil {
			return err
		}
		for i := range v {
			dst[i] = v[i] - base[i]
		}
	default:
		copy(dst, v)
	}
	return checkFinite(dst[:len(v)])
}

// DecodeAbsolute turns a chunk (Horizon*ActionDim numbers, not normalised) into absolute numbers: Absolute outputs as they
// are, DeltaToState outputs with the observed state added. Pose outputs have no absolute form here; see StepDeltas.
func (s Spec) DecodeAbsolute(chunk []float64, values map[string][]float64) ([]float64, error) {
	out := slices.Clone(chunk)
	col := 0
	for _, o := range s.Action {
		switch o.Representation {
		case ChunkPoseRot6D, StepPoseRot6D, PoseRot6D:
			return nil, fmt.Errorf("action %q is a pose; its rows are those of StepDeltas, ChunkPoses or AbsolutePoses", o.Name)
		case DeltaToState:
			base, ok := values[o.StateFeature]
			if !ok || len(base) != o.SourceDim {
				return nil, fmt.Errorf("observation lacks %q with %d numbers, which action %q is relative to", o.StateFeature, o.SourceDim, o.Name)
			}
			for k := range s.Horizon {
				for i := range o.SourceDim {
					out[k*s.ActionDim()+col+i] += base[i]
				}
			}
		}
		col += o.Dim()
	}
	return out, nil
}

// StepDeltas turns a chunk in chunk form (see ChunkForm; Horizon*ActionDim numbers, not normalised) into the rows that a server sends: for each pose output
// seven numbers, the body motion from the step before (step -1 is the pose at the observation; reference body, timing next),
// then the columns of all other outputs. For the umi preset these are UMI Arena's 16 columns. Rotations are made orthonormal.
func (s Spec) StepDeltas(chunk []float64) ([][]float64, error) {
	if len(chunk) != s.Horizon*s.ActionDim() {
		return nil, fmt.Errorf("chunk has %d numbers, want %d steps of %d", len(chunk), s.Horizon, s.ActionDim())
	}
	return s.rows(chunk, func(_ Output, before, now frames.Pose) (frames.Pose, error) {
		return motion(before, now), nil
	})
}

func poseOf(v []float64) (frames.Pose, error) { return frames.PoseFromXYZXYZW([7]float64(v)) }

// putPose writes x y z and the first two rows of the rotation matrix, the network's form of a pose.
func putPose(dst []float64, p frames.Pose) {
	dst[0], dst[1], dst[2] = p.Pos.X, p.Pos.Y, p.Pos.Z
	r := p.Rot.Rot6DRows()
	copy(dst[3:rot6dPoseDim], r[:])
}

// poseFromNetwork is the inverse of putPose for numbers that are only nearly a rotation.
func poseFromNetwork(v []float64) (frames.Pose, error) {
	q, err := frames.Rot6DRows(v[3:rot6dPoseDim]).Quat()
	if err != nil {
		return frames.Pose{}, err
	}
	p := frames.Pose{Rot: q}
	p.Pos.X, p.Pos.Y, p.Pos.Z = v[0], v[1], v[2]
	if !p.Finite() {
		return frames.Pose{}, fmt.Errorf("position %v: %w", v[:3], frames.ErrNotFinite)
	}
	return p, nil
}

// HoldChunk is the chunk that stays as at the observation, in chunk form: the hands where they are, and absolute
// outputs at the value of a state input of the same length (the same feature if there is one, else the only one). ok is
// false when there is no such input.
func (s Spec) HoldChunk(values map[string][]float64) (chunk []float64, ok bool) {
	row := make([]float64, 0, s.ActionDim())
	for _, o := range s.Action {
		switch o.Representation {
		case ChunkPoseRot6D, StepPoseRot6D, PoseRot6D:
			pose := make([]float64, rot6dPoseDim)
			putPose(pose, frames.Identity)
			row = append(row, pose...)
		case DeltaToState:
			row = append(row, make([]float64, o.SourceDim)...)
		default:
			held := s.heldBy(o)
			if held == "" || len(values[held]) != o.SourceDim {
				return nil, false
			}
			row = append(row, values[held]...)
		}
	}
	return slices.Repeat(row, s.Horizon), true
}

// heldBy names the state feature that shows where an absolute output stands now.
func (s Spec) heldBy(o Output) string {
	match := ""
	for _, in := range s.State {
		switch {
		case in.Feature == o.Feature:
			return in.Feature
		case in.Representation == Absolute && in.SourceDim == o.SourceDim:
			match = in.Feature
		}
	}
	return match
}

// Around gives the rows of an episode counted from row t.
func Around(e Episode, t int) Rows { return around{e, t} }
