package dataset

import (
	"bytes"
	"context"
	"encoding/base64"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pinch-robotics/pinch/internal/testpeer"
)

var (
	srcOf   = regexp.MustCompile(`src="([^"]+)"`)
	hrefOf  = regexp.MustCompile(`href="([^"]+)"`)
	pathOf  = regexp.MustCompile(`<path [^>]*d="([^"]+)"`)
	outside = regexp.MustCompile(`(?i)(https?:)?//[a-z0-9.-]+\.[a-z]{2,}`)
)

// readPage reads a page and verifies that every file it names lies beside it and that it needs no network.
func readPage(t *testing.T, dir, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	stripped := regexp.MustCompile(`data:video/mp4;base64,[A-Za-z0-9+/=&#;]+`).ReplaceAllString(page, "data:")
	if m := outside.FindString(stripped); m != "" {
		t.Errorf("%s refers to %s", name, m)
	}
	for _, re := range []*regexp.Regexp{srcOf, hrefOf} {
		for _, m := range re.FindAllStringSubmatch(page, -1) {
			if strings.HasPrefix(m[1], "data:") {
				continue
			}
			if _, err := os.Stat(filepath.Join(dir, m[1])); err != nil {
				t.Errorf("%s names %s, which is not there", name, m[1])
			}
		}
	}
	return page
}

const left1 = "videos/observation.images.left/chunk-000/file-001.mp4"

func TestViewShowsEveryEpisode(t *testing.T) {
	root, out := makeDataset(t), filepath.Join(t.TempDir(), "view")
	index, err := View(context.Background(), root, out, ViewOptions{})
	if err != nil {
		t.Fatal(err)
	}
	text := readPage(t, out, filepath.Base(index))
	for _, want := range []string{"episode_000000.html", "episode_000002.html", "task 1", "LeRobot v3.0", "observation.images.left"} {
		if !strings.Contains(text, want) {
			t.Errorf("the index does not show %q", want)
		}
	}
	page := readPage(t, out, "episode_000001.html")
	if n := strings.Count(page, "<video"); n != 2 {
		t.Errorf("%d videos, want 2", n)
	}
	copied, _ := os.ReadFile(filepath.Join(out, "videos", left1))
	original, _ := os.ReadFile(filepath.Join(root, left1))
	if len(copied) == 0 || !bytes.Equal(copied, original) {
		t.Error("the video beside the page is not the episode's")
	}
	curves := pathOf.FindAllStringSubmatch(page, -1)
	if want := 3 + 2 + 1 + 3 + 1; len(curves) != want { // state, action, capture_ns, pedal, the flag
		t.Errorf("%d curves, want %d", len(curves), want)
	}
	for _, c := range curves {
		if n := strings.Count(c[1], "M") + strings.Count(c[1], "L"); n != lengths[1] {
			t.Errorf("a curve has %d points, want one for each of %d rows", n, lengths[1])
		}
	}
	// state y = row/10 rises by equal steps over the whole height, from the lower to the upper edge of the chart
	if !strings.HasPrefix(curves[1][1], "M0.0 74.5") && !strings.Contains(page, "0 to 0.6") {
		t.Errorf("the curve of y starts %q and its range is not shown", curves[1][1][:20])
	}
	for _, want := range []string{"recording_sha256", "task 1", "previous", "next", "var fps=30,rows=7"} {
		if !strings.Contains(strings.ReplaceAll(page, " ", ""), strings.ReplaceAll(want, " ", "")) {
			t.Errorf("the page does not show %q", want)
		}
	}
}

func TestViewEmbedsVideos(t *testing.T) {
	root, out := makeDataset(t), filepath.Join(t.TempDir(), "view")
	if _, err := View(context.Background(), root, out, ViewOptions{Embed: true, Episodes: []int{1}}); err != nil {
		t.Fatal(err)
	}
	page := readPage(t, out, "episode_000001.html")
	original, _ := os.ReadFile(filepath.Join(root, left1))
	plain := strings.NewReplacer("&#43;", "+", "&#61;", "=").Replace(page)
	if !strings.Contains(plain, base64.StdEncoding.EncodeToString(original)) {
		t.Error("the video is not in the page")
	}
	if left, _ := os.ReadDir(out); len(left) != 2 {
		t.Errorf("files %v, want the index and one page", left)
	}
}

// Incomplete and malformed recordings are shown as far as they go.
func TestViewOfRealRecordings(t *testing.T) {
	for folder, want := range map[string]struct {
		page  string
		says  []string
		video int
	}{
		"unitree_g1_v21":       {"episode_000001.html", []string{"393 rows", "kLeftElbow", "98 of 100"}, 1},
		"open50_v30_malformed": {"episode_000000.html", []string{"427 rows", "right_hand.joint_10.pos", "browsers do not play", "video-folder"}, 1},
		"record_test_v30":      {"episode_000003.html", []string{"gripper.pos", "file-000.mp4 is missing"}, 0},
	} {
		out := filepath.Join(t.TempDir(), "view")
		report := &Report{Findings: []Finding{{Code: "video-folder", Severity: Error, Episode: -1, Frame: -1, Message: "rows of 98 of 100 are missing"}}}
		if _, err := View(context.Background(), testpeer.Data(t, "real/"+folder), out, ViewOptions{Report: report}); err != nil {
			t.Fatal(err)
		}
		readPage(t, out, "index.html")
		page := readPage(t, out, want.page)
		for _, s := range want.says {
			if !strings.Contains(page, s) {
				t.Errorf("%s does not say %q", folder, s)
			}
		}
		if n := strings.Count(page, "<video"); n != want.video {
			t.Errorf("%s shows %d videos, want %d", folder, n, want.video)
		}
	}
}

// Text from a dataset must not become markup.
func TestViewEscapes(t *testing.T) {
	root := filepath.Join(t.TempDir(), "set")
	w := mustCreate(t, root)
	ep := withStats(testEpisode(t, 0, 9))
	ep.Tasks = []string{`<script>alert("x")</script>`}
	if _, err := w.AddEpisode(context.Background(), ep); err != nil {
		t.Fatal(err)
	}
	w.Close()
	out := filepath.Join(t.TempDir(), "view")
	if _, err := View(context.Background(), root, out, ViewOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"index.html", "episode_000000.html"} {
		if strings.Contains(readPage(t, out, name), "<script>alert") {
			t.Errorf("%s lets a task text become a script", name)
		}
	}
}
