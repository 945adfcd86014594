package train

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pinch-robotics/pinch/internal/config"
	"github.com/pinch-robotics/pinch/policy"
)

func TestConfigLayersFileAndOverrides(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.yaml")
	if err := os.WriteFile(path, []byte("steps: 777\nbatch: 5\naugment:\n  shift: 3\narch:\n  depth: 4\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := LoadConfig(path, "batch=6", "arch.heads=2", "size=nano", "data=x=y")
	if err != nil {
		t.Fatal(err)
	}
	if c.Steps != 777 || c.Batch != 6 || c.Augment.Shift != 3 || c.Data != "x=y" || c.Draws != DefaultConfig().Draws {
		t.Errorf("got %+v", c)
	}
	a, nano := c.architecture(), policy.Architectures["nano"]
	nano.Depth, nano.Heads = 4, 2
	if d := cmp.Diff(nano, a); d != "" {
		t.Error(d)
	}
}

func TestConfigRefusesWrongKeysAndValues(t *testing.T) {
	for override, want := range map[string]string{
		"stepz=5":              "steps",
		"augment.brightnes=1":  "brightness",
		"arch.vision_dept=1":   "vision_depth",
		"batch=0":              "batch",
		"warmup=4000":          "warmup",
		"beta1=1":              "beta1",
		"rate=NaN":             "rate",
		"rot6d=euler":          "rot6d",
		"size=huge":            "nano, tiny",
		"val_split=random":     "val_split",
		"val_share=1":          "val_share",
		"augment.saturation=2": "augment.saturation",
	} {
		if _, err := LoadConfig("", override); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v does not say %s", override, err, want)
		}
	}
}

func TestConfigSurvivesItsYAML(t *testing.T) {
	c := DefaultConfig()
	c.Data, c.Seed, c.Arch.Depth, c.MaxMinutes = "some where", 1<<60, 3, 7.5
	text, err := config.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	back := DefaultConfig()
	if err := config.Decode("run.yaml", text, &back); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(c, back); d != "" {
		t.Error(d)
	}
}

func TestResumeKeepsWhatDecidesTheWeights(t *testing.T) {
	stored := DefaultConfig()
	now := stored
	now.Rate, now.Batch, now.MaxMinutes, now.SaveEvery, now.Out = 9e-3, 7, 5, 11, "elsewhere"
	c, diff := resumed(stored, now)
	if c.Rate != stored.Rate || c.Batch != stored.Batch || c.MaxMinutes != 5 || c.SaveEvery != 11 || c.Out != "elsewhere" {
		t.Errorf("got %+v", c)
	}
	if len(diff) != 2 || !strings.HasPrefix(diff[0], "batch:") || !strings.HasPrefix(diff[1], "rate:") {
		t.Errorf("differences %q, want those of batch and rate", diff)
	}
	other := stored
	other.Steps, other.Batch, other.Threads = 400, 8, 2
	if c, diff := resumed(other, DefaultConfig()); c.Steps != 400 || len(diff) != 0 {
		t.Errorf("resumed without settings: %q is said to be given", diff)
	}
}
