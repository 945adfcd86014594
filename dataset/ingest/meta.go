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

	"github.com/pinch-robotics/pinch/internal/meta"
)

// readMeta reads the meta.json beside a log. found is false when there is none. It asks for less than meta.Read does: recordings of
// the ROS stack have no devices by default.
func readMeta(log string) (m meta.Recording, found bool, err error) {
	path := filepath.Join(filepath.Dir(log), meta.FileName)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return m, false, nil
	}
	if err != nil {
		return m, false, fmt.Errorf("read recording's metadata: %w", err)
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return m, false, fmt.Errorf("read recording's metadata %s: %w", path, err)
	}
	if err := checkMeta(&m, filepath.Dir(log)); err != nil {
		return m, false, fmt.Errorf("recording's metadata %s: %w", path, err)
	}
	return m, true, nil
}

// checkMeta refuses what would silently give wrong episodes.
func checkMeta(m *meta.Recording, dir string) error {
	switch {
	case m.SchemaVersion != meta.SchemaVersion:
		return fmt.Errorf("schema_version is %q; this program reads %q: convert the file with airoa-metadata", m.SchemaVersion, meta.SchemaVersion)
	case m.UUID == "":
		return errors.New("uuid is missing")
	case len(m.Segments) == 0:
		return fmt.Errorf("segments is empty: the recording was not finished, or no attempt was judged; run `pinch record --recover %s`, or leave it out", dir)
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
