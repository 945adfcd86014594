package train

import (
	"encoding/base64"
	"html/template"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/pinch-robotics/pinch/internal/atomicfile"
	"github.com/pinch-robotics/pinch/internal/config"
)

// pageFile is the run's report for people: one file without links to others.
const pageFile = "report.html"

var pageTemplate = template.Must(template.New(pageFile).Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{{.Name}}</title>
<style>body{font-family:sans-serif;max-width:62em;margin:2em auto;padding:0 1em}pre{background:#f4f4f4;padding:1em;overflow-x:auto}img{max-width:100%}svg{max-width:100%;height:auto}</style>
<h1>{{.Name}}</h1>
<p>{{.Steps}} steps, {{printf "%.1f" .Speed}} samples/s, waiting for the loader {{printf "%.1f" .Waiting}} % of the time.
{{if .Checkpoint}}Checkpoint <code>{{.Checkpoint}}</code>.{{end}}</p>
<h2>Loss</h2>
{{.Curve}}
{{if .Picture}}<h2>What the network saw first</h2>
<p>One sample for each column, cameras below each other, with augmentation.</p>
<img alt="first batch" src="{{.Picture}}">{{end}}
{{if .Report}}<h2>Open-loop error</h2>
<pre>{{.Report}}</pre>
<table>{{range .Channels}}<tr><td>{{.Name}} ({{.Unit}}), by step</td>{{range .Policy}}<td>{{printf "%.3g" .}}</td>{{end}}</tr>
{{end}}</table>{{end}}
<h2>Data</h2>
<pre>{{.Data}}</pre>
<h2>Configuration</h2>
<pre>{{.Config}}</pre>
</html>
`))

// page writes report.html: curves, first samples, errors, data and configuration.
func (t *trainer) page() error {
	text, err := config.Marshal(t.cfg)
	if err != nil {
		return err
	}
	data, err := config.Marshal(map[string]any{"identity": t.provenance.Identity, "name": t.provenance.Name, "split": t.provenance.Split,
		"rows": t.provenance.Rows, "held_out_rows": t.check.count, "instructions": t.provenance.Prompts})
	if err != nil {
		return err
	}
	view := struct {
		Name, Checkpoint, Report, Data, Config string
		Steps                                  int
		Speed, Waiting                         float64
		Curve                                  template.HTML
		Picture                                template.URL
		Channels                               []ChannelError
	}{Name: filepath.Base(filepath.Clean(t.cfg.Out)), Checkpoint: t.result.Manifest.Checkpoint, Data: string(data), Config: string(text), Steps: t.steps,
		Speed: t.result.SamplesPerSecond, Waiting: 100 * t.waiting()}
	svg, err := os.ReadFile(filepath.Join(t.cfg.Out, "loss.svg"))
	if err != nil {
		return err
	}
	if i := strings.Index(string(svg), "<svg"); i >= 0 { // without the XML declaration
		view.Curve = template.HTML(svg[i:])
	}
	if png, err := os.ReadFile(filepath.Join(t.cfg.Out, firstBatchFile)); err == nil {
		view.Picture = template.URL("data:image/png;base64," + base64.StdEncoding.EncodeToString(png))
	}
	if t.result.Report != nil {
		view.Report, view.Channels = t.result.Report.String(), t.result.Report.Channels
	}
	return atomicfile.Write(atomicfile.OS, filepath.Join(t.cfg.Out, pageFile), 0o644, func(w io.Writer) error { return pageTemplate.Execute(w, view) })
}

// waiting is the loader's mean share over the log lines.
func (t *trainer) waiting() float64 {
	sum, n := 0.0, 0
	for _, p := range t.curve {
		if p.ValLoss == nil {
			sum += p.LoaderShare
			n++
		}
	}
	return sum / float64(max(n, 1))
}
