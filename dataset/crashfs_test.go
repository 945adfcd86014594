package dataset

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// diskOp is one step of a writer on the disk.
type diskOp struct{ op, path, to, content string }

// recorder notes what a writer does, in order, with the contents of the files it writes.
type recorder struct {
	root string
	ops  []diskOp
}

func (r *recorder) trace(op, p, to string) {
	o := diskOp{op: op, path: p, to: to}
	switch op {
	case "write":
		b, _ := os.ReadFile(filepath.Join(r.root, p))
		o.content = string(b)
	case "link": // from an absolute path
		o.path, _ = filepath.Rel(r.root, p)
	}
	r.ops = append(r.ops, o)
}

// durable reports whether step i is on the disk for certain when the power goes before step k: its folder was synced in between. What a
// file holds is synced before the step is noted; a file whose writer forgot that is in no step, so it is lost.
func (r *recorder) durable(i, k int) bool {
	at := r.ops[i].path
	if r.ops[i].to != "" {
		at = r.ops[i].to
	}
	for _, o := range r.ops[i+1 : k] {
		if o.op == "sync" && path.Clean(o.path) == path.Dir(at) {
			return true
		}
	}
	return false
}

// diskState is a file system: contents by path, and folders.
type diskState struct {
	files map[string]string
	dirs  map[string]bool
}

// after gives a state that the disk can be in when the power goes before step k: durable steps happened, each of the others happened or
// not, as the coin falls.
func (r *recorder) after(k int, before map[string]string, coin func() bool) diskState {
	m := diskState{map[string]string{}, map[string]bool{".": true}}
	for p, c := range before {
		m.files[p] = c
		for d := path.Dir(p); d != "."; d = path.Dir(d) {
			m.dirs[d] = true
		}
	}
	happened := make([]bool, k)
	for i := k - 1; i >= 0; i-- {
		o := r.ops[i]
		happened[i] = o.op != "sync" && (happened[i] || r.durable(i, k) || coin())
		if !happened[i] || o.op != "rename" && o.op != "link" {
			continue
		}
		for j := i - 1; j >= 0; j-- { // a file that has its new name was made
			if p := r.ops[j]; p.op == "rename" && p.to == o.path || (p.op == "write" || p.op == "mkdir") && p.path == o.path {
				happened[j] = true
				break
			}
		}
	}
	for i, o := range r.ops[:k] {
		if happened[i] {
			m.apply(o)
		}
	}
	return m
}

// apply does a step if it can be done.
func (m diskState) apply(o diskOp) {
	switch o.op {
	case "mkdir":
		for d := path.Clean(o.path); d != "."; d = path.Dir(d) {
			m.dirs[d] = true
		}
	case "write":
		if m.dirs[path.Dir(o.path)] {
			m.files[o.path] = o.content
		}
	case "link":
		if c, ok := m.files[o.path]; ok && m.dirs[path.Dir(o.to)] {
			m.files[o.to] = c
		}
	case "remove":
		m.each(o.path, func(p string) { delete(m.files, p); delete(m.dirs, p) })
	case "rename":
		if !m.dirs[path.Dir(o.to)] {
			return
		}
		m.each(o.path, func(p string) {
			to := o.to + strings.TrimPrefix(p, o.path)
			if c, ok := m.files[p]; ok {
				m.files[to] = c
				delete(m.files, p)
			}
			if m.dirs[p] {
				m.dirs[to] = true
				delete(m.dirs, p)
			}
		})
	}
}

// each calls f for a path and all below it.
func (m diskState) each(at string, f func(string)) {
	var found []string
	for p := range m.files {
		if p == at || strings.HasPrefix(p, at+"/") {
			found = append(found, p)
		}
	}
	for p := range m.dirs {
		if p == at || strings.HasPrefix(p, at+"/") {
			found = append(found, p)
		}
	}
	for _, p := range found {
		f(p)
	}
}

