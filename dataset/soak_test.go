package dataset

import (
	"context"
	"encoding/json"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/pinch-robotics/pinch/internal/testpeer"
)

// lerobot runs the peer script with the official package of today's format, which `make soak` installs into .venv-lerobot.
func lerobot(t *testing.T, into any, args ...string) {
	t.Helper()
	lerobotIn(t, ".venv-lerobot", into, args...)
}

// lerobotIn is lerobot in an environment: .venv-lerobot has 0.4 for v3.0, .venv-lerobot033 has 0.3 for v2.1.
func lerobotIn(t *testing.T, venv string, into any, args ...string) {
	t.Helper()
	if os.Getenv("PINCH_SOAK") == "" {
		t.Skip("the official package is large: make soak installs it and runs this test")
	}
	python := filepath.Join(testpeer.Root(t), venv, "bin", "python")
	if _, err := os.Stat(python); err != nil {
		t.Skipf("no %s: %v", venv, err)
	}
	cmd := exec.Command(python, append([]string{"testdata/lerobot_peer.py"}, args...)...)
	cmd.Env = append(os.Environ(), "HF_HOME="+t.TempDir(), "HF_HUB_OFFLINE=1", "HF_DATASETS_DISABLE_PROGRESS_BARS=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("lerobot %v: %v\n%s", args, err, out)
	}
	if err := json.Unmarshal(out, into); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// loaded is what the official loader saw.
type loaded struct {
	Version        string
	Rows, Episodes int
	Tasks          []string
	Sums           map[string]float64
	Grey           map[string][][3]float64
}

// variants are datasets of every origin, with the base episodes that they hold in order.
func variants(t *testing.T) map[string][]int {
	base := makeDataset(t)
	out := map[string][]int{base: {0, 1, 2}}
	make := func(name, src string, episodes []int, change func(p *Plan)) string {
		p := Keep(mustOpen(t, src))
		change(&p)
		dst := filepath.Join(memoryDir(t), name)
		if _, err := Rebuild(context.Background(), dst, p, RebuildOptions{}); err != nil {
			t.Fatal(err)
		}
		trusted(t, dst)
		out[dst] = episodes
		return dst
	}
	packed := make("compacted", base, []int{0, 1, 2}, func(p *Plan) { p.Pack = true })
	make("deleted", packed, []int{0, 2}, func(p *Plan) { p.Episodes = slices.Delete(p.Episodes, 1, 2) })
	make("split", base, []int{2, 1}, func(p *Plan) { p.Episodes = []PlanEpisode{p.Episodes[2], p.Episodes[1]} })
	make("merged", base, []int{0, 1, 2, 0, 1, 2}, func(p *Plan) { p.Episodes = append(p.Episodes, Keep(mustOpen(t, packed)).Episodes...) })
	old := filepath.Join(memoryDir(t), "old")
	p := Keep(mustOpen(t, base))
	p.Version = "v2.1"
	if _, err := Rebuild(context.Background(), old, p, RebuildOptions{}); err != nil {
		t.Fatal(err)
	}
	make("converted", old, []int{0, 1, 2}, func(*Plan) {})
	resumed := make("resumed", packed, []int{0, 1, 2, 1}, func(*Plan) {})
	w, err := OpenWriter(resumed, WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.AddEpisode(context.Background(), testEpisode(t, 1, lengths[1])); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out
}

// matches compares what a loader saw with the base episodes.
func (s loaded) matches(t *testing.T, name string, episodes []int) {
	t.Helper()
	state, actions, rows := 0.0, 0.0, 0
	for _, k := range episodes {
		ep := testEpisode(t, k, lengths[k])
		rows += ep.Length
		for _, v := range ep.Columns["observation.state"].([]float32) {
			state += float64(v)
		}
		for _, v := range ep.Columns["action"].([]float64) {
			actions += v
		}
	}
	if s.Rows != rows || s.Episodes != len(episodes) {
		t.Errorf("%s: %d rows of %d episodes, want %d of %d", name, s.Rows, s.Episodes, rows, len(episodes))
		return
	}
	if math.Abs(s.Sums["observation.state"]-state) > 1e-6*math.Abs(state) || math.Abs(s.Sums["action"]-actions) > 1e-6*math.Abs(actions) {
		t.Errorf("%s: numbers add up to %v and %v, want %v and %v", name, s.Sums["observation.state"], s.Sums["action"], state, actions)
	}
	greys(t, seen{Grey: s.Grey}, episodes)
}

// The official package loads a dataset of every origin, with the same numbers and pictures.
func TestLeRobotLoadsEveryVariant(t *testing.T) {
	if os.Getenv("PINCH_SOAK") == "" {
		t.Skip("the official package is large: make soak installs it and runs this test")
	}
	sets := variants(t)
	var roots []string
	for root := range sets {
		roots = append(roots, root)
	}
	slices.Sort(roots)
	var got []loaded
	lerobot(t, &got, append([]string{"load"}, roots...)...)
	for i, root := range roots {
		got[i].matches(t, root, sets[root])
	}
}

// What killed writers left loads too, once pinch has opened it: every accepted episode, with its pictures.
func TestLeRobotLoadsWhatKilledWritersLeft(t *testing.T) {
	if os.Getenv("PINCH_SOAK") == "" {
		t.Skip("the official package is large: make soak installs it and runs this test")
	}
	root := makeDataset(t)
	videos, _ := json.Marshal(map[string]string{"observation.images.left": testVideo(t, 9, 1), "observation.images.right": testVideo(t, 9, 2)})
	rng := rand.New(rand.NewPCG(5, 6))
	n := len(lengths)
	for range 6 {
		accepted := killOnce(t, root, string(videos), n, 1+rng.IntN(2), time.Duration(rng.IntN(30))*time.Millisecond)
		if n = mustOpen(t, root).NumEpisodes(); n != accepted && n != accepted+1 {
			t.Fatalf("%d episodes after %d were accepted", n, accepted)
		}
	}
	var got []loaded
	lerobot(t, &got, "load", root)
	s := got[0]
	if want := 12 + 7 + 20 + 9*(n-3); s.Rows != want || s.Episodes != n || n < 9 {
		t.Errorf("%d rows of %d episodes, want %d of %d", s.Rows, s.Episodes, want, n)
	}
	for c, name := range []string{"observation.images.left", "observation.images.right"} {
		for _, g := range s.Grey[name] {
			seed := c + 1 // of the children's videos
			if g[0] < 3 {
				seed = 2*int(g[0]) + c
			}
			if want := float64(shade(seed, int(g[1]))); math.Abs(g[2]-want) > 3 {
				t.Fatalf("%s episode %v row %v has grey %.1f, want %.0f", name, g[0], g[1], g[2], want)
			}
		}
	}
}

// The last official package for v2.1 loads what is converted to it, and what is deleted, split and merged in it.
func TestLeRobotLoadsV21(t *testing.T) {
	if os.Getenv("PINCH_SOAK") == "" {
		t.Skip("the official package is large: make soak installs it and runs this test")
	}
	sets := map[string][]int{}
	make := func(name, src string, episodes []int, change func(p *Plan)) string {
		p := Keep(mustOpen(t, src))
		p.Version = "v2.1"
		change(&p)
		dst := filepath.Join(memoryDir(t), name)
		if _, err := Rebuild(context.Background(), dst, p, RebuildOptions{}); err != nil {
			t.Fatal(err)
		}
		sets[dst] = episodes
		return dst
	}
	old := make("converted", makeDataset(t), []int{0, 1, 2}, func(*Plan) {})
	make("deleted", old, []int{0, 2}, func(p *Plan) { p.Episodes = slices.Delete(p.Episodes, 1, 2) })
	make("split", old, []int{2, 1}, func(p *Plan) { p.Episodes = []PlanEpisode{p.Episodes[2], p.Episodes[1]} })
	make("merged", old, []int{0, 1, 2, 0, 1, 2}, func(p *Plan) { p.Episodes = append(p.Episodes, Keep(mustOpen(t, makeDataset(t))).Episodes...) })
	roots := slices.Sorted(maps.Keys(sets))
	var got []loaded
	lerobotIn(t, ".venv-lerobot033", &got, append([]string{"load"}, roots...)...)
	for i, root := range roots {
		if got[i].Version != "v2.1" {
			t.Errorf("%s is %s", root, got[i].Version)
		}
		got[i].matches(t, root, sets[root])
	}
}

// Its merge, split and delete work on ours, also with numeric features that have "image" in their names, and what they make loads
// in both.
func TestLeRobotToolsWorkOnOurs(t *testing.T) {
	base := makeDataset(t)
	p := Keep(mustOpen(t, base))
	p.Pack = true
	packed := filepath.Join(memoryDir(t), "packed")
	if _, err := Rebuild(context.Background(), packed, p, RebuildOptions{}); err != nil {
		t.Fatal(err)
	}
	out := memoryDir(t)
	var made []string
	lerobot(t, &made, "tools", out, packed, base)
	var got []loaded
	lerobot(t, &got, append([]string{"load"}, made...)...)
	for i, episodes := range [][]int{{0, 1, 2, 0, 1, 2}, {0, 1}, {2}, {0, 2}} {
		got[i].matches(t, made[i], episodes)
		d := mustOpen(t, made[i])
		if _, err := d.Identity(); err != nil {
			t.Errorf("%s: %v", made[i], err)
		}
	}
	// and the official rewriting comes back clean
	dst := filepath.Join(memoryDir(t), "back")
	if _, err := Rebuild(context.Background(), dst, Keep(mustOpen(t, made[0])), RebuildOptions{}); err != nil {
		t.Fatal(err)
	}
	trusted(t, dst)
}
