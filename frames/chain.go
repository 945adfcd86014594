package frames

import (
	"fmt"
	"slices"
)

// Chain is the way between two frames of a Tree through their lowest common ancestor. Edges above that ancestor play no
// part, so they may lack samples. It sees samples that are added later.
type Chain struct {
	target, source string
	up             []*edge // from target up to the ancestor
	down           []*edge // from source up to the ancestor
}

// Chain finds the way from source to target. The error wraps ErrUnknownFrame (with the nearest names) or ErrNotConnected.
func (t *Tree) Chain(target, source string) (*Chain, error) {
	for _, f := range [2]string{target, source} {
		if !t.names[f] {
			return nil, t.unknown(f)
		}
	}
	up, down := t.toRoot(target), t.toRoot(source)
	if root(target, up) != root(source, down) {
		return nil, fmt.Errorf("%w: %s hangs on %s, %s on %s", ErrNotConnected, target, root(target, up), source, root(source, down))
	}
	// What both ways share, counted from the root, lies above the lowest common ancestor.
	for len(up) > 0 && len(down) > 0 && up[len(up)-1] == down[len(down)-1] {
		up, down = up[:len(up)-1], down[:len(down)-1]
	}
	return &Chain{target: target, source: source, up: up, down: down}, nil
}

// At is targetFromSource at a stamp. The error wraps ErrNoSample and names the edge.
func (c *Chain) At(at Stamp, m Method) (Pose, error) {
	up, err := compose(c.up, at, m)
	if err != nil {
		return Pose{}, fmt.Errorf("pose of %s in %s: %w", c.source, c.target, err)
	}
	down, err := compose(c.down, at, m)
	if err != nil {
		return Pose{}, fmt.Errorf("pose of %s in %s: %w", c.source, c.target, err)
	}
	return up.Inv().Mul(down), nil
}

// Edge is one edge of a chain.
type Edge struct{ Parent, Child string }

// Edges lists the edges of the chain, from target up and then from source up to their lowest common ancestor.
func (c *Chain) Edges() []Edge {
	var out []Edge
	for _, e := range slices.Concat(c.up, c.down) {
		out = append(out, Edge{e.parent, e.child})
	}
	return out
}

// Start is the first stamp at which Hold gives a pose for every edge of the chain, and false when there is none. A chain of
// static edges starts at the lowest Stamp.
func (c *Chain) Start() (Stamp, bool) {
	start := Stamp(-1 << 63)
	for _, e := range slices.Concat(c.up, c.down) {
		switch {
		case e.static != nil:
		case len(e.stamps) == 0:
			return 0, false
		default:
			start = max(start, e.stamps[0])
		}
	}
	return start, true
}

// Freshness tells how many of a chain's moving edges took a new sample.
type Freshness struct {
	// Fresh is the number of edges whose held sample changed, Moving the number of edges with samples over time.
	Fresh, Moving int
}

// Any is true when the chain's pose rests on at least one new sample: it may have changed since the row before. This is
// the is_fresh column of a dataset.
func (f Freshness) Any() bool { return f.Fresh > 0 }

// All is true when every moving edge took a new sample.
func (f Freshness) All() bool { return f.Moving > 0 && f.Fresh == f.Moving }

// FreshSince compares the samples held at two stamps, the row before and this row, edge by edge.
func (c *Chain) FreshSince(before, at Stamp) Freshness {
	var f Freshness
	for _, e := range slices.Concat(c.up, c.down) {
		if len(e.stamps) == 0 {
			continue
		}
		f.Moving++
		if e.last(at) != e.last(before) {
			f.Fresh++
		}
	}
	return f
}

// EdgeState marks one edge, named by its child, between the row before and this row. The error wraps ErrUnknownFrame.
func (t *Tree) EdgeState(child string, before, at Stamp) (State, error) {
	e, ok := t.edges[child]
	if !ok {
		return Missing, t.unknown(child)
	}
	switch now := e.last(at); {
	case now < 0 && e.static == nil:
		return Missing, nil
	case now < 0 || now == e.last(before):
		return Held, nil
	}
	return Fresh, nil
}

// FreshInLastMessage is rebake's is_fresh: true when an edge of the chain was part of the very last transform message of
// the whole tree at or before the stamp. It says little about the chain (another sender may have come last); use
// FreshSince, and this one only to compare with datasets that rebake wrote.
func (c *Chain) FreshInLastMessage(t *Tree, at Stamp) bool {
	newest, found := Stamp(0), false
	for _, e := range t.edges {
		if i := e.last(at); i >= 0 && (!found || e.stamps[i] > newest) {
			newest, found = e.stamps[i], true
		}
	}
	return found && slices.ContainsFunc(slices.Concat(c.up, c.down), func(e *edge) bool {
		i := e.last(at)
		return i >= 0 && e.stamps[i] == newest
	})
}

// toRoot lists the edges from a frame upward.
func (t *Tree) toRoot(frame string) []*edge {
	var out []*edge
	for e, ok := t.edges[frame]; ok; e, ok = t.edges[e.parent] {
		out = append(out, e)
	}
	return out
}

func root(frame string, way []*edge) string {
	if len(way) == 0 {
		return frame
	}
	return way[len(way)-1].parent
}

// compose multiplies edges, listed from the bottom up, to topFromBottom.
func compose(way []*edge, at Stamp, m Method) (Pose, error) {
	out := Identity
	for i := len(way) - 1; i >= 0; i-- {
		p, err := way[i].pick(at, m)
		if err != nil {
			return Pose{}, err
		}
		out = out.Mul(p)
	}
	return out, nil
}