func (m diskState) materialise(t *testing.T, root string) {
	t.Helper()
	for d := range m.dirs {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for p, c := range m.files {
		if err := os.WriteFile(filepath.Join(root, p), []byte(c), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// seeds is how many coins are thrown for each step.
func seeds() uint64 {
	if os.Getenv("PINCH_SOAK") != "" {
		return 12
	}
	return 1
}

func mustIdentify(t *testing.T, root string) string {
	t.Helper()
	d, err := Open(root)
	if err != nil {
		t.Fatal(err)
	}
	id, err := d.VerifyIdentity()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// The power goes before any step of a recording, and any of the unsynced steps is lost: every accepted episode is there afterwards,
// complete, and at most the one in flight besides.
func TestPowerCutWhileRecording(t *testing.T) {
	root := filepath.Join(memoryDir(t), "set")
	r := &recorder{root: root}
	o := testOptions()
	o.WriterOptions.trace = r.trace
	w, err := Create(root, o)
	if err != nil {
		t.Fatal(err)
	}
	marks := []int{len(r.ops)} // steps after which 0, 1, 2, ... episodes are accepted
	identity := []string{""}
	for k, n := range lengths {
		if _, err := w.AddEpisode(context.Background(), withStats(testEpisode(t, k, n))); err != nil {
			t.Fatal(err)
		}
		marks = append(marks, len(r.ops))
		identity = append(identity, mustIdentify(t, root))
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	checked := 0
	for seed := range seeds() {
		rng := rand.New(rand.NewPCG(seed, 7))
		for k := marks[0]; k <= len(r.ops); k++ {
			accepted := 0
			for accepted+1 < len(marks) && marks[accepted+1] <= k {
				accepted++
			}
			dir := filepath.Join(memoryDir(t), "set")
			r.after(k, nil, func() bool { return rng.IntN(2) == 0 }).materialise(t, dir)
			w, err := OpenWriter(dir, WriterOptions{})
			if err != nil {
				t.Fatalf("power cut before step %d %+v: %v", k, r.opAt(k), err)
			}
			n := w.NumEpisodes()
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			if n != accepted && n != accepted+1 {
				t.Fatalf("power cut before step %d: %d episodes, %d were accepted", k, n, accepted)
			}
			if n > 0 && mustIdentify(t, dir) != identity[n] {
				t.Fatalf("power cut before step %d: the %d episodes are other ones", k, n)
			}
			if n > 0 {
				if stray := strayFiles(t, dir, mustOpen(t, dir)); len(stray) > 0 {
					t.Fatalf("power cut before step %d: stray files %v", k, stray)
				}
			}
			if checked++; checked == 2*len(r.ops)/3 {
				official(t, dir, "1")
			}
			os.RemoveAll(dir)
		}
	}
	t.Logf("%d states of the disk", checked)
}

func (r *recorder) opAt(k int) diskOp {
	if k == len(r.ops) {
		return diskOp{op: "end"}
	}
	o := r.ops[k]
	o.content = ""
	return o
}

// The same for an edit in place: afterwards the dataset is the old or the new one, whole, and the new one once the edit was done.
func TestPowerCutWhileEditing(t *testing.T) {
	root := makeDataset(t)
	before := tree(t, root)
	old := mustIdentify(t, root)
	r := &recorder{root: root}
	p := Keep(mustOpen(t, root))
	p.Pack, p.Episodes = true, slices.Delete(p.Episodes, 1, 2)
	if _, err := Rebuild(context.Background(), root, p, RebuildOptions{InPlace: true, trace: r.trace}); err != nil {
		t.Fatal(err)
	}
	new := mustIdentify(t, root)
	checked, seen := 0, map[string]int{}
	for seed := range seeds() {
		rng := rand.New(rand.NewPCG(seed, 8))
		for k := 0; k <= len(r.ops); k++ {
			dir := filepath.Join(memoryDir(t), "set")
			r.after(k, before, func() bool { return rng.IntN(2) == 0 }).materialise(t, dir)
			id := mustIdentify(t, dir)
			if id != old && id != new || k == len(r.ops) && id != new {
				t.Fatalf("power cut before step %d %+v: neither the old nor the new dataset", k, r.opAt(k))
			}
			seen[id]++
			if checked++; checked == 3*len(r.ops)/4 {
				if _, err := os.Stat(filepath.Join(dir, workDir)); err == nil { // a writer puts things away
					w, err := OpenWriter(dir, WriterOptions{})
					if err != nil {
						t.Fatal(err)
					}
					w.Close()
				}
				official(t, dir, "1")
			}
			os.RemoveAll(dir)
		}
	}
	if seen[old] == 0 || seen[new] == 0 {
		t.Errorf("states seen: %v", seen)
	}
	t.Logf("%d states of the disk", checked)
}

// The disk is full, or a call fails, at any step of an edit: the error says so, and the source is as it was or, from the moment of the swap
// on, the next opening finishes the edit.
func TestFaultWhileEditing(t *testing.T) {
	base := makeDataset(t)
	old := mustIdentify(t, base)
	for n := 0; ; n++ {
		root := filepath.Join(memoryDir(t), "set")
		copyTree(t, base, root)
		p := Keep(mustOpen(t, root))
		p.Pack, p.Episodes = true, slices.Delete(p.Episodes, 1, 2)
		left := n
		res, err := Rebuild(context.Background(), root, p, RebuildOptions{InPlace: true, fault: func(string, string) error {
			if left--; left == -1 {
				return syscall.ENOSPC
			}
			return nil
		}})
		id := mustIdentify(t, root)
		if err == nil && res != nil && left >= 0 {
			if id == old {
				t.Error("the edit changed nothing")
			}
			return
		}
		if err == nil || !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("fault at step %d: %v", n, err)
		}
		d := mustOpen(t, root)
		if id != old && d.NumEpisodes() != 2 {
			t.Fatalf("fault at step %d: neither old nor new", n)
		}
		os.RemoveAll(root)
	}
}

// An edit that is interrupted leaves the source alone and goes on with its finished files.
func TestInterruptedEditGoesOn(t *testing.T) {
	root := makeDataset(t)
	old := mustIdentify(t, root)
	p := Keep(mustOpen(t, root))
	p.Pack = true
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	_, err := Rebuild(ctx, root, p, RebuildOptions{InPlace: true, Progress: func(_ string, done, _ int) {
		if done == 2 {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) || mustIdentify(t, root) != old {
		t.Fatalf("interrupted: %v", err)
	}
	finished := map[string]os.FileInfo{}
	for rel := range tree(t, filepath.Join(root, nextDir)) {
		if !strings.Contains(rel, ".part") {
			if finished[rel], err = os.Stat(filepath.Join(root, nextDir, rel)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(finished) < 2 {
		t.Fatalf("finished files %v are left, two were reported", finished)
	}
	again := 0
	p = Keep(mustOpen(t, root))
	p.Pack = true
	if _, err := Rebuild(context.Background(), root, p, RebuildOptions{InPlace: true, Progress: func(what string, _, _ int) {
		if what == "files" {
			again++
		}
	}}); err != nil {
		t.Fatal(err)
	}
	for rel, st := range finished {
		kept, err := os.Stat(filepath.Join(root, rel))
		if err != nil || !os.SameFile(st, kept) {
			t.Errorf("the finished file %s was made again (%v)", rel, err)
		}
	}
	if mustIdentify(t, root) != old {
		t.Error("the dataset changed")
	}
	trusted(t, root)
}
