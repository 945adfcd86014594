package robotmodel

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The closest points beat every pair on a fine grid, lie on their segments, and are as far apart as stated.
func TestSegmentDistanceAgainstGrid(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	at := func(a, b Vec, s float64) (p Vec) {
		for k := range p {
			p[k] = a[k] + s*(b[k]-a[k])
		}
		return p
	}
	for trial := 0; trial < 400; trial++ {
		var v [4]Vec
		for i := range v {
			for k := range v[i] {
				v[i][k] = rng.NormFloat64()
			}
		}
		switch trial % 5 {
		case 1: // parallel
			d := Sub(v[1], v[0])
			v[3] = Vec{v[2][0] + d[0], v[2][1] + d[1], v[2][2] + d[2]}
		case 2: // a point
			v[1] = v[0]
		case 3:
			v[3] = v[2]
		case 4: // two points
			v[1], v[3] = v[0], v[2]
		}
		d, p, q := SegmentDistance(v[0], v[1], v[2], v[3])
		if math.Abs(Norm(Sub(p, q))-d) > 1e-12 {
			t.Fatalf("trial %d: points are %v apart, stated %v", trial, Norm(Sub(p, q)), d)
		}
		const n = 60
		for i := 0; i <= n; i++ {
			for j := 0; j <= n; j++ {
				if g := Norm(Sub(at(v[0], v[1], float64(i)/n), at(v[2], v[3], float64(j)/n))); g < d-1e-9 {
					t.Fatalf("trial %d: %v on the grid, %v stated", trial, g, d)
				}
			}
		}
		if on, _, _ := SegmentDistance(v[0], v[1], p, p); on > 1e-9 {
			t.Fatalf("trial %d: the point is %v off its segment", trial, on)
		}
	}
}

// The capsules cover the chain: each joint's origin and the flange lie inside the arm's capsules in any posture.
func TestCapsulesCoverTheJoints(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	arm := FR3()
	for trial := 0; trial < 50; trial++ {
		c := arm.Forward(randomJoints(rng, &arm.Limits))
		for i := range c {
			best := math.Inf(1)
			for _, cap := range arm.Capsules() {
				frame := Identity()
				if cap.Link > 0 {
					frame = c[cap.Link-1]
				}
				d, _, _ := SegmentDistance(frame.Apply(cap.A), frame.Apply(cap.B), c[i].P, c[i].P)
				best = math.Min(best, d-cap.Radius)
			}
			if best > 0.005 {
				t.Fatalf("frame %d lies %.3f m outside all capsules", i+1, best)
			}
		}
	}
}
