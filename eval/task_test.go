package eval

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinch-robotics/pinch/internal/sim"
)

func blockToTray(t testing.TB) Task {
	t.Helper()
	path := filepath.Join(t.TempDir(), "task.yaml")
	if err := os.WriteFile(path, BlockToTray, 0o644); err != nil {
		t.Fatal(err)
	}
	task, err := LoadTask(path)
	if err != nil {
		t.Fatal(err)
	}
	return task
}

// The demo's task promises four milestones of equal weight, and the simulator's own prompts, which the policy was trained on.
func TestBlockToTrayIsTheSimulatorsTask(t *testing.T) {
	task := blockToTray(t)
	if got := task.Rubric().Levels(); len(got) != 5 || got[1] != 0.25 || got[4] != 1 {
		t.Errorf("levels %v", got)
	}
	for i, want := range sim.Prompts {
		if task.Steps[i].Prompt != want {
			t.Errorf("step %d: prompt %q, the simulator's is %q", i, task.Steps[i].Prompt, want)
		}
	}
	for done, want := range []int{0, 0, 1, 1, 1} {
		if got := task.StepAt(done); got != want {
			t.Errorf("after %d milestones step %d is under way, want %d", done, got, want)
		}
	}
}

func TestTaskFaultsNameTheKey(t *testing.T) {
	text := string(BlockToTray)
	for want, change := range map[string][2]string{
		`unknown key "wieght" under steps[0].milestones[0]; the nearest valid key is "weight"`: {"weight: 0.25\n        criterion: the point", "wieght: 0.25\n        criterion: the point"},
		"add up to 1.25":                          {"weight: 0.25\n        criterion: the point", "weight: 0.5\n        criterion: the point"},
		"aborted.safety_stop":                     {"safety_stop: count", "safety_stop: drop"},
		`the split "train" belongs to`:            {"simulator: eval", "simulator: train"},
		"time_limit_s: 0":                         {"time_limit_s: 30", "time_limit_s: 0"},
		"steps[0]: want a prompt":                 {"prompt: pick up the block", "prompt: ''"},
		"conditions: want simulator or file":      {"simulator: eval", "simulator: eval\n  file: list.json"},
		"stall_s, settle_s: 5 and 40, want 0 or ": {"settle_s: 0.5", "settle_s: 40"},
	} {
		if !strings.Contains(text, change[0]) {
			t.Fatalf("the task file has no %q", change[0])
		}
		path := filepath.Join(t.TempDir(), "task.yaml")
		if err := os.WriteFile(path, []byte(strings.Replace(text, change[0], change[1], 1)), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadTask(path); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: got %v", want, err)
		}
	}
}

// Conditions of trials and of demonstrations never meet: neither their names nor their seeds, over many more than anyone uses.
func TestConditionsAreDisjointFromDemonstrations(t *testing.T) {
	seeds := map[uint64]bool{}
	for i := range 2000 {
		seeds[sim.NewCondition(sim.Train, i).Seed] = true
	}
	list, err := ConditionSource{Simulator: "eval"}.List(500, "")
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range list {
		scene, err := sim.DecodeCondition(c.Scene)
		if err != nil {
			t.Fatal(err)
		}
		if seeds[scene.Seed] {
			t.Errorf("condition %s shares seed %d with a demonstration", c.Name, scene.Seed)
		}
		starts, err := c.HandStarts()
		if err != nil {
			t.Fatal(err)
		}
		if metres, radians := starts[1].Pose.Distance(scene.Right.Pose()); metres > 1e-12 || radians > 1e-7 || starts[1].FingerRad != scene.Right.Angle {
			t.Errorf("condition %d: start differs from the scene's by %v m, %v rad", i, metres, radians)
		}
	}
}

func TestConditionsFromAFile(t *testing.T) {
	dir := t.TempDir()
	write := func(text string) {
		if err := os.WriteFile(filepath.Join(dir, "list.json"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	start := `{"pose_xyz_xyzw":[0,0,0.3,0,0,0,1],"finger_rad":0.4}`
	one := func(name string) string {
		return `{"name":"` + name + `","note":"overlay 1","starts":[` + start + `,` + start + `]}`
	}
	source := ConditionSource{File: "list.json"}
	write("[" + one("a") + "," + one("b") + "]")
	list, err := source.List(2, dir)
	if err != nil || list[1].Name != "b" || list[1].Note != "overlay 1" {
		t.Fatalf("%+v, %v", list, err)
	}
	if _, err := source.List(3, dir); err == nil || !strings.Contains(err.Error(), "has 2 conditions") {
		t.Errorf("too short: %v", err)
	}
	write("[" + one("a") + "," + one("a") + "]")
	if _, err := source.List(2, dir); err == nil || !strings.Contains(err.Error(), `condition "a"`) {
		t.Errorf("same name twice: %v", err)
	}
	write(strings.Replace("["+one("a")+"]", "0,0,0,1]", "0,0,0,0]", 1))
	if _, err := source.List(1, dir); err == nil || !strings.Contains(err.Error(), "left hand") {
		t.Errorf("no rotation: %v", err)
	}
}
