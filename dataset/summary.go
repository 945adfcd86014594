package dataset

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// Summary is what `pinch dataset info` prints.
type Summary struct {
	Root     string `json:"root"`
	Version  string `json:"version"`
	Robot    string `json:"robot_type"`
	FPS      int    `json:"fps"`
	Episodes int    `json:"episodes"`
	// Present counts the episodes whose rows and videos are all there.
	Present int `json:"episodes_present"`
	Frames  int `json:"frames"`
	// Seconds of recording: Frames / FPS.
	Seconds float64 `json:"seconds"`
	// Shortest, Median and Longest episode in rows.
	Shortest int `json:"shortest"`
	Median   int `json:"median"`
	Longest  int `json:"longest"`
	// Bytes on disk.
	Bytes    int64         `json:"bytes"`
	Features []FeatureInfo `json:"features"`
	Tasks    []TaskInfo    `json:"tasks"`
	// Identity is the content hash; empty for an incomplete dataset.
	Identity string `json:"identity,omitempty"`
}

// FeatureInfo is one line about a feature.
type FeatureInfo struct {
	Name  string   `json:"name"`
	DType DType    `json:"dtype"`
	Shape []int    `json:"shape"`
	Names []string `json:"names,omitempty"`
	Codec string   `json:"codec,omitempty"`
}

// TaskInfo counts the episodes that use an instruction.
type TaskInfo struct {
	Text     string `json:"text"`
	Episodes int    `json:"episodes"`
}

// Summarize reads the summary of the dataset at root.
func Summarize(root string) (*Summary, error) {
	d, err := Open(root)
	if err != nil {
		return nil, err
	}
	s := &Summary{Root: root, Version: d.info.CodebaseVersion, Robot: d.info.RobotType, FPS: d.info.FPS, Episodes: d.NumEpisodes()}
	var lengths []int
	used := map[string]int{}
	for e := range d.All() {
		s.Frames += e.Length
		lengths = append(lengths, e.Length)
		if d.HasFiles(e.Index) {
			s.Present++
		}
		for _, t := range e.Tasks {
			used[t]++
		}
	}
	s.Seconds = float64(s.Frames) / float64(s.FPS)
	if slices.Sort(lengths); len(lengths) > 0 {
		s.Shortest, s.Median, s.Longest = lengths[0], lengths[len(lengths)/2], lengths[len(lengths)-1]
	}
	for _, t := range d.tasks {
		s.Tasks = append(s.Tasks, TaskInfo{t, used[t]})
	}
	for _, f := range d.info.Features {
		codec, _ := f.Info["video.codec"].(string)
		s.Features = append(s.Features, FeatureInfo{f.Name, f.DType, f.Shape, f.Names, codec})
	}
	if s.Bytes, err = folderSize(root); err != nil {
		return nil, fmt.Errorf("measure %s: %w", root, err)
	}
	if s.Present == s.Episodes {
		if s.Identity, err = d.Identity(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func folderSize(root string) (n int64, err error) {
	err = filepath.WalkDir(root, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		st, err := e.Info()
		if err == nil {
			n += st.Size()
		}
		return err
	})
	return n, err
}

// WriteText prints the summary for people.
func (s *Summary) WriteText(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "%s\n  format     LeRobot %s\n", s.Root, s.Version)
	if s.Robot != "" {
		fmt.Fprintf(b, "  robot      %s\n", s.Robot)
	}
	fmt.Fprintf(b, "  episodes   %d", s.Episodes)
	if s.Present != s.Episodes {
		fmt.Fprintf(b, " listed, %d present", s.Present)
	}
	fmt.Fprintf(b, "\n  rows       %d at %d Hz, %.1f min (episodes of %d to %d rows, median %d)\n", s.Frames, s.FPS, s.Seconds/60, s.Shortest, s.Longest, s.Median)
	fmt.Fprintf(b, "  on disk    %.1f MB\n", float64(s.Bytes)/1e6)
	if s.Identity != "" {
		fmt.Fprintf(b, "  identity   %s\n", s.Identity)
	} else {
		fmt.Fprintf(b, "  identity   none: files are missing\n")
	}
	fmt.Fprintf(b, "  tasks\n")
	for _, t := range s.Tasks {
		fmt.Fprintf(b, "    %4d episodes  %s\n", t.Episodes, t.Text)
	}
	fmt.Fprintf(b, "  features\n")
	width := 0
	for _, f := range s.Features {
		width = max(width, len(f.Name))
	}
	for _, f := range s.Features {
		fmt.Fprintf(b, "    %-*s  %-8s %v", width, f.Name, f.DType, f.Shape)
		if f.Codec != "" {
			fmt.Fprintf(b, " %s", f.Codec)
		}
		if !f.DType.Visual() && len(f.Names) > 0 {
			fmt.Fprintf(b, " %s", shorten(strings.Join(f.Names, " "), 80))
		}
		fmt.Fprintln(b)
	}
	return b.Flush()
}

// shorten cuts a text to n characters.
func shorten(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n-3]) + "..."
}

// WriteJSON prints the summary for programs.
func (s *Summary) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(s)
}
