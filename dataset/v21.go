package dataset

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Files of a v2.1 dataset.
const (
	v21EpisodesPath = "meta/episodes.jsonl"
	v21TasksPath    = "meta/tasks.jsonl"
	v21StatsPath    = "meta/episodes_stats.jsonl"
)

// jsonLines decodes one JSON value per line; blank lines are skipped, as some writers leave them.
func jsonLines[T any](r io.Reader, each func(line int, v T) error) error {
	lines := bufio.NewReader(r)
	for n := 1; ; n++ {
		text, err := lines.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return err
		}
		if text = bytes.TrimSpace(text); len(text) > 0 {
			var v T
			if e := json.Unmarshal(text, &v); e != nil {
				return fmt.Errorf("line %d: %w", n, e)
			}
			if e := each(n, v); e != nil {
				return fmt.Errorf("line %d: %w", n, e)
			}
		}
		if err == io.EOF {
			return nil
		}
	}
}

func readLines[T any](root, path string, each func(line int, v T) error) error {
	f, err := os.Open(filepath.Join(root, path))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := jsonLines(f, each); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

type v21Episode struct {
	EpisodeIndex *int     `json:"episode_index"`
	Tasks        []string `json:"tasks"`
	Length       int      `json:"length"`
	Content      string   `json:"content_sha256"`
}

type v21Task struct {
	TaskIndex *int   `json:"task_index"`
	Task      string `json:"task"`
}

type v21Stats struct {
	EpisodeIndex *int            `json:"episode_index"`
	Stats        json.RawMessage `json:"stats"`
}

func (d *Dataset) readV21() error {
	if err := d.readV21Tasks(); err != nil {
		return err
	}
	rows := map[int]int{} // episode to its place in d.episodes
	from := 0
	err := readLines(d.root, v21EpisodesPath, func(_ int, line json.RawMessage) error {
		var v v21Episode
		if err := json.Unmarshal(line, &v); err != nil {
			return err
		}
		if v.EpisodeIndex == nil || *v.EpisodeIndex < 0 || v.Length < 0 {
			return fmt.Errorf("want episode_index and length of at least 0")
		}
		e := EpisodeMeta{Index: *v.EpisodeIndex, Length: v.Length, Tasks: v.Tasks, FromIndex: from, Videos: map[string]VideoSpan{}, Extra: map[string]any{}, content: v.Content}
		v21Extra(line, e.Extra)
		if _, twice := rows[e.Index]; twice {
			return fmt.Errorf("episode %d is there twice", e.Index)
		}
		if err := d.v21Paths(&e); err != nil {
			return err
		}
		rows[e.Index] = len(d.episodes)
		d.episodes = append(d.episodes, e)
		from += v.Length
		return nil
	})
	if err != nil {
		return err
	}
	err = readLines(d.root, v21StatsPath, func(_ int, v v21Stats) error {
		if v.EpisodeIndex == nil {
			return fmt.Errorf("no episode_index")
		}
		s, err := decodeStats(v.Stats)
		loadStats(d.info.Features, s)
		if r, ok := rows[*v.EpisodeIndex]; ok && err == nil {
			d.episodes[r].Stats = s
		}
		return err
	})
	if os.IsNotExist(err) {
		return nil // v2.0 has none; statistics are computed from the rows anyway
	}
	return err
}

func (d *Dataset) v21Paths(e *EpisodeMeta) error {
	values := map[string]any{"episode_chunk": e.Index / d.info.ChunksSize, "episode_index": e.Index}
	e.DataPath = expand(d.info.DataPath, values)
	for _, c := range d.info.cameras() {
		values["video_key"] = c.Name
		e.Videos[c.Name] = VideoSpan{Path: expand(d.info.VideoPath, values), ToTime: float64(e.Length) / float64(d.info.FPS)}
		if !inside(e.Videos[c.Name].Path) {
			return fmt.Errorf("video path %q lies outside the dataset", e.Videos[c.Name].Path)
		}
	}
	if !inside(e.DataPath) {
		return fmt.Errorf("data path %q lies outside the dataset", e.DataPath)
	}
	return nil
}

func (d *Dataset) readV21Tasks() error {
	byIndex := map[int]string{}
	err := readLines(d.root, v21TasksPath, func(_ int, v v21Task) error {
		if v.TaskIndex == nil || *v.TaskIndex < 0 {
			return fmt.Errorf("no task_index")
		}
		if _, twice := byIndex[*v.TaskIndex]; twice {
			return fmt.Errorf("task_index %d is there twice", *v.TaskIndex)
		}
		byIndex[*v.TaskIndex] = v.Task
		return nil
	})
	if err != nil {
		return err
	}
	for i := range len(byIndex) {
		text, ok := byIndex[i]
		if !ok {
			return fmt.Errorf("%s numbers %d tasks with a gap at %d", v21TasksPath, len(byIndex), i)
		}
		d.tasks = append(d.tasks, strings.TrimSpace(text))
	}
	return nil
}

// v21Extra reads what a line says besides the format's own keys: texts, truth values, numbers and lists of texts.
func v21Extra(line json.RawMessage, extra map[string]any) {
	var all map[string]json.RawMessage
	if json.Unmarshal(line, &all) != nil {
		return
	}
	for name, raw := range all {
		if isEpisodeColumn(name) {
			continue
		}
		var text string
		var yes bool
		var list []string
		var whole int64
		var real float64
		switch {
		case string(raw) == "null":
		case json.Unmarshal(raw, &text) == nil:
			extra[name] = text
		case json.Unmarshal(raw, &yes) == nil:
			extra[name] = yes
		case json.Unmarshal(raw, &list) == nil:
			extra[name] = list
		case json.Unmarshal(raw, &whole) == nil:
			extra[name] = whole
		case json.Unmarshal(raw, &real) == nil:
			extra[name] = real
		}
	}
}
