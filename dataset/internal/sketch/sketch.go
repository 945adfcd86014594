// Package sketch summarises columns of numbers in one pass and bounded memory, in parts that can be merged.
//
// Column holds, for each element of a vector, the count, the least and greatest value, the mean and the population standard
// deviation, all exact up to rounding, and a Quantiles sketch. Quantiles keeps up to 2*Size values as they are, so small data give
// exact quantiles. Beyond that it keeps levels: level h holds values that stand for 2^h each. A full level is sorted and every second
// value moves up; which half, odd or even, alternates. One such step shifts the rank of any number by at most 2^h, so the sum
// of 2^h over all steps bounds the error of every rank; RankError gives that bound as a share of the count. It grows with the
// logarithm of the count n: about log2(n/(2*Size)) / (2*Size), 0.001 at 2.5 million values and 0.002 at a billion. The typical error is
// far smaller, since odd and even steps cancel. After Munro and Paterson 1980 and Karnin, Lang and Liberty 2016, without their random choices:
// equal parts merged in equal order give equal results.
package sketch

import (
	"cmp"
	"math"
	"slices"
	"sync"

	"github.com/pinch-robotics/pinch/internal/quantile"
)

// Size is half the number of values that a level holds before it is halved.
const Size = 4096

// Quantiles is a mergeable quantile sketch of one column. The zero value is empty. Not safe for concurrent use.
type Quantiles struct {
	n      int64
	levels [][]float64
	odd    []bool
	shift  int64 // greatest error of a rank, in values
}

// Add adds finite values.
func (s *Quantiles) Add(values []float64) {
	s.n += int64(len(values))
	for len(values) > 0 {
		s.level(0)
		k := min(len(values), 2*Size-len(s.levels[0]))
		s.levels[0] = append(s.levels[0], values[:k]...)
		values = values[k:]
		s.halve(0)
	}
}

func (s *Quantiles) level(h int) {
	for len(s.levels) <= h {
		s.levels, s.odd = append(s.levels, nil), append(s.odd, false)
	}
}

// halve moves every second value of a full level up, and goes on there.
func (s *Quantiles) halve(h int) {
	for ; h < len(s.levels) && len(s.levels[h]) >= 2*Size; h++ {
		full := s.levels[h]
		sortFloats(full)
		s.level(h + 1)
		first := 0
		if s.odd[h] {
			first = 1
		}
		even := len(full) &^ 1
		for i := first; i < even; i += 2 {
			s.levels[h+1] = append(s.levels[h+1], full[i])
		}
		s.levels[h] = append(full[:0], full[even:]...)
		s.odd[h] = !s.odd[h]
		s.shift += 1 << h
	}
}

// Merge adds what another sketch has seen.
func (s *Quantiles) Merge(o *Quantiles) {
	s.n += o.n
	s.shift += o.shift
	for h, values := range o.levels {
		s.level(h)
		s.levels[h] = append(s.levels[h], values...)
	}
	for h := range s.levels {
		s.halve(h)
	}
}

// Count is the number of values.
func (s *Quantiles) Count() int64 { return s.n }

// RankError bounds how far the rank of a quantile can be from what was asked for, as a share of the count; 0 when it is exact.
func (s *Quantiles) RankError() float64 {
	if s.n == 0 {
		return 0
	}
	return float64(s.shift) / float64(s.n)
}

type weighed struct {
	value  float64
	weight int64
}

// At gives quantiles at levels in 0 to 1, in rising order. Exact sketches interpolate linearly between order statistics; others
// give the value at that rank, interpolated between the middles of what neighbouring values stand for. An empty sketch gives NaN.
func (s *Quantiles) At(levels []float64) []float64 {
	out := make([]float64, len(levels))
	if s.shift == 0 {
		var all []float64
		for _, v := range s.levels {
			all = append(all, v...)
		}
		sortFloats(all)
		for i, q := range levels {
			out[i] = quantile.Linear(all, q)
		}
		return out
	}
	var all []weighed
	for h, values := range s.levels {
		for _, v := range values {
			all = append(all, weighed{v, 1 << h})
		}
	}
	slices.SortFunc(all, func(a, b weighed) int { return cmp.Compare(a.value, b.value) })
	for i, q := range levels {
		out[i] = atRank(all, q*float64(s.n-1))
	}
	return out
}

