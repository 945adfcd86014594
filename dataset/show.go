package dataset

import (
	"context"
	"errors"
	"io"
)

// Summary is what `pinch dataset info` prints.
type Summary struct {
	Root     string  `json:"root"`
	Version  string  `json:"version"`
	Robot    string  `json:"robot_type"`
	FPS      int     `json:"fps"`
	Episodes int     `json:"episodes"`
	Present  int     `json:"episodes_present"`
	Frames   int     `json:"frames"`
	Seconds  float64 `json:"seconds"`
	Bytes    int64   `json:"bytes"`
	Identity string  `json:"identity,omitempty"`
}

// Summarize reads the summary of the dataset at root.
func Summarize(root string) (*Summary, error) { return nil, errNotBuilt }

// WriteText prints the summary for people.
func (s *Summary) WriteText(w io.Writer) error { return errNotBuilt }

// WriteJSON prints the summary for programs.
func (s *Summary) WriteJSON(w io.Writer) error { return errNotBuilt }

// ViewOptions choose what View writes.
type ViewOptions struct {
	// Episodes to show; nil shows all that are present.
	Episodes []int
	// Embed puts the videos into the pages instead of beside them.
	Embed bool
}

// View writes a folder of self-contained HTML pages (index.html and one page per episode; no network) and returns the
// path of index.html.
func View(ctx context.Context, root, out string, o ViewOptions) (string, error) {
	return "", errNotBuilt
}

var errNotBuilt = errors.New("not available yet")
