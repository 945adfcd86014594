package view

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pinch-robotics/pinch/dataset"
)

// lane is one line of the time line: segments that fill it, or marks at places.
type lane struct {
	Name     string    `json:"name"`
	Kind     string    `json:"kind"` // text, finding, event or lost
	Segments []segment `json:"segments"`
	More     int       `json:"more"` // segments left out
}

// segment is rows From to To, both inside.
type segment struct {
	From int    `json:"from"`
	To   int    `json:"to"`
	Text string `json:"text"`
	// Level of a finding: error, warn or note.
	Level string `json:"level,omitempty"`
}

// maxSegments bounds a lane; what changes in every row is no segment.
const maxSegments = 400

// lanes are the instructions, the texts, the presses of pedals and buttons, the marks of ingest and the findings of an episode.
func lanes(d *dataset.Dataset, e dataset.EpisodeMeta, findings []dataset.Finding) (out []lane, problems []string) {
	out, problems = []lane{}, []string{}
	add := func(l lane) {
		if n := len(l.Segments); n > maxSegments {
			l.Segments, l.More = l.Segments[:maxSegments], n-maxSegments
		}
		if len(l.Segments) > 0 {
			out = append(out, l)
		}
	}
	if tasks, err := d.RowTasks(e.Index); err != nil {
		problems = append(problems, err.Error())
	} else {
		add(lane{Name: "instruction", Kind: "text", Segments: runs(tasks)})
	}
	for _, f := range d.Features() {
		switch {
		case f.DType == dataset.String && f.Dim() == 1:
			if v, err := dataset.ReadColumn[string](d, f.Name, e.Index); err != nil {
				problems = append(problems, err.Error())
			} else if s := runs(v); len(s) <= maxSegments && len(s)*2 <= max(2, len(v)) {
				add(lane{Name: f.Name, Kind: "text", Segments: s})
			}
		case buttons(f):
			if v, err := dataset.ReadColumn[float64](d, f.Name, e.Index); err == nil {
				add(lane{Name: pressed(f), Kind: "event", Segments: presses(f, v)})
			}
		case f.DType == dataset.Bool && strings.HasSuffix(f.Name, ".is_tracked"):
			if v, err := dataset.ReadColumn[bool](d, f.Name, e.Index); err == nil {
				add(lane{Name: "untracked", Kind: "lost", Segments: spans(v, false, strings.TrimSuffix(f.Name, ".is_tracked"))})
			}
		}
	}
	for _, name := range []string{"late", "lost", "repeated"} {
		list, _ := e.Extra[name].([]string)
		add(lane{Name: name, Kind: "lost", Segments: markSegments(name, list, e.Length)})
	}
	add(lane{Name: "findings", Kind: "finding", Segments: findingSegments(findings, e.Length)})
	return out, problems
}

// isMark tells whether an extra column holds the marks of ingest.
func isMark(name string) bool { return name == "late" || name == "lost" || name == "repeated" }

// runs joins rows of one text.
func runs(texts []string) []segment {
	var out []segment
	for r, t := range texts {
		if n := len(out); n > 0 && out[n-1].Text == t {
			out[n-1].To = r
		} else {
			out = append(out, segment{From: r, To: r, Text: t})
		}
	}
	return out
}

// buttons tells whether a feature holds pedals or buttons that are pressed or not.
func buttons(f dataset.Feature) bool {
	if !f.DType.Numeric() || f.DType == dataset.Bool || strings.HasPrefix(f.Name, "action") {
		return false
	}
	name := func(s string) bool {
		s = strings.ToLower(s)
		return strings.Contains(s, "pedal") || strings.Contains(s, "button")
	}
	return name(f.Name) || len(f.Names) > 0 && !slices.ContainsFunc(f.Names, func(s string) bool { return !name(s) })
}

// pressed names the lane of a feature of buttons.
func pressed(f dataset.Feature) string {
	if strings.Contains(strings.ToLower(f.Name+strings.Join(f.Names, " ")), "pedal") {
		return "pedals"
	}
	return "buttons"
}

// presses are the stretches in which an element is not 0.
func presses(f dataset.Feature, v []float64) []segment {
	var out []segment
	dim := f.Dim()
	for k := range dim {
		down := make([]bool, len(v)/dim)
		for r := range down {
			down[r] = v[r*dim+k] != 0
		}
		out = append(out, spans(down, true, element(f, k))...)
	}
	slices.SortStableFunc(out, func(a, b segment) int { return a.From - b.From })
	return out
}

// spans are the stretches with one value.
func spans(v []bool, want bool, text string) []segment {
	var out []segment
	for r := 0; r < len(v); r++ {
		if v[r] != want {
			continue
		}
		from := r
		for r+1 < len(v) && v[r+1] == want {
			r++
		}
		out = append(out, segment{From: from, To: r, Text: text})
	}
	return out
}

// markSegments reads marks of ingest: stream:row or stream:first-last. What is not of this form is left out.
func markSegments(name string, list []string, rows int) []segment {
	var out []segment
	for _, s := range list {
		i := strings.LastIndexByte(s, ':')
		if i < 0 {
			continue
		}
		first, last, ranged := strings.Cut(s[i+1:], "-")
		a, err := strconv.Atoi(first)
		b := a
		if ranged && err == nil {
			b, err = strconv.Atoi(last)
		}
		if err == nil && a >= 0 && b >= a && b < rows {
			out = append(out, segment{From: a, To: b, Text: s[:i] + " " + name})
		}
	}
	return out
}

func findingSegments(findings []dataset.Finding, rows int) []segment {
	var out []segment
	for _, f := range findings {
		if f.Frame >= 0 && f.Frame < rows {
			out = append(out, segment{From: f.Frame, To: min(rows-1, f.Frame+max(1, f.Frames)-1), Text: fmt.Sprintf("%s: %s", f.Code, f.Message), Level: string(f.Severity)})
		}
	}
	return out
}
