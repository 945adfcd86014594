package view

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// copySet is a copy of the test set that may be changed.
func copySet(t *testing.T) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "cups")
	if err := os.CopyFS(root, os.DirFS(testSet(t))); err != nil {
		t.Fatal(err)
	}
	return root
}

// manyEpisodes is the metadata of a v2.1 dataset of n episodes whose rows are not there.
func manyEpisodes(t *testing.T, n int) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "many")
	if err := os.MkdirAll(filepath.Join(root, "meta"), 0o755); err != nil {
		t.Fatal(err)
	}
	var episodes, tasks bytes.Buffer
	for k := range n {
		fmt.Fprintf(&episodes, `{"episode_index": %d, "tasks": ["task %d"], "length": %d}`+"\n", k, k%7, 30+k%90)
	}
	for k := range 7 {
		fmt.Fprintf(&tasks, `{"task_index": %d, "task": "task %d"}`+"\n", k, k)
	}
	info := fmt.Sprintf(`{"codebase_version": "v2.1", "robot_type": "arm", "total_episodes": %d, "total_frames": 0, "total_tasks": 7, "total_videos": 0,
		"total_chunks": 5, "chunks_size": 1000, "fps": 30, "splits": {"train": "0:%d"},
		"data_path": "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet", "video_path": null,
		"features": {"observation.state": {"dtype": "float32", "shape": [2], "names": ["a", "b"]}}}`, n, n)
	for name, text := range map[string]string{"info.json": info, "episodes.jsonl": episodes.String(), "tasks.jsonl": tasks.String(), "episodes_stats.jsonl": ""} {
		if err := os.WriteFile(filepath.Join(root, "meta", name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}
