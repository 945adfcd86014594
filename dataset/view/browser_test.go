package view

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/dataset/check"
	"github.com/pinch-robotics/pinch/internal/testpeer"
)

// listen serves a dataset on an address of this machine until the test ends.
func listen(t *testing.T, root string, o Options) string {
	t.Helper()
	s := serve(t, root, o)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Run(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return "http://" + l.Addr().String() + "/"
}

// pixel is the grey level in the middle of a picture as the browser shows it.
const pixel = `(e) => { const c = document.createElement("canvas"); c.width = c.height = 8; const g = c.getContext("2d"); g.drawImage(e, 0, 0, 8, 8); return g.getImageData(4, 4, 1, 1).data[0]; }`

// stop shows which row and pictures the page shows while it stands still.
type still struct {
	Row   int
	Text  string
	Times []float64
	Greys []int
}

func (b *browser) still() (s still) {
	b.t.Helper()
	b.wait(`[...document.querySelectorAll("video")].every((v) => v.readyState >= 2 && !v.seeking)`)
	b.eval(`(async () => {
		await new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)));
		const pixel = `+pixel+`, v = [...document.querySelectorAll("video")];
		return {row: +document.querySelector(".time").dataset.row, text: document.querySelector(".time").textContent, times: v.map((e) => e.currentTime), greys: v.map(pixel)};
	})()`, &s)
	return s
}

// shows verifies that cursor, videos and pictures are at a row of episode k.
func (b *browser) shows(k, row int) {
	b.t.Helper()
	s := b.still()
	if want := fmt.Sprintf("row %d · %.2f s", row, float64(row)/fps); s.Row != row || s.Text != want {
		b.t.Errorf("the cursor says %q (row %d), want %q", s.Text, s.Row, want)
	}
	if len(s.Times) != 2 {
		b.t.Fatalf("%d videos, want 2", len(s.Times))
	}
	for c := range s.Times {
		if at := int(math.Floor(s.Times[c] * fps)); at != row {
			b.t.Errorf("episode %d row %d: video %d is at %.4f s, which is row %d", k, row, c, s.Times[c], at)
		}
		if want := int(shade(2*k+c, row)); abs(s.Greys[c]-want) > 4 {
			b.t.Errorf("episode %d row %d: video %d shows grey %d, want %d", k, row, c, s.Greys[c], want)
		}
	}
}

func abs(n int) int { return max(n, -n) }

// curve reads the values that a chart shows at the cursor.
func (b *browser) curve(feature string) []string {
	b.t.Helper()
	var v []string
	selector := fmt.Sprintf(`.chart[data-feature=%q]`, feature)
	b.wait(fmt.Sprintf(`(() => { const c = document.querySelector('%s'); if (!c) return false; c.closest("details").open = true; c.scrollIntoView({block: "center"}); return c.querySelector("b").dataset.value !== undefined; })()`, selector))
	b.eval(fmt.Sprintf(`(async () => { await new Promise((r) => setTimeout(r, 50)); return [...document.querySelectorAll('%s b')].map((e) => e.dataset.value); })()`, selector), &v)
	return v
}

// sameCurve compares what is shown at a row with the dataset's rows, to the last bit.
func (b *browser) sameCurve(d *dataset.Dataset, feature string, episode, row int) {
	b.t.Helper()
	f, err := d.Feature(feature)
	if err != nil {
		b.t.Fatal(err)
	}
	shown := b.curve(feature)
	if len(shown) != f.Dim() {
		b.t.Errorf("%s shows %d values, want %d", feature, len(shown), f.Dim())
		return
	}
	if f.DType == dataset.Int64 {
		v, _ := dataset.ReadColumn[int64](d, feature, episode)
		if want := strconv.FormatInt(v[row], 10); shown[0] != want {
			b.t.Errorf("%s shows %s, want %s", feature, shown[0], want)
		}
		return
	}
	v, err := dataset.ReadColumn[float64](d, feature, episode)
	if err != nil {
		b.t.Fatal(err)
	}
	for k := range shown {
		if got, _ := strconv.ParseFloat(shown[k], 64); got != v[row*f.Dim()+k] {
			b.t.Errorf("%s element %d at row %d shows %v, want %v", feature, k, row, got, v[row*f.Dim()+k])
		}
	}
}

func TestBrowserShowsAnEpisode(t *testing.T) {
	root := testSet(t)
	b := openBrowser(t)
	d := open(t, root)
	base := listen(t, root, Options{Report: testReport()})
	b.open(base)
	b.wait(`document.querySelectorAll("a.line").length === 2`)
	b.wait(`document.querySelectorAll(".check .finding").length === 3`)
	var said string
	b.eval(`document.querySelector(".check").innerText`, &said)
	for _, want := range []string{"1 error", "2 warnings", "1 note", "pose-jump", "× 2", "the whole set is odd", "look again", "#0"} {
		if !strings.Contains(said, want) {
			t.Errorf("the overview does not say %q:\n%s", want, said)
		}
	}
	b.shot("overview")

	b.eval(`document.querySelectorAll("a.line")[0].click()`, nil)
	b.wait(`document.querySelector(".episode h1")?.textContent === "Episode 0"`)
	b.shows(0, 0)
	b.press("ArrowRight", 7)
	b.shows(0, 7)
	b.press("ArrowLeft", 2)
	b.shows(0, 5)
	b.press("End", 1)
	b.shows(0, 74)
	b.press("Home", 1)
	b.press("f", 1) // the finding at row 40
	b.shows(0, 40)
	for _, name := range []string{"observation.joint_states", "action", "observation.capture_time.row", "observation.state"} {
		b.sameCurve(d, name, 0, 40)
	}
	b.lanes(t)
	b.press("ArrowRight", 9)
	b.sameCurve(d, "observation.joint_states", 0, 49)
	b.shows(0, 49)
	b.shot("episode")
	b.orbit(t)
	b.play(t)
	b.press("n", 1)
	b.wait(`document.querySelector(".episode h1")?.textContent === "Episode 1"`)
	b.shows(1, 0)
	b.press("ArrowRight", 3)
	b.shows(1, 3)
	b.sameCurve(d, "observation.joint_states", 1, 3)
	b.clean(base)
}

// lanes verifies the time line of episode 0: places of segments and marks, and that a click goes there.
func (b *browser) lanes(t *testing.T) {
	t.Helper()
	var got map[string][][2]float64
	b.eval(`(() => { const out = {}, names = [...document.querySelectorAll(".names span")].slice(1).map((e) => e.textContent);
		document.querySelectorAll(".track").forEach((t, i) => { const w = t.getBoundingClientRect();
			out[names[i]] = [...t.querySelectorAll(".segment")].map((s) => { const r = s.getBoundingClientRect(); return [(r.left - w.left) / w.width * 75, (r.right - w.left) / w.width * 75]; }); });
		return out; })()`, &got)
	for name, want := range map[string][][2]float64{"instruction": {{0, 50}, {50, 75}}, "phase": {{0, 25}, {25, 50}, {50, 75}}, "pedals": {{5, 9}}, "late": {{12, 15}}, "findings": {{40, 45}}, "untracked": {{30, 34}}} {
		if len(got[name]) != len(want) {
			t.Errorf("lane %s has %d segments, want %d", name, len(got[name]), len(want))
			continue
		}
		for i := range want {
			if math.Abs(got[name][i][0]-want[i][0]) > 0.2 || math.Abs(got[name][i][1]-want[i][1]) > 0.2 {
				t.Errorf("lane %s segment %d covers rows %.2f to %.2f, want %v", name, i, got[name][i][0], got[name][i][1], want[i])
			}
		}
	}
	b.drag(".tracks", 0, 0) // the middle: row 37 of 0 to 74
	b.shows(0, 37)
	b.eval(`pinch.episode.player.seek(40)`, nil)
}

// orbit verifies the projection against pinhole arithmetic, and that dragging turns it.
func (b *browser) orbit(t *testing.T) {
	t.Helper()
	type view struct {
		Left, Right        []float64
		Azimuth, Elevation float64
		Distance, F, W, H  float64
		Target             [3]float64
		Row                int
		Inked              int
	}
	look := func() (v view) {
		b.wait(`pinch.episode.scene.shown().length === 2`)
		b.eval(`(() => { const s = pinch.episode.scene; s.draw(); const [l, r] = s.shown(), c = s.canvas, g = c.getContext("2d").getImageData(0, 0, c.width, c.height).data; let inked = 0;
			for (let i = 3; i < g.length; i += 4) if (g[i] > 40) inked++;
			return {left: l.screen, right: r.screen, azimuth: s.eye.azimuth, elevation: s.eye.elevation, distance: s.eye.distance, target: s.eye.target, f: s.focal(), w: c.clientWidth, h: c.clientHeight, row: s.player.row, inked}; })()`, &v)
		return v
	}
	check := func(v view) {
		for s, got := range [][]float64{v.Left, v.Right} {
			p := handAt(s, 0, v.Row)
			ca, sa, ce, se := math.Cos(v.Azimuth), math.Sin(v.Azimuth), math.Cos(v.Elevation), math.Sin(v.Elevation)
			x, y, z := p[0]-v.Target[0], p[1]-v.Target[1], p[2]-v.Target[2]
			along, side, up := ce*(ca*x+sa*y)+se*z, -sa*x+ca*y, -se*(ca*x+sa*y)+ce*z // towards the eye, to its right, upwards
			depth := v.Distance - along
			want := [2]float64{v.W/2 + v.F*side/depth, v.H/2 - v.F*up/depth}
			if len(got) != 2 || math.Hypot(got[0]-want[0], got[1]-want[1]) > 0.01 {
				t.Errorf("hand %d at row %d is drawn at %.2f, a pinhole camera sees it at %.2f", s, v.Row, got, want)
			}
		}
	}
	before := look()
	check(before)
	if before.Inked < 2000 {
		t.Errorf("only %d pixels of the paths are drawn", before.Inked)
	}
	b.drag(".scene canvas", 120, 40)
	after := look()
	check(after)
	if moved := math.Hypot(after.Left[0]-before.Left[0], after.Left[1]-before.Left[1]); moved < 10 || after.Azimuth == before.Azimuth || after.Elevation == before.Elevation {
		t.Errorf("after dragging the hand moved %.1f pixels, azimuth %.3f to %.3f", moved, before.Azimuth, after.Azimuth)
	}
	b.shot("orbited")
	b.press("r", 1)
	if v := look(); math.Abs(v.Azimuth-before.Azimuth) > 1e-9 || math.Abs(v.Left[0]-before.Left[0]) > 0.01 {
		t.Errorf("reset leaves azimuth %v, want %v", v.Azimuth, before.Azimuth)
	}
}

// play plays from the start, and verifies in every frame that the cursor is where the first video is and that the other keeps up.
func (b *browser) play(t *testing.T) {
	t.Helper()
	b.press("Home", 1)
	b.still()
	var samples [][3]float64
	b.eval(`new Promise((done) => {
		const out = [], p = pinch.episode.player, v = [...document.querySelectorAll("video")];
		p.onrow((row, playing) => {
			if (playing) out.push([row, v[0].currentTime, v[1].currentTime]);
			else if (out.length > 3) done(out);
		});
		setTimeout(() => done(out), 90000);
		p.play();
	})`, &samples)
	if len(samples) < 10 {
		t.Fatalf("%d samples while playing %d rows", len(samples), rows[0])
	}
	apart := 0
	for _, s := range samples[2:] { // the first two while the videos start
		if math.Abs(s[1]*fps-s[0]-0.5) > 1.5 {
			t.Errorf("the cursor is at row %.0f while the video is at row %.2f", s[0], s[1]*fps)
		}
		if math.Abs(s[1]-s[2]) > 0.25 {
			apart++
		}
	}
	if apart > len(samples)/4 {
		t.Errorf("the videos are more than a quarter of a second apart in %d of %d samples", apart, len(samples))
	}
	b.shows(0, 74) // it stops at the last row, and the pictures with it
}

// The findings of a real check come in while one looks; the list is as long as it has to be and yet only what is in sight exists.
func TestBrowserListsThousands(t *testing.T) {
	b := openBrowser(t)
	base := listen(t, manyEpisodes(t, 5000), Options{})
	b.open(base)
	b.wait(`document.querySelectorAll("a.line").length > 5`)
	b.eval(`document.querySelector(".rows").scrollTop = 1e9`, nil)
	b.wait(`[...document.querySelectorAll("a.line b")].some((e) => e.textContent === "#4999")`)
	var n int
	if b.eval(`document.querySelectorAll(".line").length`, &n); n > 60 {
		t.Errorf("%d lines exist, want only those in sight", n)
	}
	b.eval(`(() => { const e = document.querySelector(".list input"); e.value = "task 6"; e.dispatchEvent(new Event("input")); })()`, nil)
	b.wait(`document.querySelector(".total").textContent === "714 of 5,000 episodes"`)
	var asked int
	b.mu.Lock()
	for _, u := range b.requests {
		if strings.Contains(u, "/api/episodes?") {
			asked++
		}
	}
	b.mu.Unlock()
	if asked > 20 {
		t.Errorf("%d parts of the list were fetched", asked)
	}
	b.clean(base)
}

func TestBrowserShowsACheckThatRuns(t *testing.T) {
	root := testSet(t)
	b := openBrowser(t)
	goOn := make(chan struct{})
	base := listen(t, root, Options{Check: func(ctx context.Context, progress func(string, int, int)) (*dataset.Report, error) {
		progress("Data", 1, 4)
		select {
		case <-goOn:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		return check.Run(ctx, root, check.Options{})
	}})
	b.open(base)
	b.wait(`document.querySelector(".state")?.textContent === "checking 25 %"`)
	close(goOn)
	report, err := check.Run(t.Context(), root, check.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b.wait(`document.querySelector(".state").textContent !== "checking 25 %" && document.querySelector(".check .tally")`)
	var tally []string
	b.eval(`[...document.querySelectorAll(".check .tally")].map((e) => e.textContent)`, &tally)
	want := fmt.Sprintf("%d error %d warning %d note ", report.Number(dataset.Error), report.Number(dataset.Warn), report.Number(dataset.Note))
	if got := strings.ReplaceAll(strings.Join(tally, " ")+" ", "s ", " "); got != want {
		t.Errorf("the page says %s, the check found %s", got, want)
	}
	b.clean(base)
}

// Pages in a folder work from the file system, with nothing that answers.
func TestBrowserShowsPagesOfAFolder(t *testing.T) {
	root, out := testSet(t), filepath.Join(t.TempDir(), "pages")
	if _, err := Write(t.Context(), root, out, WriteOptions{Report: testReport()}); err != nil {
		t.Fatal(err)
	}
	b := openBrowser(t)
	base := "file://" + (&url.URL{Path: out}).EscapedPath() + "/"
	b.open(base + "index.html")
	b.wait(`document.querySelectorAll("a.line").length === 2`)
	b.eval(`document.querySelectorAll("a.line")[1].click()`, nil)
	b.wait(`document.querySelector(".episode h1")?.textContent === "Episode 1"`)
	b.press("ArrowRight", 11)
	b.wait(`[...document.querySelectorAll("video")].length === 2 && [...document.querySelectorAll("video")].every((v) => v.readyState >= 2 && !v.seeking && Math.floor(v.currentTime * 30) === 11)`)
	b.sameCurve(open(t, root), "observation.joint_states", 1, 11)
	b.shot("static")
	b.clean(base)
}

// What the browser can not decode is said in one sentence, and pinch shows the picture of the row instead.
func TestBrowserWithoutACodec(t *testing.T) {
	root := copySet(t)
	b := openBrowser(t)
	e, err := open(t, root).Episode(0)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, e.Videos[right].Path)
	old := filepath.Join(t.TempDir(), "old.mp4")
	if out, err := exec.Command("ffmpeg", "-v", "error", "-i", path, "-c:v", "mpeg4", "-q:v", "2", "-g", "2", old).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	if err := os.Rename(old, path); err != nil {
		t.Fatal(err)
	}
	base := listen(t, root, Options{})
	b.open(base + "#/episode/0?row=9")
	b.wait(`document.querySelectorAll(".cams img").length === 1 && document.querySelector(".cams img").naturalWidth > 0`)
	var says string
	b.eval(`document.querySelectorAll(".cams figure")[1].innerText`, &says)
	if !strings.Contains(says, "does not decode mpeg4") || !strings.Contains(says, "pinch dataset reencode") {
		t.Errorf("the page says %q", says)
	}
	b.wait(fmt.Sprintf(`Math.abs((%s)(document.querySelector(".cams img")) - %d) < 6`, pixel, shade(1, 9)))
	b.press("ArrowRight", 4)
	b.wait(fmt.Sprintf(`document.querySelector(".time").dataset.row === "13" && Math.abs((%s)(document.querySelector(".cams img")) - %d) < 6`, pixel, shade(1, 13)))
	b.clean(base)
}

// Text from a dataset does not become markup.
func TestBrowserTrustsNoText(t *testing.T) {
	root := filepath.Join(t.TempDir(), "set")
	evil := `</script><img src=x onerror="window.hacked=1"><b>`
	w, err := dataset.Create(root, dataset.Options{FPS: 10, Features: []dataset.Feature{{Name: "observation.state", DType: dataset.Float64, Shape: []int{2}, Names: []string{"<i>a</i>", "b"}}}})
	if err != nil {
		t.Fatal(err)
	}
	ep := dataset.Episode{Length: 4, Tasks: []string{evil}, Columns: map[string]any{"observation.state": []float64{1, 5, 2, 6, 3, 7, 4, 8}}, Extra: map[string]any{"label": evil}}
	if _, err := w.AddEpisode(t.Context(), ep); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	report := &dataset.Report{Findings: []dataset.Finding{{Code: evil, Severity: dataset.Warn, Episode: 0, Frame: 2, Message: evil}}}
	if _, err := Write(t.Context(), root, out, WriteOptions{Report: report}); err != nil {
		t.Fatal(err)
	}
	b := openBrowser(t)
	live := listen(t, root, Options{Report: report})
	for _, page := range []string{live, live + "#/episode/0", "file://" + out + "/index.html", "file://" + out + "/episode_000000.html"} {
		b.open("about:blank")
		b.open(page)
		b.wait(`document.querySelector("main h1") && document.body.innerText.includes("onerror=")`)
		var hacked, marked bool
		b.eval(`[!!window.hacked, document.querySelectorAll("main img, main i i, aside img").length > 0]`, &[]*bool{&hacked, &marked})
		if hacked || marked {
			t.Errorf("%s: text of the dataset became markup", page)
		}
	}
	b.press("ArrowRight", 2)
	if v := b.curve("observation.state"); len(v) != 2 || v[0] != "3" || v[1] != "7" {
		t.Errorf("row 2 shows %v, want 3 and 7", v)
	}
}

// Recordings of other people's robots: AV1 of one plays, the MPEG-4 of another is decoded by pinch, and a file that is missing is said.
func TestBrowserShowsRealRecordings(t *testing.T) {
	b := openBrowser(t)
	root := testpeer.Data(t, "real/unitree_g1_v21")
	base := listen(t, root, Options{})
	b.open(base + "#/episode/1?row=100")
	b.wait(`document.querySelectorAll("video").length === 1 && [...document.querySelectorAll("video")].every((v) => v.readyState >= 2 && !v.seeking && Math.floor(v.currentTime * 30) === 100)`)
	b.sameCurve(open(t, root), "observation.state", 1, 100)
	b.shot("unitree")
	b.clean(base)
	b.requests = nil
	base = listen(t, testpeer.Data(t, "real/open50_v30_malformed"), Options{})
	b.open(base + "#/episode/0?row=20")
	b.wait(`document.querySelector(".cams img")?.naturalWidth > 0 && document.querySelector(".cams .problem").textContent.includes("does not decode")`)
	b.shot("open50")
	b.clean(base)
	b.requests = nil
	base = listen(t, testpeer.Data(t, "real/record_test_v30"), Options{})
	b.open(base + "#/episode/3")
	b.wait(`document.querySelector(".cams .problem")?.textContent.includes("is missing")`)
	b.clean(base)
}
