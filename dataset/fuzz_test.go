package dataset

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pinch-robotics/pinch/internal/testpeer"
)

// Whatever decodes must survive writing and decoding again.
func FuzzInfo(f *testing.F) {
	o := testOptions()
	info, err := newInfo(o)
	if err != nil {
		f.Fatal(err)
	}
	b, _ := info.encode()
	f.Add(b)
	f.Add([]byte(`{"codebase_version":"v2.1","fps":30.0,"features":{"a":{"dtype":"float32","shape":[2],"names":[["x","y"]]},"b":{"dtype":"x","shape":[1],"names":{"m":["p"]}}}}`))
	for _, folder := range []string{"unitree_g1_v21", "open50_v30_malformed", "record_test_v30"} {
		if b, err := os.ReadFile(filepath.Join(testpeer.Data(f, "real/"+folder), infoPath)); err == nil {
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := decodeInfo(b)
		if err != nil {
			return
		}
		again, err := a.encode()
		if err != nil {
			t.Fatal(err)
		}
		back, err := decodeInfo(again)
		if err != nil {
			t.Fatalf("does not decode again: %v\n%s", err, again)
		}
		if len(a.Features) != len(back.Features) || a.FPS != back.FPS || a.DataPath != back.DataPath || a.TotalEpisodes != back.TotalEpisodes {
			t.Errorf("changed: %s", cmp.Diff(a, back))
		}
	})
}

func FuzzEpisodeLines(f *testing.F) {
	f.Add("{\"episode_index\": 0, \"tasks\": [\"a\"], \"length\": 3}\n\n{\"episode_index\": 1, \"tasks\": [], \"length\": 0}")
	f.Add("{}")
	f.Add("[1")
	f.Fuzz(func(t *testing.T, text string) {
		var lines []int
		err := jsonLines(strings.NewReader(text), func(n int, v v21Episode) error { lines = append(lines, n); return nil })
		if err == nil && len(lines) != strings.Count(strings.TrimSpace(text), "\n")+1-blankLines(text) && strings.TrimSpace(text) != "" {
			t.Errorf("%d values from %q", len(lines), text)
		}
		if !slices.IsSorted(lines) {
			t.Errorf("lines out of order: %v", lines)
		}
	})
}

// blankLines counts the blank lines inside the trimmed text.
func blankLines(text string) int {
	n := 0
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		if strings.TrimSpace(line) == "" {
			n++
		}
	}
	return n
}

func FuzzStats(f *testing.F) {
	f.Add([]byte(`{"a":{"mean":[1,2],"std":[[[0.5]]],"count":[3]}}`))
	f.Add([]byte(`{"a":{"mean":null}}`))
	f.Add([]byte(`{"a":{"count":[]}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := decodeStats(b)
		if err != nil {
			return
		}
		for name, v := range s {
			if v.Count != 0 && !bytes.Contains(b, []byte("count")) {
				t.Errorf("%q counts %d out of nothing", name, v.Count)
			}
		}
	})
}

func TestFlatNames(t *testing.T) {
	for raw, want := range map[string][]string{
		`null`: nil, `["a","b"]`: {"a", "b"}, `[["a","b"]]`: {"a", "b"}, `{"motors":["a","b"]}`: {"a", "b"}, `{"x":{"y":["a"]},"z":["b"]}`: {"a", "b"}, ``: nil,
		`{"axes":["x"],"motors":["a","b"]}`: {"x", "a", "b"},
	} {
		if got := flatNames([]byte(raw)); !slices.Equal(got, want) {
			t.Errorf("%s gives %v, want %v", raw, got, want)
		}
	}
}

func TestExpand(t *testing.T) {
	got := expand(defaultVideoPath, map[string]any{"video_key": "cam", "chunk_index": 2, "file_index": 1234})
	if got != "videos/cam/chunk-002/file-1234.mp4" {
		t.Error(got)
	}
	if got := (fileIndex{0, 999}).next(1000); got != (fileIndex{1, 0}) {
		t.Errorf("after file 999 comes %v", got)
	}
}
