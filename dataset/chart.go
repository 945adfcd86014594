package dataset

import (
	"fmt"
	"html/template"
	"maps"
	"math"
	"net/url"
	"slices"
	"strings"
)

// chart is one set of curves over the rows of an episode, drawn as inline SVG of fixed size.
type chart struct {
	Name   string
	SVG    template.HTML
	Legend []legend
}

type legend struct{ Name, Colour, Range string }

// Size of a chart in SVG units; the page stretches it to its width.
const (
	chartW = 900
	chartH = 150
)

// palette: colours that differ on white and for colour-blind readers (Okabe and Ito 2008), repeated after eight.
var palette = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999933"}

// charts draws a feature: positions, quaternions and the rest of a vector apart, because their scales differ; at most
// eight curves a chart.
func charts(f Feature, values []float64, rows, fps int) []chart {
	dim := f.Dim()
	var out []chart
	for _, group := range groups(f) {
		c := chart{Name: f.Name}
		lo, hi := math.Inf(1), math.Inf(-1)
		for _, d := range group {
			a, b := extent(values, d, dim)
			lo, hi = min(lo, a), max(hi, b)
			c.Legend = append(c.Legend, legend{elementName(f, d), palette[len(c.Legend)%len(palette)], fmt.Sprintf("%.4g to %.4g", a, b)})
		}
		if math.IsInf(lo, 0) {
			continue
		}
		if hi-lo < 1e-12 {
			lo, hi = lo-0.5, hi+0.5
		}
		c.SVG = svg(values, group, dim, rows, fps, lo, hi)
		out = append(out, c)
	}
	return out
}

func extent(values []float64, d, dim int) (lo, hi float64) {
	lo, hi = math.Inf(1), math.Inf(-1)
	for i := d; i < len(values); i += dim {
		if !math.IsNaN(values[i]) && !math.IsInf(values[i], 0) {
			lo, hi = min(lo, values[i]), max(hi, values[i])
		}
	}
	return lo, hi
}

func elementName(f Feature, d int) string {
	if d < len(f.Names) {
		return f.Names[d]
	}
	if f.Dim() == 1 {
		return f.Name
	}
	return fmt.Sprint(d)
}

// groups splits the elements of a feature into sets of one scale.
func groups(f Feature) [][]int {
	var rest, rotation []int
	for d := range f.Dim() {
		if n := elementName(f, d); strings.HasSuffix(n, "qx") || strings.HasSuffix(n, "qy") || strings.HasSuffix(n, "qz") || strings.HasSuffix(n, "qw") {
			rotation = append(rotation, d)
		} else {
			rest = append(rest, d)
		}
	}
	var out [][]int
	for _, g := range [][]int{rest, rotation} {
		for part := range slices.Chunk(g, len(palette)) {
			out = append(out, part)
		}
	}
	return out
}

// svg draws the curves with a grid of seconds and the range of values.
func svg(values []float64, group []int, dim, rows, fps int, lo, hi float64) template.HTML {
	var b strings.Builder
	x := func(r float64) float64 { return r / math.Max(1, float64(rows-1)) * chartW }
	y := func(v float64) float64 { return chartH - 4 - (v-lo)/(hi-lo)*(chartH-8) }
	fmt.Fprintf(&b, `<svg viewBox="0 0 %d %d" preserveAspectRatio="none" role="img">`, chartW, chartH)
	step := gridSeconds(float64(rows) / float64(fps))
	for s := step; s*float64(fps) < float64(rows); s += step {
		fmt.Fprintf(&b, `<line class="grid" x1="%.1f" x2="%.1f" y1="0" y2="%d"/>`, x(s*float64(fps)), x(s*float64(fps)), chartH)
	}
	if lo < 0 && hi > 0 {
		fmt.Fprintf(&b, `<line class="zero" x1="0" x2="%d" y1="%.1f" y2="%.1f"/>`, chartW, y(0), y(0))
	}
	for i, d := range group {
		b.WriteString(`<path vector-effect="non-scaling-stroke" stroke="` + palette[i%len(palette)] + `" d="`)
		pen := "M"
		for r := range rows {
			v := values[r*dim+d]
			if math.IsNaN(v) || math.IsInf(v, 0) {
				pen = "M"
				continue
			}
			fmt.Fprintf(&b, "%s%.1f %.1f", pen, x(float64(r)), y(v))
			pen = "L"
		}
		b.WriteString(`"/>`)
	}
	b.WriteString(`<line class="cursor" x1="0" x2="0" y1="0" y2="` + fmt.Sprint(chartH) + `"/></svg>`)
	return template.HTML(b.String())
}

// gridSeconds chooses a grid of at most ten lines.
func gridSeconds(total float64) float64 {
	for _, s := range []float64{0.1, 0.5, 1, 2, 5, 10, 30, 60, 120} {
		if total/s <= 10 {
			return s
		}
	}
	return total / 10
}

func extraPairs(extra map[string]any) []pair {
	var out []pair
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		out = append(out, pair{name, fmt.Sprint(extra[name])})
	}
	return out
}

// urlPath escapes a relative path for use in a page.
type urlPath struct{ path string }

func (p *urlPath) String() string { return (&url.URL{Path: p.path}).EscapedPath() }
