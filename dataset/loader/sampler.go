package loader

import (
	"fmt"
	"math"
	"slices"
	"sort"
)

// sampler is the endless order of the windows of several sets. Sample n is a pure function of seed and n: a resumed run, another
// number of workers or another machine sees the same samples.
//
// An epoch has as many samples as there are windows. Set s has a fixed number of them, its share; which places they take is a
// permutation of the epoch, and which windows come next is a permutation of the set that starts anew whenever all of its
// windows were seen. So shares are exact in each epoch, and no window repeats before all others of its set were seen.
type sampler struct {
	seed   uint64
	sizes  []uint64 // windows of each set
	bounds []uint64 // bounds[s] is the first place of set s in an unshuffled epoch; the last entry is the epoch
}

// newSampler takes the windows of each set, their weights, and the power p of the size: the share of a set is proportional to
// weight * windows^p.
func newSampler(sizes []int, weights []float64, power float64, seed uint64) (*sampler, error) {
	s := &sampler{seed: seed, bounds: []uint64{0}}
	shares, total, epoch := make([]float64, len(sizes)), 0.0, 0
	for i, n := range sizes {
		if n > 0 {
			shares[i] = weights[i] * math.Pow(float64(n), power)
		}
		total, epoch = total+shares[i], epoch+n
		s.sizes = append(s.sizes, uint64(n))
	}
	if epoch == 0 || !(total > 0) || math.IsInf(total, 0) {
		return nil, fmt.Errorf("no window to draw: %d windows, total weight %v", epoch, total)
	}
	for _, n := range largestRemainder(shares, total, epoch) {
		s.bounds = append(s.bounds, s.bounds[len(s.bounds)-1]+uint64(n))
	}
	return s, nil
}

// largestRemainder divides n among the shares in whole numbers that differ from the exact ones by less than one.
func largestRemainder(shares []float64, total float64, n int) []int {
	out, order, left := make([]int, len(shares)), make([]int, len(shares)), n
	rest := make([]float64, len(shares))
	for i, v := range shares {
		exact := v / total * float64(n)
		out[i] = int(exact)
		rest[i], order[i] = exact-float64(out[i]), i
		left -= out[i]
	}
	sort.SliceStable(order, func(a, b int) bool { return rest[order[a]] > rest[order[b]] })
	for _, i := range order {
		if left <= 0 {
			break
		}
		if shares[i] > 0 {
			out[i]++
			left--
		}
	}
	return out
}

// epoch is the number of samples of one.
func (s *sampler) epoch() uint64 { return s.bounds[len(s.bounds)-1] }

// share of a set in each epoch.
func (s *sampler) share(set int) uint64 { return s.bounds[set+1] - s.bounds[set] }

// at gives set and window (below its size) of sample n.
func (s *sampler) at(n uint64) (set int, window uint64) {
	epoch, place := n/s.epoch(), n%s.epoch()
	place = newPermutation(s.epoch(), mix(s.seed, 2*epoch)).at(place)
	set, found := slices.BinarySearch(s.bounds, place)
	if !found {
		set--
	}
	for s.share(set) == 0 { // sets without a share begin where the next one does
		set++
	}
	k := epoch*s.share(set) + place - s.bounds[set] // how often the set was drawn before, up to the order inside the epoch
	size := s.sizes[set]
	pass := newPermutation(size, mix(mix(s.seed, 2*uint64(set)+1), k/size))
	return set, pass.at(k % size)
}
