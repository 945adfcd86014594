package loader

import "math/bits"

// permutation is a pseudo-random order of 0..n-1 that needs no memory: a keyed Feistel network over the next power of two
// (Luby and Rackoff 1988), walked until it falls below n. Equal n and key give the same order on every machine.
type permutation struct {
	n, key      uint64
	left, right uint // bits of the halves
}

// rounds of the network: four are enough for random functions; small halves mix worse, and a round costs two nanoseconds.
const rounds = 6

func newPermutation(n, key uint64) permutation {
	width := max(uint(bits.Len64(n-1)), 2) // n is at least 1
	return permutation{n: n, key: key, left: width / 2, right: width - width/2}
}

// at gives the element at place i < n. On average fewer than two walks are needed, because the domain is less than twice n
// (four times for n of 1).
func (p permutation) at(i uint64) uint64 {
	for {
		i = p.shuffle(i)
		if i < p.n {
			return i
		}
	}
}

// shuffle is one pass over the halves. They may differ by a bit, so each round changes one by the other in place.
func (p permutation) shuffle(i uint64) uint64 {
	l, r := i>>p.right, i&(1<<p.right-1)
	for round := range uint64(rounds / 2) {
		l ^= mix(r^p.key, 2*round) & (1<<p.left - 1)
		r ^= mix(l^p.key, 2*round+1) & (1<<p.right - 1)
	}
	return l<<p.right | r
}

// mix is the finalizer of SplitMix64 (Steele, Lea and Flood 2014) over a value and a stream number.
func mix(v, stream uint64) uint64 {
	v += (stream + 1) * 0x9e3779b97f4a7c15
	v = (v ^ v>>30) * 0xbf58476d1ce4e5b9
	v = (v ^ v>>27) * 0x94d049bb133111eb
	return v ^ v>>31
}
