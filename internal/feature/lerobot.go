package feature

import (
	"fmt"
	"io"
	"strings"

	"github.com/pinch-robotics/pinch/frames"
)

// Entry is one entry of the "features" map of a LeRobot info.json.
type Entry struct {
	DType string   `json:"dtype"`
	Shape []int    `json:"shape"`
	Names []string `json:"names"`
}

// LeRobot gives the entry of each feature, by name. Flags and other scalars have no names.
// Source: LeRobot dataset format v3.0, meta/info.json.
func LeRobot(features []Feature) map[string]Entry {
	out := make(map[string]Entry, len(features))
	for _, f := range features {
		out[f.Name] = Entry{f.DType, f.Shape, f.Names}
	}
	return out
}

// WriteMarkdown prints features as the table of docs/dataset.md.
func WriteMarkdown(w io.Writer, features []Feature) error {
	var b strings.Builder
	b.WriteString("| feature | type | elements | unit | frame | reference, timing | meaning |\n|---|---|---|---|---|---|---|\n")
	for _, f := range features {
		fmt.Fprintf(&b, "| `%s` | %s %s | %s | %s | %s | %s | %s |\n",
			f.Name, f.DType, shape(f.Shape), elements(f), units(f), frame(f), timing(f), f.Doc)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write feature table: %w", err)
	}
	return nil
}

func shape(s []int) string {
	var parts []string
	for _, n := range s {
		parts = append(parts, fmt.Sprint(n))
	}
	return "(" + strings.Join(parts, ",") + ")"
}

func elements(f Feature) string { return strings.Join(f.Names, " ") }

func units(f Feature) string {
	switch {
	case f.Kind == Pose || f.Kind == Motion:
		return "m, 1"
	case len(f.Units) > 0:
		return f.Units[0]
	}
	return ""
}

func frame(f Feature) string {
	if f.Parent == "" {
		return ""
	}
	return f.Child + " in " + f.Parent
}

func timing(f Feature) string {
	switch {
	case f.Kind == Motion:
		return f.Reference.String() + ", " + f.Timing.String()
	case f.Timing == frames.Next:
		return "next"
	}
	return ""
}
