package faultplant

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/dataset/internal/pq"
	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/feature"
)

// makeBase writes a base of a few demonstrations.
func makeBase(t *testing.T, episodes int) string {
	t.Helper()
	if _, err := exec.LookPath("ffmpeg"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("ffmpeg is not installed: apt-get install ffmpeg")
		}
		t.Skip("ffmpeg is not installed: apt-get install ffmpeg")
	}
	dir := t.TempDir()
	if err := Demos(context.Background(), filepath.Join(dir, "demos"), DemoOptions{Episodes: episodes, FPS: 10, Width: 32, Height: 24, Seed: 3}); err != nil {
		t.Fatal(err)
	}
	base := filepath.Join(dir, "base")
	if err := Base(context.Background(), filepath.Join(dir, "demos"), base); err != nil {
		t.Fatal(err)
	}
	return base
}

func open(t *testing.T, base string) *Planter {
	t.Helper()
	p, err := Open(base)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// hashes gives the hash of every file.
func hashes(t *testing.T, root string) map[string][32]byte {
	t.Helper()
	out := map[string][32]byte{}
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		rel, _ := filepath.Rel(root, path)
		out[filepath.ToSlash(rel)] = sha256.Sum256(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestEveryKindChangesExactlyWhatItSays(t *testing.T) {
	base := makeBase(t, 4)
	before := hashes(t, base)
	clean, err := dataset.Open(base)
	if err != nil {
		t.Fatal(err)
	}
	kinds := Kinds()
	if len(kinds) < 24 {
		t.Errorf("%d kinds of fault, want at least 24", len(kinds))
	}
	p := open(t, base)
	seen := map[string]bool{}
	for _, k := range kinds {
		if seen[k.Name] || k.Doc == "" || k.Group == "" {
			t.Errorf("kind %q is there twice or says nothing", k.Name)
		}
		seen[k.Name] = true
		t.Run(k.Name, func(t *testing.T) {
			dst := filepath.Join(t.TempDir(), "planted")
			faults, err := p.Plant(context.Background(), dst, k.Name, 1, 1)
			if err != nil {
				t.Fatal(err)
			}
			if len(faults) != 1 {
				t.Fatalf("planted %+v, want a fault in 1 episode", faults)
			}
			allowed := []string{"meta/stats.json"}
			for _, f := range faults {
				if f.Note == "" || f.Frames < 1 || f.Frame < 0 || len(f.Files) == 0 {
					t.Errorf("fault %+v does not say where it is", f)
				}
				allowed = append(allowed, f.Files...)
			}
			after := hashes(t, dst)
			for rel, sum := range before {
				if now, ok := after[rel]; (!ok || now != sum) && !slices.Contains(allowed, rel) {
					t.Errorf("%s changed, which no fault says", rel)
				}
			}
			for rel := range after {
				if _, ok := before[rel]; !ok {
					t.Errorf("%s is new", rel)
				}
			}
			for _, f := range faults {
				for _, rel := range f.Files {
					if after[rel] == before[rel] {
						t.Errorf("fault %+v: %s is as before", f, rel)
					}
				}
				sameElsewhere(t, clean, dst, f)
			}
		})
	}
	if now := hashes(t, base); len(now) != len(before) {
		t.Errorf("the base has %d files, had %d", len(now), len(before))
	} else {
		for rel, sum := range before {
			if now[rel] != sum {
				t.Errorf("the base's %s changed", rel)
			}
		}
	}
}

// sameElsewhere holds the rows of a planted episode to those of the clean one: other columns are equal, and so are the rows of the
// faulty feature away from the fault.
func sameElsewhere(t *testing.T, clean *dataset.Dataset, dst string, f Fault) {
	t.Helper()
	meta, err := clean.Episode(f.Episode)
	if err != nil {
		t.Fatal(err)
	}
	a, err := pq.Open(filepath.Join(clean.Root(), meta.DataPath))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := pq.Open(filepath.Join(dst, meta.DataPath))
	if err != nil {
		return // the file itself is the fault
	}
	defer b.Close()
	if f.Kind == "data-page-damaged" {
		return
	}
	for _, c := range a.Columns() {
		x, err := a.Read(c.Name, 0, a.Rows())
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(f.Columns, c.Name) {
			if y, err := b.Read(c.Name, 0, b.Rows()); err != nil || !equal(x.Values, y.Values) {
				t.Errorf("fault %+v: column %s changed, too", f, c.Name)
			}
			continue
		}
		if c.Name != f.Feature || b.Rows() != a.Rows() || !b.Has(c.Name) {
			continue
		}
		y, err := b.Read(c.Name, 0, b.Rows())
		if err != nil {
			t.Fatal(err)
		}
		v, ok1 := x.Values.([]float64)
		w, ok2 := y.Values.([]float64)
		if !ok1 || !ok2 || len(v) != len(w) {
			continue
		}
		dim, moved := len(v)/a.Rows(), 0
		for i := range v {
			inside := i/dim >= f.Frame && i/dim < f.Frame+f.Frames
			same := v[i] == w[i]
			if !same && inside {
				moved++
			}
			if !same && !inside && f.Kind != "encoder-zero" {
				t.Fatalf("fault %+v: row %d differs", f, i/dim)
			}
		}
		if moved == 0 {
			t.Errorf("fault %+v: nothing differs inside of it", f)
		}
	}
}

func equal(a, b any) bool {
	switch v := a.(type) {
	case []float64:
		w, ok := b.([]float64)
		return ok && slices.Equal(v, w)
	case []float32:
		w, ok := b.([]float32)
		return ok && slices.Equal(v, w)
	case []int64:
		w, ok := b.([]int64)
		return ok && slices.Equal(v, w)
	case []bool:
		w, ok := b.([]bool)
		return ok && slices.Equal(v, w)
	}
	return false
}

// What follows from a wrong pose or angle follows from the wrong one: motions lead from each row to the next, finger tips stand where
// the angle puts them, and the table's statistics are those of the rows.
func TestRecordedFaultsAreInAccordWithThemselves(t *testing.T) {
	base := makeBase(t, 3)
	p := open(t, base)
	for _, kind := range []string{"pose-jump", "pose-recentred", "pose-held", "pose-zero", "pose-late", "pose-noise", "encoder-stall", "encoder-zero", "encoder-turn", "encoder-dead", "angle-clipped"} {
		dst := filepath.Join(t.TempDir(), kind)
		faults, err := p.Plant(context.Background(), dst, kind, 5, 1)
		if err != nil {
			t.Fatal(err)
		}
		d, err := dataset.Open(dst)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range faults {
			motionsFollow(t, d, f)
			tipsFollow(t, d, f)
			statsFollow(t, d, f)
		}
	}
}

func read(t *testing.T, d *dataset.Dataset, name string, episode int) []float64 {
	t.Helper()
	v, err := dataset.ReadColumn[float64](d, name, episode)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func poses(t *testing.T, d *dataset.Dataset, name string, episode int) []frames.Pose {
	t.Helper()
	p, err := posesOf(read(t, d, name, episode))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func apart(a, b frames.Pose) bool {
	m, r := a.Distance(b)
	return m > 1e-7 || r > 1e-6
}

func motionsFollow(t *testing.T, d *dataset.Dataset, f Fault) {
	t.Helper()
	layout := feature.Layout{Origin: feature.QuestOrigin}
	absolute := map[string]string{}
	for _, x := range layout.Features() {
		if x.Kind == feature.Pose {
			absolute[x.Child+" in "+x.Parent] = x.Name
		}
	}
	for _, x := range layout.Features() {
		if x.Kind != feature.Motion {
			continue
		}
		at, move := poses(t, d, absolute[x.Child+" in "+x.Parent], f.Episode), poses(t, d, x.Name, f.Episode)
		for r := 1; r < len(at); r++ {
			m := move[r]
			if x.Timing == frames.Next {
				m = move[r-1]
			}
			if apart(at[r-1].Mul(m), at[r]) {
				t.Fatalf("%+v: %s of row %d does not lead to the next pose", f, x.Name, r)
			}
		}
	}
	left, right := poses(t, d, handName("left"), f.Episode), poses(t, d, handName("right"), f.Episode)
	for r, p := range poses(t, d, feature.HandToHand, f.Episode) {
		if apart(left[r].Mul(p), right[r]) {
			t.Fatalf("%+v: the hands of row %d are not where the pose between them says", f, r)
		}
	}
}

func tipsFollow(t *testing.T, d *dataset.Dataset, f Fault) {
	t.Helper()
	q := read(t, d, feature.JointStates, f.Episode)
	next := read(t, d, feature.JointStatesNext, f.Episode)
	for k, side := range []string{"left", "right"} {
		hand := poses(t, d, handName(side), f.Episode)
		for _, finger := range []string{"left", "right"} {
			for r, p := range poses(t, d, "observation.pose."+side+"_"+finger+"_finger_tip.absolute", f.Episode) {
				if apart(hand[r].Mul(tip(finger, q[2*r+k])), p) {
					t.Fatalf("%+v: the %s finger's tip of row %d is not where the angle puts it", f, finger, r)
				}
			}
		}
		for r := range hand[1:] {
			if next[2*r+k] != q[2*r+2+k] {
				t.Fatalf("%+v: the action of row %d is not the next row's angle", f, r)
			}
		}
	}
}

func statsFollow(t *testing.T, d *dataset.Dataset, f Fault) {
	t.Helper()
	stats, err := d.EpisodeStats(f.Episode)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range d.Features() {
		if !x.DType.Numeric() || strings.Contains(x.Name, "image") {
			continue
		}
		want := dataset.ColumnStats(read(t, d, x.Name, f.Episode), x.Dim())
		got := stats[x.Name]
		for i := range want.Mean {
			if math.Abs(got.Mean[i]-want.Mean[i]) > 1e-12*math.Max(1, math.Abs(want.Mean[i])) || got.Max[i] != want.Max[i] || got.Min[i] != want.Min[i] {
				t.Fatalf("%+v: statistics of %s are not those of the rows", f, x.Name)
			}
		}
	}
}

func TestOneSeedPlantsOneSetOfFaults(t *testing.T) {
	p := open(t, makeBase(t, 3))
	plant := func(name string, seed uint64) (string, []Fault) {
		dst := filepath.Join(t.TempDir(), name)
		faults, err := p.Plant(context.Background(), dst, "pose-jump", seed, 2)
		if err != nil {
			t.Fatal(err)
		}
		return dst, faults
	}
	a, fa := plant("a", 7)
	b, fb := plant("b", 7)
	_, fc := plant("c", 8)
	if !slices.EqualFunc(fa, fb, func(x, y Fault) bool { return x.Note == y.Note && x.Frame == y.Frame }) {
		t.Errorf("one seed gave %+v and %+v", fa, fb)
	}
	if slices.EqualFunc(fa, fc, func(x, y Fault) bool { return x.Note == y.Note && x.Frame == y.Frame }) {
		t.Error("two seeds gave the same faults")
	}
	ha, hb := hashes(t, a), hashes(t, b)
	for rel, sum := range ha {
		if hb[rel] != sum {
			t.Errorf("%s differs between two runs with one seed", rel)
		}
	}
}

func TestPlantRefuses(t *testing.T) {
	base := makeBase(t, 2)
	dir := t.TempDir()
	p := open(t, base)
	if _, err := p.Plant(context.Background(), filepath.Join(dir, "x"), "pose-jumps", 1, 1); err == nil || !strings.Contains(err.Error(), "pose-jump,") {
		t.Errorf("unknown kind: %v, want the list", err)
	}
	if _, err := p.Plant(context.Background(), dir, "pose-jump", 1, 1); err == nil || !strings.Contains(err.Error(), "there already") {
		t.Errorf("target exists: %v", err)
	}
	hashed := filepath.Join(filepath.Dir(base), "demos")
	if _, err := Open(hashed); err == nil || !strings.Contains(err.Error(), "Base") {
		t.Errorf("a dataset with hashes: %v", err)
	}
	if b, err := os.ReadFile(filepath.Join(base, "meta/info.json")); err != nil || !bytes.Contains(b, []byte(`"total_tasks": 2`)) {
		t.Errorf("info.json of the base: %s %v", b, err)
	}
}
