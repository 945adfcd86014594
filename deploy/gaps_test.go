package deploy

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/pinch-robotics/pinch/internal/robotmodel"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
)

// The spheres around the solids leave out no pair that counts: near pairs and the smallest distance are those of a search over all pairs.
func TestGapsAreThoseOfAllPairs(t *testing.T) {
	h := testHello()
	p, _, err := newPair(&h, DefaultCell().Safety)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(11, 4))
	near, left := 0, 0
	for range 2000 {
		var q [2]armlink.Joints
		for h, a := range p.arms {
			for j := range q[h] {
				q[h][j] = a.limits.QMin[j] + rng.Float64()*(a.limits.QMax[j]-a.limits.QMin[j])
			}
		}
		var s scene
		p.scene(q, [2]float64{rng.Float64(), rng.Float64()}, &s)
		gaps, nearest := p.gaps(&s, detectGapM, nil)
		want, between := math.Inf(1), []float64{}
		for i := range s.solids[0] {
			for j := range s.solids[1] {
				a, b := &s.solids[0][i], &s.solids[1][j]
				if a.link <= 1 && b.link <= 1 {
					continue
				}
				d, _, _ := robotmodel.SegmentDistance(a.a, a.b, b.a, b.b)
				d = d - a.radius - b.radius
				want = math.Min(want, d)
				if d-p.safety.ArmClearanceM < detectGapM {
					between = append(between, d-p.safety.ArmClearanceM)
				}
				if outside(a, b, detectGapM) {
					left++
				}
			}
		}
		if nearest != want {
			t.Fatalf("nearest %v, of all pairs %v", nearest, want)
		}
		for _, g := range gaps {
			if g.hand2 < 0 {
				continue
			}
			if len(between) == 0 || g.room != between[0] {
				t.Fatalf("gap %v, want %v", g.room, between)
			}
			between = between[1:]
			near++
		}
		if len(between) > 0 {
			t.Fatalf("missing gaps %v", between)
		}
	}
	if near < 500 || left < 100_000 {
		t.Errorf("%d near pairs, %d left out: the postures try too little", near, left)
	}
}
