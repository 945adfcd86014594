package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/internal/testpeer"
)

// makeDataset writes a dataset of three episodes with a column wide enough that its files take several reads.
func makeDataset(t *testing.T, root string, seed uint64) {
	t.Helper()
	w, err := dataset.Create(root, dataset.Options{FPS: 10, RobotType: "test", Features: []dataset.Feature{
		{Name: "observation.state", DType: dataset.Float64, Shape: []int{60}}}})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	for e := range 3 {
		const n = 200
		col := make([]float64, 60*n)
		for i := range col {
			col[i] = rng.Float64()
		}
		if _, err := w.AddEpisode(context.Background(), dataset.Episode{Length: n, Tasks: []string{fmt.Sprint("task ", e)}, Columns: map[string]any{"observation.state": col}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// same compares the dataset files of two folders, byte by byte; only those of b count when some says so.
func same(t *testing.T, a, b string, some bool) (files int) {
	t.Helper()
	inA, err := paths(a)
	if err != nil {
		t.Fatal(err)
	}
	inB, err := paths(b)
	if err != nil {
		t.Fatal(err)
	}
	without := func(l []string) []string {
		return slices.DeleteFunc(l, func(s string) bool { return s == "README.md" })
	}
	if inA, inB = without(inA), without(inB); !some && !slices.Equal(inA, inB) {
		t.Fatalf("files %v, want %v", inB, inA)
	}
	for _, p := range inB {
		x, err := os.ReadFile(filepath.Join(a, p))
		if err != nil {
			t.Fatal(err)
		}
		if y, err := os.ReadFile(filepath.Join(b, p)); err != nil || !bytes.Equal(x, y) {
			t.Fatalf("%s differs, %v", p, err)
		}
	}
	parts, _ := filepath.Glob(b + "/*/*" + partSuffix)
	deep, _ := filepath.Glob(b + "/*/*/*" + partSuffix)
	if n := len(parts) + len(deep); n > 0 {
		t.Errorf("%d unfinished files left", n)
	}
	return len(inB)
}

// quick repeats without pauses, and counts them.
func quick(pauses *int) func(context.Context, time.Duration) error {
	return func(ctx context.Context, _ time.Duration) error { *pauses++; return ctx.Err() }
}

// roundTrip pushes, pulls, verifies and pushes again, on any remote.
func roundTrip(t *testing.T, remote string) {
	t.Helper()
	ctx, dir := t.Context(), t.TempDir()
	makeDataset(t, dir+"/a", 1)
	var steps []Progress
	rep, err := Push(ctx, dir+"/a", remote, Options{Progress: func(p Progress) { steps = append(steps, p) }})
	if err != nil || rep.Moved == 0 || rep.Kept != 0 || len(steps) != rep.Moved || steps[len(steps)-1].Bytes != steps[0].TotalBytes {
		t.Fatalf("push: %+v, %d steps, %v", rep, len(steps), err)
	}
	if rep, err = Push(ctx, dir+"/a", remote, Options{}); err != nil || rep.Moved != 0 {
		t.Fatalf("push of the same: %+v, %v", rep, err)
	}
	rep, err = Pull(ctx, remote, dir+"/b", Options{})
	if err != nil || rep.Moved < same(t, dir+"/a", dir+"/b", false) || len(rep.Unverified) > 0 {
		t.Fatalf("pull: %+v, %v", rep, err)
	}
	if rep, err = Pull(ctx, remote, dir+"/b", Options{}); err != nil || rep.Moved != 0 {
		t.Fatalf("pull of what is there: %+v, %v", rep, err)
	}
	if rep, err = Verify(ctx, remote, dir+"/b", Options{}); err != nil || len(rep.Faults) > 0 || rep.Kept == 0 {
		t.Fatalf("verify: %+v, %v", rep, err)
	}
	someEpisodes(t, remote, dir)
	damage(t, remote, dir)
	// A new version with fewer files: what the old one has beside it has to be removed, and only on demand.
	makeSmaller(t, dir+"/a", dir+"/c")
	if _, err = Push(ctx, dir+"/c", remote, Options{}); err == nil || !strings.Contains(err.Error(), "--prune") {
		t.Fatalf("push over a larger version: %v", err)
	}
	if rep, err = Push(ctx, dir+"/c", remote, Options{Prune: true}); err != nil || len(rep.Removed) == 0 {
		t.Fatalf("push with prune: %+v, %v", rep, err)
	}
	if _, err = Pull(ctx, remote, dir+"/b", Options{}); err == nil || !strings.Contains(err.Error(), "another dataset, or another version") {
		t.Fatalf("pull over another version: %v", err)
	}
	if _, err = Pull(ctx, remote, dir+"/d", Options{}); err != nil {
		t.Fatal(err)
	}
	same(t, dir+"/c", dir+"/d", false)
}

// someEpisodes pulls one episode: its rows are there, those of others are not, and the copy can be completed.
func someEpisodes(t *testing.T, remote, dir string) {
	t.Helper()
	rep, err := Pull(t.Context(), remote, dir+"/some", Options{Episodes: []int{1}})
	if err != nil {
		t.Fatal(err)
	}
	d, err := dataset.Open(dir + "/some")
	if err != nil || d.HasFiles(0) || !d.HasFiles(1) || d.HasFiles(2) {
		t.Fatalf("the copy of episode 1: %+v, %v", rep, err)
	}
	if got, err := dataset.ReadColumn[float64](d, "observation.state", 1); err != nil || len(got) != 200*60 {
		t.Fatalf("rows of episode 1: %d, %v", len(got), err)
	}
	if rep, err := Verify(t.Context(), remote, dir+"/some", Options{Episodes: []int{1}}); err != nil || len(rep.Faults) > 0 {
		t.Fatalf("verify of one episode: %+v, %v", rep, err)
	}
	if err := complete(dir + "/some"); err == nil || !strings.Contains(err.Error(), "incomplete copy") {
		t.Errorf("an incomplete copy may be pushed: %v", err)
	}
	if _, err := Pull(t.Context(), remote, dir+"/some", Options{}); err != nil {
		t.Fatal(err)
	}
	same(t, dir+"/a", dir+"/some", false)
	if _, err := Pull(t.Context(), remote, dir+"/none", Options{Episodes: []int{7}}); err == nil || !strings.Contains(err.Error(), "7") {
		t.Errorf("an episode that is not there: %v", err)
	}
	if _, err := dataset.Open(dir + "/none"); err == nil {
		t.Error("a pull that failed left a dataset")
	}
}

// damage is found by verify, and repaired by pull.
func damage(t *testing.T, remote, dir string) {
	t.Helper()
	files, err := paths(dir + "/b")
	if err != nil {
		t.Fatal(err)
	}
	data := slices.DeleteFunc(slices.Clone(files), func(p string) bool { return !inFolder(p, "data") })
	flip, cut, lose := filepath.Join(dir, "b", data[0]), filepath.Join(dir, "b", data[1]), filepath.Join(dir, "b", data[2])
	b, _ := os.ReadFile(flip)
	b[len(b)/2] ^= 1
	extra := filepath.Join(dir, "b", "data", "chunk-000", "file-999.parquet")
	for _, err := range []error{os.WriteFile(flip, b, 0o644), os.Truncate(cut, 10), os.Remove(lose), os.WriteFile(extra, b, 0o644)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	rep, err := Verify(t.Context(), remote, dir+"/b", Options{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, f := range rep.Faults {
		got[f.Path] = f.What
	}
	want := map[string]string{data[0]: "content", data[1]: "size", data[2]: "missing", "data/chunk-000/file-999.parquet": "extra"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("faults %v, want %v", got, want)
	}
	if err := os.Remove(extra); err != nil {
		t.Fatal(err)
	}
	if rep, err = Pull(t.Context(), remote, dir+"/b", Options{}); err != nil || rep.Moved != 3 {
		t.Fatalf("pull over damage: %+v, %v", rep, err)
	}
	same(t, dir+"/a", dir+"/b", false)
}

// makeSmaller extracts two episodes.
func makeSmaller(t *testing.T, from, to string) {
	t.Helper()
	if _, err := dataset.Extract(t.Context(), from, to, []int{0, 2}, dataset.ExtractOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestHubRoundTrip(t *testing.T) {
	h := newHubServer(t)
	roundTrip(t, "hf://lab/cups")
	p := h.repos["lab/cups"]
	if p.refs["v3.0"] != p.refs["main"] {
		t.Error("the tag of the format's version is not at the newest commit")
	}
	if card := string(p.commits[p.refs["main"]]["README.md"].data); !strings.Contains(card, "- LeRobot") {
		t.Errorf("card %q", card)
	}
}

// Objects in parts, failing servers and answers that break off: everything arrives, and only what was missing is sent again.
func TestHubWithTroubles(t *testing.T) {
	h := newHubServer(t)
	dir := t.TempDir()
	makeDataset(t, dir+"/a", 2)
	h.chunk, h.fail = 20_000, []int{503, 429}
	pauses := 0
	o := Options{Workers: 1, sleep: quick(&pauses)}
	if _, err := Push(t.Context(), dir+"/a", "hf://lab/cups", o); err != nil || pauses != 2 {
		t.Fatalf("%d pauses, %v", pauses, err)
	}
	h.cut, h.fail, pauses = []int{300, 1 << 30, 5000, 70}, []int{500}, 0
	rep, err := Pull(t.Context(), "hf://lab/cups", dir+"/b", o)
	if err != nil || pauses < 3 {
		t.Fatalf("%+v, %d pauses, %v", rep, pauses, err)
	}
	same(t, dir+"/a", dir+"/b", false)
	if h.sent != rep.MovedBytes {
		t.Errorf("the server sent %d bytes, the report says %d", h.sent, rep.MovedBytes)
	}
	var total int64
	for _, f := range h.repos["lab/cups"].commits[h.repos["lab/cups"].refs["main"]] {
		total += int64(len(f.data))
	}
	if h.sent > total {
		t.Errorf("%d bytes sent of %d: parts that were there came again", h.sent, total)
	}
	// Cut for good: the error says so, and the next pull goes on.
	h.sent = 0
	h.cut = slices.Repeat([]int{100}, 3*attempts)
	_, err = Pull(t.Context(), "hf://lab/cups", dir+"/c", o)
	if !errors.Is(err, errTransient) {
		t.Fatalf("a server that always breaks off: %v", err)
	}
	if _, err := dataset.Open(dir + "/c"); err == nil {
		t.Error("a part is read as a dataset")
	}
	h.cut = nil
	if _, err = Pull(t.Context(), "hf://lab/cups", dir+"/c", o); err != nil || h.sent > total {
		t.Fatalf("%d bytes sent in both runs together, %d are all, %v", h.sent, total, err)
	}
	same(t, dir+"/a", dir+"/c", false)
}

// A file whose bytes are not those that the tree promises never gets its name.
func TestWrongContentIsRefused(t *testing.T) {
	h := newHubServer(t)
	dir := t.TempDir()
	makeDataset(t, dir+"/a", 3)
	if _, err := Push(t.Context(), dir+"/a", "hf://lab/cups", Options{}); err != nil {
		t.Fatal(err)
	}
	for oid, b := range h.objects {
		h.objects[oid] = bytes.Repeat([]byte{7}, len(b))
	}
	_, err := Pull(t.Context(), "hf://lab/cups", dir+"/b", Options{})
	if err == nil || !strings.Contains(err.Error(), "another sha256 than the remote says, twice") {
		t.Errorf("wrong content: %v", err)
	}
	if files, _ := paths(dir + "/b"); slices.ContainsFunc(files, func(p string) bool { return strings.HasSuffix(p, ".parquet") }) {
		t.Errorf("wrong files have names: %v", files)
	}
}

func TestHubAccess(t *testing.T) {
	h := newHubServer(t)
	dir := t.TempDir()
	makeDataset(t, dir+"/a", 4)
	if _, err := Push(t.Context(), dir+"/a", "hf://lab/cups", Options{}); err != nil {
		t.Fatal(err)
	}
	h.gated = true
	t.Setenv("HF_TOKEN", "")
	t.Setenv("HF_TOKEN_PATH", dir+"/token")
	try := func(remote string, texts ...string) {
		t.Helper()
		_, err := Pull(t.Context(), remote, dir+"/b", Options{})
		for _, text := range texts {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %v does not say %q", remote, err, text)
			}
		}
		if err != nil && strings.Contains(err.Error(), "hf_") {
			t.Errorf("an error shows the token: %v", err)
		}
	}
	try("hf://lab/cups", "is gated", "/datasets/lab/cups", "HF_TOKEN")
	if err := os.WriteFile(dir+"/token", []byte("hf_wrong\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	try("hf://lab/cups", "the account of the token has no access")
	if err := os.WriteFile(dir+"/token", []byte(h.token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	try("hf://lab/mugs", "lab/mugs does not exist, or is private")
	try("hf://lab/cups@v9", `no revision "v9"`)
	if _, err := Pull(t.Context(), "hf://datasets/lab/cups@v3.0", dir+"/c", Options{}); err != nil {
		t.Fatal(err)
	}
	same(t, dir+"/a", dir+"/c", false)
	for _, bad := range []string{"cups", "hf://cups", "hf://a/b/c", "s3:///x", "http://x/y"} {
		try(bad, "want")
	}
}

// A commit that somebody else makes between the listing and ours is not written over.
func TestPushBesideAnother(t *testing.T) {
	h := newHubServer(t)
	dir := t.TempDir()
	makeDataset(t, dir+"/a", 5)
	if _, err := Push(t.Context(), dir+"/a", "hf://lab/cups", Options{}); err != nil {
		t.Fatal(err)
	}
	makeSmaller(t, dir+"/a", dir+"/c")
	p := h.repos["lab/cups"]
	_, err := Push(t.Context(), dir+"/c", "hf://lab/cups", Options{Prune: true, Progress: func(pr Progress) {
		if pr.Files == 1 { // while files are sent
			h.mu.Lock()
			p.commit(p.commits[p.refs["main"]])
			h.mu.Unlock()
		}
	}})
	if err == nil || !strings.Contains(err.Error(), "somebody else changed lab/cups meanwhile") {
		t.Errorf("push beside another: %v", err)
	}
}

// The Hub's own client reads what we pushed, and we read what it pushed.
func TestHubAgainstItsOwnClient(t *testing.T) {
	python := testpeer.Python(t, "huggingface_hub")
	h := newHubServer(t)
	dir := t.TempDir()
	makeDataset(t, dir+"/a", 6)
	if _, err := Push(t.Context(), dir+"/a", "hf://lab/ours", Options{}); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, "testdata/hub_client.py", dir+"/a", dir+"/theirs")
	cmd.Env = append(os.Environ(), "HF_ENDPOINT="+h.url, "HF_TOKEN="+h.token, "HF_HOME="+dir+"/hf", "HF_HUB_DISABLE_XET=1", "HF_HUB_DISABLE_PROGRESS_BARS=1",
		"HF_HUB_DISABLE_TELEMETRY=1", "NO_PROXY=127.0.0.1,localhost", "no_proxy=127.0.0.1,localhost")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	same(t, dir+"/a", dir+"/theirs", false)
	if _, err := Pull(t.Context(), "hf://lab/theirs", dir+"/back", Options{}); err != nil {
		t.Fatal(err)
	}
	same(t, dir+"/a", dir+"/back", false)
	if rep, err := Push(t.Context(), dir+"/a", "hf://lab/theirs", Options{}); err != nil || rep.Moved != 0 {
		t.Errorf("what the client sent has other hashes: %+v, %v", rep, err)
	}
}

// An S3 server program: the whole round, and a bucket without our manifest.
func TestS3RoundTrip(t *testing.T) {
	s3Server(t)
	roundTrip(t, "s3://lab/sets/cups")
	dir := t.TempDir()
	makeDataset(t, dir+"/a", 7)
	if _, err := Push(t.Context(), dir+"/a", "s3://lab/other", Options{}); err != nil {
		t.Fatal(err)
	}
	b, err := openBucket("s3://lab/other", Options{}.fill())
	if err != nil {
		t.Fatal(err)
	}
	if err := b.client.RemoveObject(t.Context(), "lab", "other/"+manifestFile, removeOptions); err != nil {
		t.Fatal(err)
	}
	rep, err := Pull(t.Context(), "s3://lab/other", dir+"/b", Options{}) // by the MD5 of the ETags
	if err != nil || len(rep.Unverified) > 0 {
		t.Fatalf("%+v, %v", rep, err)
	}
	same(t, dir+"/a", dir+"/b", false)
	for remote, text := range map[string]string{"s3://nobody/x": "bucket nobody does not exist", "s3://lab/empty": "no dataset there"} {
		if _, err := Pull(t.Context(), remote, dir+"/c", Options{}); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", remote, err)
		}
	}
}

// Killed in the middle of a pull, again and again: no part is taken for a dataset, and it ends with the right bytes.
func TestInterruptedPulls(t *testing.T) {
	newHubServer(t)
	dir := t.TempDir()
	makeDataset(t, dir+"/a", 8)
	if _, err := Push(t.Context(), dir+"/a", "hf://lab/cups", Options{}); err != nil {
		t.Fatal(err)
	}
	for n := 1; ; n++ {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := Pull(ctx, "hf://lab/cups", dir+"/b", Options{Workers: 1, Progress: func(p Progress) {
			if p.Files == n {
				cancel()
			}
		}})
		cancel()
		if _, oerr := dataset.Open(dir + "/b"); (oerr == nil) != (err == nil) {
			t.Fatalf("interrupted after %d files (%v), but opening says %v", n, err, oerr)
		}
		if err == nil {
			break
		}
		if n > 100 {
			t.Fatal("it never ends")
		}
	}
	same(t, dir+"/a", dir+"/b", false)
}

func TestPushRefusesWhatIsNotWhole(t *testing.T) {
	newHubServer(t)
	dir := t.TempDir()
	if _, err := Push(t.Context(), dir, "hf://lab/cups", Options{}); err == nil {
		t.Error("an empty folder is pushed")
	}
	makeDataset(t, dir+"/a", 9)
	w, err := dataset.OpenWriter(dir+"/a", dataset.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir+"/a/.pinch/stage", 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Push(t.Context(), dir+"/a", "hf://lab/cups", Options{}); err == nil || !strings.Contains(err.Error(), "open for writing") {
		t.Errorf("a dataset that is being written: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestNamesThatLeaveTheFolder(t *testing.T) {
	for _, p := range []string{"../x", "data/../../x", "/etc/passwd", `data\x`, "data//x", "./x"} {
		if safePath(p) == nil {
			t.Errorf("%q is taken", p)
		}
	}
	if err := safePath("videos/observation.image.left/chunk-000/file-000.mp4"); err != nil {
		t.Error(err)
	}
}

// Published values: git hash-object of "hello\n", and the MD5 and SHA-256 of an empty file.
func TestHashes(t *testing.T) {
	dir := t.TempDir()
	for _, tc := range []struct{ content, kind, want string }{
		{"hello\n", GitBlob, "ce013625030ba8dba906f756967f9e9ca394464a"},
		{"", GitBlob, "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"},
		{"", MD5, "d41d8cd98f00b204e9800998ecf8427e"},
		{"", SHA256, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
	} {
		if err := os.WriteFile(dir+"/f", []byte(tc.content), 0o644); err != nil {
			t.Fatal(err)
		}
		if h, err := hashFile(t.Context(), dir+"/f", tc.kind); err != nil || h.Hex != tc.want {
			t.Errorf("%s of %q: %v, %v", tc.kind, tc.content, h, err)
		}
	}
	for etag, want := range map[string]Hash{`"D41D8CD98F00B204E9800998ECF8427E"`: {MD5, "d41d8cd98f00b204e9800998ecf8427e"}, `"d41d8cd98f00b204e9800998ecf8427e-3"`: {}} {
		if got := etagHash(etag); got != want {
			t.Errorf("%s is %v", etag, got)
		}
	}
}
