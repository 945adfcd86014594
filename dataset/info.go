package dataset

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// Version is the format that this package writes.
const Version = "v3.0"

// Defaults of the format. Several official tools ignore what info.json says and use these, so we write nothing else.
const (
	defaultChunksSize  = 1000
	defaultDataFileMB  = 100
	defaultVideoFileMB = 200
	defaultDataPath    = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
	defaultVideoPath   = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
	episodesPath       = "meta/episodes/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
	infoPath           = "meta/info.json"
	statsPath          = "meta/stats.json"
	tasksPath          = "meta/tasks.parquet"
)

// Info is meta/info.json.
type Info struct {
	// CodebaseVersion is "v3.0" or "v2.1".
	CodebaseVersion string
	// RobotType is empty when the file has null.
	RobotType     string
	TotalEpisodes int
	TotalFrames   int
	TotalTasks    int
	// ChunksSize is the greatest number of files (v3.0) or episodes (v2.1) in a chunk folder.
	ChunksSize int
	// DataFilesSizeMB and VideoFilesSizeMB are the roll-over sizes of v3.0 in MiB; 0 in v2.1.
	DataFilesSizeMB, VideoFilesSizeMB int
	// FPS is the row rate in Hz.
	FPS int
	// Splits maps a split's name to "from:to" in episodes.
	Splits map[string]string
	// DataPath and VideoPath are the path templates; VideoPath is empty when the file has null.
	DataPath, VideoPath string
	// Features in file order, the five default columns included.
	Features []Feature
}

// major is the number before the point of the version; -1 when there is none.
func (i Info) major() int {
	m := regexp.MustCompile(`^v(\d+)\.`).FindStringSubmatch(i.CodebaseVersion)
	if m == nil {
		return -1
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

// cameras lists the video features.
func (i Info) cameras() []Feature {
	var c []Feature
	for _, f := range i.Features {
		if f.DType == Video {
			c = append(c, f)
		}
	}
	return c
}

type infoJSON struct {
	CodebaseVersion  string            `json:"codebase_version"`
	RobotType        *string           `json:"robot_type"`
	TotalEpisodes    int               `json:"total_episodes"`
	TotalFrames      int               `json:"total_frames"`
	TotalTasks       int               `json:"total_tasks"`
	TotalVideos      *int              `json:"total_videos,omitempty"` // v2.1
	TotalChunks      *int              `json:"total_chunks,omitempty"` // v2.1
	ChunksSize       int               `json:"chunks_size"`
	DataFilesSizeMB  int               `json:"data_files_size_in_mb,omitempty"`
	VideoFilesSizeMB int               `json:"video_files_size_in_mb,omitempty"`
	FPS              wholeNumber       `json:"fps"`
	Splits           map[string]string `json:"splits"`
	DataPath         string            `json:"data_path"`
	VideoPath        *string           `json:"video_path"`
	Features         featureList       `json:"features"`
}

// wholeNumber reads 30 and 30.0 and writes 30 (a float in the file defeats the official check on resume).
type wholeNumber int

func (n *wholeNumber) UnmarshalJSON(b []byte) error {
	f, err := strconv.ParseFloat(string(b), 64)
	if err != nil || f != float64(int(f)) {
		return fmt.Errorf("fps is %s, want a whole number", b)
	}
	*n = wholeNumber(f)
	return nil
}

// featureList is the features object with its order kept.
type featureList []Feature

type featureJSON struct {
	DType DType           `json:"dtype"`
	Shape []int           `json:"shape"`
	Names json.RawMessage `json:"names"`
	Info  map[string]any  `json:"info,omitempty"`
}

func (l featureList) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, f := range l {
		if i > 0 {
			b.WriteByte(',')
		}
		names, err := marshal(f.Names)
		if err != nil {
			return nil, err
		}
		key, err := marshal(f.Name)
		if err != nil {
			return nil, err
		}
		value, err := marshal(featureJSON{f.DType, f.Shape, names, f.Info})
		if err != nil {
			return nil, err
		}
		b.Write(key)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

func (l *featureList) UnmarshalJSON(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return fmt.Errorf("features is no object")
	}
	*l = nil
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return err
		}
		name, _ := t.(string)
		var f featureJSON
		if err := d.Decode(&f); err != nil {
			return fmt.Errorf("feature %q: %w", name, err)
		}
		for _, s := range f.Shape {
			if s < 0 || s > 1<<20 {
				return fmt.Errorf("feature %q: shape %v is not plausible", name, f.Shape)
			}
		}
		*l = append(*l, Feature{Name: name, DType: f.DType, Shape: f.Shape, Names: flatNames(f.Names), Info: f.Info})
	}
	return nil
}

