package view

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"image/jpeg"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pinch-robotics/pinch/dataset"
)

func serve(t *testing.T, root string, o Options) *Server {
	t.Helper()
	s, err := NewServer(root, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// ask makes a request as a browser at 127.0.0.1 does; headers are pairs.
func ask(t *testing.T, s *Server, path string, headers ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:8000"+path, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Result()
}

func body(t *testing.T, r *http.Response) []byte {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func askJSON(t *testing.T, s *Server, path string, into any) {
	t.Helper()
	r := ask(t, s, path)
	b := body(t, r)
	if r.StatusCode != 200 {
		t.Fatalf("%s: %d %s", path, r.StatusCode, b)
	}
	if err := json.Unmarshal(b, into); err != nil {
		t.Fatalf("%s: %v\n%s", path, err, b)
	}
}

// A player asks for parts of a video; each part is what stands there in the file.
func TestVideoByRanges(t *testing.T) {
	root := testSet(t)
	s := serve(t, root, Options{})
	e, err := open(t, root).Episode(1)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(filepath.Join(root, e.Videos[right].Path))
	if err != nil {
		t.Fatal(err)
	}
	path := "/api/episodes/1/videos/" + right
	whole := ask(t, s, path)
	if got := body(t, whole); whole.StatusCode != 200 || string(got) != string(file) || whole.Header.Get("Accept-Ranges") != "bytes" || whole.Header.Get("Content-Type") != "video/mp4" {
		t.Errorf("the whole video: %d, %d of %d bytes, %v", whole.StatusCode, len(got), len(file), whole.Header)
	}
	n := len(file)
	for want, part := range map[string][]byte{"bytes=0-99": file[:100], fmt.Sprintf("bytes=%d-", n-7): file[n-7:], "bytes=-50": file[n-50:], "bytes=100-199": file[100:200]} {
		r := ask(t, s, path, "Range", want)
		if got := body(t, r); r.StatusCode != 206 || string(got) != string(part) || !strings.HasSuffix(r.Header.Get("Content-Range"), fmt.Sprintf("/%d", n)) {
			t.Errorf("%s: %d with %d bytes, %s", want, r.StatusCode, len(got), r.Header.Get("Content-Range"))
		}
	}
	if r := ask(t, s, path, "Range", fmt.Sprintf("bytes=%d-", n+1)); r.StatusCode != 416 {
		t.Errorf("a range behind the end: %d, want 416", r.StatusCode)
	}
	if r := ask(t, s, path, "If-Modified-Since", whole.Header.Get("Last-Modified")); r.StatusCode != 304 {
		t.Errorf("asked again: %d, want 304", r.StatusCode)
	}
}

// Nothing that a request says becomes a path; nothing outside the dataset leaves the machine.
func TestNothingElseIsServed(t *testing.T) {
	root := copySet(t)
	secret := filepath.Join(filepath.Dir(root), "secret.mp4")
	if err := os.WriteFile(secret, []byte("SECRET"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serve(t, root, Options{})
	for _, path := range []string{
		"/../secret.mp4", "/assets/../../secret.mp4", "/assets/..%2f..%2fsecret.mp4", "/assets/%2e%2e/%2e%2e/secret.mp4", "/assets/" + url.PathEscape(secret),
		"/api/episodes/0/videos/..%2f..%2fsecret.mp4", "/api/episodes/0/videos/" + url.PathEscape("../../../secret.mp4"), "/api/episodes/..%2f..%2fsecret.mp4",
		"/api/episodes/0/columns/..%2f..%2fmeta%2finfo.json", "/api/episodes/0/frames/..%2fsecret/0", "/meta/info.json", "/videos/" + left + "/chunk-000/file-000.mp4",
		"/api/episodes/9999999999999999999999", "/api/episodes/-1", "/api/episodes/7", "/api/episodes/0/frames/" + left + "/-1", "/api/episodes/0/frames/" + left + "/75",
	} {
		r := ask(t, s, path)
		if b := body(t, r); strings.Contains(string(b), "SECRET") || r.StatusCode < 300 {
			t.Errorf("%s: %d %.80s", path, r.StatusCode, b)
		}
	}
	// a link in the place of a video leads to what is no video
	e, _ := open(t, root).Episode(0)
	video := filepath.Join(root, e.Videos[left].Path)
	if err := errors.Join(os.Remove(video), os.Symlink(secret, video)); err != nil {
		t.Fatal(err)
	}
	if r := ask(t, s, "/api/episodes/0/videos/"+left); r.StatusCode < 400 {
		t.Errorf("a link to a text was served: %d", r.StatusCode)
	}
	// a dataset whose paths lead out of it
	info, err := os.ReadFile(filepath.Join(root, "meta/info.json"))
	if err != nil {
		t.Fatal(err)
	}
	out := strings.Replace(string(info), `"videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"`, `"../secret.mp4"`, 1)
	if out == string(info) {
		t.Fatal("info.json has another template")
	}
	if err := os.WriteFile(filepath.Join(root, "meta/info.json"), []byte(out), 0o644); err != nil {
		t.Fatal(err)
	}
	if s, err := NewServer(root, Options{}); err == nil {
		if r := ask(t, s, "/api/episodes/0/videos/"+left); r.StatusCode < 400 {
			t.Errorf("a path out of the dataset was followed: %d", r.StatusCode)
		}
	}
}

// A foreign page can point a name of its own to this machine; such a request is refused. The page may load only from its server.
func TestForeignNamesAreRefused(t *testing.T) {
	s := serve(t, testSet(t), Options{})
	for host, want := range map[string]int{"127.0.0.1:8000": 200, "localhost:8000": 200, "[::1]:8000": 200, "192.168.1.7": 200, "evil.example": 421, "evil.example:8000": 421, "127.0.0.1.evil.example": 421} {
		r := httptest.NewRequest(http.MethodGet, "/api/set", nil)
		r.Host = host
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("host %s: %d, want %d", host, w.Code, want)
		}
	}
	for _, path := range []string{"/", "/api/set", "/assets/app.js"} {
		if p := ask(t, s, path).Header.Get("Content-Security-Policy"); !strings.Contains(p, "default-src 'none'") || !strings.Contains(p, "connect-src 'self'") || strings.Contains(p, "http") {
			t.Errorf("%s: policy %q", path, p)
		}
	}
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/api/set", nil)
	w := httptest.NewRecorder()
	if s.ServeHTTP(w, r); w.Code != 405 {
		t.Errorf("POST: %d, want 405", w.Code)
	}
}

// Columns are the dataset's values to the last bit.
func TestColumnsAreExact(t *testing.T) {
	root := testSet(t)
	s, d := serve(t, root, Options{}), open(t, root)
	columns := 0
	for _, f := range d.Features() {
		if !f.DType.Numeric() {
			continue
		}
		columns++
		b := body(t, ask(t, s, "/api/episodes/1/columns/"+url.PathEscape(f.Name)))
		if f.DType == dataset.Int64 {
			want, err := dataset.ReadColumn[int64](d, f.Name, 1)
			if err != nil {
				t.Fatal(err)
			}
			for i, v := range want {
				if got := int64(binary.LittleEndian.Uint64(b[8*i:])); got != v {
					t.Fatalf("%s value %d is %d, want %d", f.Name, i, got, v)
				}
			}
			continue
		}
		want, err := dataset.ReadColumn[float64](d, f.Name, 1)
		if err != nil || len(b) != 8*len(want) {
			t.Fatalf("%s: %d bytes for %d values, %v", f.Name, len(b), len(want), err)
		}
		for i, v := range want {
			if got := math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:])); got != v {
				t.Fatalf("%s value %d is %v, want %v", f.Name, i, got, v)
			}
		}
	}
	if columns < 15 {
		t.Errorf("only %d columns were compared", columns)
	}
	if r := ask(t, s, "/api/episodes/0/columns/none"); r.StatusCode != 404 || !strings.Contains(string(body(t, r)), "observation.joint_states") {
		t.Errorf("a feature that is not there: %d, and the names that are there are not listed", r.StatusCode)
	}
}

func TestEpisodeTellsWhatIsInIt(t *testing.T) {
	s := serve(t, testSet(t), Options{Report: testReport()})
	var p episodePage
	askJSON(t, s, "/api/episodes/0", &p)
	if p.Rows != 75 || p.Seconds != 2.5 || p.Prev != -1 || p.Next != 1 || !slices.Equal(p.Tasks, []string{"put cup 0 on the plate", "go home"}) {
		t.Errorf("episode %+v", p)
	}
	if len(p.Findings) != 1 || p.Findings[0].Code != "pose-jump" {
		t.Errorf("findings %+v", p.Findings)
	}
	if len(p.Cameras) != 2 || p.Cameras[0].Codec != "h264" || p.Cameras[1].Codec != "av1" || p.Cameras[0].From != 0 || p.Cameras[0].Width != camW {
		t.Errorf("cameras %+v", p.Cameras)
	}
	got := map[string]string{}
	for _, l := range p.Lanes {
		for _, g := range l.Segments {
			got[l.Name] += fmt.Sprintf("%d-%d %s;", g.From, g.To, g.Text)
		}
	}
	for name, want := range map[string]string{
		"instruction": "0-49 put cup 0 on the plate;50-74 go home;",
		"phase":       "0-24 reach;25-49 grasp;50-74 lift;",
		"pedals":      "5-8 footpedal_button_0;",
		"untracked":   "30-33 observation.pose.right_hand_root;",
		"late":        "12-14 left late;",
		"lost":        "20-20 joint_states lost;",
		"findings":    "40-44 pose-jump: the hand jumps 0.31 m;",
	} {
		if got[name] != want {
			t.Errorf("lane %s is %q, want %q", name, got[name], want)
		}
		delete(got, name)
	}
	if len(got) > 0 {
		t.Errorf("more lanes: %v", got)
	}
}

func TestSetFindsThePaths(t *testing.T) {
	s := serve(t, testSet(t), Options{})
	var p setPage
	askJSON(t, s, "/api/set", &p)
	if p.Name != "cups" || p.Episodes != 2 || p.Rows != 135 || p.Seconds != 4.5 || p.FPS != fps {
		t.Errorf("set %+v", p)
	}
	var main []string
	for _, q := range p.Paths {
		if q.Rotation != 3 || q.At != 0 {
			t.Errorf("path %+v", q)
		}
		if q.Main {
			main = append(main, fmt.Sprint(q.Name, " ", q.Side, " ", len(q.Tips)))
		}
	}
	if len(p.Paths) != 6 || !slices.Equal(main, []string{"left_hand_root left 2", "right_hand_root right 2"}) {
		t.Errorf("%d paths, main %v", len(p.Paths), main)
	}
}

func TestPathsOfOtherRobots(t *testing.T) {
	f := func(name string, elements ...string) dataset.Feature {
		return dataset.Feature{Name: name, DType: dataset.Float32, Shape: []int{len(elements)}, Names: elements}
	}
	var got []string
	for _, p := range findPaths([]dataset.Feature{
		f("observation.state", "gripper", "left_x", "left_y", "left_z", "left_qx", "left_qy", "left_qz", "left_qw", "right.pos.x", "right.pos.y", "right.pos.z"),
		f("observation.velocity", "x", "y", "z"), f("observation.wrench", "force_x", "force_y", "force_z"), f("action", "dx", "dy", "dz"),
		f("observation.ee", "x", "y"), f("observation.rates", "vel_x", "vel_y", "vel_z"), f("observation.tool", "x", "y", "z"),
	}) {
		got = append(got, fmt.Sprint(p.Name, " ", p.At, " ", p.Rotation, " ", p.Side, " ", p.Main))
	}
	if want := []string{"state left 1 4 left true", "state right.pos 8 -1 right true", "tool 0 -1  true"}; !slices.Equal(got, want) {
		t.Errorf("paths %q, want %q", got, want)
	}
}

// The list is asked for in parts, whatever its length.
func TestListOfThousands(t *testing.T) {
	s := serve(t, manyEpisodes(t, 5000), Options{Report: &dataset.Report{Findings: []dataset.Finding{
		{Code: "a", Severity: dataset.Error, Episode: 4321, Frame: -1}, {Code: "b", Severity: dataset.Warn, Episode: 17, Frame: -1}, {Code: "b", Severity: dataset.Warn, Episode: 4321, Frame: -1}}}})
	ask := func(q string) (p listPage, indices []int) {
		askJSON(t, s, "/api/episodes?"+q, &p)
		for _, r := range p.Rows {
			indices = append(indices, r.Index)
		}
		return p, indices
	}
	if p, got := ask("from=4990&count=100"); p.Total != 5000 || p.Matched != 5000 || !slices.Equal(got, []int{4990, 4991, 4992, 4993, 4994, 4995, 4996, 4997, 4998, 4999}) {
		t.Errorf("the end of the list: %d of %d, %v", p.Matched, p.Total, got)
	}
	if p, got := ask("count=100000"); len(got) != maxList || p.Rows[3].Rows != 33 || p.Rows[3].Task != "task 3" || p.Rows[3].Missing != 1 {
		t.Errorf("%d rows in one answer, row 3 is %+v", len(got), p.Rows[3])
	}
	if p, got := ask("only=errors"); p.Matched != 1 || !slices.Equal(got, []int{4321}) || p.Rows[0].Errors != 1 || p.Rows[0].Warnings != 1 {
		t.Errorf("with errors: %v %+v", got, p.Rows)
	}
	if _, got := ask("only=warnings"); !slices.Equal(got, []int{17, 4321}) {
		t.Errorf("with findings: %v", got)
	}
	if p, got := ask("text=TASK+6&from=700&count=3"); p.Matched != 714 || !slices.Equal(got, []int{4906, 4913, 4920}) { // k mod 7 is 6
		t.Errorf("by instruction: %d matched, %v", p.Matched, got)
	}
	if _, got := ask("text=4321"); !slices.Equal(got, []int{4321}) {
		t.Errorf("by number: %v", got)
	}
	if r := ask2(t, s, "/api/episodes?only=odd"); r != 400 {
		t.Errorf("an unknown choice: %d", r)
	}
	if r := ask2(t, s, "/api/episodes?from=-3"); r != 400 {
		t.Errorf("a negative place: %d", r)
	}
}

func ask2(t *testing.T, s *Server, path string) int { return ask(t, s, path).StatusCode }

// The check runs beside the server, which says how far it is; what it finds is shown when it is done.
func TestCheckRunsBesideTheServer(t *testing.T) {
	step, fail := make(chan struct{}), make(chan error)
	s := serve(t, testSet(t), Options{Check: func(ctx context.Context, progress func(string, int, int)) (*dataset.Report, error) {
		progress("data", 1, 2)
		step <- struct{}{}
		if err := <-fail; err != nil {
			return nil, err
		}
		return testReport(), nil
	}})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Run(ctx, l) }()
	<-step
	var p checkPage
	get := func() {
		r, err := http.Get("http://" + l.Addr().String() + "/api/check")
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		p = checkPage{}
		if err := json.NewDecoder(r.Body).Decode(&p); err != nil {
			t.Fatal(err)
		}
	}
	if get(); p.State != "running" || p.Stage != "data" || p.Done != 1 || p.Total != 2 {
		t.Errorf("while it runs: %+v", p)
	}
	fail <- nil
	for end := time.Now().Add(10 * time.Second); p.State == "running" && time.Now().Before(end); get() {
	}
	if p.State != "done" || p.Errors != 1 || p.Warnings != 2 || p.Notes != 1 || len(p.Groups) != 3 || !slices.Equal(p.Groups[1].Episodes, []int{0, 1}) || p.Groups[1].Count != 2 {
		t.Errorf("when it is done: %+v", p)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	s = serve(t, testSet(t), Options{Check: func(context.Context, func(string, int, int)) (*dataset.Report, error) {
		return nil, errors.New("no disk")
	}})
	s.check(t.Context())
	if page, _, _ := s.found.snapshot(); page.State != "failed" || page.Error != "no disk" {
		t.Errorf("a check that fails: %+v", page)
	}
}

// The server decodes single pictures for browsers that can not.
func TestPicturesOfRows(t *testing.T) {
	s := serve(t, testSet(t), Options{})
	for c, name := range []string{left, right} {
		for _, row := range []int{31, 30, 74}[c : 2+c] {
			r := ask(t, s, fmt.Sprintf("/api/episodes/0/frames/%s/%d", name, row))
			img, err := jpeg.Decode(r.Body)
			if err != nil || r.Header.Get("Content-Type") != "image/jpeg" {
				t.Fatalf("%s row %d: %d %s %v", name, row, r.StatusCode, r.Header.Get("Content-Type"), err)
			}
			g, _, _, _ := img.At(camW/2, camH/2).RGBA()
			if want := int(shade(c, row)); img.Bounds().Dx() != camW || abs(int(g>>8)-want) > 4 {
				t.Errorf("%s row %d is %v with grey %d, want %d", name, row, img.Bounds(), g>>8, want)
			}
		}
	}
}

// Many requests at a time get the answers that each gets alone.
func TestAnswersDoNotDependOnEachOther(t *testing.T) {
	s := serve(t, testSet(t), Options{Report: testReport()})
	paths := []string{"/api/set", "/api/check", "/api/episodes?text=cup", "/api/episodes?only=failed", "/api/episodes/0", "/api/episodes/1", "/api/episodes/0/columns/action",
		"/api/episodes/1/columns/action", "/api/episodes/0/videos/" + left, "/api/episodes/1/videos/" + right, "/api/episodes/0/columns/phase"}
	want := map[string]string{}
	for _, p := range paths {
		want[p] = string(body(t, ask(t, s, p)))
	}
	fresh := serve(t, testSet(t), Options{Report: testReport()})
	var wg sync.WaitGroup
	for k := range 8 {
		wg.Go(func() {
			for i := range paths {
				p := paths[(i+k)%len(paths)]
				if got := string(body(t, ask(t, fresh, p))); got != want[p] {
					t.Errorf("%s differs when asked beside others", p)
				}
			}
			fresh.found.set(testReport()) // as a check does that is done meanwhile
		})
	}
	wg.Wait()
}
