package eval

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"image"
	"image/jpeg"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/image/draw"

	"github.com/pinch-robotics/pinch/deploy"
	"github.com/pinch-robotics/pinch/internal/imaging"
)

//go:embed report.html.tmpl
var reportPage string

var reportTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"percent": func(v float64) string { return fmt.Sprintf("%.0f %%", 100*v) },
	"add":     func(a, b int) int { return a + b },
}).Parse(reportPage))

// WriteHTML writes the report as one page that needs no network: pictures and charts are inside. out is the output folder, from
// where the pictures are read; a picture that is gone is left out.
func (r *Report) WriteHTML(w io.Writer, out string) error {
	page := page{Report: r, ScoreChart: scoreChart(r), SceneMap: sceneMap(r), Rubric: r.Plan.Task.Steps}
	for _, c := range Causes {
		row := causeRow{Cause: c}
		any := false
		for _, s := range r.Summaries {
			row.Counts = append(row.Counts, s.Causes[c])
			any = any || s.Causes[c] > 0
		}
		if any {
			page.Causes = append(page.Causes, row)
		}
	}
	for n, c := range r.Plan.Conditions {
		block := blockView{Name: c.Name, Note: c.Note}
		for _, e := range r.Plan.Entrants {
			for _, t := range r.Trials {
				if t.Number != n || t.Entrant != e.Name {
					continue
				}
				view, err := trialViewOf(t, out)
				if err != nil {
					return err
				}
				block.Trials = append(block.Trials, view)
			}
		}
		page.Blocks = append(page.Blocks, block)
	}
	for _, e := range r.Plan.Entrants {
		meta, err := json.Marshal(e.Metadata)
		if err != nil {
			return fmt.Errorf("write the report: %w", err)
		}
		page.Entrants = append(page.Entrants, entrantView{e.Name, e.About, string(meta)})
	}
	if err := reportTemplate.Execute(w, page); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

// page is what the template sees.
type page struct {
	*Report
	ScoreChart template.HTML
	SceneMap   template.HTML
	Rubric     []Step
	Causes     []causeRow
	Blocks     []blockView
	Entrants   []entrantView
}

type causeRow struct {
	Cause  Cause
	Counts []int // by entrant
}

type entrantView struct{ Name, About, Metadata string }

// blockView is one condition with all its trials.
type blockView struct {
	Name, Note string
	Trials     []trialView
}

type trialView struct {
	Trial
	Shots []shot
}

// shot is one moment of a trial: both wrist pictures side by side as a data URL.
type shot struct {
	Label   string
	Seconds float64 // from the trial's start
	URL     template.URL
}

func trialViewOf(t Trial, out string) (trialView, error) {
	view := trialView{Trial: t}
	var labels []string
	byLabel := map[string][]Picture{}
	for _, p := range t.Pictures {
		if byLabel[p.Label] == nil {
			labels = append(labels, p.Label)
		}
		byLabel[p.Label] = append(byLabel[p.Label], p)
	}
	for _, l := range labels {
		pair := byLabel[l]
		url, err := pairURL(t.dir(out), pair)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return view, fmt.Errorf("picture %s of %s on %s: %w", l, t.Entrant, t.Condition, err)
		}
		view.Shots = append(view.Shots, shot{l, max(0, float64(pair[0].TNS-t.StartNS)/1e9), url})
	}
	return view, nil
}

// Size of one wrist picture in the report, pixels, and the JPEG quality: some 4 kB each, so that a page of 60 trials stays below 5 MB.
const (
	thumbWidth, thumbHeight = 160, 120
	thumbQuality            = 70
)

// pairURL shrinks the left and right pictures into one JPEG, left hand on the left.
func pairURL(dir string, pair []Picture) (template.URL, error) {
	canvas := image.NewRGBA(image.Rect(0, 0, 2*thumbWidth, thumbHeight))
	for _, p := range pair {
		data, err := os.ReadFile(filepath.Join(dir, p.File))
		if err != nil {
			return "", err
		}
		img, err := imaging.DecodeJPEG(data)
		if err != nil {
			return "", err
		}
		at := 0
		if p.Hand == deploy.Hands[1] {
			at = thumbWidth
		}
		draw.ApproxBiLinear.Scale(canvas, image.Rect(at, 0, at+thumbWidth, thumbHeight), rgbImage{img}, image.Rect(0, 0, img.Width, img.Height), draw.Src, nil)
	}
	var buf bytes.Buffer
	if err := jpeg.Encode(&buf, canvas, &jpeg.Options{Quality: thumbQuality}); err != nil {
		return "", err
	}
	return template.URL("data:image/jpeg;base64," + base64.StdEncoding.EncodeToString(buf.Bytes())), nil
}
