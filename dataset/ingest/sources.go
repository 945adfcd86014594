package ingest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
func logsBelow(dir string) (out []string, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("find recordings: %w", err)
		}
		if d.IsDir() && d.Name() != "." && strings.HasPrefix(d.Name(), ".") && path != dir {
			return fs.SkipDir
		}
		if !d.IsDir() && strings.HasSuffix(d.Name(), ".mcap") && !strings.HasSuffix(d.Name(), ".orig.mcap") {
			out = append(out, path)
		}
		return nil
	})
	return out, err
}

// hashFile is the SHA-256 of a file in hex: the identity of a log.
func hashFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("hash log: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("hash log %s: %w", path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
