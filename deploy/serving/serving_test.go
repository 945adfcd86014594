package serving

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pinch-robotics/pinch/deploy"
	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/imaging"
)

// fake is a policy whose behaviour a test changes.
type fake struct {
	checkpoint string
	rateHz     float64
	calls      atomic.Int64
	resets     atomic.Int64

	mu   sync.Mutex
	mode string // "", "error", "short", "hang", "slow"
}

func (f *fake) set(mode string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mode = mode
}

func (f *fake) Metadata() map[string]any {
	return deploy.Contract{RateHz: f.rateHz, Horizon: 16, PoseReference: deploy.ReferenceBody, PoseTiming: deploy.TimingNext, Checkpoint: f.checkpoint,
		Prompts: []string{"fold"}}.Map()
}

func (f *fake) Reset() { f.resets.Add(1) }

func (f *fake) Infer(ctx context.Context, _ deploy.Observation) (deploy.Chunk, error) {
	f.calls.Add(1)
	f.mu.Lock()
	mode := f.mode
	f.mu.Unlock()
	rows := 16
	switch mode {
	case "error":
		return deploy.Chunk{}, errors.New("out of memory")
	case "short":
		rows = 3
	case "hang":
		<-ctx.Done()
		return deploy.Chunk{}, ctx.Err()
	case "slow":
		time.Sleep(60 * time.Millisecond)
	}
	c := deploy.Chunk{Rows: rows, Cols: deploy.ActionColumns, Data: make([]float32, rows*deploy.ActionColumns)}
	for r := 0; r < rows; r++ {
		c.Data[r*deploy.ActionColumns+6], c.Data[r*deploy.ActionColumns+13] = 1, 1
	}
	return c, nil
}

// stock hands out fakes by checkpoint name.
type stock map[string]*fake

func (s stock) load(_ context.Context, m Member) (deploy.Policy, error) {
	f := s[m.Checkpoint]
	if f == nil {
		return nil, fmt.Errorf("no such folder")
	}
	return f, nil
}

func newStock(names ...string) stock {
	s := stock{}
	for _, n := range names {
		s[n] = &fake{checkpoint: "hash-" + n, rateHz: 30}
	}
	return s
}

func pool(names ...string) (m []Member) {
	for _, n := range names {
		m = append(m, Member{Checkpoint: n})
	}
	return m
}

// logBuffer collects log lines.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// started is a server of aliases.
type started struct {
	*Registry
	url string
	log *logBuffer
}

func start(t *testing.T, c Config, load Loader, path string) *started {
	t.Helper()
	s := &started{log: &logBuffer{}}
	ctx, cancel := context.WithCancel(context.Background())
	r, err := New(ctx, c, Options{Load: load, Logger: slog.New(slog.NewTextHandler(s.log, nil)), Probe: 20 * time.Millisecond, Watch: 5 * time.Millisecond})
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	s.Registry = r
	ready, done := make(chan net.Addr, 1), make(chan error, 1)
	go func() {
		done <- deploy.ServeRouter(ctx, r, deploy.ServeOptions{Addr: "127.0.0.1:0", MaxClients: 200, Pages: map[string]http.HandlerFunc{"/aliases": r.ServeHTTP},
			Ready: func(a net.Addr) { ready <- a }})
	}()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		r.Run(ctx, path)
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
		<-watched
	})
	s.url = "ws://" + (<-ready).String()
	return s
}

func observation(t testing.TB) deploy.Observation {
	t.Helper()
	pose, err := frames.PoseFromXYZXYZW([7]float64{0.2, 0, 0.2, 0, 0, 0, 1})
	if err != nil {
		t.Fatal(err)
	}
	return deploy.Observation{Left: imaging.NewRGB(64, 48), Right: imaging.NewRGB(64, 48), LeftFromRight: pose, Prompt: "fold"}
}

