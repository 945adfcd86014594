package dataset

import (
	"context"
	"io"
)

// Severity orders findings.
type Severity string

// Error means that the official loader or training fails or reads wrong data; Warn that it may; Note is worth knowing.
const (
	Error Severity = "error"
	Warn  Severity = "warn"
	Note  Severity = "note"
)

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
}

// Report is the outcome of Check.
type Report struct {
	Root     string    `json:"root"`
	Version  string    `json:"version"`
	Episodes int       `json:"episodes"`
	Frames   int       `json:"frames"`
	Findings []Finding `json:"findings"`
	// Checked lists what was looked at, Skipped what could not be and why.
	Checked []string `json:"checked"`
	Skipped []string `json:"skipped,omitempty"`
}

// OK reports whether there is no finding of severity Error.
func (r *Report) OK() bool { return false }

// WriteText prints the report for people.
func (r *Report) WriteText(w io.Writer) error { return errNotBuilt }

// WriteJSON prints the report for programs.
func (r *Report) WriteJSON(w io.Writer) error { return errNotBuilt }

// CheckOptions choose the depth of a check.
type CheckOptions struct {
	// Decode also decodes video: counts decoded frames, looks for frozen and black pictures, verifies image statistics.
	Decode bool
}

// Check looks for everything that makes the official loader fail or training wrong. An error is returned only when root
// can not be read at all; faults of the dataset are findings.
func Check(ctx context.Context, root string, o CheckOptions) (*Report, error) {
	return nil, errNotBuilt
}
