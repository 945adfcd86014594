package armfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pinch-robotics/pinch/deploy/arm/join"
	"github.com/pinch-robotics/pinch/internal/testpeer"
)

// block is the first YAML example under a heading of docs/arms.md.
func block(t *testing.T, heading string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(testpeer.Root(t), "docs", "arms.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), "\n## "+heading+"\n")
	if !ok {
		t.Fatalf("docs/arms.md has no heading %q", heading)
	}
	_, rest, _ = strings.Cut(rest, "```yaml\n")
	yaml, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatalf("no example under %q", heading)
	}
	path := filepath.Join(t.TempDir(), "example.yaml")
	if err := os.WriteFile(path, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// The examples of the documentation are files that load, with the values they show.
func TestDocumentedFilesLoad(t *testing.T) {
	c, err := Load(block(t, "arm.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	o, err := c.Options()
	if err != nil {
		t.Fatal(err)
	}
	if o.Name != "left" || o.WorldFromBase.P[1] != 0.3 || o.ActionLatency != 40*time.Millisecond || c.UR.DeadManMS != 20 || c.Hand.Dynamixel.Points[1].Count != 2661 {
		t.Errorf("%+v, %+v", o, c)
	}
	d, err := c.Driver("ur", nil)
	if err != nil || d.Model() != "ur5e" {
		t.Errorf("driver %v, %v", d, err)
	}
	h, err := c.Hand.Open()
	if err != nil {
		t.Fatal(err)
	}
	if closed, open := h.Range(); closed != 0 || open != 0.94 {
		t.Errorf("hand from %v to %v", closed, open)
	}
	j, err := join.Load(block(t, "join.yaml"))
	if err != nil || len(j.Cameras) != 2 || j.Left != "tcp:127.0.0.1:7481" {
		t.Errorf("join %+v, %v", j, err)
	}
}

func TestFaultsNameTheKey(t *testing.T) {
	for key, text := range map[string]string{
		"name:": "name: middle", "world_from_base": "world_from_base: [1, 2]", "velocity_share": "velocity_share: 2", "following_rad": "following_rad: 9",
		"action_latency_ms": "action_latency_ms: -1", "hand:": "hand: {dynamixel: {}, robotiq: {}}", "dead_man": "ur: {dead_man: 3}",
	} {
		path := filepath.Join(t.TempDir(), "arm.yaml")
		if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(path); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
