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

func (s Severity) rank() int { return slices.Index([]Severity{Error, Warn, Note}, s) }

// Finding is one fault of a dataset. Episode and Frame are -1 when they do not apply.
type Finding struct {
	// Code is a stable name such as "video-codec".
	Code     string   `json:"code"`
	Severity Severity `json:"severity"`
	// File relative to the dataset's root.
	File    string `json:"file,omitempty"`
	Episode int    `json:"episode"`
	Frame   int    `json:"frame"`
	// Message says what is wrong, with the numbers.
	Message string `json:"message"`
	// Fix says what to do.
	Fix string `json:"fix,omitempty"`
	// Count is how many times it was found; the message tells the first.
	Count int `json:"count"`

	key string // findings of one code and key are counted together
}

// Report is the outcome of Check.
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
func (r *Report) OK() bool { return r.number(Error) == 0 }

func (r *Report) number(s Severity) int {
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

// add counts a finding with others of its code and key.
func (r *Report) add(f Finding) {
	for i, old := range r.Findings {
		if old.Code == f.Code && old.key == f.key {
			r.Findings[i].Count++
			return
		}
	}
	f.Count = 1
	r.Findings = append(r.Findings, f)
}

// sort puts errors first and keeps the order of discovery otherwise.
func (r *Report) sort() {
	slices.SortStableFunc(r.Findings, func(a, b Finding) int { return a.Severity.rank() - b.Severity.rank() })
}

// WriteText prints the report for people.
func (r *Report) WriteText(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "%s: LeRobot %s, %d episodes listed, %d present, %d rows\n", r.Root, r.Version, r.Episodes, r.Present, r.Frames)
	for _, f := range r.Findings {
		fmt.Fprintf(b, "\n%-5s %s%s\n", strings.ToUpper(string(f.Severity)), f.Code, f.place())
		fmt.Fprintf(b, "      %s\n", f.Message)
		if f.Count > 1 {
			fmt.Fprintf(b, "      found %d times; this is the first\n", f.Count)
		}
		if f.Fix != "" {
			fmt.Fprintf(b, "      fix: %s\n", f.Fix)
		}
	}
	fmt.Fprintf(b, "\nlooked at: %s\n", strings.Join(r.Checked, ", "))
	for _, s := range r.Skipped {
		fmt.Fprintf(b, "not looked at: %s\n", s)
	}
	fmt.Fprintf(b, "%d errors, %d warnings, %d notes\n", r.number(Error), r.number(Warn), r.number(Note))
	return b.Flush()
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
	if f.Frame >= 0 {
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
