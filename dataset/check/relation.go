package check

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"

	"gonum.org/v1/gonum/spatial/r3"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/frames"
)

// A relation is a law between features that a set may or may not follow, such as "this action is the next row of that state". All
// candidates are tried in every episode; those that most episodes follow are laws of the set, and an episode that breaks one was
// damaged after the features were computed, or by a step that computed them differently.
type relation struct {
	kind    string
	a, b, r string
	shift   int
}

func (l relation) String() string {
	switch l.kind {
	case "equal":
		if l.shift == 1 {
			return fmt.Sprintf("%s[t] = %s[t+1]", l.a, l.b)
		}
		return fmt.Sprintf("%s = %s", l.a, l.b)
	case "held":
		return fmt.Sprintf("%s keeps its value where %s is false", l.a, l.b)
	case "previous":
		return fmt.Sprintf("%s[t] = inverse(%s[t-1]) %s[t]", l.r, l.a, l.a)
	case "next":
		return fmt.Sprintf("%s[t] = inverse(%s[t]) %s[t+1]", l.r, l.a, l.a)
	case "rigid":
		return fmt.Sprintf("%s and %s are rigidly joined", l.a, l.b)
	}
	return fmt.Sprintf("%s = inverse(%s) %s", l.r, l.a, l.b)
}

func (l relation) features() []string {
	return slices.DeleteFunc([]string{l.a, l.b, l.r}, func(s string) bool { return s == "" })
}

// relationResult is the row at which an episode breaks a relation, or one of these.
type relationResult int32

const (
	silent relationResult = -2 // nothing moves, or a feature is not there
	holds  relationResult = -1
)

// candidates lists the relations to try, from the features alone.
func candidates(features []dataset.Feature) []relation {
	var out []relation
	var poses, motions, vectors []dataset.Feature
	byName := map[string]bool{}
	for _, f := range features {
		byName[f.Name] = true
		if !f.DType.Numeric() || isClock(f) {
			continue
		}
		if isPose(f) && isMotion(f) {
			motions = append(motions, f)
		} else if isPose(f) {
			poses = append(poses, f)
		}
		if isFloat(f) || f.Dim() > 1 {
			vectors = append(vectors, f)
		}
	}
	for i, a := range vectors {
		for j, b := range vectors {
			if i == j || a.Dim() != b.Dim() {
				continue
			}
			if i < j {
				out = append(out, relation{kind: "equal", a: a.Name, b: b.Name})
			}
			out = append(out, relation{kind: "equal", a: a.Name, b: b.Name, shift: 1})
		}
		if flag := a.Name + ".is_fresh"; byName[flag] {
			out = append(out, relation{kind: "held", a: a.Name, b: flag})
		}
	}
	for _, a := range poses {
		for _, r := range motions {
			out = append(out, relation{kind: "previous", a: a.Name, r: r.Name}, relation{kind: "next", a: a.Name, r: r.Name})
		}
	}
	if len(poses) > 16 {
		return out // thousands of combinations would cost more than they tell
	}
	for i, a := range poses {
		for j, b := range poses {
			if i < j && !articulated(a) && !articulated(b) {
				out = append(out, relation{kind: "rigid", a: a.Name, b: b.Name})
			}
			for k, r := range poses {
				if i != j && k != i && k != j {
					out = append(out, relation{kind: "between", a: a.Name, b: b.Name, r: r.Name})
				}
			}
		}
	}
	return out
}

// articulated tells by its name whether a pose is that of a finger, which moves against the hand in some episodes and rests in others: how
// many do says nothing about the rest.
func articulated(f dataset.Feature) bool { return strings.Contains(strings.ToLower(f.Name), "finger") }

// evaluate tries every candidate in one episode.
func (c *checker) evaluate(rows map[string][]float64, n int) []relationResult {
	laws := c.candidates()
	out := make([]relationResult, len(laws))
	for i, l := range laws {
		out[i] = l.evaluate(rows, n)
	}
	return out
}

// candidates of this set, made once.
func (c *checker) candidates() []relation {
	c.lawsOnce.Do(func() {
		var features []dataset.Feature
		for _, f := range c.set.Info.Features {
			if f.Err == nil {
				features = append(features, f.Feature)
			}
		}
		c.laws = candidates(features)
	})
	return c.laws
}

func (l relation) evaluate(rows map[string][]float64, n int) relationResult {
	for _, name := range l.features() {
		if rows[name] == nil {
			return silent
		}
	}
	if n < 4 {
		return silent
	}
	a, b, r := rows[l.a], rows[l.b], rows[l.r]
	switch l.kind {
	case "equal":
		return equalRows(a, b, len(a)/n, n, l.shift)
	case "held":
		return heldRows(a, b, len(a)/n, n)
	case "previous":
		return poseRows(1, n, func(k int) bool { return near(motionBetween(a, k-1, k), poseAt(r, k)) }, a, r)
	case "next":
		return poseRows(0, n-1, func(k int) bool { return near(motionBetween(a, k, k+1), poseAt(r, k)) }, a, r)
	case "rigid":
		first := poseAt(a, 0).Inv().Mul(poseAt(b, 0))
		return poseRows(1, n, func(k int) bool { return near(poseAt(a, k).Inv().Mul(poseAt(b, k)), first) }, a, b)
	}
	return poseRows(0, n, func(k int) bool { return near(poseAt(a, k).Inv().Mul(poseAt(b, k)), poseAt(r, k)) }, a, b)
}

