package check

import (
	"encoding/binary"
	"hash/maphash"
	"math"
	"strings"

	"github.com/pinch-robotics/pinch/dataset"
)

// episode is what the rows of one episode tell. Checks against the set compare these small numbers; rows are not kept.
type episode struct {
	index, rows int
	path        string
	lo          int // its first row in the file
	tasks       []int
	summaries   map[string]*summary
	motion      map[string][]float32 // speed of the features that lags are measured with, one number per row
	relations   []relationResult
	hash        uint64 // of the numbers that a second recording could not repeat
	idle        stretch
	flags       map[string]marks
	clocks      map[string]clock
}

// stretch is a run of rows.
type stretch struct{ start, rows int }

// summary describes one numeric feature over the rows of an episode.
type summary struct {
	f     dataset.Feature
	min   []float64
	max   []float64
	mean  []float64
	std   []float64
	still []stretch // per element, the longest run of equal values
	// stillValue is the value of that run.
	stillValue []float64
	same       []int   // per element, the number of rows equal to the row before
	frozen     stretch // the longest run of rows equal in all elements
	equal      int     // rows equal to the row before in all elements
	// channels of motion: position and rotation of a pose, every element of another vector.
	channels []channel
	bad      bool // holds NaN or infinity
	flips    int  // rows where a quaternion changes its sign
	flipAt   int
	negative int // rows whose quaternion has w < 0
}

// channel is one way in which a feature moves.
type channel struct {
	name string
	// jump is the largest sudden displacement: how much farther a step goes than the steps around it; at is its row.
	jump float64
	at   int
	// step is the median of the steps that are not zero, path their sum.
	step, path float64
	// rough is how much longer two steps are than the direct way past them, over the length of a step: 0 on a straight line, 2 for
	// going back and forth.
	rough float64
}

// isPose tells whether the elements are a position and a quaternion x y z w, absolute or a motion.
func isPose(f dataset.Feature) bool {
	if f.Dim() != 7 || len(f.Names) != 7 {
		return false
	}
	p, ok := strings.CutSuffix(f.Names[3], "qx")
	return ok && f.Names[4] == p+"qy" && f.Names[5] == p+"qz" && f.Names[6] == p+"qw" && strings.HasSuffix(f.Names[0], "x") && strings.HasSuffix(f.Names[2], "z")
}

// isMotion tells whether a feature is a difference between rows, whose elements are near zero.
func isMotion(f dataset.Feature) bool {
	return isPose(f) && strings.HasPrefix(f.Names[3], "d") || strings.Contains(f.Name, ".relative")
}

func isFloat(f dataset.Feature) bool {
	return f.DType == dataset.Float32 || f.DType == dataset.Float64 || f.DType == "float16"
}

// isClock tells features that only count time or rows, which no content check looks at.
func isClock(f dataset.Feature) bool {
	return isDefault(f.Name) || strings.Contains(f.Name, "capture_time") || strings.HasSuffix(f.Name, "_ns") || strings.HasSuffix(f.Name, "timestamp")
}

// readEpisode summarises one episode of a file.
func (c *checker) readEpisode(r *fileResult, run run, values map[string]column) *episode {
	e := &episode{index: run.episode, rows: run.hi - run.lo, path: r.path, lo: run.lo, summaries: map[string]*summary{}, motion: map[string][]float32{}}
	rows := map[string][]float64{}
	var h maphash.Hash
	h.SetSeed(hashSeed)
	hashed := 0
	for _, f := range c.set.Info.Features {
		col, ok := values[f.Name]
		if !ok || col.v == nil {
			continue
		}
		dim := f.Dim()
		v := col.v[run.lo*dim : run.hi*dim]
		if f.Name == dataset.TaskIndex {
			e.tasks = distinct(v)
		}
		if isDefault(f.Name) {
			continue
		}
		s := summarize(r, e, f.Feature, v)
		e.summaries[f.Name] = s
		if s.bad {
			continue
		}
		rows[f.Name] = v
		if isFloat(f.Feature) && !isClock(f.Feature) && s.moves() {
			hashed += hashValues(&h, v)
		}
		if wantsMotion(f.Feature) && s.moves() {
			e.motion[f.Name] = speed(f.Feature, v)
		}
	}
	if hashed > 0 && e.rows > 1 {
		e.hash = h.Sum64()
	}
	checkCaptureTimes(c, r, e, values, run)
	checkFlags(c, r, e, rows)
	e.idle = idleStretch(c, e, rows)
	e.relations = c.evaluate(rows, e.rows)
	return e
}

var hashSeed = maphash.MakeSeed()

// hashValues adds every eighth value: enough to tell two recordings apart.
func hashValues(h *maphash.Hash, v []float64) int {
	var b [8]byte
	for i := 0; i < len(v); i += 8 {
		binary.LittleEndian.PutUint64(b[:], math.Float64bits(v[i]))
		h.Write(b[:])
	}
	return len(v)
}

func distinct(v []float64) []int {
	var out []int
	for i, x := range v {
		if i > 0 && x == v[i-1] {
			continue
		}
		known := false
		for _, y := range out {
			known = known || y == int(x)
		}
		if !known {
			out = append(out, int(x))
		}
	}
	return out
}

// moves reports whether any element changes within the episode.
func (s *summary) moves() bool {
	for d := range s.min {
		if s.min[d] != s.max[d] {
			return true
		}
	}
	return false
}

