package dataset

import (
	"context"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/pinch-robotics/pinch/dataset/video"
	"github.com/pinch-robotics/pinch/internal/atomicfile"
)

//go:embed page.html index.html
var pages embed.FS

var templates = template.Must(template.New("").Funcs(template.FuncMap{"join": strings.Join}).ParseFS(pages, "page.html", "index.html"))

// ViewOptions choose what View writes.
type ViewOptions struct {
	// Episodes to show; nil shows all whose rows are present.
	Episodes []int
	// Embed puts the videos into the pages instead of beside them.
	Embed bool
	// Report of a check, whose findings the pages show; nil shows none.
	Report *Report
}

// episodePage is what page.html shows.
type episodePage struct {
	Title    string
	Root     string
	Index    int
	Rows     int
	Seconds  float64
	FPS      int
	Tasks    []string
	Extra    []pair
	Videos   []pageVideo
	Charts   []chart
	Flags    []chart // of yes/no features
	Segments []segment
	Findings []Finding
	Prev     string
	Next     string
}

type pair struct{ Name, Value string }

type pageVideo struct {
	Name, Note string
	Src        template.URL
	From       float64 // seconds of the file at which the episode starts
}

// segment is a stretch of rows with one value of an event column.
type segment struct {
	From, To int
	Seconds  float64
	Name     string
}

// View writes a folder of HTML pages (index.html and one page per episode) that need no network, with the videos beside
// them (or inside), and returns the path of index.html. Files it wrote before are replaced; other files stay.
func View(ctx context.Context, root, out string, o ViewOptions) (string, error) {
	d, err := Open(root)
	if err != nil {
		return "", err
	}
	report := o.Report
	if report == nil {
		report = &Report{Root: root}
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return "", fmt.Errorf("view %s: %w", root, err)
	}
	v := &viewer{d: d, report: report, out: out, o: o}
	if err := v.write(ctx); err != nil {
		return "", fmt.Errorf("view %s: %w", root, err)
	}
	return filepath.Join(out, "index.html"), nil
}

type viewer struct {
	d      *Dataset
	report *Report
	out    string
	o      ViewOptions
}

func (v *viewer) write(ctx context.Context) error {
	episodes, err := v.choose()
	if err != nil {
		return err
	}
	var rows []indexRow
	for i, e := range episodes {
		if err := ctx.Err(); err != nil {
			return err
		}
		p, err := v.page(ctx, e)
		if err != nil {
			return fmt.Errorf("episode %d: %w", e.Index, err)
		}
		if i > 0 {
			p.Prev = pageName(episodes[i-1].Index)
		}
		if i+1 < len(episodes) {
			p.Next = pageName(episodes[i+1].Index)
		}
		if err := v.render(pageName(e.Index), "page.html", p); err != nil {
			return err
		}
		rows = append(rows, indexRow{e.Index, pageName(e.Index), e.Length, p.Seconds, strings.Join(e.Tasks, "; "), p.Extra, p.playable()})
	}
	return v.render("index.html", "index.html", indexPage{filepath.Base(v.d.root), v.d.info, v.d.NumEpisodes(), rows, v.report})
}

type indexRow struct {
	Index   int
	Page    string
	Rows    int
	Seconds float64
	Tasks   string
	Extra   []pair
	Videos  int
}

// playable counts the videos that are there.
func (p *episodePage) playable() int {
	n := 0
	for _, v := range p.Videos {
		if v.Src != "" {
			n++
		}
	}
	return n
}

type indexPage struct {
	Title  string
	Info   Info
	Listed int
	Rows   []indexRow
	Report *Report
}

func pageName(episode int) string { return fmt.Sprintf("episode_%06d.html", episode) }

// choose lists the wanted episodes; without a wish those whose rows are there (videos may be missing).
func (v *viewer) choose() ([]EpisodeMeta, error) {
	var out []EpisodeMeta
	if v.o.Episodes != nil {
		for _, i := range v.o.Episodes {
			e, err := v.d.Episode(i)
			if err != nil {
				return nil, err
			}
			out = append(out, e)
		}
		return out, nil
	}
	for _, e := range v.d.Episodes() {
		if f, err := v.d.open(e.DataPath); err == nil && f.spans[e.Index] != [2]int{} {
			out = append(out, e)
		}
	}
	return out, nil
}

