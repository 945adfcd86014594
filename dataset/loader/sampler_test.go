package loader

import (
	"math"
	"slices"
	"testing"
)

func TestPermutationIsOneForEverySize(t *testing.T) {
	for _, n := range []uint64{1, 2, 3, 5, 8, 9, 17, 100, 1023, 1024, 1025, 5000} {
		for key := range uint64(3) {
			p, seen := newPermutation(n, mix(key, 9)), make([]bool, n)
			for i := range n {
				v := p.at(i)
				if v >= n || seen[v] {
					t.Fatalf("size %d, key %d: place %d gives %d again or outside", n, key, i, v)
				}
				seen[v] = true
			}
		}
	}
}

// Places and elements of a random permutation do not correlate, and about one element stays in place.
func TestPermutationLooksRandom(t *testing.T) {
	const n, tries = 1000, 200
	fixed, worst := 0, 0.0
	for key := range uint64(tries) {
		p := newPermutation(n, mix(key, 1))
		sum := 0.0
		for i := range uint64(n) {
			v := p.at(i)
			if v == i {
				fixed++
			}
			sum += (float64(i) - (n-1)/2.0) * (float64(v) - (n-1)/2.0)
		}
		worst = max(worst, math.Abs(sum)/(n*(n*n-1)/12.0))
	}
	if mean := float64(fixed) / tries; mean < 0.7 || mean > 1.3 { // 1 with a deviation of 1/sqrt(200)
		t.Errorf("%.2f elements stay in place on average, want 1", mean)
	}
	if worst > 5/math.Sqrt(n) { // the correlation's deviation is 1/sqrt(n)
		t.Errorf("places and elements correlate by %.3f", worst)
	}
}

func TestEveryWindowOnceAnEpochAndSharesExact(t *testing.T) {
	s, err := newSampler([]int{30, 0, 12, 8}, []float64{1, 5, 1, 1}, 1, 3)
	if err != nil {
		t.Fatal(err)
	}
	if s.epoch() != 50 || s.share(0) != 30 || s.share(1) != 0 || s.share(2) != 12 || s.share(3) != 8 {
		t.Fatalf("epoch %d, bounds %v", s.epoch(), s.bounds)
	}
	var epochs [2][][2]uint64
	for n := range uint64(100) {
		set, w := s.at(n)
		epochs[n/50] = append(epochs[n/50], [2]uint64{uint64(set), w})
	}
	if slices.Equal(epochs[0], epochs[1]) {
		t.Error("two epochs in one order")
	}
	for e, got := range epochs {
		slices.SortFunc(got, func(a, b [2]uint64) int { return slices.Compare(a[:], b[:]) })
		if len(slices.Compact(slices.Clone(got))) != 50 {
			t.Errorf("epoch %d repeats windows: %v", e, got)
		}
	}
}

// With weights, each epoch has the exact shares, and a set's windows come round as evenly as whole numbers allow.
func TestWeightsShareEachEpoch(t *testing.T) {
	sizes, weights := []int{100, 10, 40}, []float64{1, 1, 2}
	s, err := newSampler(sizes, weights, 0, 11)
	if err != nil {
		t.Fatal(err)
	}
	want := []uint64{38, 37, 75} // 150 samples at 1 : 1 : 2
	counts := map[[2]uint64]int{}
	for epoch := range uint64(40) {
		got := make([]uint64, 3)
		for n := range s.epoch() {
			set, w := s.at(epoch*s.epoch() + n)
			got[set]++
			counts[[2]uint64{uint64(set), w}]++
		}
		if !slices.Equal(got, want) {
			t.Fatalf("epoch %d has %v samples of the sets, want %v", epoch, got, want)
		}
	}
	for set, size := range sizes {
		lo, hi := math.MaxInt, 0
		for w := range size {
			c := counts[[2]uint64{uint64(set), uint64(w)}]
			lo, hi = min(lo, c), max(hi, c)
		}
		if hi-lo > 1 {
			t.Errorf("windows of set %d were drawn %d to %d times", set, lo, hi)
		}
	}
	if _, err := newSampler([]int{0, 0}, []float64{1, 1}, 1, 1); err == nil {
		t.Error("an order of no windows")
	}
}

// The number that a sample has in every run: the order is part of what a checkpoint means, so it may not change unnoticed.
func TestOrderIsTheSameOnEveryMachine(t *testing.T) {
	s, err := newSampler([]int{1000, 500}, []float64{1, 3}, 0.5, 7)
	if err != nil {
		t.Fatal(err)
	}
	var got [][2]int
	for _, n := range []uint64{0, 1, 2, 3, 4, 5, 1499, 1500, 1 << 40} {
		set, w := s.at(n)
		got = append(got, [2]int{set, int(w)})
	}
	want := [][2]int{{1, 242}, {1, 125}, {1, 345}, {1, 348}, {0, 213}, {1, 279}, {1, 359}, {1, 108}, {1, 380}}
	if !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
}

func BenchmarkSample(b *testing.B) {
	sizes, weights := make([]int, 3000), make([]float64, 3000)
	for i := range sizes {
		sizes[i], weights[i] = 100_000+i, 1
	}
	s, err := newSampler(sizes, weights, 0.5, 1)
	if err != nil {
		b.Fatal(err)
	}
	n := uint64(0)
	for b.Loop() {
		s.at(n)
		n++
	}
}
