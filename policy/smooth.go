package policy

import (
	"fmt"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/spatial/r3"

	"github.com/pinch-robotics/pinch/frames"
)

// Degrees of the polynomials in time that a sampled motion is fitted with. A hand's turn over a chunk is one gentle movement; its path may
// stop and go on within it.
const (
	turnDegree = 3
	pathDegree = 5
)

// smoothChunk takes the sampler's noise out of the pose outputs of a chunk (Horizon*ActionDim numbers in chunk form, not normalised), in place. Each step of
// a chunk is sampled with an error of its own, a few degrees and millimetres, which arms would follow as a tremble of tens of degrees per
// second. What the demonstrations hold is smooth, so position and rotation vector of each hand, relative to the pose at the observation,
// are replaced by their least-squares polynomials in time through zero at the observation. Other outputs stay.
func (s Spec) smoothChunk(chunk []float64) error {
	turn, path := smoother(s.Horizon, turnDegree), smoother(s.Horizon, pathDegree)
	col := 0
	for _, o := range s.Action {
		if o.Pose() {
			at := func(k int) []float64 { return chunk[k*s.ActionDim()+col:][:rot6dPoseDim] }
			pos, rot := mat.NewDense(s.Horizon, 3, nil), mat.NewDense(s.Horizon, 3, nil)
			for k := range s.Horizon {
				p, err := poseFromNetwork(at(k))
				if err != nil {
					return fmt.Errorf("action %q, step %d: %w", o.Name, k, err)
				}
				w := p.Rot.Log()
				pos.SetRow(k, []float64{p.Pos.X, p.Pos.Y, p.Pos.Z})
				rot.SetRow(k, []float64{w.X, w.Y, w.Z})
			}
			pos.Mul(path, mat.DenseCopyOf(pos))
			rot.Mul(turn, mat.DenseCopyOf(rot))
			for k := range s.Horizon {
				x, w := pos.RawRowView(k), rot.RawRowView(k)
				putPose(at(k), frames.Pose{Pos: r3.Vec{X: x[0], Y: x[1], Z: x[2]}, Rot: frames.ExpSO3(r3.Vec{X: w[0], Y: w[1], Z: w[2]})})
			}
		}
		col += o.Dim()
	}
	return nil
}

// smoother is the matrix (steps x steps) that replaces values at steps 1..steps by those of their least-squares polynomial of a degree
// that is zero at step 0. With no more steps than the degree it changes nothing.
func smoother(steps, degree int) *mat.Dense {
	degree = min(degree, steps)
	basis := mat.NewDense(steps, degree, nil)
	for k := range steps {
		t, v := float64(k+1)/float64(steps), 1.0
		for d := range degree {
			v *= t
			basis.Set(k, d, v)
		}
	}
	var qr mat.QR
	qr.Factorize(basis)
	var q mat.Dense
	qr.QTo(&q)
	thin := q.Slice(0, steps, 0, degree)
	out := mat.NewDense(steps, steps, nil)
	out.Mul(thin, thin.T())
	return out
}
