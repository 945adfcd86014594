package atomicfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func content(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestWriteFileReplacesAndSetsMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "info.json")
	for _, text := range []string{"first", "2"} {
		if err := WriteFile(path, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
		if got := content(t, path); got != text {
			t.Errorf("got %q, want %q", got, text)
		}
	}
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if st.Mode().Perm() != 0o640 {
		t.Errorf("mode %v, want 0640", st.Mode())
	}
	if got := names(t, filepath.Dir(path)); !cmp.Equal(got, []string{"info.json"}) {
		t.Errorf("directory holds %v", got)
	}
}

// A fault at each step in turn, until a run without a fault succeeds: the file is old or new, never between, and a fault that
// is reported as a failed write left the old content.
func TestFaultAtEveryStep(t *testing.T) {
	for n := 0; ; n++ {
		dir := t.TempDir()
		path := filepath.Join(dir, "info.json")
		if err := WriteFile(path, []byte("old content"), 0o644); err != nil {
			t.Fatal(err)
		}
		var steps []Op
		failOn := FailOn(n, syscall.ENOSPC)
		fsys := Faulty{FS: OS, Fail: func(op Op, p string) error {
			steps = append(steps, op)
			return failOn(op, p)
		}}
		err := Write(fsys, path, 0o644, func(w io.Writer) error {
			_, err := w.Write([]byte("the new content"))
			return err
		})
		if err == nil {
			want := []Op{OpCreate, OpWrite, OpChmod, OpSync, OpClose, OpRename, OpSyncDir}
			if d := cmp.Diff(want, steps); d != "" {
				t.Errorf("order of steps: %s", d)
			}
			if got := content(t, path); got != "the new content" {
				t.Errorf("no fault: got %q", got)
			}
			return
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("step %d: cause lost in %v", n, err)
		}
		want := "old content"
		if errors.Is(err, ErrNotDurable) {
			want = "the new content"
		}
		if got := content(t, path); got != want {
			t.Errorf("step %d (%v): content %q, want %q", n, steps, got, want)
		}
		if got := names(t, dir); !cmp.Equal(got, []string{"info.json"}) {
			t.Errorf("step %d (%v): directory holds %v", n, steps, got)
		}
	}
}

func TestFillErrorKeepsOldContent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	if err := WriteFile(path, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	cause := errors.New("no statistics")
	err := Write(OS, path, 0o644, func(w io.Writer) error {
		_, _ = w.Write([]byte("half"))
		return cause
	})
	if !errors.Is(err, cause) || content(t, path) != "old" {
		t.Errorf("got %v with content %q", err, content(t, path))
	}
}

func TestRemoveStaleTakesOnlyTemporaryFiles(t *testing.T) {
	dir := t.TempDir()
	for _, n := range []string{".info.json.pinch-tmp-123", "info.json", "notes.pinch-tmp-1", ".hidden"} {
		if err := os.WriteFile(filepath.Join(dir, n), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	removed, err := RemoveStale(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !cmp.Equal(removed, []string{".info.json.pinch-tmp-123"}) {
		t.Errorf("removed %v", removed)
	}
	if got := names(t, dir); !cmp.Equal(got, []string{".hidden", "info.json", "notes.pinch-tmp-1"}) {
		t.Errorf("left %v", got)
	}
}

func TestRenameMovesDirectories(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "a.partial"), filepath.Join(dir, "sub", "a")
	if err := os.MkdirAll(from, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	var synced []string
	fsys := Faulty{FS: OS, Fail: func(op Op, p string) error {
		if op == OpSyncDir {
			synced = append(synced, p)
		}
		return nil
	}}
	if err := Rename(fsys, from, to); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{filepath.Dir(to), dir}, synced); d != "" {
		t.Errorf("synced directories: %s", d)
	}
	if _, err := os.Stat(to); err != nil {
		t.Error(err)
	}
}
