package sketch

import (
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"github.com/pinch-robotics/pinch/internal/quantile"
)

var levels = []float64{0, 0.01, 0.1, 0.5, 0.9, 0.99, 1}

func draw(rng *rand.Rand, kind, n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		switch kind {
		case 0:
			v[i] = rng.NormFloat64()
		case 1: // sorted, the worst order for a careless sketch
			v[i] = float64(i)
		case 2: // few values, as a gripper that is open or closed
			v[i] = float64(rng.IntN(3)) - 1
		case 3: // far from zero, as stamps
			v[i] = 1.7e18 + float64(i)*33e6
		case 4:
			v[i] = math.Exp(10 * rng.NormFloat64())
		}
	}
	return v
}

// Up to 2*Size values the quantiles are those of numpy.
func TestExactWhileSmall(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for kind := range 5 {
		v := draw(rng, kind, 2*Size-1)
		var s Quantiles
		s.Add(v[:100])
		s.Add(v[100:])
		sorted := slices.Sorted(slices.Values(v))
		for i, got := range s.At(levels) {
			if want := quantile.Linear(sorted, levels[i]); got != want {
				t.Errorf("kind %d at %v: %v, want %v", kind, levels[i], got, want)
			}
		}
		if s.RankError() != 0 {
			t.Errorf("error %v of an exact sketch", s.RankError())
		}
	}
}

// However the values come and however parts are merged, the rank of every answer is within the stated error, and the stated
// error within what the package promises.
func TestRankErrorHolds(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	const n = 400_000
	promised := (math.Log2(n/(2.0*Size)) + 2) / (2 * Size)
	for kind := range 5 {
		v := draw(rng, kind, n)
		var whole, merged Quantiles
		whole.Add(v)
		for at := 0; at < n; {
			k := min(n-at, rng.IntN(30_000)+1)
			var part Quantiles
			part.Add(v[at : at+k])
			merged.Merge(&part)
			at += k
		}
		sorted := slices.Sorted(slices.Values(v))
		for name, s := range map[string]*Quantiles{"whole": &whole, "merged": &merged} {
			if s.Count() != n {
				t.Fatalf("%s: %d values", name, s.Count())
			}
			stated := s.RankError()
			if stated == 0 || name == "whole" && stated > promised {
				t.Errorf("kind %d %s: stated error %v, promised %v", kind, name, stated, promised)
			}
			for i, got := range s.At(levels) {
				below := float64(sort.SearchFloat64s(sorted, got)) / n
				upTo := float64(sort.SearchFloat64s(sorted, math.Nextafter(got, math.Inf(1)))) / n
				if q := levels[i]; q < below-stated-2.0/n || q > upTo+stated+2.0/n {
					t.Errorf("kind %d %s at %v: %v has ranks %v to %v, stated error %v", kind, name, q, got, below, upTo, stated)
				}
			}
		}
	}
}

// Moments of parts are those of the whole, also far from zero.
func TestColumnMomentsMerge(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	const n, dim = 20_000, 2
	v := make([]float64, n*dim)
	for i := range n {
		v[2*i], v[2*i+1] = 1e9+rng.NormFloat64(), 7
	}
	whole, merged := NewColumn(dim), NewColumn(dim)
	Add(whole, v)
	for at := 0; at < n; at += 1000 {
		part := NewColumn(dim)
		Add(part, v[at*dim:(at+1000)*dim])
		merged.Merge(part)
	}
	sum := 0.0
	for i := range n {
		sum += v[2*i] - 1e9
	}
	mean := sum / n
	squares := 0.0
	for i := range n {
		d := v[2*i] - 1e9 - mean
		squares += d * d
	}
	want := math.Sqrt(squares / n)
	for name, c := range map[string]*Column{"whole": whole, "merged": merged} {
		_, _, m, std, _ := c.Element(0, levels)
		if math.Abs(m-1e9-mean) > 1e-6 || math.Abs(std-want) > 1e-6 {
			t.Errorf("%s: mean 1e9%+v std %v, want 1e9%+v and %v", name, m-1e9, std, mean, want)
		}
		if lo, hi, m, std, q := c.Element(1, levels); lo != 7 || hi != 7 || m != 7 || std != 0 || q[3] != 7 {
			t.Errorf("%s: constant element has %v %v %v %v %v", name, lo, hi, m, std, q)
		}
	}
}

func TestNotFiniteIsLeftOut(t *testing.T) {
	c := NewColumn(1)
	Add(c, []float32{1, float32(math.NaN()), 3, float32(math.Inf(1))})
	if lo, hi, mean, _, _ := c.Element(0, levels); lo != 1 || hi != 3 || mean != 2 || c.Rows() != 4 {
		t.Errorf("got %v %v %v of %d rows", lo, hi, mean, c.Rows())
	}
}

func TestSortsLikeTheLibrary(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	for kind := range 5 {
		v := draw(rng, kind, 5000)
		for i := range v {
			if i%2 == 0 {
				v[i] = -v[i]
			}
		}
		single := make([]float64, len(v))
		for i, x := range v {
			single[i] = float64(float32(x))
		}
		for _, w := range [][]float64{v, single} {
			want := slices.Sorted(slices.Values(w))
			sortFloats(w)
			if !slices.Equal(w, want) {
				t.Errorf("kind %d is not sorted", kind)
			}
		}
	}
}
