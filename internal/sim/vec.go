package sim

import (
	"fmt"

	"gonum.org/v1/gonum/spatial/r3"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/robotmodel"
)

// Short names for vector arithmetic, so that the geometry reads like formulas.

type r3Vec = r3.Vec

func vec(x, y, z float64) r3Vec      { return r3Vec{X: x, Y: y, Z: z} }
func add(a, b r3Vec) r3Vec           { return r3.Add(a, b) }
func sub(a, b r3Vec) r3Vec           { return r3.Sub(a, b) }
func scale(f float64, a r3Vec) r3Vec { return r3.Scale(f, a) }
func cross(a, b r3Vec) r3Vec         { return r3.Cross(a, b) }
func norm(a r3Vec) float64           { return r3.Norm(a) }
func unit(a r3Vec) r3Vec             { return r3.Unit(a) }
func text(a r3Vec) string            { return fmt.Sprintf("%.17g %.17g %.17g", a.X, a.Y, a.Z) }
func array(a r3Vec) robotmodel.Vec   { return robotmodel.Vec{a.X, a.Y, a.Z} }
func wxyz(q frames.Quat) [4]float64  { return [4]float64{q.W, q.X, q.Y, q.Z} }
func fromWXYZ(a [4]float64) frames.Quat {
	return frames.Quat{X: a[1], Y: a[2], Z: a[3], W: a[0]}.Canonical()
}

// poseAttrs are the attributes pos and quat of a body.
func poseAttrs(p frames.Pose) string {
	q := wxyz(p.Rot)
	return fmt.Sprintf(`pos="%s" quat="%.17g %.17g %.17g %.17g"`, text(p.Pos), q[0], q[1], q[2], q[3])
}

// poseOf turns a robotmodel transform into a pose, transformOf back.
func poseOf(t robotmodel.Transform) frames.Pose {
	q := t.Quat()
	return frames.Pose{Pos: vec(t.P[0], t.P[1], t.P[2]), Rot: frames.Quat{X: q[0], Y: q[1], Z: q[2], W: q[3]}}
}

func transformOf(p frames.Pose) robotmodel.Transform {
	return robotmodel.FromQuat(array(p.Pos), [4]float64{p.Rot.X, p.Rot.Y, p.Rot.Z, p.Rot.W})
}