func (s *started) dial(t *testing.T, alias string) *deploy.Client {
	t.Helper()
	c, err := deploy.Dial(context.Background(), s.url+"/"+alias, deploy.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func ask(t *testing.T, c *deploy.Client) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	chunk, err := c.Infer(ctx, observation(t))
	if err != nil {
		t.Fatal(err)
	}
	return chunk.Checkpoint
}

// Each way to fail sends a running connection to the next member, for good; the failed one is probed and then serves new connections again.
func TestFallBackInOrder(t *testing.T) {
	for _, mode := range []string{"error", "short", "hang"} {
		t.Run(mode, func(t *testing.T) {
			st := newStock("a", "b", "c")
			s := start(t, Config{Aliases: map[string]Alias{"fold": {TimeoutMS: 300, Pool: pool("missing", "a", "b", "c")}}}, st.load, "")
			c := s.dial(t, "fold")
			if got := ask(t, c); got != "hash-a" {
				t.Fatalf("first answer from %s", got)
			}
			st["b"].set("error")
			st["a"].set(mode)
			if got := ask(t, c); got != "hash-c" {
				t.Errorf("after a and b failed the answer is from %s, want hash-c", got)
			}
			st["a"].set("")
			st["b"].set("")
			waitFor(t, func() bool { return s.Status()["fold"][1].Healthy })
			if got := ask(t, c); got != "hash-c" {
				t.Errorf("a running connection moved to %s", got)
			}
			c.Reset()
			if got := ask(t, c); got != "hash-a" {
				t.Errorf("after its reset the connection is on %s, want hash-a", got)
			}
			if st["a"].resets.Load() == 0 {
				t.Error("the policy was not reset")
			}
			if log := s.log.String(); !strings.Contains(log, "goes on with another member") || !strings.Contains(log, "missing") {
				t.Errorf("log: %s", log)
			}
		})
	}
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("does not happen")
		}
	}
}

// When nothing in the pool works the client is told why, and the server goes on.
func TestWholePoolFails(t *testing.T) {
	st := newStock("a", "b")
	s := start(t, Config{Aliases: map[string]Alias{"default": {Pool: pool("a", "b")}}}, st.load, "")
	c := s.dial(t, "")
	ask(t, c)
	st["a"].set("error")
	st["b"].set("short")
	_, err := c.Infer(context.Background(), observation(t))
	if !errors.Is(err, deploy.ErrServer) || !strings.Contains(err.Error(), "columns") && !strings.Contains(err.Error(), "rows") {
		t.Errorf("error %v", err)
	}
	st["a"].set("")
	waitFor(t, func() bool { return s.Status()["default"][0].Healthy })
	c.Reset()
	if got := ask(t, c); got != "hash-a" {
		t.Errorf("after recovery: %s", got)
	}
}

// The fastest healthy member is taken for new connections.
func TestChooseFastest(t *testing.T) {
	st := newStock("slow", "quick")
	st["slow"].set("slow")
	s := start(t, Config{Aliases: map[string]Alias{"default": {Choose: ChooseFastest, Pool: pool("slow", "quick")}}}, st.load, "")
	if got := ask(t, s.dial(t, "")); got != "hash-quick" {
		t.Errorf("the answer is from %s (%+v)", got, s.Status())
	}
	st["quick"].set("error")
	if got := ask(t, s.dial(t, "")); got != "hash-slow" {
		t.Errorf("with the fastest one broken the answer is from %s", got)
	}
}

// Policies elsewhere are members too, each connection with its own.
func TestRemoteMembers(t *testing.T) {
	far := newStock("far")
	remote := start(t, Config{Aliases: map[string]Alias{"x": {Pool: pool("far")}}}, far.load, "")
	st := newStock("near")
	load := func(ctx context.Context, m Member) (deploy.Policy, error) {
		if m.Remote != "" {
			return deploy.Dial(ctx, m.Remote, deploy.ClientOptions{Override: m.Contract})
		}
		return st.load(ctx, m)
	}
	s := start(t, Config{Aliases: map[string]Alias{"default": {TimeoutMS: 5000, Pool: []Member{{Remote: "ws://127.0.0.1:1"}, {Remote: remote.url + "/x"}, {Checkpoint: "near"}}}}}, load, "")
	c := s.dial(t, "")
	if got := ask(t, c); got != "hash-far" {
		t.Errorf("answer from %s", got)
	}
	far["far"].set("error")
	if got := ask(t, c); got != "hash-near" {
		t.Errorf("with the remote policy broken the answer is from %s", got)
	}
}

