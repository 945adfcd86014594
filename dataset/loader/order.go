package loader

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// Order is the endless sequence in which rows are seen: epoch after epoch, each a shuffle that depends on the seed and the
// epoch's number only. Position n is a pure function, so a run that saw n samples goes on at n. Not safe for concurrent use.
type Order struct {
	rows  []int
	seed  uint64
	epoch int
	perm  []int32
}

// NewOrder shuffles the given rows; it panics when there are none.
func NewOrder(rows []int, seed uint64) *Order {
	if len(rows) == 0 {
		panic("loader: order of no rows")
	}
	return &Order{rows: slices.Clone(rows), seed: seed, epoch: -1}
}

// At gives the row of sample n >= 0, which lies in epoch n / number of rows.
func (o *Order) At(n int) int {
	if epoch := n / len(o.rows); epoch != o.epoch {
		o.shuffle(epoch)
	}
	return o.rows[o.perm[n%len(o.rows)]]
}

func (o *Order) shuffle(epoch int) {
	rng := rand.New(rand.NewPCG(o.seed, uint64(epoch)))
	o.perm = make([]int32, len(o.rows))
	for i := range o.perm {
		o.perm[i] = int32(i)
	}
	rng.Shuffle(len(o.perm), func(i, j int) { o.perm[i], o.perm[j] = o.perm[j], o.perm[i] })
	o.epoch = epoch
}

// Split takes whole episodes for validation: round(fraction * n), at least one when fraction > 0 and there are two or more
// episodes. The choice depends on the seed and the episode numbers only. Both lists are sorted.
func Split(episodes []int, fraction float64, seed uint64) (train, val []int, err error) {
	if fraction < 0 || fraction >= 1 {
		return nil, nil, fmt.Errorf("validation share %v: want 0 or more and less than 1", fraction)
	}
	order := slices.Clone(episodes)
	slices.Sort(order)
	rng := rand.New(rand.NewPCG(seed, 0x5eed))
	rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	n := int(fraction*float64(len(order)) + 0.5)
	if n == 0 && fraction > 0 && len(order) > 1 {
		n = 1
	}
	n = min(n, max(len(order)-1, 0))
	val, train = slices.Clone(order[:n]), slices.Clone(order[n:])
	slices.Sort(train)
	slices.Sort(val)
	return train, val, nil
}
