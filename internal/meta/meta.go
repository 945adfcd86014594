// Package meta is the description beside every recording: meta.json, schema 2.0 of airoa-metadata.
//
// A finished recording is one folder with exactly two files:
//
//	<out>/<name>/<name>_0.mcap    the raw log
//	<out>/<name>/meta.json        this description
//
// A recording under way, or one whose recorder was killed, is the hidden folder <out>/.<name>.recording with the log and a
// meta.json without segments; recovery finishes it and renames it. Recordings that were cancelled or never judged are kept under
// <out>/.discarded/<name>. Programs that look for recordings skip folders whose names begin with a dot.
//
// Times are float seconds in the clock of the log's receive times (log_time). Source: airoa-org/airoa-metadata, schemas/v2_0.json.
package meta

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/pinch-robotics/pinch/internal/atomicfile"
)

// FileName is the description's name in a recording's folder.
const FileName = "meta.json"

// DiscardedDir is the folder, inside the output folder, of recordings that were cancelled or never judged.
const DiscardedDir = ".discarded"

// SchemaVersion and SchemaURI name the schema.
const (
	SchemaVersion = "2.0"
	SchemaURI     = "https://github.com/airoa-org/airoa-metadata/blob/main/airoa_metadata/schemas/v2_0.json"
)

// Values of Environment.Type and Runner.Type.
const (
	RealWorld  = "real_world"
	Simulation = "simulation"
	Operator   = "operator"
	Model      = "model"
)

// Recording is the whole meta.json. All top-level keys are required by the schema, so empty lists are written as [].
type Recording struct {
	Schema        string      `json:"$schema"`
	SchemaVersion string      `json:"schema_version"`
	UUID          string      `json:"uuid"`
	Robot         Robot       `json:"robot"`
	Files         []File      `json:"files"`
	Environment   Environment `json:"environment"`
	Runner        Runner      `json:"runner"`
	Devices       []Device    `json:"devices"`
	Programs      []Program   `json:"programs"`
	Episode       Episode     `json:"episode"`
	Labels        []string    `json:"labels"`
	Segments      []Segment   `json:"segments"`
}

// Robot is the rig or the robot. Type is "yubi" for the stationary handheld rig.
type Robot struct {
	Type     string  `json:"type"`
	ID       string  `json:"id"`
	URI      *string `json:"uri"`
	Checksum *string `json:"checksum"`
}

// File is one data file of the recording; Type "mcap".
type File struct {
	Type     string  `json:"type"`
	Name     string  `json:"name"`
	Checksum *string `json:"checksum"`
}

// Environment is where it happened; Type is RealWorld or Simulation.
type Environment struct {
	Type     string  `json:"type"`
	Site     string  `json:"site"`
	Location *string `json:"location"`
}

// Runner is who did it; Type is Operator or Model.
type Runner struct {
	Type         string  `json:"type"`
	Name         string  `json:"name"`
	Organization *string `json:"organization"`
}

// Device is one device of the rig.
type Device struct {
	Role string `json:"role"` // "left_camera"
	Type string `json:"type"` // "rtsp"
	ID   string `json:"id"`   // its address or serial number
}

// Program is one program that took part. rebake wants the roles "interface" and "data_collection", both with Git.
type Program struct {
	Role   string  `json:"role"`
	Name   string  `json:"name"`
	Source *Source `json:"source"`
}

// Source says where a program comes from.
type Source struct {
	Git Git `json:"git"`
}

// Git is one commit.
type Git struct {
	URI    string  `json:"uri"`
	Hash   string  `json:"hash"`
	Branch string  `json:"branch"`
	Tag    *string `json:"tag"`
}

// Episode is the whole recording. Success: the last attempt of every subtask succeeded.
type Episode struct {
	StartTime float64 `json:"start_time"`
	EndTime   float64 `json:"end_time"`
	Success   bool    `json:"success"`
	Label     string  `json:"label"`
}

// Segment is one attempt at one subtask.
type Segment struct {
	StartTime float64 `json:"start_time"`
	EndTime   float64 `json:"end_time"`
	LabelIdx  int     `json:"label_idx"`
	Success   bool    `json:"success"`
}

// New is a description with the schema's constants and empty lists.
func New() Recording {
	return Recording{
		Schema: SchemaURI, SchemaVersion: SchemaVersion,
		Files: []File{}, Devices: []Device{}, Programs: []Program{}, Labels: []string{}, Segments: []Segment{},
	}
}

// AddSegment appends a segment and, as YUBI does, one label per attempt.
func (r *Recording) AddSegment(label string, startS, endS float64, success bool) {
	r.Labels = append(r.Labels, label)
	r.Segments = append(r.Segments, Segment{StartTime: startS, EndTime: endS, LabelIdx: len(r.Labels) - 1, Success: success})
}

