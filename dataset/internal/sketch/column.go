package sketch

import "math"

// Column summarises a column of vectors. Values that are not finite are left out. Not safe for concurrent use.
type Column struct {
	elements []element
	rows     int64
	one      []float64 // values of one element, reused
}

type element struct {
	n        int64
	lo, hi   float64
	mean, m2 float64
	q        Quantiles
}

// NewColumn is an empty summary of vectors of dim elements.
func NewColumn(dim int) *Column {
	c := &Column{elements: make([]element, dim)}
	for i := range c.elements {
		c.elements[i].lo, c.elements[i].hi = math.Inf(1), math.Inf(-1)
	}
	return c
}

// Number is what a column can hold.
type Number interface {
	float32 | float64 | int32 | int64
}

// Add adds rows of interleaved elements.
func Add[T Number](c *Column, values []T) {
	dim := len(c.elements)
	rows := len(values) / dim
	c.rows += int64(rows)
	for d := range c.elements {
		c.one = c.one[:0]
		for at := d; at < rows*dim; at += dim {
			if x := float64(values[at]); x-x == 0 {
				c.one = append(c.one, x)
			}
		}
		c.elements[d].add(c.one)
	}
}

// add adds a block: its moments in two passes, then merged, so that a large offset costs no digits.
func (e *element) add(v []float64) {
	if len(v) == 0 {
		return
	}
	b := element{n: int64(len(v)), lo: v[0], hi: v[0]}
	for _, x := range v {
		b.lo, b.hi = min(b.lo, x), max(b.hi, x)
		b.mean += (x - v[0]) // around the first value
	}
	b.mean = v[0] + b.mean/float64(len(v))
	for _, x := range v {
		b.m2 += (x - b.mean) * (x - b.mean)
	}
	e.moments(b)
	e.q.Add(v)
}

// moments merges count, bounds, mean and squares (Chan, Golub and LeVeque 1983).
func (e *element) moments(b element) {
	if b.n == 0 {
		return
	}
	n, m := float64(e.n), float64(b.n)
	delta := b.mean - e.mean
	e.mean += delta * m / (n + m)
	e.m2 += b.m2 + delta*delta*n*m/(n+m)
	e.n += b.n
	e.lo, e.hi = min(e.lo, b.lo), max(e.hi, b.hi)
}

// Merge adds what another summary of the same width has seen.
func (c *Column) Merge(o *Column) {
	c.rows += o.rows
	for d := range c.elements {
		c.elements[d].moments(o.elements[d])
		c.elements[d].q.Merge(&o.elements[d].q)
	}
}

// Rows is the number of rows.
func (c *Column) Rows() int64 { return c.rows }

// Dim is the number of elements of a row.
func (c *Column) Dim() int { return len(c.elements) }

// Element gives the summary of element d. An element without a finite value is all zero.
func (c *Column) Element(d int, levels []float64) (lo, hi, mean, std float64, quantiles []float64) {
	e := &c.elements[d]
	if e.n == 0 {
		return 0, 0, 0, 0, make([]float64, len(levels))
	}
	quantiles = e.q.At(levels)
	if e.lo == e.hi {
		return e.lo, e.hi, e.lo, 0, quantiles // exactly, whatever the rounding
	}
	for i, q := range quantiles {
		quantiles[i] = min(max(q, e.lo), e.hi)
	}
	return e.lo, e.hi, e.mean, math.Sqrt(e.m2 / float64(e.n)), quantiles
}

// RankError is the greatest error of a rank over the elements, as a share of the rows.
func (c *Column) RankError() float64 {
	worst := 0.0
	for i := range c.elements {
		worst = max(worst, c.elements[i].q.RankError())
	}
	return worst
}