// Switching is atomic for clients that come and go all the time: each connection sees one checkpoint only, nobody sees an error, and no client
// is started anew.
func TestSwitchUnderLoad(t *testing.T) {
	st := newStock("v1", "v2")
	path := filepath.Join(t.TempDir(), "aliases.yaml")
	write := func(text string) {
		tmp := path + ".new"
		if err := os.WriteFile(tmp, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(tmp, path); err != nil {
			t.Fatal(err)
		}
	}
	yaml := func(v string) string { return "aliases:\n  default:\n    pool:\n      - checkpoint: " + v + "\n" }
	write(yaml("v1"))
	c, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, c, st.load, path)
	stay := s.dial(t, "")
	ask(t, stay)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	seen := [2]atomic.Int64{}
	for i := 0; i < 4; i++ {
		wg.Add(1)
		client := s.dial(t, "")
		go func() {
			defer wg.Done()
			for {
				select {
				case <-stop:
					return
				default:
				}
				client.Reset()
				first := ""
				for k := 0; k < 3; k++ {
					ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
					chunk, err := client.Infer(ctx, observation(t))
					cancel()
					if err != nil {
						t.Error(err)
						return
					}
					if first == "" {
						first = chunk.Checkpoint
					}
					if chunk.Checkpoint != first || chunk.Checkpoint != client.Metadata()["checkpoint"] {
						t.Errorf("one connection saw %s, then %s (metadata %v)", first, chunk.Checkpoint, client.Metadata()["checkpoint"])
					}
				}
				seen[map[string]int{"hash-v1": 0, "hash-v2": 1}[first]].Add(1)
			}
		}()
	}
	for i := 0; i < 6; i++ {
		v := []string{"v2", "v1"}[i%2]
		before := seen[1-i%2].Load()
		write(yaml(v))
		waitFor(t, func() bool { return s.Status()["default"][0].Checkpoint == "hash-"+v })
		waitFor(t, func() bool { return seen[1-i%2].Load() > before })
	}
	close(stop)
	wg.Wait()
	if got := ask(t, stay); got != "hash-v1" {
		t.Errorf("the connection that stayed is on %s", got)
	}
	if n := strings.Count(s.log.String(), "alias switched"); n < 7 {
		t.Errorf("%d switches in the log, want 7", n)
	}

	t.Run("a file with a fault changes nothing", func(t *testing.T) {
		write("aliases:\n  default:\n    pol: []\n")
		waitFor(t, func() bool { return strings.Contains(s.log.String(), "changed file of aliases is not used") })
		write(yaml("nowhere"))
		waitFor(t, func() bool { return strings.Contains(s.log.String(), "no such folder") })
		if got := ask(t, s.dial(t, "")); got != "hash-v1" {
			t.Errorf("answer from %s", got)
		}
	})
}

// A member whose answers would mean other motion is never mixed in; unknown names are told with the known ones.
func TestRefusals(t *testing.T) {
	st := newStock("a", "b")
	st["b"].rateHz = 10
	s := start(t, Config{Aliases: map[string]Alias{"fold": {Pool: pool("a", "b")}}}, st.load, "")
	if b := s.Status()["fold"][1]; b.Healthy || !strings.Contains(b.Fault, "10 Hz") {
		t.Errorf("a member of another rate: %+v", b)
	}
	_, err := deploy.Dial(context.Background(), s.url+"/pour", deploy.ClientOptions{})
	if err == nil {
		t.Error("an unknown alias is served")
	}
	resp, err := http.Get("http" + strings.TrimPrefix(s.url, "ws") + "/pour")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var b bytes.Buffer
	_, _ = b.ReadFrom(resp.Body)
	if resp.StatusCode != http.StatusNotFound || !strings.Contains(b.String(), `"pour"`) || !strings.Contains(b.String(), "fold") {
		t.Errorf("unknown alias: %d %s", resp.StatusCode, b.String())
	}
	if _, err := New(context.Background(), Config{Aliases: map[string]Alias{"x": {Pool: pool("missing")}}}, Options{Load: st.load}); err == nil || !strings.Contains(err.Error(), "no such folder") {
		t.Errorf("a pool without a member: %v", err)
	}
	for key, c := range map[string]Config{
		"there is none": {}, `"a/b"`: {Aliases: map[string]Alias{"a/b": {Pool: pool("a")}}}, "choose": {Aliases: map[string]Alias{"a": {Choose: "best", Pool: pool("a")}}},
		"timeout_ms": {Aliases: map[string]Alias{"a": {TimeoutMS: -1, Pool: pool("a")}}}, "it is empty": {Aliases: map[string]Alias{"a": {}}},
		"one of checkpoint and remote": {Aliases: map[string]Alias{"a": {Pool: []Member{{}}}}}, "want ws://": {Aliases: map[string]Alias{"a": {Pool: []Member{{Remote: "http://x"}}}}},
	} {
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", key, err)
		}
	}
}
