package dataset

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// content gathers what the numbers themselves tell, feature by feature.
type content struct {
	features []Feature
	of       map[string]*featureContent
}

// featureContent is about one numeric feature over all rows seen.
type featureContent struct {
	rows     int
	min, max []float64
	sum, sq  []float64 // of values shifted by the first row, so that large numbers keep their digits
	first    []float64
	frozen   int // longest run of equal rows within an episode
	episode  int // where it is
	start    int
	moved    bool
}

func newContent(info Info) *content {
	return &content{features: info.Features, of: map[string]*featureContent{}}
}

// add takes the rows of one file.
func (ct *content) add(c *checker, f Feature, path string, epi, v []float64) {
	dim := f.Dim()
	fc := ct.of[f.Name]
	if fc == nil {
		fc = &featureContent{min: slices.Clone(v[:dim]), max: slices.Clone(v[:dim]), first: slices.Clone(v[:dim]), sum: make([]float64, dim), sq: make([]float64, dim)}
		ct.of[f.Name] = fc
	}
	run, k := 0, 0
	for r := range epi {
		if r > 0 && epi[r] == epi[r-1] {
			k++
		} else {
			run, k = 0, 0
		}
		row := v[r*dim : (r+1)*dim]
		for d, x := range row {
			if math.IsNaN(x) || math.IsInf(x, 0) {
				c.each(Error, "not-finite", f.Name, path, int(epi[r]), k, "drop or repair these rows", "feature %q, element %s is %v", f.Name, element(f, d), x)
				continue
			}
			fc.min[d], fc.max[d] = min(fc.min[d], x), max(fc.max[d], x)
			fc.sum[d] += x - fc.first[d]
			fc.sq[d] += (x - fc.first[d]) * (x - fc.first[d])
		}
		if k > 0 && slices.Equal(row, v[(r-1)*dim:r*dim]) {
			if run++; run > fc.frozen {
				fc.frozen, fc.episode, fc.start = run, int(epi[r]), k-run
			}
		} else {
			run = 0
			fc.moved = fc.moved || k > 0
		}
		checkQuaternion(c, f, path, int(epi[r]), k, row)
	}
	fc.rows += len(epi)
}

// element is the name of an element with its number.
func element(f Feature, d int) string {
	if d < len(f.Names) {
		return fmt.Sprintf("%d (%s)", d, f.Names[d])
	}
	return fmt.Sprint(d)
}

// checkQuaternion verifies unit length where four neighbouring elements are called qx qy qz qw (or dqx...).
func checkQuaternion(c *checker, f Feature, path string, e, k int, row []float64) {
	for d := 0; d+3 < len(row) && d+3 < len(f.Names); d++ {
		prefix, ok := strings.CutSuffix(f.Names[d], "qx")
		if !ok || f.Names[d+1] != prefix+"qy" || f.Names[d+2] != prefix+"qz" || f.Names[d+3] != prefix+"qw" {
			continue
		}
		norm := math.Sqrt(row[d]*row[d] + row[d+1]*row[d+1] + row[d+2]*row[d+2] + row[d+3]*row[d+3])
		if math.Abs(norm-1) > 1e-3 {
			c.each(Error, "quaternion", f.Name, path, e, k, "normalise it, or drop rows where it is zero", "feature %q: the quaternion at element %d has length %.6f", f.Name, d, norm)
		}
	}
}

// report names elements that never change: those of states and actions one by one, since training normalises them, all
// others (flags, clocks) in one note.
func (ct *content) report(c *checker) {
	c.did("content")
	var others []string
	for _, f := range ct.features {
		fc := ct.of[f.Name]
		if fc == nil || fc.rows < 2 {
			continue
		}
		still := fc.still(f)
		n := len(still)
		if n == 0 {
			continue
		}
		trained := strings.HasPrefix(f.Name, "action") || strings.HasPrefix(f.Name, "observation.state")
		if !trained || f.DType != Float32 && f.DType != Float64 {
			others = append(others, fmt.Sprintf("%s (%d of %d)", f.Name, n, f.Dim()))
			continue
		}
		if n > 6 {
			still = append(still[:5], fmt.Sprintf("and %d more", n-5))
		}
		c.each(Warn, "constant", f.Name, "", -1, -1, "leave these elements out, or keep a floor under the deviation when normalising",
			"feature %q: %d of %d elements never change over %d rows (deviation 0): %s", f.Name, n, f.Dim(), fc.rows, strings.Join(still, ", "))
	}
	if n := len(others); n > 0 {
		if n > 6 {
			others = append(others[:5], fmt.Sprintf("and %d more", n-5))
		}
		c.each(Note, "constant-other", "", "", -1, -1, "none needed unless a policy takes them", "elements that never change in %d other features: %s", n, strings.Join(others, ", "))
	}
}

// still lists the elements with one value in all rows.
func (fc *featureContent) still(f Feature) []string {
	var out []string
	for d := range fc.min {
		if fc.min[d] == fc.max[d] {
			out = append(out, fmt.Sprintf("%s = %.6g", element(f, d), fc.min[d]))
		}
	}
	return out
}

// checkFrozen names features that move, yet stand still for long in an episode: a sensor that stopped.
func (c *checker) checkFrozen(ct *content) {
	limit := max(2*c.d.info.FPS, 2)
	for _, f := range ct.features {
		fc := ct.of[f.Name]
		if fc == nil || !fc.moved || f.Dim() < 2 || fc.frozen < limit || f.DType != Float32 && f.DType != Float64 {
			continue
		}
		c.each(Note, "frozen", "", "", fc.episode, fc.start, "look whether the hand rested or the sensor stopped",
			"feature %q keeps all %d elements exactly equal for %d rows (%.1f s), the longest such stretch", f.Name, f.Dim(), fc.frozen, float64(fc.frozen)/float64(c.d.info.FPS))
	}
}

// mean and deviation of one element.
func (fc *featureContent) mean(d int) float64 { return fc.first[d] + fc.sum[d]/float64(fc.rows) }

func (fc *featureContent) std(d int) float64 {
	m := fc.sum[d] / float64(fc.rows)
	return math.Sqrt(math.Max(0, fc.sq[d]/float64(fc.rows)-m*m))
}
