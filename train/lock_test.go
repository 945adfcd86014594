package train

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinch-robotics/pinch/internal/folderlock"
)

// A run folder takes one training at a time; the second is told and leaves everything as it is.
func TestRunFolderInUse(t *testing.T) {
	c := small(spots(t, 4, 10), filepath.Join(t.TempDir(), "run"))
	if err := os.Mkdir(c.Out, 0o755); err != nil {
		t.Fatal(err)
	}
	lock, err := folderlock.Take(c.Out)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	_, err = Run(context.Background(), c, Options{})
	if !errors.Is(err, folderlock.ErrHeld) || !strings.Contains(err.Error(), c.Out) {
		t.Errorf("got %v", err)
	}
	if left, _ := os.ReadDir(c.Out); len(left) != 0 {
		t.Errorf("left %v in the folder", left)
	}
}
