package dataset

import (
	"context"
	"path/filepath"
	"slices"
	"testing"
)

// edited makes a plan from the base dataset, rebuilds it into a new folder, and checks what every edit must hold: the official loader
// reads it, the stored identity is that of the content, and the source is as it was.
func edited(t *testing.T, src string, o RebuildOptions, change func(d *Dataset, p *Plan)) (string, *RebuildResult) {
	t.Helper()
	d := mustOpen(t, src)
	before := tree(t, src)
	p := Keep(d)
	change(d, &p)
	dst := filepath.Join(memoryDir(t), "new")
	if o.InPlace {
		dst = src
	}
	res, err := Rebuild(context.Background(), dst, p, o)
	if err != nil {
		t.Fatal(err)
	}
	if !o.InPlace {
		for name, content := range tree(t, src) {
			if before[name] != content {
				t.Errorf("%s of the source changed", name)
			}
		}
	}
	trusted(t, dst)
	return dst, res
}

// trusted holds a dataset to the rules that need no peer: stored identity equals computed identity, no stray files, and a writer opens it.
func trusted(t *testing.T, root string) {
	t.Helper()
	d := mustOpen(t, root)
	stored, err1 := d.Identity()
	computed, err2 := d.VerifyIdentity()
	if err1 != nil || err2 != nil || stored != computed {
		t.Fatalf("identity %s, computed %s (%v, %v)", stored, computed, err1, err2)
	}
	for e := range d.All() {
		if _, ok := decodeContent(e.content, d.info.Features); !ok {
			t.Errorf("episode %d has no content hash", e.Index)
		}
	}
	if stray := strayFiles(t, root, d); len(stray) > 0 {
		t.Errorf("stray files %v", stray)
	}
	w, err := OpenWriter(root, WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
}

func TestDeleteAnEpisode(t *testing.T) {
	for _, inPlace := range []bool{false, true} {
		root := makeDataset(t)
		dst, _ := edited(t, root, RebuildOptions{InPlace: inPlace}, func(_ *Dataset, p *Plan) { p.Episodes = slices.Delete(p.Episodes, 1, 2) })
		s := official(t, dst, "1")
		if s.Rows != 32 || s.Episodes != 2 || s.Decoded != 64 || !slices.Equal(s.Tasks, []string{"task 0"}) {
			t.Errorf("saw %+v", s)
		}
		greys(t, s, []int{0, 2})
	}
}

// Compaction changes the files and nothing else: the identity stays, and so do pictures and rows.
func TestCompact(t *testing.T) {
	root := makeDataset(t)
	before, err := mustOpen(t, root).Identity()
	if err != nil {
		t.Fatal(err)
	}
	dst, res := edited(t, root, RebuildOptions{InPlace: true}, func(_ *Dataset, p *Plan) { p.Pack = true })
	if res.Made != 3 {
		t.Errorf("made %d files, want one for the rows and one for each camera", res.Made)
	}
	if after, _ := mustOpen(t, dst).Identity(); after != before {
		t.Errorf("identity %s became %s", before, after)
	}
	greys(t, official(t, dst, "1"), []int{0, 1, 2})
	// and episodes can be taken out of packed files again
	dst, _ = edited(t, dst, RebuildOptions{}, func(_ *Dataset, p *Plan) { p.Episodes = slices.Delete(p.Episodes, 0, 1) })
	greys(t, official(t, dst, "1"), []int{1, 2})
	// as well as added to them
	w, err := OpenWriter(dst, WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.AddEpisode(context.Background(), testEpisode(t, 0, 12)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	trusted(t, dst)
	greys(t, official(t, dst, "1"), []int{1, 2, 0})
}

// greys compares the pictures with those of the base episodes that they come from.
func greys(t *testing.T, s seen, from []int) {
	t.Helper()
	for c, name := range []string{"observation.images.left", "observation.images.right"} {
		for _, g := range s.Grey[name] {
			want := float64(shade(2*from[int(g[0])]+c, int(g[1])))
			if g[2] < want-3 || g[2] > want+3 {
				t.Fatalf("%s episode %v row %v has grey %.1f, want %.0f", name, g[0], g[1], g[2], want)
			}
		}
	}
}