// summarize makes one pass per element over the rows, and one over the rows as a whole.
func summarize(r *fileResult, e *episode, f dataset.Feature, v []float64) *summary {
	dim, n := f.Dim(), e.rows
	s := &summary{f: f, min: make([]float64, dim), max: make([]float64, dim), mean: make([]float64, dim), std: make([]float64, dim),
		still: make([]stretch, dim), stillValue: make([]float64, dim)}
	for d := range dim {
		s.element(r, e, d, v, dim, n)
	}
	if s.bad {
		return s
	}
	s.wholeRows(v, dim, n)
	if isFloat(f) && !isClock(f) {
		s.motions(v, dim, n)
	}
	if isPose(f) {
		s.quaternion(r, e, v, n)
	}
	return s
}

func (s *summary) element(r *fileResult, e *episode, d int, v []float64, dim, n int) {
	first := v[d]
	lo, hi, sum, squares := first, first, 0.0, 0.0
	last, runLen, best, bestEnd := first, 1, 1, 0
	for k, i := 0, d; k < n; k, i = k+1, i+dim {
		x := v[i]
		if x < lo {
			lo = x
		} else if x > hi {
			hi = x
		} else if x != x || x-x != 0 {
			s.notFinite(r, e, d, k, x)
			return
		}
		y := x - first
		sum += y
		squares += y * y
		if k > 0 {
			if x == last {
				runLen++
				if runLen > best {
					best, bestEnd = runLen, k
				}
			} else {
				runLen = 1
			}
		}
		last = x
	}
	if math.IsInf(lo, 0) || math.IsInf(hi, 0) || math.IsNaN(first) {
		s.notFinite(r, e, d, 0, first)
		return
	}
	m := sum / float64(n)
	s.min[d], s.max[d], s.mean[d] = lo, hi, first+m
	s.std[d] = math.Sqrt(math.Max(0, squares/float64(n)-m*m))
	s.still[d], s.stillValue[d] = stretch{bestEnd - best + 1, best}, v[bestEnd*dim+d]
}

func (s *summary) notFinite(r *fileResult, e *episode, d, k int, x float64) {
	s.bad = true
	r.say("not-finite", at(r.path, e.index, k).on(s.f.Name), nil, "feature %q, element %s is %v", s.f.Name, element(s.f, d), x)
}

// wholeRows finds rows that repeat the row before.
func (s *summary) wholeRows(v []float64, dim, n int) {
	if dim == 1 {
		s.frozen = s.still[0]
		return
	}
	runLen := 1
	s.frozen = stretch{0, 1}
	for k := 1; k < n; k++ {
		a, b := v[(k-1)*dim:k*dim], v[k*dim:(k+1)*dim]
		equal := true
		for d := range a {
			if a[d] != b[d] {
				equal = false
				break
			}
		}
		if !equal {
			runLen = 1
			continue
		}
		if runLen++; runLen > s.frozen.rows {
			s.frozen = stretch{k - runLen + 1, runLen}
		}
	}
}

// motions measures the steps of each channel.
func (s *summary) motions(v []float64, dim, n int) {
	if n < 3 {
		return
	}
	steps := make([]float64, n)
	if isPose(s.f) {
		if isMotion(s.f) {
			s.channels = append(s.channels, pulses("position", norms(v, dim, 0, 3, n)), pulses("rotation", angles(v, dim, n)))
			return
		}
		positionSteps(v, dim, steps)
		s.channels = append(s.channels, measure("position", steps, func(a, b int) float64 { return distance(v, dim, 0, 3, a, b) }))
		rotationSteps(v, dim, steps)
		s.channels = append(s.channels, measure("rotation", steps, func(a, b int) float64 { return turn(v, dim, a, b) }))
		return
	}
	for d := range dim {
		for k := 1; k < n; k++ {
			steps[k] = math.Abs(v[k*dim+d] - v[(k-1)*dim+d])
		}
		s.channels = append(s.channels, measure(element(s.f, d), steps, func(a, b int) float64 { return math.Abs(v[b*dim+d] - v[a*dim+d]) }))
	}
}

// quaternion verifies unit length and counts changes of sign.
func (s *summary) quaternion(r *fileResult, e *episode, v []float64, n int) {
	worst, worstAt := 0.0, -1
	for k := range n {
		q := v[k*7+3 : k*7+7]
		norm := math.Sqrt(q[0]*q[0] + q[1]*q[1] + q[2]*q[2] + q[3]*q[3])
		if off := math.Abs(norm - 1); off > worst {
			worst, worstAt = off, k
		}
		if q[3] < 0 {
			s.negative++
		}
		if k > 0 {
			p := v[k*7-4 : k*7]
			// a set that keeps w >= 0 changes all signs where w passes 0: that is its rule, not a fault
			if (p[3] < 0 || q[3] < 0) && p[0]*q[0]+p[1]*q[1]+p[2]*q[2]+p[3]*q[3] < 0 {
				if s.flips++; s.flips == 1 {
					s.flipAt = k
				}
			}
		}
	}
	if worst > unitTolerance {
		r.say("quaternion", at(r.path, e.index, worstAt).on(s.f.Name), nums{"length": 1 + worst}, "feature %q: a quaternion has length off 1 by %.6f", s.f.Name, worst)
	}
}

// unitTolerance is how far a float32 quaternion's length may be from 1 after a few products: 1e-7 times some thousands.
const unitTolerance = 1e-3
