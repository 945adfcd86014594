package calibrate

import (
	"context"
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/spatial/r3"

	"github.com/pinch-robotics/pinch/deploy"
	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/robotmodel"
)

// Ask tells the person at the robot what to do and returns when it is done; an error ends the measurement.
type Ask func(what string) error

// tipOf is where the closed fingers meet, in hand_root.
func tipOf() r3.Vec {
	g := robotmodel.YUBI()
	tip, _ := g.Tips(0)
	return r3.Vec{X: tip[0], Z: tip[2]}
}

// Point is a measured offset in m with its standard error.
type Point struct {
	Value r3.Vec
	Error float64 // largest of the three axes, one standard deviation
	Rest  float64 // root mean square of what the fit leaves
}

// pivots and touches are how many postures a person is asked for.
const (
	pivots  = 6
	touches = 5
)

// TCP finds how far the tips of a hand's closed fingers are from where the cell file puts them. The person guides the arm by hand: the tips stay in one fixed dimple
// while the hand is turned to six postures.
func TCP(ctx context.Context, r Robot, hand int, ask Ask) (Point, error) {
	var at []frames.Pose
	for i := range pivots {
		if err := ask(fmt.Sprintf("%s hand, posture %d of %d: fingers closed, tips in the dimple, turned at least 20 degrees from the ones before", deploy.Hands[hand], i+1, pivots)); err != nil {
			return Point{}, err
		}
		if err := r.Settle(ctx); err != nil {
			return Point{}, err
		}
		at = append(at, r.HandPose(hand))
	}
	tip, err := pivot(at)
	tip.Value = r3.Sub(tip.Value, tipOf())
	return tip, err
}

// pivot solves R_i p + t_i = c for p, the point of a body that stayed where it was, by least squares.
func pivot(at []frames.Pose) (Point, error) {
	n := len(at)
	a, b := mat.NewDense(3*n, 6, nil), mat.NewVecDense(3*n, nil)
	for i, p := range at {
		for k, axis := range []r3.Vec{{X: 1}, {Y: 1}, {Z: 1}} {
			v := p.Rot.Rotate(axis)
			a.Set(3*i, k, v.X)
			a.Set(3*i+1, k, v.Y)
			a.Set(3*i+2, k, v.Z)
			a.Set(3*i+k, 3+k, -1)
		}
		b.SetVec(3*i, -p.Pos.X)
		b.SetVec(3*i+1, -p.Pos.Y)
		b.SetVec(3*i+2, -p.Pos.Z)
	}
	var svd mat.SVD
	if !svd.Factorize(a, mat.SVDThin) {
		return Point{}, errors.New("the postures can not be solved")
	}
	s := svd.Values(nil)
	if s[5] < 0.1*s[0] { // three turns by 20 degrees about different axes have 0.2
		return Point{}, errors.New("the postures are too much alike; turn the hand further, about more than one axis")
	}
	var x mat.VecDense
	svd.SolveVecTo(&x, b, 6)
	var rest mat.VecDense
	rest.MulVec(a, &x)
	rest.SubVec(&rest, b)
	sum := mat.Dot(&rest, &rest)
	var normal, inverse mat.Dense
	normal.Mul(a.T(), a)
	if err := inverse.Inverse(&normal); err != nil {
		return Point{}, fmt.Errorf("solve postures: %w", err)
	}
	out := Point{Value: r3.Vec{X: x.AtVec(0), Y: x.AtVec(1), Z: x.AtVec(2)}, Rest: math.Sqrt(sum / float64(n))}
	for k := range 3 {
		out.Error = math.Max(out.Error, math.Sqrt(sum/float64(3*n-6)*inverse.At(k, k)))
	}
	return out, nil
}

// Base is where the right arm stands against where the cell says.
type Base struct {
	Correction frames.Pose // from the left: cellFromBase of the right arm becomes Correction * cellFromBase
	Rest       float64     // m, root mean square of what the fit leaves
}

// Bases finds where the right arm really stands. The person guides both arms: the tips of one, then of the other, touch five points that span the work space.
func Bases(ctx context.Context, r Robot, ask Ask) (Base, error) {
	var left, right []r3.Vec
	for i := range touches {
		for h, into := range []*[]r3.Vec{&left, &right} {
			if err := ask(fmt.Sprintf("point %d of %d: touch it with the closed tips of the %s hand", i+1, touches, deploy.Hands[h])); err != nil {
				return Base{}, err
			}
			if err := r.Settle(ctx); err != nil {
				return Base{}, err
			}
			*into = append(*into, r.HandPose(h).Apply(tipOf()))
		}
	}
	return register(left, right)
}

// register is the rigid motion that brings the points b onto the points a best. Source: Kabsch, Acta Cryst. A32 (1976) 922.
func register(a, b []r3.Vec) (Base, error) {
	mean := func(v []r3.Vec) (m r3.Vec) {
		for _, p := range v {
			m = r3.Add(m, r3.Scale(1/float64(len(v)), p))
		}
		return m
	}
	ma, mb := mean(a), mean(b)
	h := mat.NewDense(3, 3, nil)
	for i := range a {
		p, q := r3.Sub(b[i], mb), r3.Sub(a[i], ma)
		for r, x := range []float64{p.X, p.Y, p.Z} {
			for c, y := range []float64{q.X, q.Y, q.Z} {
				h.Set(r, c, h.At(r, c)+x*y)
			}
		}
	}
	var svd mat.SVD
	if !svd.Factorize(h, mat.SVDFull) {
		return Base{}, errors.New("the points can not be solved")
	}
	s := svd.Values(nil)
	const spread = 0.05 // m: the second axis of the points' spread
	if math.Sqrt(s[1]/float64(len(a))) < spread {
		return Base{}, fmt.Errorf("the points lie almost on a line; spread them over the table, %.0f cm and more", 200*spread)
	}
	var u, v, rot mat.Dense
	svd.UTo(&u)
	svd.VTo(&v)
	d := mat.NewDiagDense(3, []float64{1, 1, math.Copysign(1, mat.Det(&u)*mat.Det(&v))})
	rot.Product(&v, d, u.T())
	var m robotmodel.Transform
	for r := range 3 {
		for c := range 3 {
			m.R[3*r+c] = rot.At(r, c)
		}
	}
	t := m.Pose()
	t.Pos = r3.Sub(ma, t.Rot.Rotate(mb))
	out := Base{Correction: t}
	for i := range a {
		out.Rest += r3.Norm2(r3.Sub(t.Apply(b[i]), a[i])) / float64(len(a))
	}
	out.Rest = math.Sqrt(out.Rest)
	return out, nil
}
