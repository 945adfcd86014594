package survey

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"github.com/pinch-robotics/pinch/dataset"
)

// lines calls each with every line of a jsonl file that is not blank; false when there is no file.
func (s *Set) lines(path string, each func(row int, text []byte)) bool {
	f, err := os.Open(s.Abs(path))
	if err != nil {
		if !os.IsNotExist(err) {
			s.problem(path, Missing, "", err)
		}
		return false
	}
	defer f.Close()
	r := bufio.NewReader(f)
	for n := 0; ; n++ {
		text, err := r.ReadBytes('\n')
		if t := bytes.TrimSpace(text); len(t) > 0 {
			each(n, t)
		}
		if err != nil {
			if err != io.EOF {
				s.problem(path, n, "", err)
			}
			return true
		}
	}
}

// readLines reads the jsonl files of a v2.x dataset.
func (s *Set) readLines() {
	s.Tasks.Found = s.lines(TasksPathV21, s.taskLine)
	place := map[int]int{} // episode to its place in s.Episodes
	file := EpisodeFile{Path: EpisodesPathV21}
	s.lines(EpisodesPathV21, func(row int, text []byte) {
		file.Rows++
		if e, ok := s.episodeLine(row, text); ok {
			if _, twice := place[e.Index]; !twice {
				place[e.Index] = len(s.Episodes)
			}
			s.Episodes = append(s.Episodes, e)
		}
	})
	s.EpisodeFiles = []EpisodeFile{file}
	s.lines(StatsPathV21, func(row int, text []byte) {
		var v struct {
			EpisodeIndex *int                                  `json:"episode_index"`
			Stats        map[string]map[string]json.RawMessage `json:"stats"`
		}
		if err := json.Unmarshal(text, &v); err != nil || v.EpisodeIndex == nil {
			s.problem(StatsPathV21, row, "", fmt.Errorf("no object with episode_index and stats: %v", err))
			return
		}
		if at, ok := place[*v.EpisodeIndex]; ok {
			s.Episodes[at].Stats = decodeStats(v.Stats)
		}
	})
}

func (s *Set) taskLine(row int, text []byte) {
	var v struct {
		TaskIndex *int    `json:"task_index"`
		Task      *string `json:"task"`
	}
	if err := json.Unmarshal(text, &v); err != nil || v.TaskIndex == nil || v.Task == nil {
		s.problem(TasksPathV21, row, "", fmt.Errorf("no object with task_index and task: %.80s", text))
		return
	}
	s.Tasks.Index = append(s.Tasks.Index, *v.TaskIndex)
	s.Tasks.Text = append(s.Tasks.Text, strings.TrimSpace(*v.Task))
}

func (s *Set) episodeLine(row int, text []byte) (Episode, bool) {
	var v struct {
		EpisodeIndex *int     `json:"episode_index"`
		Tasks        []string `json:"tasks"`
		Length       *int     `json:"length"`
	}
	if err := json.Unmarshal(text, &v); err != nil || v.EpisodeIndex == nil || *v.EpisodeIndex < 0 {
		s.problem(EpisodesPathV21, row, "", fmt.Errorf("no object with episode_index, tasks and length: %.80s", text))
		return Episode{}, false
	}
	e := Episode{File: EpisodesPathV21, Row: row, Index: *v.EpisodeIndex, Length: Missing, From: Missing, To: Missing, Tasks: v.Tasks,
		DataChunk: Missing, DataFile: Missing, Videos: map[string]Span{}, Stats: map[string]dataset.Stats{}, Extra: map[string]any{}}
	if v.Length != nil {
		e.Length = *v.Length
	} else {
		s.problem(EpisodesPathV21, row, "length", fmt.Errorf("it is missing"))
	}
	e.DataPath = EpisodePath(s.Info.DataPath, "", e.Index, s.Info.ChunksSize)
	for _, c := range s.Cameras() {
		span := Span{Path: EpisodePath(s.Info.VideoPath, c.Name, e.Index, s.Info.ChunksSize), To: math.NaN()}
		if s.Info.FPS > 0 {
			span.To = float64(e.Length) / s.Info.FPS
		}
		e.Videos[c.Name] = span
	}
	return e, true
}

// decodeStats reads the statistics of an episode; parts that are no numbers stay nil, as do those that are null.
func decodeStats(raw map[string]map[string]json.RawMessage) map[string]dataset.Stats {
	out := map[string]dataset.Stats{}
	for feature, parts := range raw {
		var s dataset.Stats
		for name, text := range parts {
			v := flatNumbers(text)
			if name == "count" && len(v) > 0 {
				s.Count = int64(v[0])
			} else if p := Part(&s, name); p != nil {
				*p = v
			}
		}
		out[feature] = s
	}
	return out
}

func flatNumbers(raw json.RawMessage) []float64 {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return nil
	}
	var out []float64
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case float64:
			out = append(out, v)
		case bool:
			x := 0.0
			if v {
				x = 1
			}
			out = append(out, x)
		case []any:
			for _, e := range v {
				walk(e)
			}
		}
	}
	walk(v)
	return out
}
