package policy

import (
	"fmt"

	"gonum.org/v1/gonum/spatial/r3"

	"github.com/pinch-robotics/pinch/frames"
)

// ActionForm names the pose form that a network learns.
type ActionForm string

// The forms; each is a Representation of the pose outputs.
const (
	FormChunk    ActionForm = "chunk"    // poses seen from the observation: ChunkPoseRot6D
	FormStep     ActionForm = "step"     // motions from step to step: StepPoseRot6D
	FormAbsolute ActionForm = "absolute" // poses as stored: PoseRot6D; the observation must then carry the present pose
)

// representation of the form.
func (f ActionForm) representation() (Representation, error) {
	switch f {
	case FormChunk, "":
		return ChunkPoseRot6D, nil
	case FormStep:
		return StepPoseRot6D, nil
	case FormAbsolute:
		return PoseRot6D, nil
	}
	return "", fmt.Errorf("action form %q: want %s, %s or %s", f, FormChunk, FormStep, FormAbsolute)
}

// WithForm is the Spec with its pose outputs in a form.
func (s Spec) WithForm(f ActionForm) (Spec, error) {
	r, err := f.representation()
	if err != nil {
		return Spec{}, err
	}
	s = s.canonical()
	for i := range s.Action {
		if s.Action[i].Pose() {
			s.Action[i].Representation = r
		}
	}
	return s, nil
}

// ChunkForm turns a chunk of the network (Horizon*ActionDim numbers, not normalised) into chunk form: every pose output as seen from the
// observation, other outputs as they are. values are the observation's; outputs of absolute poses need their feature there.
func (s Spec) ChunkForm(chunk []float64, values map[string][]float64) ([]float64, error) {
	if len(chunk) != s.Horizon*s.ActionDim() {
		return nil, fmt.Errorf("chunk has %d numbers, want %d steps of %d", len(chunk), s.Horizon, s.ActionDim())
	}
	col := 0
	for _, o := range s.Action {
		at := func(k int) []float64 { return chunk[k*s.ActionDim()+col:][:rot6dPoseDim] }
		if err := o.toChunkForm(s.Horizon, at, values); err != nil {
			return nil, fmt.Errorf("action %q: %w", o.Name, err)
		}
		col += o.Dim()
	}
	return chunk, nil
}

// toChunkForm rewrites the output's steps in place.
func (out Output) toChunkForm(steps int, at func(int) []float64, values map[string][]float64) error {
	observationFromOrigin := frames.Identity
	switch out.Representation {
	case PoseRot6D:
		now, err := out.present(values)
		if err != nil {
			return err
		}
		observationFromOrigin = now.Inv()
	case StepPoseRot6D:
	default:
		return nil
	}
	before := frames.Identity
	for k := range steps {
		p, err := poseFromNetwork(at(k))
		if err != nil {
			return fmt.Errorf("step %d: %w", k, err)
		}
		if out.Representation == StepPoseRot6D {
			p = before.Mul(p)
			before = p
		} else {
			p = observationFromOrigin.Mul(p)
		}
		putPose(at(k), p)
	}
	return nil
}

// present is the pose of the output's feature at the observation.
func (out Output) present(values map[string][]float64) (frames.Pose, error) {
	v := values[out.Feature]
	if len(v) != poseDim {
		return frames.Pose{}, fmt.Errorf("observation lacks %q with %d numbers, the present pose", out.Feature, poseDim)
	}
	return poseOf(v)
}

// ChunkPoses turns a chunk in chunk form into rows of poses seen from the observation: seven numbers x y z qx qy qz qw for each pose
// output, then the columns of all other outputs.
func (s Spec) ChunkPoses(chunk []float64) ([][]float64, error) {
	return s.rows(chunk, func(_ Output, _, now frames.Pose) (frames.Pose, error) { return now, nil })
}

// AbsolutePoses is ChunkPoses with poses in the frame of the dataset, from the present poses in values.
func (s Spec) AbsolutePoses(chunk []float64, values map[string][]float64) ([][]float64, error) {
	return s.rows(chunk, func(o Output, _, now frames.Pose) (frames.Pose, error) {
		p, err := o.present(values)
		return p.Mul(now), err
	})
}

// rows writes each pose output of a chunk in chunk form as the pose that f makes of the pose of the step before (identity before step
// 0) and of the step, then all other outputs.
func (s Spec) rows(chunk []float64, f func(o Output, before, now frames.Pose) (frames.Pose, error)) ([][]float64, error) {
	rows := make([][]float64, s.Horizon)
	col := 0
	for _, o := range s.Action {
		if o.Pose() {
			before := frames.Identity
			for k := range rows {
				now, err := poseFromNetwork(chunk[k*s.ActionDim()+col:][:rot6dPoseDim])
				if err == nil {
					var p frames.Pose
					p, err = f(o, before, now)
					a := p.ArrayXYZXYZW()
					rows[k] = append(rows[k], a[:]...)
				}
				if err != nil {
					return nil, fmt.Errorf("action %q, step %d: %w", o.Name, k, err)
				}
				before = now
			}
		}
		col += o.Dim()
	}
	col = 0
	for _, o := range s.Action {
		if !o.Pose() {
			for k := range rows {
				rows[k] = append(rows[k], chunk[k*s.ActionDim()+col:][:o.Dim()]...)
			}
		}
		col += o.Dim()
	}
	return rows, nil
}

// PrefixOfSteps turns rows of an earlier answer of StepDeltas that will be made whatever comes (row 0 begins at the pose of the new
// observation) into the form of Observation.Prefix.
func (s Spec) PrefixOfSteps(rows [][]float64) ([]float64, error) {
	out := make([]float64, len(rows)*s.ActionDim())
	col, from := 0, 0
	for _, o := range s.Action {
		if !o.Pose() {
			col += o.Dim()
			continue
		}
		before := frames.Identity
		for k, row := range rows {
			if len(row) < from+poseDim {
				return nil, fmt.Errorf("row %d has %d numbers", k, len(row))
			}
			step, err := poseOf(row[from : from+poseDim])
			if err != nil {
				return nil, fmt.Errorf("action %q, step %d: %w", o.Name, k, err)
			}
			if o.Representation == PoseRot6D {
				return nil, fmt.Errorf("action %q: a prefix of motions can not be given to a policy of absolute poses", o.Name)
			}
			now := before.Mul(step)
			if o.Representation == StepPoseRot6D {
				now = step
			}
			putPose(out[k*s.ActionDim()+col:], now)
			before = before.Mul(step)
		}
		from += poseDim
		col += o.Dim()
	}
	col = 0
	for _, o := range s.Action {
		if !o.Pose() {
			for k, row := range rows {
				if len(row) < from+o.Dim() {
					return nil, fmt.Errorf("row %d has %d numbers", k, len(row))
				}
				copy(out[k*s.ActionDim()+col:][:o.Dim()], row[from:])
			}
			from += o.Dim()
		}
		col += o.Dim()
	}
	return out, nil
}

// motion is Between as a pose.
func motion(before, now frames.Pose) frames.Pose {
	d := frames.Between(before, now, frames.BodyPrevious, frames.Next)
	return frames.Pose{Pos: r3.Vec(d.Trans), Rot: d.Rot}
}