// Validate checks the rules of the schema and those that readers rely on: at least one file, device, program, segment; labels that exist;
// times in order. The error names the key.
func (r *Recording) Validate() error {
	if err := r.validateStart(); err != nil {
		return err
	}
	if len(r.Segments) == 0 {
		return errors.New("segments: at least one is needed; a recording without a judged segment is no recording")
	}
	if !(r.Episode.StartTime < r.Episode.EndTime) || math.IsInf(r.Episode.EndTime, 0) {
		return fmt.Errorf("episode: goes from %v s to %v s", r.Episode.StartTime, r.Episode.EndTime)
	}
	for i, s := range r.Segments {
		switch {
		case s.LabelIdx < 0 || s.LabelIdx >= len(r.Labels):
			return fmt.Errorf("segments[%d].label_idx: %d, but labels has %d entries", i, s.LabelIdx, len(r.Labels))
		case strings.TrimSpace(r.Labels[s.LabelIdx]) == "":
			return fmt.Errorf("labels[%d]: empty", s.LabelIdx)
		case !(s.StartTime < s.EndTime) || math.IsInf(s.StartTime, 0) || math.IsInf(s.EndTime, 0):
			return fmt.Errorf("segments[%d]: goes from %v s to %v s", i, s.StartTime, s.EndTime)
		case i > 0 && s.StartTime < r.Segments[i-1].EndTime:
			return fmt.Errorf("segments[%d].start_time: %v s lies before the end of the segment before, %v s", i, s.StartTime, r.Segments[i-1].EndTime)
		}
	}
	return nil
}

// validateStart checks everything that is known when a recording begins.
func (r *Recording) validateStart() error {
	for _, f := range []struct{ key, value string }{
		{"$schema", r.Schema}, {"uuid", r.UUID}, {"robot.type", r.Robot.Type}, {"robot.id", r.Robot.ID},
		{"environment.site", r.Environment.Site}, {"runner.name", r.Runner.Name},
	} {
		if strings.TrimSpace(f.value) == "" {
			return fmt.Errorf("%s: empty", f.key)
		}
	}
	switch {
	case r.SchemaVersion != SchemaVersion:
		return fmt.Errorf("schema_version: %q, this program reads and writes %q", r.SchemaVersion, SchemaVersion)
	case r.Environment.Type != RealWorld && r.Environment.Type != Simulation:
		return fmt.Errorf("environment.type: %q, want %s or %s", r.Environment.Type, RealWorld, Simulation)
	case r.Runner.Type != Operator && r.Runner.Type != Model:
		return fmt.Errorf("runner.type: %q, want %s or %s", r.Runner.Type, Operator, Model)
	case len(r.Files) == 0 || r.Files[0].Type == "" || r.Files[0].Name == "":
		return errors.New("files: at least one with type and name is needed")
	case len(r.Devices) == 0:
		return errors.New("devices: at least one is needed")
	case len(r.Programs) == 0:
		return errors.New("programs: at least one is needed")
	}
	return nil
}

// Write validates r and writes dir/meta.json atomically and durably.
func Write(dir string, r Recording) error {
	if err := r.Validate(); err != nil {
		return fmt.Errorf("write %s: %w", filepath.Join(dir, FileName), err)
	}
	return WriteDraft(dir, r)
}

// WriteDraft writes dir/meta.json of a recording under way, which has no segments yet.
func WriteDraft(dir string, r Recording) error {
	path := filepath.Join(dir, FileName)
	if err := r.validateStart(); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(r); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return atomicfile.WriteFile(path, b.Bytes(), 0o644)
}

// ReadDraft reads dir/meta.json without asking for segments.
func ReadDraft(dir string) (Recording, error) {
	path := filepath.Join(dir, FileName)
	b, err := os.ReadFile(path)
	if err != nil {
		return Recording{}, fmt.Errorf("read recording's metadata: %w", err)
	}
	var r Recording
	if err := json.Unmarshal(b, &r); err != nil {
		return Recording{}, fmt.Errorf("read %s: %w", path, err)
	}
	if err := r.validateStart(); err != nil {
		return Recording{}, fmt.Errorf("read %s: %w", path, err)
	}
	return r, nil
}

// Read reads and validates dir/meta.json.
func Read(dir string) (Recording, error) {
	r, err := ReadDraft(dir)
	if err != nil {
		return Recording{}, err
	}
	if err := r.Validate(); err != nil {
		return Recording{}, fmt.Errorf("read %s: %w", filepath.Join(dir, FileName), err)
	}
	return r, nil
}

// Seconds is nanoseconds as the float seconds of meta.json. Today's times keep about 0.2 µs.
func Seconds(ns int64) float64 { return float64(ns) / 1e9 }
