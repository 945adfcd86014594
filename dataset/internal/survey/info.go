package survey

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/pinch-robotics/pinch/dataset"
)

// Paths of the format, relative to the root.
const (
	InfoPath     = "meta/info.json"
	StatsPath    = "meta/stats.json"
	TasksPath    = "meta/tasks.parquet"
	EpisodesPath = "meta/episodes/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
	DataPath     = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
	VideoPath    = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"

	EpisodesPathV21 = "meta/episodes.jsonl"
	TasksPathV21    = "meta/tasks.jsonl"
	StatsPathV21    = "meta/episodes_stats.jsonl"
	DataPathV21     = "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet"
	VideoPathV21    = "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4"
)

// ChunksSize is the format's default number of files or episodes in a chunk folder.
const ChunksSize = 1000

// Info is meta/info.json, value by value.
type Info struct {
	// Raw holds every key; Order lists them as they stand in the file.
	Raw   map[string]json.RawMessage
	Order []string
	// Err is set when the file is no JSON object.
	Err error
	// Bad lists values of the wrong kind.
	Bad []string

	Version string
	// Major version; Missing when Version is no version.
	Major int
	// FPS is 0 when it is absent or no positive number; FPSText is what the file says.
	FPS     float64
	FPSText string
	// Totals are Missing when absent.
	TotalEpisodes, TotalFrames, TotalTasks int
	ChunksSize                             int
	RobotType                              string
	DataPath, VideoPath                    string
	Splits                                 map[string]string
	Features                               []Feature
}

// Feature is an entry of features with what dataset.Feature does not keep.
type Feature struct {
	dataset.Feature
	// NamesKind is "list", "nested", "map", "null" or "absent".
	NamesKind string
	// Keys of the entry in file order.
	Keys []string
	// Raw entry.
	Raw json.RawMessage
	// Err says why the entry can not be used.
	Err error
}

// Feature returns the entry called name; false when there is none.
func (i *Info) Feature(name string) (Feature, bool) {
	for _, f := range i.Features {
		if f.Name == name {
			return f, true
		}
	}
	return Feature{}, false
}

func decodeInfo(b []byte) Info {
	i := Info{TotalEpisodes: Missing, TotalFrames: Missing, TotalTasks: Missing, Major: Missing}
	if i.Order, i.Raw, i.Err = Object(b); i.Err != nil {
		return i
	}
	i.text("codebase_version", &i.Version)
	i.text("robot_type", &i.RobotType)
	i.text("data_path", &i.DataPath)
	i.text("video_path", &i.VideoPath)
	i.whole("total_episodes", &i.TotalEpisodes)
	i.whole("total_frames", &i.TotalFrames)
	i.whole("total_tasks", &i.TotalTasks)
	i.whole("chunks_size", &i.ChunksSize)
	i.FPSText = string(i.Raw["fps"])
	if fps, err := strconv.ParseFloat(i.FPSText, 64); err == nil && fps > 0 && !math.IsInf(fps, 0) {
		i.FPS = fps
	}
	if m := regexp.MustCompile(`^v?(\d+)\.`).FindStringSubmatch(i.Version); m != nil {
		i.Major, _ = strconv.Atoi(m[1])
	}
	if raw, ok := i.Raw["splits"]; ok && json.Unmarshal(raw, &i.Splits) != nil {
		i.Bad = append(i.Bad, "splits")
	}
	if i.ChunksSize <= 0 {
		i.ChunksSize = ChunksSize
	}
	if i.DataPath == "" {
		i.DataPath = map[bool]string{true: DataPathV21, false: DataPath}[i.Major == 2]
	}
	if i.VideoPath == "" {
		i.VideoPath = map[bool]string{true: VideoPathV21, false: VideoPath}[i.Major == 2]
	}
	i.features()
	return i
}

func (i *Info) text(key string, to *string) {
	if raw, ok := i.Raw[key]; ok && string(raw) != "null" && json.Unmarshal(raw, to) != nil {
		i.Bad = append(i.Bad, key)
	}
}

