package deploy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// The example shows every key with its default.
func TestExampleIsTheDefault(t *testing.T) {
	got, err := LoadCell("cell.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(DefaultCell(), got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("example differs from the defaults: %s", diff)
	}
	text, err := os.ReadFile("cell.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"arm_link", "execute_rows", "velocity_fraction", "policy_max_ms", "contract"} {
		if !strings.Contains(string(text), "\n"+key+":") && !strings.Contains(string(text), "\n  "+key+":") {
			t.Errorf("example lacks %s", key)
		}
	}
}

func TestWrongCellFiles(t *testing.T) {
	for text, want := range map[string][]string{
		"safety:\n  arm_clearence_m: 0.1\n":     {"arm_clearance_m", ":2"},
		"control:\n  lead_ms: 5\n":              {"control.lead_ms"},
		"control:\n  switch_lead_ms: 500\n":     {"control.switch_lead_ms"},
		"safety:\n  velocity_fraction: 1.5\n":   {"safety.velocity_fraction"},
		"safety:\n  hand_speed_m_per_s: .nan\n": {"safety.hand_speed_m_per_s"},
		"arm_link: ''\n":                        {"arm_link"},
		"control:\n  execute_rows: -1\n":        {"control.execute_rows"},
	} {
		path := filepath.Join(t.TempDir(), "cell.yaml")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := LoadCell(path)
		if err == nil {
			t.Errorf("%q was taken", text)
			continue
		}
		for _, w := range append(want, "cell.yaml") {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%q: error %v lacks %q", text, err, w)
			}
		}
	}
}
