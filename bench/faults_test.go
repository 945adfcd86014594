package bench

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinch-robotics/pinch/dataset/faultplant"
)

// The check finds every fault of some kinds in small simulated demonstrations and flags no other episode for them. All kinds in 50
// episodes each are `pinch bench faults`.
func TestTheCheckFindsPlantedFaults(t *testing.T) {
	if _, err := exec.LookPath("ffmpeg"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("ffmpeg is not installed: apt-get install ffmpeg")
		}
		t.Skip("ffmpeg is not installed: apt-get install ffmpeg")
	}
	demos := filepath.Join(t.TempDir(), "demos")
	if err := faultplant.Demos(context.Background(), demos, faultplant.DemoOptions{Episodes: 12, FPS: 10, Width: 32, Height: 24, Seed: 5}); err != nil {
		t.Fatal(err)
	}
	kinds := []string{"data-footer-lost", "frame-number-gap", "timestamp-rate-wrong", "quaternion-length", "stats-not-finite"}
	r, err := Faults(context.Background(), FaultsOptions{Dataset: demos, Kinds: kinds, Episodes: 2, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Rows) != len(kinds) {
		t.Fatalf("%d rows for %d kinds", len(r.Rows), len(kinds))
	}
	for _, row := range r.Rows {
		if row.Planted != 2 || row.Found != 2 || row.Flagged != 0 || row.Others != 10 {
			t.Errorf("%+v, want 2 planted, 2 found, 0 of 10 others flagged", row)
		}
	}
	var text bytes.Buffer
	if err := r.WriteText(&text); err != nil || !strings.Contains(text.String(), "10 (100.0 %)") {
		t.Errorf("table: %v\n%s", err, text.String())
	}
}
