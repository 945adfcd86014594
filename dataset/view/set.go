package view

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/pinch-robotics/pinch/dataset"
)

// setPage is what the page knows of the dataset as a whole.
type setPage struct {
	Name     string        `json:"name"`
	Root     string        `json:"root"`
	Version  string        `json:"version"`
	Robot    string        `json:"robot"`
	FPS      int           `json:"fps"`
	Episodes int           `json:"episodes"`
	Rows     int           `json:"rows"`
	Seconds  float64       `json:"seconds"`
	Tasks    []string      `json:"tasks"` // at most maxTasks
	TaskMore int           `json:"task_more"`
	Features []featureLine `json:"features"`
	Paths    []path        `json:"paths"`
	Lengths  histogram     `json:"lengths"`
}

// featureLine is one feature.
type featureLine struct {
	Name     string   `json:"name"`
	Type     string   `json:"type"`
	Shape    []int    `json:"shape"`
	Elements []string `json:"elements"`
	// Group is where the page shows it: video, image, text, flags, state, actions, motions, times, index or none.
	Group string `json:"group"`
}

// maxTasks bounds the instructions that the overview lists.
const maxTasks = 200

// histogram counts episodes by length in equal bins from Low to High rows.
type histogram struct {
	Low    int   `json:"low"`
	High   int   `json:"high"`
	Counts []int `json:"counts"`
}

func describeSet(d *dataset.Dataset) setPage {
	info := d.Info()
	p := setPage{Name: filepath.Base(d.Root()), Root: d.Root(), Version: info.CodebaseVersion, Robot: info.RobotType, FPS: info.FPS,
		Episodes: d.NumEpisodes(), Tasks: d.Tasks(), Features: []featureLine{}, Paths: findPaths(info.Features)}
	if abs, err := filepath.Abs(d.Root()); err == nil {
		p.Name = filepath.Base(abs)
	}
	if n := len(p.Tasks); n > maxTasks {
		p.Tasks, p.TaskMore = p.Tasks[:maxTasks], n-maxTasks
	}
	for i := range d.NumEpisodes() {
		p.Rows += d.Length(i)
	}
	p.Seconds = float64(p.Rows) / float64(info.FPS)
	p.Lengths = lengthsOf(d)
	for _, f := range info.Features {
		line := featureLine{Name: f.Name, Type: string(f.DType), Shape: f.Shape, Elements: []string{}, Group: group(f)}
		if f.DType.Numeric() {
			for k := range f.Dim() {
				line.Elements = append(line.Elements, element(f, k))
			}
		}
		p.Features = append(p.Features, line)
	}
	return p
}

// lengthsOf counts the episodes in at most 40 bins.
func lengthsOf(d *dataset.Dataset) histogram {
	n := d.NumEpisodes()
	if n == 0 {
		return histogram{Counts: []int{}}
	}
	h := histogram{Low: d.Length(0), High: d.Length(0)}
	for i := range n {
		h.Low, h.High = min(h.Low, d.Length(i)), max(h.High, d.Length(i))
	}
	h.Counts = make([]int, min(40, h.High-h.Low+1))
	for i := range n {
		h.Counts[(d.Length(i)-h.Low)*len(h.Counts)/(h.High-h.Low+1)]++
	}
	return h
}

// group says where a feature is shown.
func group(f dataset.Feature) string {
	name := f.Name
	switch {
	case isIndex(name):
		return "index"
	case f.DType == dataset.Video:
		return "video"
	case f.DType == dataset.Image:
		return "image"
	case f.DType == dataset.String:
		return "text"
	case !f.DType.Numeric():
		return "none"
	case f.DType == dataset.Bool:
		return "flags"
	case strings.Contains(name, "capture_time") || f.DType == dataset.Int64 && strings.HasSuffix(name, "_ns"):
		return "times"
	case strings.HasPrefix(name, "action"):
		return "actions"
	case strings.HasSuffix(name, ".relative"):
		return "motions"
	}
	return "state"
}

func isIndex(name string) bool {
	return slices.ContainsFunc(dataset.DefaultFeatures(), func(f dataset.Feature) bool { return f.Name == name })
}

// element is the name of element k of a feature.
func element(f dataset.Feature, k int) string {
	if k < len(f.Names) {
		return f.Names[k]
	}
	if f.Dim() == 1 {
		return f.Name
	}
	return itoa(k)
}
