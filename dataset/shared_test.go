package dataset

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pinch-robotics/pinch/dataset/internal/pq"
)

// sharedFiles rewrites a dataset of ours the way the official recorder lays it out: all episodes in one data file, one
// episode table and one mp4 per camera, joined by stream copy, with from_timestamp = first frame / fps.
func sharedFiles(t *testing.T, root string) {
	t.Helper()
	d := mustOpen(t, root)
	joinTables(t, root, parquetFiles(root, "data"), nil)
	joinTables(t, root, episodeFiles(root), func(c map[string]*pq.Column) {
		zero := make([]int64, len(lengths))
		for _, name := range []string{"data/chunk_index", "data/file_index", "meta/episodes/chunk_index", "meta/episodes/file_index"} {
			c[name].Values = zero
		}
		delete(c, "tags") // lists of different lengths, which the test's writer does not make
		for _, cam := range d.info.cameras() {
			var from, to []float64
			at := 0
			for _, n := range lengths {
				from, to = append(from, float64(at)/30), append(to, float64(at+n)/30)
				at += n
			}
			c["videos/"+cam.Name+"/file_index"].Values = zero
			c["videos/"+cam.Name+"/from_timestamp"].Values = from
			c["videos/"+cam.Name+"/to_timestamp"].Values = to
		}
	})
	for _, cam := range d.info.cameras() {
		dir := filepath.Join(root, "videos", cam.Name, "chunk-000")
		var list strings.Builder
		for i, n := range lengths { // without durations ffmpeg rounds each to 1 ms and the times drift
			fmt.Fprintf(&list, "file '%s'\nduration %.6f\n", filepath.Join(dir, fmt.Sprintf("file-%03d.mp4", i)), float64(n)/30)
		}
		listFile, joined := filepath.Join(t.TempDir(), "list.txt"), filepath.Join(t.TempDir(), "joined.mp4")
		os.WriteFile(listFile, []byte(list.String()), 0o644)
		ffmpegRun(t, "-v", "error", "-f", "concat", "-safe", "0", "-i", listFile, "-c", "copy", "-video_track_timescale", "15360", joined)
		os.RemoveAll(dir)
		copyTo(t, joined, filepath.Join(dir, "file-000.mp4"))
	}
}

// joinTables puts the rows of several files of one schema into the first one.
func joinTables(t *testing.T, root string, paths []string, f func(c map[string]*pq.Column)) {
	t.Helper()
	all, rows := map[string]*pq.Column{}, 0
	var order []string
	var hf string
	for _, p := range paths {
		in, err := pq.Open(filepath.Join(root, p))
		if err != nil {
			t.Fatal(err)
		}
		hf, _ = in.Metadata("huggingface")
		for _, info := range in.Columns() {
			data, err := in.Read(info.Name, 0, in.Rows())
			if err != nil {
				t.Fatal(err)
			}
			c := all[info.Name]
			if c == nil {
				c = &pq.Column{Name: info.Name, Fixed: strings.HasPrefix(p, "data"), Values: data.Values}
				if info.Depth > 0 {
					c.Shape = append([]int{data.Starts[1]}, []int{1, 1}[:info.Depth-1]...)
				}
				all[info.Name] = c
				order = append(order, info.Name)
				continue
			}
			c.Values = reflect.AppendSlice(reflect.ValueOf(c.Values), reflect.ValueOf(data.Values)).Interface()
		}
		rows += in.Rows()
		in.Close()
		os.Remove(filepath.Join(root, p))
	}
	if f != nil {
		f(all)
	}
	var columns []pq.Column
	for _, name := range order {
		if c := all[name]; c != nil {
			columns = append(columns, *c)
		}
	}
	out, err := os.Create(filepath.Join(root, paths[0]))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	md := map[string]string{}
	if hf != "" {
		md["huggingface"] = hf
	}
	if err := pq.Write(out, rows, columns, md); err != nil {
		t.Fatal(err)
	}
}

// withoutTags writes the episodes of makeDataset without the list column, which sharedFiles can not join.
func withoutTags(t *testing.T) string {
	t.Helper()
	root := filepath.Join(memoryDir(t), "set")
	w := mustCreate(t, root)
	for k, n := range lengths {
		ep := testEpisode(t, k, n)
		delete(ep.Extra, "tags")
		if _, err := w.AddEpisode(context.Background(), ep); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return root
}

// Many episodes in one file: rows, frames, identity, check and extract must be those of the separate files, and a writer
// must go on in files of its own.
func TestSharedFiles(t *testing.T) {
	own := withoutTags(t)
	shared := filepath.Join(memoryDir(t), "shared")
	copyTree(t, own, shared)
	sharedFiles(t, shared)
	a, b := mustOpen(t, own), mustOpen(t, shared)
	at := 0
	for k, n := range lengths {
		for name, like := range testEpisode(t, k, n).Columns {
			if diff := cmp.Diff(readSame(t, a, name, k, like), readSame(t, b, name, k, like)); diff != "" {
				t.Errorf("%s of episode %d differs: %s", name, k, diff)
			}
		}
		path, frame, err := b.VideoFrame(k, "observation.images.left")
		if err != nil || frame != at || filepath.Base(path) != "file-000.mp4" {
			t.Errorf("episode %d starts at frame %d of %s, want %d (%v)", k, frame, path, at, err)
		}
		at += n
	}
	ia, err1 := a.Identity()
	ib, err2 := b.Identity()
	if err1 != nil || err2 != nil || ia != ib {
		t.Errorf("identities %s and %s differ (%v, %v)", ia, ib, err1, err2)
	}
	out := filepath.Join(memoryDir(t), "out")
	if _, err := Extract(context.Background(), shared, out, []int{2, 1}, ExtractOptions{}); err != nil {
		t.Fatal(err)
	}
	d := mustOpen(t, out)
	for i, old := range []int{2, 1} {
		pa, _, _ := a.VideoFrame(old, "observation.images.right")
		pb, _, _ := d.VideoFrame(i, "observation.images.right")
		if !slices.Equal(packets(t, pa), packets(t, pb)) {
			t.Errorf("frames of episode %d are not the packets it had", old)
		}
	}
	official(t, shared, "1")
	w, err := OpenWriter(shared, WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ep := withStats(testEpisode(t, 3, 5))
	delete(ep.Extra, "tags")
	if _, err := w.AddEpisode(context.Background(), ep); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if e, _ := mustOpen(t, shared).Episode(3); e.DataPath != "data/chunk-000/file-001.parquet" || e.FromIndex != 39 {
		t.Errorf("the next episode lies in %s from row %d", e.DataPath, e.FromIndex)
	}
}

// A dataset may be read from many goroutines.
func TestConcurrentReads(t *testing.T) {
	d := mustOpen(t, makeDataset(t))
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 12 {
				k := (g + i) % len(lengths)
				got, err := ReadColumn[float64](d, "action", k)
				if want := testEpisode(t, k, lengths[k]).Columns["action"]; err != nil || !slices.Equal(got, want.([]float64)) {
					t.Errorf("episode %d: %v", k, err)
				}
			}
		})
	}
	wg.Wait()
}
