package check

import (
	"bytes"
	"context"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/dataset/internal/pq"
	"github.com/pinch-robotics/pinch/internal/feature"
)

// yubi is the root of a clean set of 14 episodes, made once per test run.
func yubi(t testing.TB) string {
	t.Helper()
	root := filepath.Join(videoDir, "yubi")
	yubiOnce.Do(func() {
		m := newMaker(20, 48, 64, true)
		m.features = slices.DeleteFunc(m.features, func(f feature.Feature) bool { return strings.Contains(f.Name, "center") })
		rows := make([]int, 14)
		for i := range rows {
			rows[i] = 60 + 3*(i%5)
		}
		m.write(t, root, rows, true)
	})
	return root
}

var yubiOnce sync.Once

// spoil changes the rows of some episodes of a copy of the clean set.
func spoil(t *testing.T, episodes []int, f func(c map[string]*pq.Column)) string {
	t.Helper()
	root := filepath.Join(memoryDir(t), "set")
	copyTree(t, yubi(t), root)
	for _, e := range episodes {
		editTable(t, root, dataPath(e), f, nil)
	}
	return root
}

func dataPath(e int) string {
	return "data/chunk-000/file-0" + string(rune('0'+e/10)) + string(rune('0'+e%10)) + ".parquet"
}

const (
	leftPose  = "observation.pose.left_hand_root.absolute"
	rightPose = "observation.pose.right_hand_root.absolute"
	joints    = "observation.joint_states"
)

// Each content fault, planted into four of fourteen episodes, is found in all four under one of its codes, and nothing is found in
// the other ten.
func TestContentFaultsAreFound(t *testing.T) {
	bad := []int{1, 4, 8, 11}
	floats := func(c map[string]*pq.Column, name string) []float64 { return c[name].Values.([]float64) }
	for name, k := range map[string]struct {
		codes []string
		fault func(c map[string]*pq.Column)
	}{
		"pose jump":     {[]string{"pose-jump"}, func(c map[string]*pq.Column) { v := floats(c, leftPose); shift(v[7*30:], 0.2) }},
		"pose spike":    {[]string{"pose-jump"}, func(c map[string]*pq.Column) { v := floats(c, rightPose); v[7*30] += 0.2 }},
		"frozen pose":   {[]string{"frozen"}, func(c map[string]*pq.Column) { hold(floats(c, leftPose), 7, 20, 32) }},
		"encoder stall": {[]string{"encoder-stall"}, func(c map[string]*pq.Column) { hold(floats(c, joints), 2, 20, 34) }},
		"clipped":       {[]string{"clipped", "stuck"}, func(c map[string]*pq.Column) { clip(floats(c, joints), 2, 0) }},
		"wrong unit":    {[]string{"outlier-level", "outlier-scale"}, func(c map[string]*pq.Column) { scale(floats(c, leftPose), 7, 3, 1000) }},
		"noise":         {[]string{"noisy", "jump"}, func(c map[string]*pq.Column) { alternate(floats(c, joints), 0.2) }},
		"sign of q":     {[]string{"quaternion-sign"}, func(c map[string]*pq.Column) { negate(floats(c, rightPose), 25, 40) }},
		"untracked": {[]string{"untracked"}, func(c map[string]*pq.Column) {
			off(c["observation.pose.left_hand_root.is_tracked"].Values.([]bool), 30, 36)
		}},
		"shifted action": {[]string{"relation", "action-lag"}, func(c map[string]*pq.Column) { v := floats(c, "action.joint_states"); copy(v[6:], slices.Clone(v)) }},
		"zero motion": {[]string{"relation"}, func(c map[string]*pq.Column) {
			v := floats(c, "observation.pose.left_hand_root.relative")
			hold(v, 7, 0, len(v)/7)
		}},
		"constant":     {[]string{"constant-episode"}, func(c map[string]*pq.Column) { v := floats(c, "action.next.joint_states"); hold(v, 2, 0, len(v)/2) }},
		"lost samples": {[]string{"capture-gap"}, func(c map[string]*pq.Column) { later(c["observation.capture_time.row"].Values.([]int64), 30, 4e8) }},
		"clock back":   {[]string{"capture-time"}, func(c map[string]*pq.Column) { later(c["observation.capture_time.left"].Values.([]int64), 60, -4e8) }},
		"done": {[]string{"done-flag"}, func(c map[string]*pq.Column) {
			off(c["next.done"].Values.([]bool), 0, len(c["next.done"].Values.([]bool)))
		}},
		"idle": {[]string{"idle"}, func(c map[string]*pq.Column) {
			for _, col := range c {
				if v, ok := col.Values.([]float64); ok {
					hold(v, max(1, len(col.Shape)*first(col.Shape)), 20, 40)
				}
			}
		}},
	} {
		root := spoil(t, bad, k.fault)
		r, err := Run(context.Background(), root, Options{})
		if err != nil {
			t.Fatal(err)
		}
		found := map[int]bool{}
		for _, f := range r.Findings {
			if strings.HasPrefix(f.Code, "stats-") || f.Episode < 0 || f.Severity == dataset.Note {
				continue
			}
			if !slices.Contains(bad, f.Episode) {
				t.Errorf("%s: episode %d is clean: %s %s", name, f.Episode, f.Code, f.Message)
			}
			found[f.Episode] = found[f.Episode] || slices.Contains(k.codes, f.Code)
		}
		for _, e := range bad {
			if !found[e] {
				t.Errorf("%s: not found in episode %d (%v)", name, e, codesOf(r, e))
			}
		}
	}
}