// atRank interpolates between the middle ranks of the values.
func atRank(all []weighed, rank float64) float64 {
	before := int64(0)
	last, lastMiddle := all[0].value, math.Inf(-1)
	for _, w := range all {
		middle := float64(before) + float64(w.weight-1)/2
		if middle >= rank {
			if math.IsInf(lastMiddle, -1) || middle == lastMiddle {
				return w.value
			}
			return last + (w.value-last)*(rank-lastMiddle)/(middle-lastMiddle)
		}
		last, lastMiddle = w.value, middle
		before += w.weight
	}
	return last
}

// digit is the bits of a pass of sortSingles.
const digit = 11

// singleKeys is the working space of sortSingles.
type singleKeys struct {
	keys, other []uint32
	counts      [3][1 << digit]int32
}

var singles = sync.Pool{New: func() any { return &singleKeys{} }}

// sortSingles sorts numbers that are all of single precision, in three passes of eleven bits.
func sortSingles(v []float64) bool {
	for _, x := range v {
		if float64(float32(x)) != x {
			return false
		}
	}
	const mask = 1<<digit - 1
	s := singles.Get().(*singleKeys)
	defer singles.Put(s)
	keys, other := slices.Grow(s.keys[:0], len(v))[:len(v)], slices.Grow(s.other[:0], len(v))[:len(v)]
	s.keys, s.other = keys, other
	counts := &s.counts
	clear(counts[0][:])
	clear(counts[1][:])
	clear(counts[2][:])
	for i, x := range v {
		b := math.Float32bits(float32(x))
		b ^= uint32(int32(b)>>31) | 1<<31
		keys[i] = b
		counts[0][b&mask]++
		counts[1][b>>digit&mask]++
		counts[2][b>>(2*digit)]++
	}
	for k := range 3 {
		c, sum := &counts[k], int32(0)
		for i, n := range c {
			c[i] = sum
			sum += n
		}
		for _, b := range keys {
			d := b >> (digit * k) & mask
			other[c[d]] = b
			c[d]++
		}
		keys, other = other, keys
	}
	for i, b := range keys {
		b ^= ^uint32(int32(b)>>31) | 1<<31
		v[i] = float64(math.Float32frombits(b))
	}
	return true
}

// sortFloats sorts finite numbers by the bytes of their order-preserving bits, skipping bytes that all share.
func sortFloats(v []float64) {
	if len(v) < 256 {
		slices.Sort(v)
		return
	}
	if sortSingles(v) {
		return
	}
	keys, other := make([]uint64, len(v)), make([]uint64, len(v))
	var counts [8][256]int
	for i, x := range v {
		b := math.Float64bits(x)
		if b>>63 == 1 {
			b = ^b
		} else {
			b |= 1 << 63
		}
		keys[i] = b
		for k := range 8 {
			counts[k][byte(b>>(8*k))]++
		}
	}
	for k := range 8 {
		c := &counts[k]
		if c[byte(keys[0]>>(8*k))] == len(v) {
			continue
		}
		sum := 0
		for i, n := range c {
			c[i] = sum
			sum += n
		}
		for _, b := range keys {
			d := byte(b >> (8 * k))
			other[c[d]] = b
			c[d]++
		}
		keys, other = other, keys
	}
	for i, b := range keys {
		if b>>63 == 1 {
			b &^= 1 << 63
		} else {
			b = ^b
		}
		v[i] = math.Float64frombits(b)
	}
}
