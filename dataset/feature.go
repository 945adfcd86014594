package dataset

import (
	"fmt"
	"strings"
)

// DType is the element type of a feature, by LeRobot's name for it.
type DType string

// The element types that datasets use. Video frames lie in mp4 files, Image bytes inside the Parquet rows.
const (
	Float32 DType = "float32"
	Float64 DType = "float64"
	Int32   DType = "int32"
	Int64   DType = "int64"
	Bool    DType = "bool"
	String  DType = "string"
	Video   DType = "video"
	Image   DType = "image"
)

// Numeric reports whether values of the type are numbers (bool counts as 0 and 1).
func (t DType) Numeric() bool {
	switch t {
	case Float32, Float64, Int32, Int64, Bool, "float16", "int8", "int16", "uint8", "uint16", "uint32", "uint64":
		return true
	}
	return false
}

// Visual reports whether the feature is a picture (video or image).
func (t DType) Visual() bool { return t == Video || t == Image }

// Feature is one named column of a dataset.
type Feature struct {
	// Name as in info.json, such as "observation.state". No "/".
	Name string
	// DType of one element.
	DType DType
	// Shape of one row: {1} for a scalar, {n} for a vector, {height, width, channels} in pixels for pictures.
	Shape []int
	// Names of the elements of a vector, in order and with their unit where it is not SI; nil when the file has none.
	// For pictures the writer stores height, width, channels.
	Names []string
	// Info is the "info" map of a picture feature (video.codec, video.fps and so on); the writer fills it from the first mp4.
	Info map[string]any
}

// Dim is the number of elements of one row: the product of Shape.
func (f Feature) Dim() int {
	n := 1
	for _, s := range f.Shape {
		n *= s
	}
	return n
}

// Names of the five columns that every dataset has.
const (
	Timestamp    = "timestamp"
	FrameIndex   = "frame_index"
	EpisodeIndex = "episode_index"
	Index        = "index"
	TaskIndex    = "task_index"
)

// DefaultFeatures are the five columns that the writer adds after the caller's, in LeRobot's order.
func DefaultFeatures() []Feature {
	one := []int{1}
	return []Feature{
		{Name: Timestamp, DType: Float32, Shape: one},
		{Name: FrameIndex, DType: Int64, Shape: one},
		{Name: EpisodeIndex, DType: Int64, Shape: one},
		{Name: Index, DType: Int64, Shape: one},
		{Name: TaskIndex, DType: Int64, Shape: one},
	}
}

func isDefault(name string) bool {
	switch name {
	case Timestamp, FrameIndex, EpisodeIndex, Index, TaskIndex:
		return true
	}
	return false
}

// findFeature returns the feature called name, or an error that lists the names there are.
func findFeature(features []Feature, name string) (Feature, error) {
	names := make([]string, len(features))
	for i, f := range features {
		if f.Name == name {
			return f, nil
		}
		names[i] = f.Name
	}
	return Feature{}, fmt.Errorf("dataset has no feature %q; it has %s", name, strings.Join(names, ", "))
}
