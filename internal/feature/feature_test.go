package feature

import (
	"bytes"
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pinch-robotics/pinch/frames"
)

var update = flag.Bool("update", false, "write the feature table into docs/dataset.md")

// The stationary layout begins with YUBI's 56 features, in YUBI's order.
func TestYUBIFeatures(t *testing.T) {
	text, err := os.ReadFile("testdata/yubi_features.txt")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "#") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	if len(lines) != 56 {
		t.Fatalf("%d reference lines, want 56", len(lines))
	}
	all := Stationary().Features()
	for i, line := range lines {
		if got := describe(all[i]); got != line {
			t.Errorf("feature %d:\n%s\nwant\n%s", i, got, line)
		}
		if all[i].Ours {
			t.Errorf("%s is marked as ours", all[i].Name)
		}
	}
	for _, f := range all[56:] {
		if !f.Ours {
			t.Errorf("%s is not marked as ours", f.Name)
		}
	}
}

// describe writes a feature as the reference file does; that names frames of absolute and relative poses only.
func describe(f Feature) string {
	dash := func(s string) string {
		if s == "" {
			return "-"
		}
		return s
	}
	parent, child, timing := f.Parent, f.Child, ""
	if f.Kind == PoseFresh {
		parent, child = "", ""
	}
	if f.Timing != 0 {
		timing = f.Timing.String()
	}
	return strings.Join([]string{f.Name, f.DType, strings.ReplaceAll(strings.Trim(shape(f.Shape), "()"), ",", "x"),
		dash(strings.Join(f.Names, ",")), dash(parent), dash(child), dash(timing)}, " ")
}

// What the official loader demands of names, shapes and visual features.
func TestLeRobotRules(t *testing.T) {
	for name, l := range map[string]Layout{"stationary": Stationary(), "portable": Portable(), "trial": Trial()} {
		seen := map[string]bool{}
		for _, f := range l.Features() {
			if seen[f.Name] {
				t.Errorf("%s: %s twice", name, f.Name)
			}
			seen[f.Name] = true
			if strings.Contains(f.Name, "/") {
				t.Errorf("%s: %q has a slash", name, f.Name)
			}
			if f.Kind == Video {
				if !slices.Equal(f.Names, []string{"height", "width", "channels"}) || len(f.Shape) != 3 || f.Shape[2] != 3 {
					t.Errorf("%s: %s has shape %v %v", name, f.Name, f.Shape, f.Names)
				}
				continue
			}
			// Only YUBI's own camera flags may have "image" in a numeric feature's name: the official statistics
			// code then wants them in the shape of a picture's, which the dataset writer gives them.
			if strings.Contains(f.Name, "image") && f.Kind != VideoFresh {
				t.Errorf("%s: %s is no picture but says image", name, f.Name)
			}
			if len(f.Shape) != 1 || f.Dim() < 1 || (f.Names != nil && len(f.Names) != f.Dim()) {
				t.Errorf("%s: %s has shape %v and names %v", name, f.Name, f.Shape, f.Names)
			}
			if f.Units != nil && len(f.Units) != 1 && len(f.Units) != f.Dim() {
				t.Errorf("%s: %s has units %v", name, f.Name, f.Units)
			}
			if (f.Kind == Motion) != (f.Reference != 0) || (f.Kind == Motion && f.Timing == 0) {
				t.Errorf("%s: %s lacks reference or timing", name, f.Name)
			}
		}
	}
}

func TestLayoutsDifferByTheirDevices(t *testing.T) {
	has := func(l Layout, name string) bool { _, err := l.Find(name); return err == nil }
	if has(Portable(), "observation.state") || has(Portable(), "action.footpedal") || !has(Portable(), ImageCenter) {
		t.Error("portable: no pedal, but a centre camera")
	}
	trial := Trial()
	for _, absent := range []string{"observation.pose.hmd.absolute", "action.left_controller.relative", ImageCenter} {
		if has(trial, absent) {
			t.Errorf("trial has %s", absent)
		}
	}
	f, err := trial.Find(LeftHand)
	if err != nil || f.Parent != Cell {
		t.Errorf("trial hand pose in %q, %v", f.Parent, err)
	}
	if f, err = trial.Find(LeftHandNext); err != nil || f.Timing != frames.Next || f.Reference != frames.BodyPrevious {
		t.Errorf("next action: %+v, %v", f, err)
	}
	if _, err = trial.Find("observation.image.middle"); err == nil || !strings.Contains(err.Error(), ImageLeft) {
		t.Errorf("unknown feature: %v", err)
	}
	entries := LeRobot(trial.Features())
	if e := entries[JointStates]; e.DType != "float64" || !slices.Equal(e.Shape, []int{2}) || !slices.Equal(e.Names, JointNames) {
		t.Errorf("entry of joint states: %+v", e)
	}
	if len(entries) != len(trial.Features()) {
		t.Error("entries are missing")
	}
}

// The table in docs/dataset.md is printed from the code; `go test ./internal/feature -update` renews it.
func TestDocumentHoldsTheTable(t *testing.T) {
	const path = "../../docs/dataset.md"
	doc, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var table bytes.Buffer
	if err := WriteMarkdown(&table, Stationary().Features()); err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile(`(?s)(<!-- features: begin[^>]*-->\n).*?(<!-- features: end -->)`)
	if !block.Match(doc) {
		t.Fatalf("%s has no place for the table", path)
	}
	want := block.ReplaceAll(doc, []byte("${1}"+table.String()+"${2}"))
	if bytes.Equal(doc, want) {
		return
	}
	if !*update {
		t.Fatalf("the table in %s is not the code's; run `go test ./internal/feature -update`", path)
	}
	if err := os.WriteFile(path, want, 0o644); err != nil {
		t.Fatal(err)
	}
}
