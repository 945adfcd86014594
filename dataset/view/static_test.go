package view

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/internal/testpeer"
)

var (
	bootOf  = regexp.MustCompile(`(?s)<script id="boot" type="application/json">(.*?)</script>`)
	outside = regexp.MustCompile(`(?i)(https?:)?//[a-z0-9.-]+\.[a-z]{2,}`)
	linkOf  = regexp.MustCompile(`(?:src|href)="([^"]*)"`)
)

// readPage reads a page, verifies that it needs no network and no file that is not there, and returns its data.
func readPage(t *testing.T, dir, name string) staticBoot {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	m := bootOf.FindSubmatch(page)
	if m == nil {
		t.Fatalf("%s has no data", name)
	}
	var b staticBoot
	if err := json.Unmarshal(m[1], &b); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if rest := bootOf.ReplaceAllString(string(page), ""); outside.MatchString(rest) {
		t.Errorf("%s refers to %s", name, outside.FindString(rest))
	}
	for _, m := range linkOf.FindAllSubmatch(page, -1) {
		if s := string(m[1]); !strings.HasPrefix(s, "data:") {
			t.Errorf("%s needs %s", name, s)
		}
	}
	if b.Episode != nil {
		for _, c := range b.Episode.Cameras {
			if c.Src == "" || strings.HasPrefix(c.Src, "data:video/mp4;base64,") {
				continue
			}
			if _, err := os.Stat(filepath.Join(dir, filepath.FromSlash(c.Src))); err != nil {
				t.Errorf("%s names the video %s, which is not there", name, c.Src)
			}
		}
	}
	return b
}

func floats(t *testing.T, text string) []float64 {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]float64, len(b)/8)
	for i := range out {
		out[i] = math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
	}
	return out
}

func TestPagesHoldTheDataset(t *testing.T) {
	root, out := testSet(t), filepath.Join(t.TempDir(), "pages")
	index, err := Write(t.Context(), root, out, WriteOptions{Report: testReport()})
	if err != nil {
		t.Fatal(err)
	}
	b := readPage(t, out, filepath.Base(index))
	if len(b.List) != 2 || b.List[1].Index != 1 || b.List[1].Warnings != 1 || b.List[1].Success != "no" || b.Check.Errors != 1 || len(b.Check.Groups) != 3 {
		t.Errorf("the index lists %+v, check %+v", b.List, b.Check)
	}
	d := open(t, root)
	for k := range rows {
		b := readPage(t, out, pageName(k))
		if b.Episode.Index != k || b.Episode.Rows != rows[k] || b.Episode.Prev != k-1 || b.Episode.Next != []int{1, -1}[k] {
			t.Errorf("page %d shows %+v", k, b.Episode)
		}
		n := 0
		for name, text := range b.Columns {
			f, _ := d.Feature(name)
			if f.DType == dataset.Int64 {
				continue
			}
			n++
			want, err := dataset.ReadColumn[float64](d, name, k)
			if err != nil || !slices.Equal(floats(t, text), want) {
				t.Errorf("page %d has other values of %s: %v", k, name, err)
			}
		}
		if n < 12 || len(b.Failed) > 0 {
			t.Errorf("page %d has %d columns, failed %v", k, n, b.Failed)
		}
		for _, c := range b.Episode.Cameras {
			e, _ := d.Episode(k)
			copied, _ := os.ReadFile(filepath.Join(out, c.Src))
			original, _ := os.ReadFile(filepath.Join(root, e.Videos[c.Name].Path))
			if len(copied) == 0 || !bytes.Equal(copied, original) {
				t.Errorf("page %d: the video beside it is not the episode's", k)
			}
		}
	}
}

func TestPagesEmbedVideos(t *testing.T) {
	root, out := testSet(t), filepath.Join(t.TempDir(), "pages")
	if _, err := Write(t.Context(), root, out, WriteOptions{Embed: true, Episodes: []int{1}}); err != nil {
		t.Fatal(err)
	}
	e, _ := open(t, root).Episode(1)
	for _, c := range readPage(t, out, pageName(1)).Episode.Cameras {
		original, _ := os.ReadFile(filepath.Join(root, e.Videos[c.Name].Path))
		if c.Src != "data:video/mp4;base64,"+base64.StdEncoding.EncodeToString(original) {
			t.Errorf("the video of %s is not in the page", c.Name)
		}
	}
	if left, _ := os.ReadDir(out); len(left) != 2 {
		t.Errorf("files %v, want the index and one page", left)
	}
	if _, err := Write(t.Context(), root, out, WriteOptions{Episodes: []int{5}}); err == nil || !strings.Contains(err.Error(), "no episode 5") {
		t.Errorf("an episode that is not there: %v", err)
	}
}

// Incomplete and malformed recordings are shown as far as they go.
func TestPagesOfRealRecordings(t *testing.T) {
	for folder, want := range map[string]struct {
		episode, rows int
		element       string
		note          string
		videos        int
	}{
		"unitree_g1_v21":       {1, 393, "kLeftElbow", "", 1},
		"open50_v30_malformed": {0, 427, "right_hand.joint_10.pos", "", 1},
		"record_test_v30":      {3, 0, "gripper.pos", "is missing", 0},
	} {
		out := filepath.Join(t.TempDir(), "pages")
		if _, err := Write(t.Context(), testpeer.Data(t, "real/"+folder), out, WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		b := readPage(t, out, pageName(want.episode))
		videos, notes := 0, ""
		for _, c := range b.Episode.Cameras {
			videos += min(1, len(c.Src))
			notes += c.Note
		}
		if videos != want.videos || !strings.Contains(notes, want.note) || want.rows > 0 && b.Episode.Rows != want.rows {
			t.Errorf("%s: %d videos, notes %q, %d rows", folder, videos, notes, b.Episode.Rows)
		}
		found := slices.ContainsFunc(b.Set.Features, func(f featureLine) bool { return slices.Contains(f.Elements, want.element) })
		if !found || len(b.Columns) == 0 {
			t.Errorf("%s: element %s is shown: %v, %d columns", folder, want.element, found, len(b.Columns))
		}
	}
}
