package dataset

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pinch-robotics/pinch/dataset/video"
	"github.com/pinch-robotics/pinch/internal/testpeer"
)

// The two present episodes of a real, incomplete v2.1 recording become a valid v3.0 dataset with the same rows and the
// same AV1 packets, which the official loader's rules accept.
func TestExtractRealRecording(t *testing.T) {
	src := testpeer.Data(t, "real/unitree_g1_v21")
	dst := filepath.Join(t.TempDir(), "g1")
	res, err := Extract(context.Background(), src, dst, nil, ExtractOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(res.Episodes, []int{1, 2}) || res.Frames != 393+343 {
		t.Errorf("extracted %v, %d rows", res.Episodes, res.Frames)
	}
	d, s := mustOpen(t, dst), mustOpen(t, src)
	camera := "observation.images.cam_high"
	f, _ := d.Feature(camera)
	if f.Info["video.codec"] != "av1" || d.Info().RobotType != "Unitree_G1_Inspire" {
		t.Errorf("info %v robot %q", f.Info, d.Info().RobotType)
	}
	state, _ := d.Feature("observation.state")
	if len(state.Names) != 26 || state.Names[3] != "kLeftElbow" {
		t.Errorf("names %v", state.Names)
	}
	for i, old := range res.Episodes {
		for _, name := range []string{"observation.state", "action"} {
			a, err1 := ReadColumn[float32](s, name, old)
			b, err2 := ReadColumn[float32](d, name, i)
			if err1 != nil || err2 != nil || !slices.Equal(a, b) {
				t.Errorf("%s of episode %d changed (%v, %v)", name, old, err1, err2)
			}
		}
		pa, _, _ := s.VideoFrame(old, camera)
		pb, first, _ := d.VideoFrame(i, camera)
		if first != 0 || !slices.Equal(packets(t, pa), packets(t, pb)) {
			t.Errorf("video packets of episode %d changed", old)
		}
		if e, _ := d.Episode(i); e.Extra[SourceEpisode] != int64(old) {
			t.Errorf("episode %d forgot its number: %v", i, e.Extra)
		}
	}
	if seen := official(t, dst, "97"); seen.Rows != 736 || seen.Decoded != 5+4 {
		t.Errorf("the official rules saw %+v", seen)
	}
}

// packets lists the coded pictures of a video.
func packets(t *testing.T, path string) []string {
	t.Helper()
	info, err := video.Probe(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	if err := video.Packets(path, func(_ int, b []byte) error { out = append(out, string(video.Coded(info.Codec, b))); return nil }); err != nil {
		t.Fatal(err)
	}
	return out
}

// Picked in another order, the episodes get new numbers, their own rows and their own pictures.
func TestExtractRenumbers(t *testing.T) {
	src := makeDataset(t)
	dst := filepath.Join(t.TempDir(), "out")
	if _, err := Extract(context.Background(), src, dst, []int{2, 0}, ExtractOptions{}); err != nil {
		t.Fatal(err)
	}
	d, s := mustOpen(t, dst), mustOpen(t, src)
	if d.Info().TotalFrames != 32 || d.Info().TotalTasks != 1 {
		t.Errorf("totals %+v", d.Info())
	}
	for i, old := range []int{2, 0} {
		a, _ := ReadColumn[float64](s, "action", old)
		b, _ := ReadColumn[float64](d, "action", i)
		if !slices.Equal(a, b) {
			t.Errorf("episode %d has other rows", i)
		}
		pa, _, _ := s.VideoFrame(old, "observation.images.right")
		pb, _, _ := d.VideoFrame(i, "observation.images.right")
		if !slices.Equal(packets(t, pa), packets(t, pb)) {
			t.Errorf("episode %d has other pictures", i)
		}
	}
	again := filepath.Join(t.TempDir(), "again")
	if _, err := Extract(context.Background(), src, again, []int{0, 1, 2}, ExtractOptions{}); err != nil {
		t.Fatal(err)
	}
	if left, right := mustOpen(t, src), mustOpen(t, again); !cmp.Equal(left.Info(), right.Info()) {
		t.Errorf("a full copy has other metadata: %s", cmp.Diff(left.Info(), right.Info()))
	}
}

// Each fault of the source stops the extraction with its name, and nothing is left at the destination.
func TestExtractRefusesBrokenSources(t *testing.T) {
	base := writeV21(t, nil)
	if _, err := Extract(context.Background(), base, filepath.Join(t.TempDir(), "ok"), nil, ExtractOptions{}); err != nil {
		t.Fatal(err)
	}
	for want, f := range map[string]func(root string){
		"has 9 frames":   func(root string) { replaceVideo(t, root, 1, 9) },
		"no rows of it":  func(root string) { swapData(t, root) },
		"is missing":     func(root string) { os.Remove(v21Video(root, 1)) },
		"has 12 rows":    func(root string) { editLine(t, root, v21EpisodesPath, `"length":12`, `"length":11`) },
		"is there twice": func(root string) { editLine(t, root, v21EpisodesPath, `"episode_index":1`, `"episode_index":0`) },
		"gap at 0":       func(root string) { editLine(t, root, v21TasksPath, `"task_index":0`, `"task_index":5`) },
		"parquet footer": func(root string) {
			os.WriteFile(filepath.Join(root, "data/chunk-000/episode_000001.parquet"), []byte("PAR1 cut off"), 0o644)
		},
		"outside the dat": func(root string) { editLine(t, root, infoPath, "data/chunk-", "../data/chunk-") },
	} {
		root := writeV21(t, f)
		dst := filepath.Join(t.TempDir(), "out")
		_, err := Extract(context.Background(), root, dst, []int{0, 1}, ExtractOptions{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
		if _, err := os.Stat(dst); err == nil {
			t.Errorf("%q left %s behind", want, dst)
		}
	}
}

// writeV21 makes a v2.1 dataset of two episodes (12 and 12 rows) from one of ours, with blank lines in the jsonl files,
// nested names and without names of the camera, and applies a fault.
func writeV21(t *testing.T, fault func(root string)) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "v21")
	v3 := filepath.Join(t.TempDir(), "v3")
	w, err := Create(v3, Options{FPS: 30, Features: []Feature{{Name: "action", DType: Float32, Shape: []int{2}}, {Name: "cam", DType: Video, Shape: []int{camH, camW, 3}}}})
	if err != nil {
		t.Fatal(err)
	}
	var episodes, tasks strings.Builder
	for k := range 2 {
		ep := Episode{Length: 12, Tasks: []string{"do it"}, Columns: map[string]any{"action": make([]float32, 24)}, Videos: map[string]string{"cam": testVideo(t, 12, k)}}
		if _, err := w.AddEpisode(context.Background(), withStats(ep)); err != nil {
			t.Fatal(err)
		}
		line, _ := json.Marshal(map[string]any{"episode_index": k, "tasks": []string{"do it"}, "length": 12})
		episodes.WriteString(string(line) + "\n\n")
		copyTo(t, filepath.Join(v3, "data/chunk-000", []string{"file-000.parquet", "file-001.parquet"}[k]), filepath.Join(root, "data/chunk-000", []string{"episode_000000.parquet", "episode_000001.parquet"}[k]))
		copyTo(t, testVideo(t, 12, k), v21Video(root, k))
	}
	w.Close()
	tasks.WriteString(`{"task_index":0,"task":"do it"}` + "\n\n")
	info := `{"codebase_version":"v2.1","robot_type":null,"total_episodes":2,"total_frames":24,"total_tasks":1,"total_videos":2,"total_chunks":1,
"chunks_size":1000,"fps":30.0,"splits":{"train":"0:2"},"data_path":"data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
"video_path":"videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4","features":{
"action":{"dtype":"float32","shape":[2],"names":{"motors":["a","b"]}},"cam":{"dtype":"video","shape":[48,64,3],"names":null},
"timestamp":{"dtype":"float32","shape":[1],"names":null},"frame_index":{"dtype":"int64","shape":[1],"names":null},"episode_index":{"dtype":"int64","shape":[1],"names":null},
"index":{"dtype":"int64","shape":[1],"names":null},"task_index":{"dtype":"int64","shape":[1],"names":null}}}`
	for path, text := range map[string]string{infoPath: info, v21EpisodesPath: episodes.String(), v21TasksPath: tasks.String()} {
		os.MkdirAll(filepath.Dir(filepath.Join(root, path)), 0o755)
		if err := os.WriteFile(filepath.Join(root, path), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if fault != nil {
		fault(root)
	}
	return root
}

func v21Video(root string, k int) string {
	return filepath.Join(root, "videos/chunk-000/cam", []string{"episode_000000.mp4", "episode_000001.mp4"}[k])
}

func copyTo(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	os.MkdirAll(filepath.Dir(to), 0o755)
	if err := os.WriteFile(to, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

func replaceVideo(t *testing.T, root string, k, frames int) {
	t.Helper()
	copyTo(t, testVideo(t, frames, k), v21Video(root, k))
}

func swapData(t *testing.T, root string) {
	t.Helper()
	a, b := filepath.Join(root, "data/chunk-000/episode_000000.parquet"), filepath.Join(root, "data/chunk-000/episode_000001.parquet")
	copyTo(t, a, b)
}

func editLine(t *testing.T, root, path, old, new string) {
	t.Helper()
	full := filepath.Join(root, path)
	b, err := os.ReadFile(full)
	if err != nil || !strings.Contains(string(b), old) {
		t.Fatalf("%s does not contain %q", full, old)
	}
	if err := os.WriteFile(full, []byte(strings.Replace(string(b), old, new, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// A copy that broke off in the middle of a video: without a list of episodes the damaged ones are left out and named; asked for by
// number, the damaged one is the error.
func TestExtractLeavesCutVideosOut(t *testing.T) {
	src := filepath.Join(t.TempDir(), "src")
	if err := os.CopyFS(src, os.DirFS(testpeer.Data(t, "real/unitree_g1_v21"))); err != nil {
		t.Fatal(err)
	}
	path, _, err := mustOpen(t, src).VideoFrame(1, "observation.images.cam_high")
	if err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, st.Size()/2); err != nil {
		t.Fatal(err)
	}
	dst := filepath.Join(t.TempDir(), "dst")
	if _, err := Extract(context.Background(), src, dst, []int{1, 2}, ExtractOptions{}); err == nil || !strings.Contains(err.Error(), "episode 1") {
		t.Errorf("asked for by number: %v", err)
	}
	if _, err := os.Stat(dst); err == nil {
		t.Error("a failed extract left its target")
	}
	res, err := Extract(context.Background(), src, dst, nil, ExtractOptions{})
	if err != nil || !slices.Equal(res.Episodes, []int{2}) || len(res.Changes) == 0 || !strings.HasPrefix(res.Changes[0], "episode 1 left out: ") {
		t.Fatalf("%+v, %v", res, err)
	}
	if seen := official(t, dst, "97"); seen.Rows != 343 {
		t.Errorf("the official rules saw %+v", seen)
	}
}
