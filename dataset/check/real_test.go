package check

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/internal/testpeer"
)

// The known faults of the real folders, all of them.
func TestCheckOfRealRecordings(t *testing.T) {
	for folder, want := range map[string][]spot{
		"unitree_g1_v21": {
			{"version-2", dataset.Note, -1, -1, "v2.1"},
			{"episodes-missing", dataset.Error, -1, -1, "98 of 100 listed episodes are missing: 0, 3-99"},
			{"video-missing", dataset.Error, -1, -1, "98 of 100 episodes is missing: 0, 3-99"},
			{"feature-names-nested", dataset.Note, -1, -1, "list inside a list"},
		},
		"open50_v30_malformed": {
			{"video-folder", dataset.Error, -1, -1, "video/image/chunk-000/file-000.mp4, video_path in info.json says videos/image/"},
			{"video-codec", dataset.Error, -1, -1, `"h264", the mp4 holds mpeg4 (MPEG-4 part 2, tag mp4v)`},
			{"video-span", dataset.Error, 0, -1, "14.200000 s = 426 frames at 30 Hz, the episode has 427 rows"},
			{"video-gop", dataset.Warn, -1, -1, "up to 12 frames"},
			{"feature-role", dataset.Warn, -1, -1, "ignore state, image"},
			{"episodes-missing", dataset.Error, -1, -1, "49 of 50 listed episodes are missing: 1-49"},
			{"video-missing", dataset.Error, -1, -1, "49 of 50"},
			{"stats-image-std", dataset.Warn, 0, -1, "deviation 0 "},
			{"constant", dataset.Warn, -1, -1, `"actions": 16 of 34 elements`},
			{"data-metadata", dataset.Note, -1, -1, "huggingface"},
			{"video-codec-tools", dataset.Warn, -1, -1, "mpeg4"},
			{"stats-order", dataset.Error, -1, -1, "deviation 0.05899"},
		},
		"record_test_v30": {
			{"video-missing", dataset.Error, -1, -1, `"observation.images.front" of 4 of 4`},
			{"video-missing", dataset.Error, -1, -1, `"observation.images.top" of 4 of 4`},
			{"stats-image-std", dataset.Warn, 0, -1, "deviation 0 "},
			{"data-metadata-list", dataset.Note, -1, -1, `"List"`},
		},
	} {
		r, err := Run(context.Background(), testpeer.Data(t, "real/"+folder), Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range want {
			if !slices.ContainsFunc(r.Findings, p.matches) {
				t.Errorf("%s: no finding %+v", folder, p)
			}
		}
		for _, f := range r.Findings { // nothing else may be called an error
			known := slices.ContainsFunc(want, func(p spot) bool { return p.code == f.Code })
			if f.Severity == dataset.Error && !known {
				t.Errorf("%s: unexpected %+v", folder, f)
			}
		}
		var text, js bytes.Buffer
		if err := r.WriteText(&text); err != nil {
			t.Fatal(err)
		}
		if err := r.WriteJSON(&js); err != nil {
			t.Fatal(err)
		}
		var back dataset.Report
		if err := json.Unmarshal(js.Bytes(), &back); err != nil || len(back.Findings) != len(r.Findings) {
			t.Errorf("%s: JSON gives %d findings, want %d (%v)", folder, len(back.Findings), len(r.Findings), err)
		}
		for _, f := range r.Findings {
			if !strings.Contains(text.String(), f.Code) || f.Fix == "" {
				t.Errorf("%s: %s is not in the text or has no fix", folder, f.Code)
			}
			if f.Severity != dataset.Note && f.Episode >= 0 && catalogueArea(f.Code) == "Content" {
				t.Errorf("%s: a real recording is called faulty: %+v", folder, f)
			}
		}
	}
}

// catalogueArea is the group that a code belongs to.
func catalogueArea(code string) string {
	for _, a := range Areas() {
		for _, e := range a.Entries {
			if e.Code == code {
				return a.Name
			}
		}
	}
	return ""
}

func TestCheckOfNoDataset(t *testing.T) {
	if _, err := Run(context.Background(), t.TempDir(), Options{}); err == nil || !strings.Contains(err.Error(), "meta/info.json") {
		t.Errorf("an empty folder gave %v", err)
	}
}
