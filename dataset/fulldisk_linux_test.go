package dataset

import (
	"context"
	"errors"
	"path/filepath"
	"syscall"
	"testing"
)

// A file system that really is full: the episode that does not fit is refused with ENOSPC, the others stay whole.
func TestReallyFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1536k"); err != nil {
		t.Skipf("mounting a small file system needs root: %v", err)
	}
	defer syscall.Unmount(dir, syscall.MNT_DETACH)
	root := filepath.Join(dir, "set")
	w := mustCreate(t, root)
	accepted := 0
	for ; accepted < 200; accepted++ {
		if _, err := w.AddEpisode(context.Background(), withStats(testEpisode(t, accepted%3, 20))); err != nil {
			if !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("episode %d: %v does not say that the disk is full", accepted, err)
			}
			break
		}
	}
	if accepted == 0 || accepted == 200 {
		t.Fatalf("%d episodes fitted", accepted)
	}
	if w.NumEpisodes() != accepted {
		t.Errorf("the writer counts %d episodes, %d were accepted", w.NumEpisodes(), accepted)
	}
	w.release()
	d := mustOpen(t, root)
	if len(d.Episodes()) != accepted {
		t.Fatalf("%d episodes are listed, %d were accepted", len(d.Episodes()), accepted)
	}
	if _, err := d.Identity(); err != nil {
		t.Error(err)
	}
	if stray := strayFiles(t, root, d); len(stray) > 0 {
		t.Errorf("stray files %v", stray)
	}
}