func (i *Info) whole(key string, to *int) {
	raw, ok := i.Raw[key]
	if !ok {
		return
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<52 {
		i.Bad = append(i.Bad, key)
		return
	}
	*to = int(f)
}

func (i *Info) features() {
	names, entries, err := Object(i.Raw["features"])
	if err != nil {
		i.Bad = append(i.Bad, "features")
		return
	}
	for _, name := range names {
		i.Features = append(i.Features, decodeFeature(name, entries[name]))
	}
}

func decodeFeature(name string, raw json.RawMessage) Feature {
	f := Feature{Feature: dataset.Feature{Name: name}, Raw: raw, NamesKind: "absent"}
	keys, entry, err := Object(raw)
	if err != nil {
		f.Err = errors.New("its entry is no object")
		return f
	}
	f.Keys = keys
	var dtype string
	if json.Unmarshal(entry["dtype"], &dtype) != nil || dtype == "" {
		f.Err = fmt.Errorf("dtype is %s", entry["dtype"])
	}
	f.DType = dataset.DType(dtype)
	var shape []float64
	if json.Unmarshal(entry["shape"], &shape) != nil || shape == nil {
		f.Err = fmt.Errorf("shape is %s, want a list of whole numbers", entry["shape"])
	}
	for _, n := range shape {
		if n != math.Trunc(n) || n < 0 || n > 1<<24 {
			f.Err = fmt.Errorf("shape is %s, want a list of whole numbers", entry["shape"])
			break
		}
		f.Shape = append(f.Shape, int(n))
	}
	if names, ok := entry["names"]; ok {
		f.Names, f.NamesKind = flatNames(names), namesKind(names)
	}
	json.Unmarshal(entry["info"], &f.Info)
	if f.Info == nil {
		json.Unmarshal(entry["video_info"], &f.Info)
	}
	return f
}

func namesKind(raw json.RawMessage) string {
	s := strings.Join(strings.Fields(string(raw)), "")
	switch {
	case s == "null":
		return "null"
	case strings.HasPrefix(s, "{"):
		return "map"
	case strings.HasPrefix(s, "[["):
		return "nested"
	}
	return "list"
}

// Object decodes a JSON object with the order of its keys.
func Object(b []byte) (keys []string, values map[string]json.RawMessage, err error) {
	if err := json.Unmarshal(b, &values); err != nil {
		return nil, nil, err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, nil, errors.New("no JSON object")
	}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, nil, err
		}
		key, _ := t.(string)
		keys = append(keys, key)
		var skip json.RawMessage
		if err := d.Decode(&skip); err != nil {
			return nil, nil, err
		}
	}
	return keys, values, nil
}

// flatNames turns the ways that writers store names (list, list in a list, map of lists, null) into one list.
func flatNames(raw json.RawMessage) []string {
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	var names []string
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			names = append(names, v)
		case []any:
			for _, e := range v {
				walk(e)
			}
		}
	}
	if d.Decode(&v) != nil {
		return nil
	}
	if _, isMap := v.(map[string]any); isMap { // in file order
		keys, values, err := Object(raw)
		if err != nil {
			return nil
		}
		for _, k := range keys {
			names = append(names, flatNames(values[k])...)
		}
		return names
	}
	walk(v)
	return names
}

var templateField = regexp.MustCompile(`\{(\w+)(?::0?(\d*)d)?\}`)

// Expand fills a path template such as "file-{file_index:03d}.parquet". Unknown fields stay as they are; empty when the path leads
// out of the dataset.
func Expand(template string, values map[string]any) string {
	path := templateField.ReplaceAllStringFunc(template, func(s string) string {
		m := templateField.FindStringSubmatch(s)
		switch v := values[m[1]].(type) {
		case int:
			width, _ := strconv.Atoi(m[2])
			return fmt.Sprintf("%0*d", width, v)
		case string:
			return v
		}
		return s
	})
	if !filepath.IsLocal(filepath.FromSlash(path)) || strings.Contains(path, "\x00") {
		return ""
	}
	return path
}

// FilePath fills the template of a v3.0 file.
func FilePath(template, camera string, chunk, file int) string {
	return Expand(template, map[string]any{"chunk_index": chunk, "file_index": file, "video_key": camera})
}

// EpisodePath fills the template of a v2.1 file.
func EpisodePath(template, camera string, episode, chunksSize int) string {
	return Expand(template, map[string]any{"episode_chunk": episode / chunksSize, "episode_index": episode, "video_key": camera})
}
