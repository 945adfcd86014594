package ingest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pinch-robotics/pinch/internal/meta"
)

// findLogs lists the MCAP files of the sources, each once, in order of their path.
func findLogs(sources []string) ([]string, error) {
	if len(sources) == 0 {
		return nil, errors.New("no recordings given: name MCAP files or folders that hold them")
	}
	var out []string
	for _, src := range sources {
		st, err := os.Stat(src)
		if err != nil {
			return nil, fmt.Errorf("find recordings: %w", err)
		}
		if !st.IsDir() {
			out = append(out, filepath.Clean(src))
			continue
		}
		found, err := logsBelow(src)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("find recordings: folder %s holds no .mcap file; a recording is a folder with one log and its meta.json", src)
		}
		out = append(out, found...)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// logsBelow lists the logs under a folder. Copies that recovery and reindexing leave behind (x.mcap.damaged, x.orig.mcap) are no logs.
// A log that a meta.json names and that is not there is listed too: it is a recording that would otherwise go missing without a word.
func logsBelow(dir string) (out []string, err error) {
	var lost []string
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("find recordings: %w", err)
		}
		if d.IsDir() && d.Name() != "." && strings.HasPrefix(d.Name(), ".") && path != dir {
			return fs.SkipDir
		}
		switch {
		case d.IsDir():
		case d.Name() == meta.FileName:
			lost = append(lost, lostLogs(filepath.Dir(path))...)
		case strings.HasSuffix(d.Name(), ".mcap") && !strings.HasSuffix(d.Name(), ".orig.mcap"):
			out = append(out, path)
		}
		return nil
	})
	return append(out, lost...), err
}

// lostLogs are the logs that the description in a folder without any log names. A description that can not be read names none.
func lostLogs(dir string) (out []string) {
	var m meta.Recording
	b, err := os.ReadFile(filepath.Join(dir, meta.FileName))
	if err != nil || json.Unmarshal(b, &m) != nil {
		return nil
	}
	if logs, _ := filepath.Glob(filepath.Join(dir, "*.mcap")); len(logs) > 0 {
		return nil
	}
	for _, f := range m.Files {
		if f.Type == "mcap" {
			out = append(out, filepath.Join(dir, f.Name))
		}
	}
	return out
}

// hashFile is the SHA-256 of a file in hex: the identity of a log.
func hashFile(path string) (string, error) {
	if err := missingLog(path); err != nil {
		return "", err
	}
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("read log: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("read log %s: %w", path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// missingLog is the error for a log that only its description knows.
func missingLog(path string) error {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("log %s is missing, and %s beside it names it; copy the log there, or leave the folder out: %w", path, meta.FileName, fs.ErrNotExist)
	}
	return nil
}
