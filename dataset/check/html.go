package check

import (
	"bytes"
	"context"
	_ "embed" // the page
	"encoding/base64"
	"fmt"
	"html/template"
	"image"
	"image/color"
	"image/jpeg"
	"io"
	"math"
	"sort"
	"strings"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/dataset/internal/pq"
	"github.com/pinch-robotics/pinch/dataset/internal/survey"
	"github.com/pinch-robotics/pinch/dataset/video"
	"github.com/pinch-robotics/pinch/internal/imaging"
)

//go:embed report.html
var page string

var pageTemplate = template.Must(template.New("report").Parse(page))

// illustrated bounds the findings of one code that get pictures and curves, so that the page of a broken set stays small.
const illustrated = 4

// item is a finding as the page shows it.
type item struct {
	dataset.Finding
	Numbers []string
	Frames  []picture
	Curves  []curve
	Entry   Entry
}

// picture is a frame of a camera.
type picture struct {
	Caption string
	Src     template.URL
	Mark    bool
}

// curve is a line over the rows around a finding.
type curve struct {
	Name     string
	Lines    []line
	From, To int
	// MarkX and MarkWidth of the finding's rows, in units of the drawing (0 to 600).
	MarkX, MarkWidth float64
	Low, High        string
}

type line struct {
	Points, Colour, Name string
}

type htmlPage struct {
	*dataset.Report
	Groups         []htmlGroup
	Errors, Warns  int
	Notes          int
	Clean          bool
	EpisodesListed int
}

type htmlGroup struct {
	Entry Entry
	Items []item
	More  int
	Where string
}

// WriteHTML writes the report as one page without any other file: the findings by code, with the frames of every camera and the curves
// of the feature around the first of each code. A picture or curve that can not be read is left out.
func WriteHTML(ctx context.Context, w io.Writer, r *dataset.Report) error {
	p := htmlPage{Report: r, Errors: r.Number(dataset.Error), Warns: r.Number(dataset.Warn), Notes: r.Number(dataset.Note), Clean: len(r.Findings) == 0, EpisodesListed: r.Episodes}
	s, err := survey.Read(r.Root, survey.Options{SkipQuantiles: true})
	if err != nil {
		s = nil // the findings can be told without pictures
	}
	at := map[string]int{}
	for _, f := range r.Findings {
		if err := ctx.Err(); err != nil {
			return err
		}
		i, ok := at[f.Code]
		if !ok {
			i = len(p.Groups)
			at[f.Code] = i
			p.Groups = append(p.Groups, htmlGroup{Entry: catalogue[f.Code]})
		}
		g := &p.Groups[i]
		if len(g.Items) >= 50 {
			g.More++
			continue
		}
		it := item{Finding: f, Numbers: numberTexts(f.Numbers), Entry: catalogue[f.Code]}
		if s != nil && len(g.Items) < illustrated && f.Episode >= 0 {
			illustrate(s, &it)
		}
		g.Items = append(g.Items, it)
	}
	return pageTemplate.Execute(w, p)
}

func numberTexts(n nums) []string {
	var out []string
	for k, v := range n {
		out = append(out, fmt.Sprintf("%s %.6g", k, v))
	}
	sort.Strings(out)
	return out
}

// margin is how many rows are shown before and after a finding.
const margin = 15

func illustrate(s *survey.Set, it *item) {
	var e *survey.Episode
	for i := range s.Episodes {
		if s.Episodes[i].Index == it.Episode {
			e = &s.Episodes[i]
		}
	}
	if e == nil || e.Length <= 0 {
		return
	}
	from, to := 0, e.Length
	if it.Frame >= 0 {
		from, to = max(0, it.Frame-margin), min(e.Length, it.Frame+max(1, it.Finding.Frames)+margin)
	}
	it.Frames = frames3(s, e, it)
	if f, ok := s.Info.Feature(it.Feature); ok && f.DType.Numeric() {
		if c, ok := drawCurves(s, e, f.Feature, it, from, to); ok {
			it.Curves = append(it.Curves, c)
		}
	}
}

// frames3 decodes the frames before, at and after a finding, of its camera or of all.
func frames3(s *survey.Set, e *survey.Episode, it *item) []picture {
	rows := []int{0, e.Length / 2, e.Length - 1}
	if it.Frame >= 0 {
		rows = []int{max(0, it.Frame-1), it.Frame, min(e.Length-1, it.Frame+max(1, it.Finding.Frames))}
	}
	var out []picture
	for _, cam := range s.Cameras() {
		if it.Feature != cam.Name && isCamera(s, it.Feature) {
			continue
		}
		span := e.Videos[cam.Name]
		path := s.Locate(span.Path)
		if path == "" || math.IsNaN(span.From) {
			continue
		}
		out = append(out, decodeThumbs(s.Abs(path), cam, int(math.Round(span.From*s.Info.FPS)), rows, it.Frame)...)
	}
	return out
}

