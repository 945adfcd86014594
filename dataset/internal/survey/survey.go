// Package survey reads the metadata of any LeRobot dataset as far as it goes.
//
// The dataset package refuses what is not right; a tool that has to say what is wrong, or to repair it, must read on. A Set holds
// whatever could be read, value by value, and a list of Problems for what could not. Nothing here judges: numbers that are missing are
// Missing, and files that are not there are simply absent.
package survey

import (
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/pinch-robotics/pinch/dataset"
)

// Missing stands for a whole number that is absent, null or no whole number.
const Missing = -1

// Problem is a part of the metadata that could not be read.
type Problem struct {
	// File relative to the root.
	File string
	// Row of a table or line of a jsonl file, from 0; Missing for the whole file.
	Row int
	// Column of a table, empty for the whole row.
	Column string
	Err    error
}

// Set is the metadata of a dataset.
type Set struct {
	Root     string
	Info     Info
	Tasks    Tasks
	Episodes []Episode
	// EpisodeFiles are the files of the episode table in the order of the loader (one jsonl file in v2.1).
	EpisodeFiles []EpisodeFile
	// DataFiles are the Parquet files under data/, sorted as the loader sorts them: as text.
	DataFiles []string
	// Problems of the episode table and the tasks.
	Problems []Problem

	o Options
}

// Options choose what Read leaves out.
type Options struct {
	// SkipQuantiles leaves the quantiles of the episodes' statistics unread: half of the columns of the episode table.
	SkipQuantiles bool
}

// Episode is one row of the episode table.
type Episode struct {
	// File and Row where it stands.
	File string
	Row  int
	// Index, Length, From and To (dataset_from_index, dataset_to_index) are Missing when not readable; From and To are always
	// Missing in v2.1.
	Index, Length, From, To int
	Tasks                   []string
	// DataChunk and DataFile are file numbers of v3.0.
	DataChunk, DataFile int
	// DataPath is empty when it can not be formed or leads out of the dataset.
	DataPath string
	// Videos by camera.
	Videos map[string]Span
	// Stats by feature.
	Stats map[string]dataset.Stats
	// Extra columns that the format does not define: string, bool, int64, float64 or []string.
	Extra map[string]any
}

// Span is the place of an episode in a video.
type Span struct {
	// Path relative to the root; empty when it can not be formed.
	Path        string
	Chunk, File int
	// From and To in seconds of the file; NaN when missing.
	From, To float64
}

// EpisodeFile is a file of the episode table.
type EpisodeFile struct {
	Path    string
	Err     error
	Rows    int
	Columns []string
}

// Read surveys the dataset at root. The error is not nil only when there is no info.json that can be decoded at all.
func Read(root string, o Options) (*Set, error) {
	s := &Set{Root: root, o: o}
	b, err := os.ReadFile(filepath.Join(root, InfoPath))
	if err != nil {
		return nil, err
	}
	s.Info = decodeInfo(b)
	if s.Info.Err != nil || s.Info.Major != 2 && s.Info.Major != 3 {
		return s, nil
	}
	s.DataFiles = ParquetFiles(root, "data")
	if s.Info.Major == 2 {
		s.readLines()
	} else {
		s.readTables()
	}
	return s, nil
}

func (s *Set) problem(file string, row int, column string, err error) {
	s.Problems = append(s.Problems, Problem{file, row, column, err})
}

// Cameras lists the video features.
func (s *Set) Cameras() []Feature {
	var out []Feature
	for _, f := range s.Info.Features {
		if f.DType == dataset.Video {
			out = append(out, f)
		}
	}
	return out
}

// Exists reports whether a path relative to the root is there.
func (s *Set) Exists(path string) bool {
	if path == "" {
		return false
	}
	_, err := os.Lstat(s.Abs(path))
	return err == nil
}

// Abs is the path on this machine.
func (s *Set) Abs(path string) string { return filepath.Join(s.Root, filepath.FromSlash(path)) }

// Locate finds a file where the table says, or under another top folder by the same rest of the path; empty when it is nowhere.
func (s *Set) Locate(path string) string {
	if path == "" || s.Exists(path) {
		return path
	}
	_, rest, _ := strings.Cut(path, "/")
	found, _ := filepath.Glob(filepath.Join(s.Root, "*", filepath.FromSlash(rest)))
	if rest == "" || len(found) == 0 {
		return ""
	}
	rel, _ := filepath.Rel(s.Root, found[0])
	return filepath.ToSlash(rel)
}

// ParquetFiles lists folder/*/*.parquet relative to the root, sorted as text.
func ParquetFiles(root, folder string) []string {
	found, _ := filepath.Glob(filepath.Join(root, folder, "*", "*.parquet"))
	for i, p := range found {
		if rel, err := filepath.Rel(root, p); err == nil {
			found[i] = filepath.ToSlash(rel)
		}
	}
	sort.Strings(found)
	return found
}

// VideoFiles lists the mp4 files under videos/, relative to the root.
func (s *Set) VideoFiles() []string {
	var out []string
	found, _ := filepath.Glob(filepath.Join(s.Root, "videos", "*", "*", "*.mp4")) // the same depth in v2.1 and v3.0
	for _, p := range found {
		if rel, err := filepath.Rel(s.Root, p); err == nil {
			out = append(out, filepath.ToSlash(rel))
		}
	}
	sort.Strings(out)
	return out
}
