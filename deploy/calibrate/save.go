package calibrate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/pinch-robotics/pinch/deploy"
	"github.com/pinch-robotics/pinch/internal/atomicfile"
	"github.com/pinch-robotics/pinch/internal/config"
)

// Setting is one key of a cell file (section.key) with its value as YAML.
type Setting struct{ Key, Value string }

// Save writes settings into a cell file, each on a line of its own, and leaves every other line as it is. A file that is not there is begun. The result has to be a valid
// cell file, or nothing is written.
func Save(path string, settings []Setting) error {
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("save calibration: %w", err)
	}
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	if len(data) == 0 {
		lines = nil
	}
	for _, s := range settings {
		section, key, ok := strings.Cut(s.Key, ".")
		if !ok {
			return fmt.Errorf("save calibration: key %q has no section", s.Key)
		}
		lines = set(lines, section, key, s.Value)
	}
	text := strings.Join(lines, "\n") + "\n"
	cell := deploy.DefaultCell()
	if err := config.Decode(path, []byte(text), &cell); err != nil {
		return fmt.Errorf("save calibration: with the new values the file is no cell file: %w", err)
	}
	return atomicfile.WriteFile(path, []byte(text), 0o644)
}

// set replaces the key's line in its section, or adds it there.
func set(lines []string, section, key, value string) []string {
	head := -1
	for i, l := range lines {
		if l == section+":" || strings.HasPrefix(l, section+": ") || strings.HasPrefix(l, section+":\t") {
			head = i
			break
		}
	}
	if head < 0 {
		return append(lines, section+":", "  "+key+": "+value)
	}
	indent := "  "
	for i := head + 1; i < len(lines); i++ {
		l := lines[i]
		body := strings.TrimLeft(l, " ")
		if body == "" || strings.HasPrefix(body, "#") {
			continue
		}
		if body == l {
			break // the next section
		}
		indent = l[:len(l)-len(body)]
		if strings.HasPrefix(body, key+":") {
			comment := ""
			if k := strings.Index(body, " #"); k >= 0 {
				comment = "  " + strings.TrimLeft(body[k:], " ")
			}
			lines[i] = indent + key + ": " + value + comment
			return lines
		}
	}
	lines[head] = strings.TrimSuffix(strings.TrimRight(lines[head], " "), " {}")
	return append(lines[:head+1], append([]string{indent + key + ": " + value}, lines[head+1:]...)...)
}