func codesOf(r *dataset.Report, episode int) []string {
	var out []string
	for _, f := range r.Findings {
		if f.Episode == episode {
			out = append(out, f.Code)
		}
	}
	return out
}

func first(s []int) int {
	if len(s) == 0 {
		return 1
	}
	return s[0]
}

func shift(v []float64, by float64) {
	for i := 0; i < len(v); i += 7 {
		v[i] += by
	}
}

func hold(v []float64, dim, lo, hi int) {
	for k := lo + 1; k < hi; k++ {
		copy(v[k*dim:(k+1)*dim], v[lo*dim:(lo+1)*dim])
	}
}

func clip(v []float64, dim, d int) {
	lo, hi := math.Inf(1), math.Inf(-1)
	for i := d; i < len(v); i += dim {
		lo, hi = math.Min(lo, v[i]), math.Max(hi, v[i])
	}
	for i := d; i < len(v); i += dim {
		v[i] = math.Min(v[i], lo+0.4*(hi-lo))
	}
}

func scale(v []float64, dim, n int, by float64) {
	for i := range v {
		if i%dim < n {
			v[i] *= by
		}
	}
}

func alternate(v []float64, by float64) {
	for i := range v {
		v[i] += by * float64(1-i/2%2*2)
	}
}

func negate(v []float64, lo, hi int) {
	for k := lo; k < hi; k++ {
		for i := 3; i < 7; i++ {
			v[k*7+i] *= -1
		}
	}
}

func off(v []bool, lo, hi int) {
	for i := lo; i < hi; i++ {
		v[i] = false
	}
}

func later(v []int64, from int, by int64) {
	for i := from; i < len(v); i++ {
		v[i] += by
	}
}

// The clean set itself gives nothing but notes, with decoding too.
func TestCleanSetIsClean(t *testing.T) {
	r, err := Run(context.Background(), yubi(t), Options{Decode: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Findings {
		if f.Severity != dataset.Note && f.Code != "constant" {
			t.Errorf("%+v", f)
		}
	}
	if !slices.ContainsFunc(r.Checked, func(s string) bool { return strings.Contains(s, "laws between features") }) {
		t.Errorf("no laws were learned: %v", r.Checked)
	}
}

// The report does not depend on the number of workers.
func TestReportIsTheSameForAnyWorkers(t *testing.T) {
	root := spoil(t, []int{2, 3, 7}, func(c map[string]*pq.Column) { shift(c[leftPose].Values.([]float64)[7*30:], 0.2) })
	var first string
	for _, n := range []int{1, 2, 5} {
		r, err := Run(context.Background(), root, Options{Workers: n})
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := r.WriteJSON(&b); err != nil {
			t.Fatal(err)
		}
		if first == "" {
			first = b.String()
		} else if b.String() != first {
			t.Errorf("%d workers report something else", n)
		}
	}
}

// A file that is missing is one finding per kind of file, and no others follow from it.
func TestMissingFilesHaveNoFollowUps(t *testing.T) {
	for path, want := range map[string][]string{
		dataPath(5):          {"episodes-missing"},
		"meta/tasks.parquet": {"tasks-missing"},
		"videos/observation.image.left/chunk-000/file-005.mp4": {"video-missing"},
		"meta/stats.json": {"stats-missing"},
	} {
		root := filepath.Join(memoryDir(t), "set")
		copyTree(t, yubi(t), root)
		if err := os.Remove(filepath.Join(root, path)); err != nil {
			t.Fatal(err)
		}
		r, err := Run(context.Background(), root, Options{Decode: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range r.Findings {
			if f.Severity != dataset.Note && f.Code != "constant" && !slices.Contains(want, f.Code) {
				t.Errorf("without %s: follow-up %s: %s", path, f.Code, f.Message)
			}
		}
		for _, code := range want {
			if _, ok := r.Find(code); !ok {
				t.Errorf("without %s: no %s", path, code)
			}
		}
	}
}

// The page stands alone and shows the frames and the curve around a finding.
func TestPageShowsPicturesAndCurves(t *testing.T) {
	root := spoil(t, []int{6}, func(c map[string]*pq.Column) { shift(c[leftPose].Values.([]float64)[7*30:], 0.2) })
	r, err := Run(context.Background(), root, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := WriteHTML(context.Background(), &b, r); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, want := range []string{"pose-jump", "episode 6", "row 30", "data:image/jpeg;base64,", "<polyline", "What to do"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if m := regexp.MustCompile(`(?:src|href)="(?:https?:|/|\w)`).FindString(strings.ReplaceAll(page, `src="data:`, "")); m != "" {
		t.Errorf("the page asks for other files: %s", m)
	}
}