func isCamera(s *survey.Set, name string) bool {
	f, ok := s.Info.Feature(name)
	return ok && f.DType == dataset.Video
}

func decodeThumbs(path string, cam survey.Feature, first int, rows []int, mark int) []picture {
	h, w := heightWidth(cam.Feature)
	if h < 1 || w < 1 {
		return nil
	}
	g := &imaging.Geometry{Mode: imaging.Squash, Width: 160, Height: max(1, 160*h/w)}
	r, err := video.Open(path, video.ReaderOptions{Geometry: g})
	if err != nil {
		return nil
	}
	defer r.Close()
	var out []picture
	buf := make([]byte, g.Width*g.Height*3)
	last := -1
	for _, row := range rows {
		if row == last || r.Frame(first+row, buf) != nil {
			continue
		}
		last = row
		out = append(out, picture{Caption: fmt.Sprintf("%s, row %d", cam.Name, row), Src: jpegURL(buf, g.Width, g.Height), Mark: row == mark})
	}
	return out
}

func jpegURL(rgb []byte, w, h int) template.URL {
	img := image.NewRGBA(image.Rect(0, 0, w, h))
	for i := 0; i < w*h; i++ {
		img.SetRGBA(i%w, i/w, color.RGBA{rgb[3*i], rgb[3*i+1], rgb[3*i+2], 255})
	}
	var b bytes.Buffer
	if jpeg.Encode(&b, img, &jpeg.Options{Quality: 75}) != nil {
		return ""
	}
	return template.URL("data:image/jpeg;base64," + base64.StdEncoding.EncodeToString(b.Bytes()))
}

// drawCurves draws the elements of a feature over the rows from..to.
func drawCurves(s *survey.Set, e *survey.Episode, f dataset.Feature, it *item, from, to int) (curve, bool) {
	v, ok := readRows(s, e, f)
	if !ok || to-from < 2 || to > len(v)/f.Dim() {
		return curve{}, false
	}
	dim := f.Dim()
	dims := make([]int, 0, dim)
	if d, ok := it.Finding.Numbers["element"]; ok && int(d) < dim {
		dims = append(dims, int(d))
	} else {
		for d := range min(dim, 8) {
			dims = append(dims, d)
		}
	}
	c := curve{Name: f.Name, From: from, To: to - 1}
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, d := range dims {
		for k := from; k < to; k++ {
			if x := v[k*dim+d]; !math.IsNaN(x) && !math.IsInf(x, 0) {
				lo, hi = math.Min(lo, x), math.Max(hi, x)
			}
		}
	}
	if !(hi > lo) {
		lo, hi = lo-1, lo+1
	}
	c.Low, c.High = fmt.Sprintf("%.4g", lo), fmt.Sprintf("%.4g", hi)
	x := func(k float64) float64 { return 600 * (k - float64(from)) / float64(to-1-from) }
	for i, d := range dims {
		var b strings.Builder
		for k := from; k < to; k++ {
			if y := v[k*dim+d]; !math.IsNaN(y) && !math.IsInf(y, 0) {
				fmt.Fprintf(&b, "%.1f,%.1f ", x(float64(k)), 115-110*(y-lo)/(hi-lo))
			}
		}
		c.Lines = append(c.Lines, line{b.String(), colours[i%len(colours)], element(f, d)})
	}
	if it.Frame >= 0 {
		c.MarkX = x(float64(it.Frame)) - 1
		c.MarkWidth = math.Max(2, x(float64(it.Frame+it.Finding.Frames))-c.MarkX)
	}
	return c, true
}

var colours = []string{"#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b", "#17becf", "#7f7f7f"}

// readRows reads one numeric column of one episode.
func readRows(s *survey.Set, e *survey.Episode, f dataset.Feature) ([]float64, bool) {
	p, err := pq.Open(s.Abs(e.DataPath))
	if err != nil {
		return nil, false
	}
	defer p.Close()
	ids, err := p.Read(dataset.EpisodeIndex, 0, p.Rows())
	if err != nil {
		return nil, false
	}
	epi, ok := survey.Floats(ids.Values)
	if !ok || len(epi) != p.Rows() {
		return nil, false
	}
	lo := 0
	for lo < len(epi) && int(epi[lo]) != e.Index {
		lo++
	}
	hi := lo
	for hi < len(epi) && int(epi[hi]) == e.Index {
		hi++
	}
	if lo == hi {
		return nil, false
	}
	d, err := p.Read(f.Name, lo, hi)
	if err != nil || len(d.Null) > 0 {
		return nil, false
	}
	v, ok := survey.Floats(d.Values)
	return v, ok && len(v) == (hi-lo)*f.Dim()
}