func (v *viewer) page(ctx context.Context, e EpisodeMeta) (*episodePage, error) {
	p := &episodePage{Title: filepath.Base(v.d.root), Root: v.d.root, Index: e.Index, Rows: e.Length, FPS: v.d.info.FPS,
		Seconds: float64(e.Length) / float64(v.d.info.FPS), Tasks: e.Tasks, Extra: extraPairs(e.Extra)}
	for _, f := range v.report.Findings {
		if f.Episode == e.Index || f.Episode < 0 && f.Severity == Error {
			p.Findings = append(p.Findings, f)
		}
	}
	for _, f := range v.d.info.Features {
		if f.DType == Video {
			pv, err := v.video(ctx, e, f.Name)
			if err != nil {
				return nil, err
			}
			p.Videos = append(p.Videos, pv)
			continue
		}
		if isDefault(f.Name) || !f.DType.Numeric() {
			continue
		}
		values, err := ReadColumn[float64](v.d, f.Name, e.Index)
		if err != nil {
			return nil, err
		}
		drawn := charts(f, values, e.Length, v.d.info.FPS)
		if f.DType == Bool {
			p.Flags = append(p.Flags, drawn...)
		} else {
			p.Charts = append(p.Charts, drawn...)
		}
	}
	var err error
	p.Segments, err = v.segments(e)
	return p, err
}

// segments are the stretches of rows with one instruction.
func (v *viewer) segments(e EpisodeMeta) ([]segment, error) {
	tasks, err := v.d.RowTasks(e.Index)
	if err != nil {
		return nil, nil // the findings say what is wrong with the tasks
	}
	var out []segment
	for r, t := range tasks {
		if n := len(out); n > 0 && out[n-1].Name == t {
			out[n-1].To = r
		} else {
			out = append(out, segment{From: r, To: r, Name: t})
		}
	}
	for i, s := range out {
		out[i].Seconds = float64(s.To-s.From+1) / float64(v.d.info.FPS)
	}
	return out, nil
}

// locate finds a file where the template says, or under another top folder by the same rest of the path; "" when nowhere.
func locate(root, path string) string {
	if (disk{root: root}).exists(path) {
		return path
	}
	_, rest, _ := strings.Cut(path, "/")
	found, _ := filepath.Glob(filepath.Join(root, "*", filepath.FromSlash(rest)))
	if rest == "" || len(found) == 0 {
		return ""
	}
	rel, _ := filepath.Rel(root, found[0])
	return filepath.ToSlash(rel)
}

// video brings a camera's mp4 beside the page, or into it.
func (v *viewer) video(ctx context.Context, e EpisodeMeta, name string) (pageVideo, error) {
	span := e.Videos[name]
	pv := pageVideo{Name: name, From: span.FromTime}
	path := locate(v.d.root, span.Path)
	if path == "" {
		pv.Note = "the file " + span.Path + " is missing"
		return pv, nil
	}
	src := filepath.Join(v.d.root, path)
	info, err := video.Probe(src)
	if err != nil {
		pv.Note = err.Error()
		return pv, nil
	}
	if info.Codec != video.H264 && info.Codec != video.AV1 {
		pv.Note = fmt.Sprintf("the file holds %s, which browsers do not play", string(info.Codec))
	}
	if v.o.Embed {
		b, err := os.ReadFile(src)
		if err != nil {
			return pv, err
		}
		pv.Src = template.URL("data:video/mp4;base64," + base64.StdEncoding.EncodeToString(b))
		return pv, nil
	}
	rel := "videos/" + path
	pv.Src = template.URL((&urlPath{rel}).String())
	return pv, copyFile(src, filepath.Join(v.out, rel))
}

// copyFile copies a file unless it is there already with the same size.
func copyFile(src, dst string) error {
	a, err := os.Stat(src)
	if err != nil {
		return err
	}
	if b, err := os.Stat(dst); err == nil && b.Size() == a.Size() && !b.ModTime().Before(a.ModTime()) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(dst), 0o755); err != nil {
		return err
	}
	in, err := os.Open(src)
	if err != nil {
		return err
	}
	defer in.Close()
	return atomicfile.Write(atomicfile.OS, dst, 0o644, func(w io.Writer) error {
		_, err := io.Copy(w, in)
		return err
	})
}

// render writes a page, whole or not at all.
func (v *viewer) render(name, tmpl string, data any) error {
	return atomicfile.Write(atomicfile.OS, filepath.Join(v.out, name), 0o644, func(w io.Writer) error {
		return templates.ExecuteTemplate(w, tmpl, data)
	})
}
