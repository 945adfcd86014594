package frames

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
)

// Errors of a Tree, to be tested with errors.Is.
var (
	// ErrTwoParents: a frame was given a second parent.
	ErrTwoParents = errors.New("frame has two parents")
	// ErrLoop: an edge would make a frame its own ancestor.
	ErrLoop = errors.New("frames form a loop")
	// ErrUnknownFrame: no edge names the frame.
	ErrUnknownFrame = errors.New("unknown frame")
	// ErrNotConnected: two frames have no common ancestor.
	ErrNotConnected = errors.New("frames are not connected")
	// ErrNoSample: an edge on the way has no transform yet at the time asked for.
	ErrNoSample = errors.New("no transform yet")
)

// Tree holds the transforms between named frames. Every frame but a root has one parent; the edge to it holds a static
// pose, or poses over time, or both (the static one then stands until the first sample). A Tree is safe for concurrent
// reading once nothing is added any more.
type Tree struct {
	edges map[string]*edge // by child
	names map[string]bool  // parents and children
}

// edge is parent-from-child, over time.
type edge struct {
	parent, child string
	static        *Pose
	stamps        []Stamp // ascending, no two equal
	poses         []Pose
}

// NewTree is a tree without frames.
func NewTree() *Tree { return &Tree{edges: map[string]*edge{}, names: map[string]bool{}} }

// AddStatic sets parentFromChild for all times; a second call replaces the pose. The error wraps ErrTwoParents, ErrLoop,
// ErrNotFinite or ErrNotRotation and leaves the tree as it was.
func (t *Tree) AddStatic(parent, child string, parentFromChild Pose) error {
	p, err := parentFromChild.Normalize()
	if err != nil {
		return fmt.Errorf("static transform %s to %s: %w", parent, child, err)
	}
	e, err := t.edge(parent, child)
	if err != nil {
		return err
	}
	e.static = &p
	return nil
}

// AddDynamic adds parentFromChild at a stamp; samples may come in any order, and of two with one stamp the later call
// counts. Errors as for AddStatic; the message also holds the stamp.
func (t *Tree) AddDynamic(parent, child string, at Stamp, parentFromChild Pose) error {
	p, err := parentFromChild.Normalize()
	if err != nil {
		return fmt.Errorf("transform %s to %s at %d ns: %w", parent, child, at, err)
	}
	e, err := t.edge(parent, child)
	if err != nil {
		return err
	}
	n := len(e.stamps)
	if n == 0 || e.stamps[n-1] < at {
		e.stamps, e.poses = append(e.stamps, at), append(e.poses, p)
		return nil
	}
	i, found := slices.BinarySearch(e.stamps, at)
	if found {
		e.poses[i] = p
		return nil
	}
	e.stamps, e.poses = slices.Insert(e.stamps, i, at), slices.Insert(e.poses, i, p)
	return nil
}

// Frames lists all frame names in alphabetical order.
func (t *Tree) Frames() []string {
	out := make([]string, 0, len(t.names))
	for name := range t.names {
		out = append(out, name)
	}
	sort.Strings(out)
	return out
}

// Has tells whether some edge names the frame.
func (t *Tree) Has(frame string) bool { return t.names[frame] }

// Parent is the parent of a frame and whether it has one.
func (t *Tree) Parent(frame string) (string, bool) {
	if e, ok := t.edges[frame]; ok {
		return e.parent, true
	}
	return "", false
}

// Samples lists the stamps of the edge above a frame, ascending; empty for a static edge. The caller must not write to it.
func (t *Tree) Samples(child string) []Stamp {
	if e, ok := t.edges[child]; ok {
		return e.stamps
	}
	return nil
}

// Lookup is targetFromSource at a stamp: the pose of frame source in frame target. For many stamps make a Chain once.
func (t *Tree) Lookup(target, source string, at Stamp, m Method) (Pose, error) {
	c, err := t.Chain(target, source)
	if err != nil {
		return Pose{}, err
	}
	return c.At(at, m)
}

// edge finds or makes the edge above child.
func (t *Tree) edge(parent, child string) (*edge, error) {
	if e, ok := t.edges[child]; ok {
		if e.parent != parent {
			return nil, fmt.Errorf("%w: %s hangs on %s and on %s", ErrTwoParents, child, e.parent, parent)
		}
		return e, nil
	}
	if parent == "" || child == "" {
		return nil, fmt.Errorf("transform %q to %q: %w: the name is empty", parent, child, ErrUnknownFrame)
	}
	way := []string{child, parent}
	for at := parent; ; {
		if at == child {
			return nil, fmt.Errorf("%w: %s", ErrLoop, strings.Join(way, ", "))
		}
		e, ok := t.edges[at]
		if !ok {
			break
		}
		at = e.parent
		way = append(way, at)
	}
	e := &edge{parent: parent, child: child}
	t.edges[child] = e
	t.names[parent], t.names[child] = true, true
	return e, nil
}

// unknown is the error for a frame that no edge names; it lists the nearest names there are.
func (t *Tree) unknown(frame string) error {
	near := nearestNames(frame, t.Frames(), 3)
	if len(near) == 0 {
		return fmt.Errorf("%w %q: the tree has no frames", ErrUnknownFrame, frame)
	}
	return fmt.Errorf("%w %q; nearest names: %s", ErrUnknownFrame, frame, strings.Join(near, ", "))
}

// pick chooses the edge's transform at a stamp.
func (e *edge) pick(at Stamp, m Method) (Pose, error) {
	p := PickAt(e.stamps, at, m)
	switch {
	case p.State == Missing && e.static != nil:
		return *e.static, nil
	case p.State == Missing && len(e.stamps) > 0:
		return Pose{}, fmt.Errorf("%w: %s to %s begins at %d ns, asked for %d ns", ErrNoSample, e.parent, e.child, e.stamps[0], at)
	case p.State == Missing:
		return Pose{}, fmt.Errorf("%w: %s to %s has no samples", ErrNoSample, e.parent, e.child)
	case p.Fraction > 0:
		return Interpolate(e.poses[p.Index], e.poses[p.Index+1], p.Fraction), nil
	}
	return e.poses[p.Index], nil
}

// last is the index of the sample held at a stamp, -1 before the first.
func (e *edge) last(at Stamp) int { return PickAt(e.stamps, at, Hold).Index }

// nearestNames sorts names by edit distance from want and gives the first n.
func nearestNames(want string, names []string, n int) []string {
	out := slices.Clone(names)
	slices.SortStableFunc(out, func(a, b string) int { return editDistance(want, a) - editDistance(want, b) })
	return out[:min(n, len(out))]
}

// editDistance is Levenshtein's, in bytes.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diag := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diag
			if a[i-1] != b[j-1] {
				cost++
			}
			diag = row[j]
			row[j] = min(cost, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}
