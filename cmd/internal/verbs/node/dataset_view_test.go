package node

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinch-robotics/pinch/cmd/internal/program"
	"github.com/pinch-robotics/pinch/dataset"
)

// states is a dataset of two episodes without pictures.
func states(t *testing.T) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "states")
	w, err := dataset.Create(root, dataset.Options{FPS: 10, Features: []dataset.Feature{
		{Name: "observation.state", DType: dataset.Float32, Shape: []int{3}, Names: []string{"x", "y", "z"}}}})
	if err != nil {
		t.Fatal(err)
	}
	for k := range 2 {
		v := make([]float32, 3*20)
		for i := range v {
			v[i] = float32(i*(k+1)) / 8
		}
		if _, err := w.AddEpisode(t.Context(), dataset.Episode{Length: 20, Tasks: []string{"wave"}, Columns: map[string]any{"observation.state": v}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return root
}

// The verb prints where it answers, answers there with the check's findings, and ends well when it is interrupted.
func TestViewAnswersUntilInterrupted(t *testing.T) {
	root := states(t)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	r, w := io.Pipe()
	done := make(chan error)
	go func() {
		err := runViewServer(ctx, root, viewOptions{Listen: "127.0.0.1:0"}, w, io.Discard)
		w.Close()
		done <- err
	}()
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	address, ok := strings.CutPrefix(strings.TrimSpace(line), root+": ")
	if !ok {
		t.Fatalf("it prints %q", line)
	}
	get := func(path string) []byte {
		resp, err := http.Get(address + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != 200 {
			t.Fatalf("%s: %d %v", path, resp.StatusCode, err)
		}
		return b
	}
	if page := string(get("")); !strings.Contains(page, "<title>states</title>") {
		t.Errorf("the page is %.200s", page)
	}
	for {
		var check struct{ State string }
		if err := json.Unmarshal(get("api/check"), &check); err != nil {
			t.Fatal(err)
		}
		if check.State == "done" {
			break
		}
		if check.State != "running" {
			t.Fatalf("the check is %q", check.State)
		}
	}
	interrupt()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestViewWritesPagesWithAReport(t *testing.T) {
	root, out := states(t), filepath.Join(t.TempDir(), "pages")
	report := filepath.Join(t.TempDir(), "report.json")
	text := `{"findings": [{"code": "made-up", "severity": "warn", "episode": 1, "frame": 3, "message": "odd", "count": 1}]}`
	if err := os.WriteFile(report, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if said, err := run(t, "dataset", "view", root, "--out", out, "--report", report); err != nil || !strings.HasSuffix(strings.TrimSpace(said), filepath.Join(out, "index.html")) {
		t.Fatalf("%q, %v", said, err)
	}
	for name, want := range map[string]bool{"episode_000000.html": false, "episode_000001.html": true} {
		if b, err := os.ReadFile(filepath.Join(out, name)); err != nil || strings.Contains(string(b), "made-up") != want {
			t.Errorf("%s shows the finding: %v, want %v; %v", name, !want, want, err)
		}
	}
	for _, line := range []string{"--embed", "--out x --listen 127.0.0.1:0", "--report " + report + " --decode"} {
		var usage program.UsageError
		if _, err := run(t, append([]string{"dataset", "view", root}, strings.Fields(line)...)...); !errors.As(err, &usage) {
			t.Errorf("%s: %v, want wrong usage", line, err)
		}
	}
}

// Names that no viewer would open, and wishes without one, are wrong usage; an export of numbers alone works.
func TestExportVerb(t *testing.T) {
	root, dir := states(t), t.TempDir()
	for line, want := range map[string]string{"": "--foxglove FILE.mcap", "--rerun x.rrd": "rerun mcap convert", "--foxglove x.bag": ".mcap", "--foxglove a.mcap --rerun a.mcap": "same file", "--rerun a.mcap --episodes 3-1": "--episodes"} {
		var usage program.UsageError
		if _, err := run(t, append([]string{"dataset", "export", root}, strings.Fields(line)...)...); !errors.As(err, &usage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", line, err, want)
		}
	}
	fox, rr := filepath.Join(dir, "fox.mcap"), filepath.Join(dir, "rr.mcap")
	said, err := run(t, "dataset", "export", root, "--foxglove", fox, "--rerun", rr, "--episodes", "1")
	if err != nil || !strings.Contains(said, fox+": 1 episodes, 22 messages") || !strings.Contains(said, rr+": 1 episodes, 22 messages") {
		t.Errorf("%q, %v", said, err)
	}
}
