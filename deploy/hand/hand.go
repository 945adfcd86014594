// Package hand has what the drivers of grippers share. Each driver is a package below it and implements arm.Hand.
package hand

import (
	"errors"
	"fmt"
	"math"
)

// Point ties a finger angle to a position of the gripper's own scale.
type Point struct {
	Rad   float64 `yaml:"rad"`
	Count float64 `yaml:"count"`
}

// Scale maps finger angles to counts by straight pieces between calibrated points, in either direction of counting.
type Scale struct{ points []Point }

// NewScale checks the points: at least two, angles rising, counts strictly one way, and no piece so steep that a count would be a jump.
func NewScale(points []Point) (Scale, error) {
	if len(points) < 2 {
		return Scale{}, errors.New("points: want at least the closed and the open one")
	}
	up := points[1].Count > points[0].Count
	for i := 1; i < len(points); i++ {
		a, b := points[i-1], points[i]
		if !(b.Rad > a.Rad) || math.IsInf(b.Rad, 0) {
			return Scale{}, fmt.Errorf("points: angle %v of point %d does not rise from %v", b.Rad, i, a.Rad)
		}
		if b.Count == a.Count || (b.Count > a.Count) != up || math.IsNaN(b.Count) || math.IsInf(b.Count, 0) {
			return Scale{}, fmt.Errorf("points: count %v of point %d does not go on from %v in one direction", b.Count, i, a.Count)
		}
	}
	return Scale{points}, nil
}

// Count is the position of a finger angle; angles outside are clamped to the calibrated range.
func (s Scale) Count(rad float64) float64 {
	first, last := s.points[0], s.points[len(s.points)-1]
	rad = math.Min(math.Max(rad, first.Rad), last.Rad)
	i := s.piece(func(p Point) bool { return p.Rad > rad })
	a, b := s.points[i], s.points[i+1]
	return a.Count + (rad-a.Rad)/(b.Rad-a.Rad)*(b.Count-a.Count)
}

// Rad is the finger angle of a position, going on straight beyond the ends: a measurement is never hidden.
func (s Scale) Rad(count float64) float64 {
	up := s.points[1].Count > s.points[0].Count
	i := s.piece(func(p Point) bool { return (p.Count > count) == up && p.Count != count })
	a, b := s.points[i], s.points[i+1]
	return a.Rad + (count-a.Count)/(b.Count-a.Count)*(b.Rad-a.Rad)
}

// piece is the index of the piece that ends at the first point that is beyond, within the pieces there are.
func (s Scale) piece(beyond func(Point) bool) int {
	for i := 1; i < len(s.points)-1; i++ {
		if beyond(s.points[i]) {
			return i - 1
		}
	}
	return len(s.points) - 2
}

// Ends are the lowest and highest count.
func (s Scale) Ends() (lo, hi float64) {
	a, b := s.points[0].Count, s.points[len(s.points)-1].Count
	return math.Min(a, b), math.Max(a, b)
}
