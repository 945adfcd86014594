package dataset

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Severity orders findings.
type Severity string

// Error means that the official loader or training fails or reads wrong data; Warn that it may; Note is worth knowing.
const (
	Error Severity = "error"
	Warn  Severity = "warn"
	Note  Severity = "note"
)

// Rank is 0 for errors, 1 for warnings, 2 for notes.
func (s Severity) Rank() int { return slices.Index([]Severity{Error, Warn, Note}, s) }

// Finding is one fault of a dataset, as package check finds them. Episode and Frame are -1 when they do not apply.
type Finding struct {
	// Code is a stable name such as "video-codec"; docs/checks.md explains each.
	Code     string   `json:"code"`
	Severity Severity `json:"severity"`
	// File relative to the dataset's root.
	File    string `json:"file,omitempty"`
	Episode int    `json:"episode"`
	// Frame is the row of the episode at which it begins, Frames the number of rows it lasts (0: one place).
	Frame  int `json:"frame"`
	Frames int `json:"frames,omitempty"`
	// Feature by name; a camera for pictures.
	Feature string `json:"feature,omitempty"`
	// Message says what is wrong, with the numbers.
	Message string `json:"message"`
	// Numbers that the finding rests on, the threshold among them.
	Numbers map[string]float64 `json:"numbers,omitempty"`
	// Fix says what to do.
	Fix string `json:"fix,omitempty"`
	// Count is how many times it was found at this place or feature; the message tells the first.
	Count int `json:"count"`
}

// Report is the outcome of a check.
type Report struct {
	Root     string    `json:"root"`
	Version  string    `json:"version"`
	Episodes int       `json:"episodes"`
	Present  int       `json:"episodes_present"`
	Frames   int       `json:"frames"`
	Findings []Finding `json:"findings"`
	// Checked lists what was looked at, Skipped what could not be and why.
	Checked []string `json:"checked"`
	Skipped []string `json:"skipped,omitempty"`
}

// OK reports whether there is no finding of severity Error.
func (r *Report) OK() bool { return r.Number(Error) == 0 }

// Number counts the findings of a severity.
func (r *Report) Number(s Severity) int {
	n := 0
	for _, f := range r.Findings {
		if f.Severity == s {
			n++
		}
	}
	return n
}

// Find returns the first finding with a code.
func (r *Report) Find(code string) (Finding, bool) {
	for _, f := range r.Findings {
		if f.Code == code {
			return f, true
		}
	}
	return Finding{}, false
}

// Sort puts errors first and keeps the order of discovery otherwise.
func (r *Report) Sort() {
	slices.SortStableFunc(r.Findings, func(a, b Finding) int { return a.Severity.Rank() - b.Severity.Rank() })
}

// groupOf is the findings of one code and severity, in order.
type groupOf struct {
	Code     string
	Severity Severity
	Findings []Finding
}

// groups gathers findings by code, in the order of the report.
func (r *Report) groups() []*groupOf {
	var out []*groupOf
	at := map[string]*groupOf{}
	for _, f := range r.Findings {
		key := string(f.Severity) + f.Code
		g := at[key]
		if g == nil {
			g = &groupOf{Code: f.Code, Severity: f.Severity}
			at[key] = g
			out = append(out, g)
		}
		g.Findings = append(g.Findings, f)
	}
	return out
}

// shown is how many findings of one code the text tells in full.
const shown = 3

// WriteText prints the report for people: of findings with one code the first few, and the episodes of the others.
func (r *Report) WriteText(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "%s: LeRobot %s, %d episodes listed, %d present, %d rows\n", r.Root, r.Version, r.Episodes, r.Present, r.Frames)
	for _, g := range r.groups() {
		fmt.Fprintln(b)
		for _, f := range g.Findings[:min(shown, len(g.Findings))] {
			fmt.Fprintf(b, "%-5s %s%s\n      %s\n", strings.ToUpper(string(f.Severity)), f.Code, f.place(), f.Message)
			if f.Count > 1 {
				fmt.Fprintf(b, "      found %d times; this is the first\n", f.Count)
			}
		}
		if more := g.Findings[min(shown, len(g.Findings)):]; len(more) > 0 {
			fmt.Fprintf(b, "      and %d more%s\n", len(more), episodesOf(more))
		}
		if fix := g.Findings[0].Fix; fix != "" {
			fmt.Fprintf(b, "      fix: %s\n", fix)
		}
	}
	fmt.Fprintf(b, "\nlooked at: %s\n", strings.Join(r.Checked, ", "))
	for _, s := range r.Skipped {
		fmt.Fprintf(b, "not looked at: %s\n", s)
	}
	fmt.Fprintf(b, "%d errors, %d warnings, %d notes\n", r.Number(Error), r.Number(Warn), r.Number(Note))
	return b.Flush()
}

// episodesOf lists the episodes of findings.
func episodesOf(findings []Finding) string {
	var n []int
	for _, f := range findings {
		if f.Episode >= 0 {
			n = append(n, f.Episode)
		}
	}
	if len(n) == 0 {
		return ""
	}
	slices.Sort(n)
	return ", in episodes " + Ranges(slices.Compact(n))
}

// Ranges prints sorted numbers as 0, 3-7, 9.
func Ranges(n []int) string {
	var parts []string
	for i := 0; i < len(n); {
		j := i
		for j+1 < len(n) && n[j+1] == n[j]+1 {
			j++
		}
		if i == j {
			parts = append(parts, fmt.Sprint(n[i]))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", n[i], n[j]))
		}
		i = j + 1
	}
	return strings.Join(parts, ", ")
}

// place says where: file, episode, frame.
func (f Finding) place() string {
	var s strings.Builder
	if f.File != "" {
		s.WriteString("  " + f.File)
	}
	if f.Episode >= 0 {
		fmt.Fprintf(&s, "  episode %d", f.Episode)
	}
	switch {
	case f.Frame >= 0 && f.Frames > 1:
		fmt.Fprintf(&s, "  rows %d-%d", f.Frame, f.Frame+f.Frames-1)
	case f.Frame >= 0:
		fmt.Fprintf(&s, "  row %d", f.Frame)
	}
	return s.String()
}

// WriteJSON prints the report for programs.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(r)
}
