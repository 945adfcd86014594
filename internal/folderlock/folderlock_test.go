package folderlock_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/pinch-robotics/pinch/internal/folderlock"
)

func TestSecondTakerIsToldAndReleaseFrees(t *testing.T) {
	dir := t.TempDir()
	first, err := folderlock.Take(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = folderlock.Take(dir)
	if !errors.Is(err, folderlock.ErrHeld) || !strings.Contains(err.Error(), dir) {
		t.Fatalf("second taker got %v, want ErrHeld naming %s", err, dir)
	}
	other, err := folderlock.Take(t.TempDir())
	if err != nil {
		t.Fatalf("another folder: %v", err)
	}
	other.Release()
	first.Release()
	first.Release()
	again, err := folderlock.Take(dir)
	if err != nil {
		t.Fatalf("after release: %v", err)
	}
	again.Release()
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Fatalf("the lock left %v in the folder", left)
	}
}

func TestMissingFolderIsNoLock(t *testing.T) {
	if _, err := folderlock.Take(t.TempDir() + "/none"); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("got %v", err)
	}
}

// heldForEver keeps the lock of the child process from the garbage collector, which would free it.
var heldForEver *folderlock.Lock

// A killed process holds nothing.
func TestKilledHolderFrees(t *testing.T) {
	if dir := os.Getenv("FOLDERLOCK_HOLD"); dir != "" {
		var err error
		if heldForEver, err = folderlock.Take(dir); err != nil {
			t.Fatal(err)
		}
		fmt.Println("held")
		select {}
	}
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledHolderFrees$")
	cmd.Env = append(os.Environ(), "FOLDERLOCK_HOLD="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "held\n" {
		t.Fatalf("holder said %q, %v", line, err)
	}
	if _, err := folderlock.Take(dir); !errors.Is(err, folderlock.ErrHeld) {
		t.Fatalf("while it is held: %v", err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	l, err := folderlock.Take(dir)
	if err != nil {
		t.Fatalf("after the holder was killed: %v", err)
	}
	l.Release()
}
