package ingest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
)

// metaFile stands beside each log.
const metaFile = "meta.json"

// meta is what ingest needs of a recording's meta.json. Source: airoa-metadata schema 2.0; keys that are not listed are not read.
type meta struct {
	SchemaVersion string `json:"schema_version"`
	UUID          string `json:"uuid"`
	Robot         struct {
		Type string `json:"type"`
		ID   string `json:"id"`
	} `json:"robot"`
	Episode struct {
		Success bool   `json:"success"`
		Label   string `json:"label"`
	} `json:"episode"`
	Labels   []string      `json:"labels"`
	Segments []metaSegment `json:"segments"`
}

// metaSegment is one attempt at one subtask. Times are float seconds in the clock of the log's receive times.
type metaSegment struct {
	StartTime float64 `json:"start_time"`
	EndTime   float64 `json:"end_time"`
	LabelIdx  int     `json:"label_idx"`
	Success   bool    `json:"success"`
}

// label is the segment's instruction.
func (m *meta) label(s metaSegment) string { return m.Labels[s.LabelIdx] }

// readMeta reads the meta.json beside a log. found is false when there is none.
func readMeta(log string) (m meta, found bool, err error) {
	path := filepath.Join(filepath.Dir(log), metaFile)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return meta{}, false, nil
	}
	if err != nil {
		return meta{}, false, fmt.Errorf("read recording's metadata: %w", err)
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return meta{}, false, fmt.Errorf("read recording's metadata %s: %w", path, err)
	}
	if err := m.check(); err != nil {
		return meta{}, false, fmt.Errorf("recording's metadata %s: %w", path, err)
	}
	return m, true, nil
}

// check refuses what would silently give wrong episodes.
func (m *meta) check() error {
	if m.SchemaVersion != "2.0" {
		return fmt.Errorf("schema_version is %q; this program reads \"2.0\": convert the file with airoa-metadata", m.SchemaVersion)
	}
	if m.UUID == "" {
		return errors.New("uuid is missing")
	}
	if len(m.Segments) == 0 {
		return errors.New("segments is empty: a recording without a segment has no episode; leave it out")
	}
	for i, s := range m.Segments {
		switch {
		case s.LabelIdx < 0 || s.LabelIdx >= len(m.Labels):
			return fmt.Errorf("segments[%d].label_idx is %d, but labels has %d entries", i, s.LabelIdx, len(m.Labels))
		case strings.TrimSpace(m.Labels[s.LabelIdx]) == "":
			return fmt.Errorf("segments[%d]: labels[%d] is empty; a segment needs its instruction", i, s.LabelIdx)
		case !(s.StartTime < s.EndTime) || math.IsInf(s.StartTime, 0) || math.IsInf(s.EndTime, 0):
			return fmt.Errorf("segments[%d] goes from %v s to %v s; its end must be after its start", i, s.StartTime, s.EndTime)
		}
	}
	return nil
}