// flatNames turns the ways that writers store names (list, list in a list, map of lists, null) into one list.
func flatNames(raw json.RawMessage) []string {
	d := json.NewDecoder(bytes.NewReader(raw))
	var names []string
	var stack []bool // true inside an object, whose keys are not names of elements
	key := false
	for {
		t, err := d.Token()
		if err != nil {
			return names
		}
		switch v := t.(type) {
		case json.Delim:
			if v == '{' || v == '[' {
				stack = append(stack, v == '{')
			} else {
				stack = stack[:len(stack)-1]
			}
			key = len(stack) > 0 && stack[len(stack)-1]
			continue
		case string:
			if !key {
				names = append(names, v)
			}
		}
		if len(stack) > 0 && stack[len(stack)-1] {
			key = !key
		}
	}
}

// marshal is json.Marshal without escaping of <, > and &.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

// marshalIndent writes JSON as Python's json.dump(indent=4) does.
func marshalIndent(v any) ([]byte, error) {
	flat, err := marshal(v)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, flat, "", "    "); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func (i Info) encode() ([]byte, error) {
	j := infoJSON{CodebaseVersion: i.CodebaseVersion, TotalEpisodes: i.TotalEpisodes, TotalFrames: i.TotalFrames, TotalTasks: i.TotalTasks,
		ChunksSize: i.ChunksSize, DataFilesSizeMB: i.DataFilesSizeMB, VideoFilesSizeMB: i.VideoFilesSizeMB, FPS: wholeNumber(i.FPS),
		Splits: i.Splits, DataPath: i.DataPath, Features: i.Features}
	if i.major() == 2 {
		videos, chunks := i.TotalEpisodes*len(i.cameras()), (i.TotalEpisodes+i.ChunksSize-1)/i.ChunksSize
		j.TotalVideos, j.TotalChunks = &videos, &chunks
	}
	if i.RobotType != "" {
		j.RobotType = &i.RobotType
	}
	if i.VideoPath != "" {
		j.VideoPath = &i.VideoPath
	}
	return marshalIndent(j)
}

func decodeInfo(b []byte) (Info, error) {
	var j infoJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return Info{}, err
	}
	i := Info{j.CodebaseVersion, "", j.TotalEpisodes, j.TotalFrames, j.TotalTasks, j.ChunksSize, j.DataFilesSizeMB,
		j.VideoFilesSizeMB, int(j.FPS), j.Splits, j.DataPath, "", j.Features}
	if j.RobotType != nil {
		i.RobotType = *j.RobotType
	}
	if j.VideoPath != nil {
		i.VideoPath = *j.VideoPath
	}
	switch {
	case i.major() < 0:
		return Info{}, fmt.Errorf("codebase_version is %q, want v3.0 or v2.1", j.CodebaseVersion)
	case i.FPS <= 0:
		return Info{}, fmt.Errorf("fps is %d, want a positive whole number", i.FPS)
	case len(i.Features) == 0:
		return Info{}, fmt.Errorf("no features")
	}
	if i.ChunksSize <= 0 {
		i.ChunksSize = defaultChunksSize
	}
	if i.DataPath == "" {
		i.DataPath = defaultDataPath
	}
	return i, nil
}

// readInfo reads meta/info.json of a dataset this package understands.
func readInfo(root string) (Info, error) {
	path := filepath.Join(root, infoPath)
	b, err := os.ReadFile(path)
	if err != nil {
		return Info{}, fmt.Errorf("open dataset %s: it has no %s (is this the folder that holds meta/, data/ and videos/?): %w", root, infoPath, err)
	}
	info, err := decodeInfo(b)
	if err != nil {
		return Info{}, fmt.Errorf("open dataset: %s: %w", path, err)
	}
	if m := info.major(); m != 2 && m != 3 {
		return Info{}, fmt.Errorf("open dataset: %s: format %s is not known here, only v3.x and v2.1", path, info.CodebaseVersion)
	}
	return info, nil
}

var templateField = regexp.MustCompile(`\{(\w+)(?::0?(\d*)d)?\}`)

// expand fills a path template such as "file-{file_index:03d}.parquet". Unknown fields stay as they are.
func expand(template string, values map[string]any) string {
	return templateField.ReplaceAllStringFunc(template, func(s string) string {
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
}

// inside reports whether a relative path stays under the root: a template must not lead elsewhere.
func inside(path string) bool {
	return filepath.IsLocal(filepath.FromSlash(path)) && !strings.Contains(path, "\x00")
}