// sameTolerance is a few float32 ulps of a number near 1: features of one law may be stored in two precisions.
const sameTolerance = 1e-6

func equalRows(a, b []float64, dim, n, shift int) relationResult {
	if constant(a, dim) && constant(b, dim) {
		return silent
	}
	for k := 0; k+shift < n; k++ {
		x, y := a[k*dim:(k+1)*dim], b[(k+shift)*dim:(k+shift+1)*dim]
		for d := range x {
			if diff := math.Abs(x[d] - y[d]); diff > sameTolerance*math.Max(1, math.Abs(x[d])) {
				return relationResult(k)
			}
		}
	}
	return holds
}

// heldRows: a row whose flag says "not fresh" repeats the row before.
func heldRows(a, flag []float64, dim, n int) relationResult {
	if constant(a, dim) {
		return silent
	}
	stale := false
	for k := 1; k < n; k++ {
		if flag[k] != 0 {
			continue
		}
		stale = true
		if !slices.Equal(a[k*dim:(k+1)*dim], a[(k-1)*dim:k*dim]) {
			return relationResult(k)
		}
	}
	if !stale {
		return silent
	}
	return holds
}

func constant(v []float64, dim int) bool {
	for i := dim; i < len(v); i++ {
		if v[i] != v[i-dim] {
			return false
		}
	}
	return true
}

// poseRows tests rows lo..hi-1; silent when both features stand still, as nothing is learned of them then.
func poseRows(lo, hi int, ok func(k int) bool, a, b []float64) relationResult {
	for k := lo; k < hi; k++ {
		if !ok(k) {
			return relationResult(k)
		}
	}
	if constant(a, 7) && constant(b, 7) {
		return silent
	}
	return holds
}

func poseAt(v []float64, k int) frames.Pose {
	p := v[k*7 : k*7+7]
	return frames.Pose{Pos: r3.Vec{X: p[0], Y: p[1], Z: p[2]}, Rot: frames.Quat{X: p[3], Y: p[4], Z: p[5], W: p[6]}}
}

func motionBetween(v []float64, from, to int) frames.Pose {
	return poseAt(v, from).Inv().Mul(poseAt(v, to))
}

// poseTolerance in metres and rad: the rounding of float32 poses after one composition.
const poseTolerance = 2e-5

func near(p, q frames.Pose) bool {
	d := r3.Sub(p.Pos, q.Pos)
	if math.Abs(d.X) > poseTolerance || math.Abs(d.Y) > poseTolerance || math.Abs(d.Z) > poseTolerance {
		return false
	}
	dot := p.Rot.X*q.Rot.X + p.Rot.Y*q.Rot.Y + p.Rot.Z*q.Rot.Z + p.Rot.W*q.Rot.W
	s := 1.0
	if dot < 0 {
		s = -1
	}
	return math.Abs(p.Rot.X-s*q.Rot.X) < poseTolerance && math.Abs(p.Rot.Y-s*q.Rot.Y) < poseTolerance &&
		math.Abs(p.Rot.Z-s*q.Rot.Z) < poseTolerance && math.Abs(p.Rot.W-s*q.Rot.W) < poseTolerance
}

// law is a relation that the set follows.
type law struct {
	relation
	index        int
	holds, found int // episodes that follow it, and that say anything about it
}

// majority is the share of episodes that must follow a relation for it to be a law: clearly more than those that may be broken.
const majority = 0.6

func (c *checker) learnLaws() []law {
	var out []law
	for i, l := range c.candidates() {
		w := law{relation: l, index: i}
		for _, e := range c.episodes {
			if i < len(e.relations) && e.relations[i] != silent {
				w.found++
				if e.relations[i] == holds {
					w.holds++
				}
			}
		}
		if w.holds >= 3 && float64(w.holds) >= majority*float64(w.found) {
			out = append(out, w)
		}
	}
	return out
}

// checkLaws reports, for each episode that breaks laws of the set, the feature that most of them have in common.
func (c *checker) checkLaws() {
	laws := c.learnLaws()
	for _, e := range c.episodes {
		var broken []law
		row := e.rows
		for _, l := range laws {
			if k := e.relations[l.index]; k >= 0 {
				broken = append(broken, l)
				row = min(row, int(k))
			}
		}
		if len(broken) > 0 {
			c.sayLaws(e, broken, row)
		}
	}
	if len(laws) > 0 {
		c.did(fmt.Sprintf("%d laws between features", len(laws)))
	}
}

func (c *checker) sayLaws(e *episode, broken []law, row int) {
	count := map[string]int{}
	for _, l := range broken {
		for _, f := range l.features() {
			count[f]++
		}
	}
	names := make([]string, 0, len(count))
	for f := range count {
		names = append(names, f)
	}
	sort.Slice(names, func(i, j int) bool {
		if count[names[i]] != count[names[j]] {
			return count[names[i]] > count[names[j]]
		}
		return names[i] < names[j]
	})
	var texts []string
	for _, l := range broken {
		texts = append(texts, l.String())
	}
	first := broken[0]
	c.say("relation", at(e.path, e.index, row).on(names[0]), nums{"laws": float64(len(broken)), "episodes": float64(first.found), "follow": float64(first.holds)},
		"from row %d on it breaks what %d of %d episodes follow: %s", row, first.holds, first.found, strings.ReplaceAll(few(texts, 3), ", and", "; and"))
}
