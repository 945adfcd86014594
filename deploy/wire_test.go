package deploy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/imaging"
	"github.com/pinch-robotics/pinch/internal/testpeer"
	"github.com/pinch-robotics/pinch/internal/wire/npmsgpack"
)

// echo answers with numbers that prove what arrived: row 0 holds the relative pose, fingers, a pixel of each image.
type echo struct {
	mu      sync.Mutex
	prompts []string
	resets  int
	delay   time.Duration
}

func (e *echo) Metadata() map[string]any {
	return Contract{RateHz: 30, Horizon: 16, PoseReference: ReferenceBody, PoseTiming: TimingNext, Checkpoint: "abc", Prompts: []string{"pick"}}.Map()
}

func (e *echo) Reset() { e.mu.Lock(); e.resets++; e.mu.Unlock() }

func (e *echo) Infer(ctx context.Context, o Observation) (Chunk, error) {
	if strings.Contains(o.Prompt, "fail") {
		return Chunk{}, errors.New("the network is upset")
	}
	select {
	case <-time.After(e.delay):
	case <-ctx.Done():
		return Chunk{}, ctx.Err()
	}
	e.mu.Lock()
	e.prompts = append(e.prompts, o.Prompt)
	e.mu.Unlock()
	c, _ := Hold{RateHz: 30}.Infer(ctx, o)
	p := o.LeftFromRight.ArrayXYZXYZW()
	for i, v := range p {
		c.Data[i] = float32(v)
	}
	r, _, _ := o.Left.At(3, 2)
	_, g, _ := o.Right.At(5, 1)
	c.Data[16], c.Data[17] = float32(r), float32(g)
	return c, nil
}

// startServer runs Serve on a free port until the test ends.
func startServer(t *testing.T, p Policy, o ServeOptions) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready := make(chan net.Addr, 1)
	o.Addr, o.Ready = "127.0.0.1:0", func(a net.Addr) { ready <- a }
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, p, o) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	select {
	case a := <-ready:
		return a.String()
	case err := <-done:
		done <- err
		t.Fatalf("serve: %v", err)
		return ""
	}
}

func testObservation(prompt string) Observation {
	o := Observation{Left: imaging.NewRGB(640, 480), Right: imaging.NewRGB(640, 480), FingerRad: [2]float64{0.25, 0.5}, Prompt: prompt}
	o.LeftFromRight, _ = frames.PoseFromXYZXYZW([7]float64{0.23, -0.05, 0.27, -0.58, -0.09, 0.72, 0.34})
	o.Left.Pix[(2*640+3)*3] = 77
	o.Right.Pix[(1*640+5)*3+1] = 99
	return o
}

func checkEcho(t *testing.T, c Chunk) {
	t.Helper()
	want := testObservation("").LeftFromRight.ArrayXYZXYZW()
	for i, v := range want {
		if math.Abs(float64(c.Data[i])-v) > 1e-6 {
			t.Errorf("pose element %d arrived as %v, want %v", i, c.Data[i], v)
		}
	}
	if c.Data[16] != 77 || c.Data[17] != 99 {
		t.Errorf("pixels arrived as %v and %v, want 77 and 99", c.Data[16], c.Data[17])
	}
	if c.At(15, 14) != 0.25 || c.At(15, 15) != 0.5 {
		t.Errorf("fingers arrived as %v and %v", c.At(15, 14), c.At(15, 15))
	}
}

func TestClientAndServer(t *testing.T) {
	pol := &echo{}
	addr := startServer(t, pol, ServeOptions{})
	if len(pol.prompts) != 1 || pol.prompts[0] != "pick" {
		t.Errorf("warm-up calls before listening: %v, want one with the first trained prompt", pol.prompts)
	}
	ctx := context.Background()
	c, err := Dial(ctx, "ws://"+addr, ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	contract, err := ReadContract(c.Metadata(), nil)
	if err != nil || contract.Checkpoint != "abc" || contract.RateHz != 30 || len(contract.Prompts) != 1 {
		t.Errorf("contract %+v, %v", contract, err)
	}
	for i := 0; i < 3; i++ {
		chunk, err := c.Infer(ctx, testObservation(fmt.Sprint("prompt ", i)))
		if err != nil {
			t.Fatal(err)
		}
		checkEcho(t, chunk)
	}
	// An error of the policy reaches the caller with its text; the next call connects anew and works.
	if _, err := c.Infer(ctx, testObservation("fail")); !errors.Is(err, ErrServer) || !strings.Contains(err.Error(), "the network is upset") {
		t.Errorf("error %v", err)
	}
	before := pol.resets
	c.Reset()
	if _, err := c.Infer(ctx, testObservation("again")); err != nil {
		t.Error(err)
	}
	if pol.resets != before+1 {
		t.Errorf("policy was reset %d times by Client.Reset, want once", pol.resets-before)
	}
}

// The real client of openpi: metadata first, prompt change, timing of the answer before, error text, reconnect, API key.
func TestWithOpenpiClient(t *testing.T) {
	python := testpeer.Python(t, "openpi_client", "numpy", "websockets")
	pol := &echo{delay: 5 * time.Millisecond}
	addr := startServer(t, pol, ServeOptions{APIKey: "secret"})
	host, port, _ := net.SplitHostPort(addr)
	script := `
import sys, numpy as np
from openpi_client import websocket_client_policy as w
host, port = sys.argv[1], int(sys.argv[2])
def obs(prompt):
    l = np.zeros((480, 640, 3), np.uint8); r = l.copy()
    l[2, 3, 0] = 77; r[1, 5, 1] = 99
    return {"observation.image.left": l, "observation.image.right": r,
        "observation.pose.left_hand_root_to_right_hand_root.absolute": np.array([0.23, -0.05, 0.27, -0.58, -0.09, 0.72, 0.34], np.float32),
        "observation.joint_states": np.array([0.25, 0.5], np.float32), "prompt": prompt}
c = w.WebsocketClientPolicy(host, port, api_key="secret")
m = c.get_server_metadata()
assert m["action_dim"] == 16 and m["pose_reference"] == "body" and m["pose_timing"] == "next" and m["rate_hz"] == 30 and m["horizon"] == 16, m
for i in range(5):
    a = c.infer(obs("one" if i < 3 else "two"))
    x = a["actions"]
    assert x.shape == (16, 16) and x.dtype == np.float32 and np.isfinite(x).all()
    n = np.array([0.23, -0.05, 0.27, -0.58, -0.09, 0.72, 0.34]); n[3:] /= np.linalg.norm(n[3:])
    assert np.allclose(x[0, :7], n, atol=1e-5), x[0]
    assert x[1, 0] == 77 and x[1, 1] == 99 and x[9, 14] == 0.25 and x[9, 15] == 0.5
    assert a["server_timing"]["infer_ms"] >= 5
    assert ("prev_total_ms" in a["server_timing"]) == (i > 0)
bad = obs("x"); del bad["observation.joint_states"]
try:
    c.infer(bad); raise SystemExit("no error for a missing key")
except RuntimeError as e:
    assert "observation.joint_states" in str(e), e
import websockets
try:
    c.infer(obs("after")); raise SystemExit("connection stays open after an error")
except websockets.exceptions.ConnectionClosedError as e:
    assert e.rcvd.code == 1011, e
again = w.WebsocketClientPolicy(host, port, api_key="secret")
assert again.get_server_metadata()["action_dim"] == 16
again.infer(obs("three"))
try:
    w.WebsocketClientPolicy(host, port, api_key="wrong"); raise SystemExit("a wrong key was taken")
except websockets.exceptions.InvalidStatus as e:
    assert e.response.status_code == 401, e
print("ok")
`
	out, err := exec.Command(python, "-c", script, host, port).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "ok") {
		t.Fatalf("openpi client: %v\n%s", err, out)
	}
	if got := strings.Join(pol.prompts[1:], ","); got != "one,one,one,two,two,three" {
		t.Errorf("prompts %s", got)
	}
}

func TestHealthAndUnauthorised(t *testing.T) {
	addr := startServer(t, &echo{}, ServeOptions{APIKey: "k"})
	resp, err := http.Get("http://" + addr + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if resp.StatusCode != 200 || string(body) != "OK\n" {
		t.Errorf("healthz: %d %q", resp.StatusCode, body)
	}
	if _, err := Dial(context.Background(), "ws://"+addr, ClientOptions{APIKey: "other"}); err == nil || !strings.Contains(err.Error(), "API key") {
		t.Errorf("wrong key: %v", err)
	}
}

// An address without a server gives one sentence with the fix.
func TestDialFaults(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free := "ws://" + l.Addr().String()
	l.Close()
	for addr, want := range map[string]string{
		free:             "connect to policy server " + free + ": nothing listens there, start it with `pinch serve`",
		"127.0.0.1:8000": "want ws://HOST:PORT", "foo": "want ws://HOST:PORT", "ftp://foo": "want ws://HOST:PORT", "ws:8000": "want ws://HOST:PORT", "": "want ws://HOST:PORT",
	} {
		if _, err := Dial(context.Background(), addr, ClientOptions{}); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "handshake") {
			t.Errorf("%q: %v", addr, err)
		}
	}
}

// A server that goes away, or stays silent, is said to have done so.
func TestServerThatGoesAway(t *testing.T) {
	meta, err := npmsgpack.Encode((&echo{}).Metadata())
	if err != nil {
		t.Fatal(err)
	}
	for want, serve := range map[string]func(r *http.Request, c *websocket.Conn){
		"ended the connection": func(r *http.Request, c *websocket.Conn) {
			_, _, _ = c.Read(r.Context())
			_ = c.CloseNow()
		},
		"no answer in time": func(r *http.Request, c *websocket.Conn) { <-r.Context().Done() },
	} {
		hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c, err := websocket.Accept(w, r, nil)
			if err != nil {
				return
			}
			c.SetReadLimit(1 << 24)
			_ = c.Write(r.Context(), websocket.MessageBinary, meta)
			serve(r, c)
		}))
		url := "ws" + strings.TrimPrefix(hs.URL, "http")
		c, err := Dial(context.Background(), url, ClientOptions{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
		if _, err := c.Infer(ctx, testObservation("x")); err == nil || !strings.Contains(err.Error(), url+": ") || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		cancel()
		c.Close()
		hs.CloseClientConnections()
		hs.Close()
	}
}

func TestPortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	pol := &echo{}
	err = Serve(context.Background(), pol, ServeOptions{Addr: l.Addr().String()})
	if err == nil || !strings.Contains(err.Error(), "another program uses this port") || !strings.Contains(err.Error(), l.Addr().String()) {
		t.Errorf("error %v", err)
	}
	if len(pol.prompts) != 0 {
		t.Error("the policy was warmed up although the port was taken")
	}
}

// Pings are answered while the policy infers, so clients with a keepalive do not hang up.
func TestPingsDuringInference(t *testing.T) {
	addr := startServer(t, &echo{delay: 400 * time.Millisecond}, ServeOptions{})
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, "ws://"+addr, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	conn.SetReadLimit(1 << 24)
	if _, _, err := conn.Read(ctx); err != nil {
		t.Fatal(err)
	}
	data, err := encodeObservation(testObservation("slow"))
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Write(ctx, websocket.MessageBinary, data); err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	go func() {
		_, _, err := conn.Read(ctx)
		answered <- err
	}()
	if err := conn.Ping(ctx); err != nil {
		t.Fatalf("ping: %v", err)
	}
	select {
	case <-answered:
		t.Fatal("the answer came before the ping: the test does not test")
	default:
	}
	if err := <-answered; err != nil {
		t.Fatal(err)
	}
}

// Several clients at once get their own answers; one too many is told so; an oversized request closes only its own connection.
func TestSeveralClientsAndLimits(t *testing.T) {
	addr := startServer(t, &echo{}, ServeOptions{MaxClients: 4, MaxBytes: 3 << 20})
	ctx := context.Background()
	var clients []*Client
	for i := 0; i < 4; i++ {
		c, err := Dial(ctx, "ws://"+addr, ClientOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		clients = append(clients, c)
	}
	if _, err := Dial(ctx, "ws://"+addr, ClientOptions{}); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("fifth client: %v", err)
	}
	var wg sync.WaitGroup
	for i, c := range clients {
		wg.Add(1)
		go func() {
			defer wg.Done()
			o := testObservation("x")
			o.FingerRad[0] = 0.1 * float64(i)
			for range 5 {
				chunk, err := c.Infer(ctx, o)
				if err != nil {
					t.Error(err)
				} else if chunk.At(3, 14) != float32(o.FingerRad[0]) {
					t.Errorf("client %d got the answer of another: %v", i, chunk.At(3, 14))
				}
			}
		}()
	}
	wg.Wait()
	big := testObservation("big")
	big.Left = imaging.NewRGB(1920, 1080)
	if _, err := clients[0].Infer(ctx, big); err == nil {
		t.Error("a request above the limit was answered")
	}
	if _, err := clients[1].Infer(ctx, testObservation("x")); err != nil {
		t.Errorf("another client after an oversized request: %v", err)
	}
}

// Broken adapters, as the arena's checker has them: each is refused with the reason, by the client and by our own server.
func TestBrokenAdapters(t *testing.T) {
	row := func(rows, cols int, edit func([]float32)) npmsgpack.Array {
		v := make([]float32, rows*cols)
		for r := 0; r < rows; r++ {
			for _, c := range []int{6, 13} {
				if c < cols {
					v[r*cols+c] = 1
				}
			}
		}
		if edit != nil {
			edit(v)
		}
		return npmsgpack.Float32(v, rows, cols)
	}
	for name, tc := range map[string]struct {
		answer any
		want   string
	}{
		"15 columns":       {map[string]any{"actions": row(16, 15, nil)}, "15 columns"},
		"8 rows":           {map[string]any{"actions": row(8, 16, nil)}, "8 rows"},
		"NaN":              {map[string]any{"actions": row(16, 16, func(v []float32) { v[40] = float32(math.NaN()) })}, "row 2 column 8"},
		"infinite":         {map[string]any{"actions": row(16, 16, func(v []float32) { v[40] = float32(math.Inf(-1)) })}, "row 2 column 8"},
		"zero quaternion":  {map[string]any{"actions": row(16, 16, func(v []float32) { v[6] = 0 })}, "quaternion of the left hand"},
		"one dimension":    {map[string]any{"actions": npmsgpack.Float32(make([]float32, 256), 256)}, "[256]"},
		"integers":         {map[string]any{"actions": npmsgpack.Uint8(make([]byte, 256), 16, 16)}, "|u1"},
		"no actions":       {map[string]any{"action": 1}, "missing"},
		"not a map":        {[]any{1}, "want a map"},
		"needs the centre": {"Traceback (most recent call last):\n  File \"x.py\", line 3\nKeyError: 'observation.image.center'\n", "error: KeyError: 'observation.image.center'"},
	} {
		t.Run(name, func(t *testing.T) {
			hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				conn, err := websocket.Accept(w, r, nil)
				if err != nil {
					return
				}
				defer conn.CloseNow()
				conn.SetReadLimit(1 << 24)
				meta, _ := npmsgpack.Encode((&echo{}).Metadata())
				_ = conn.Write(r.Context(), websocket.MessageBinary, meta)
				if _, _, err := conn.Read(r.Context()); err != nil {
					return
				}
				if s, ok := tc.answer.(string); ok {
					_ = conn.Write(r.Context(), websocket.MessageText, []byte(s))
					_ = conn.Close(websocket.StatusInternalError, "")
					return
				}
				data, err := npmsgpack.Encode(tc.answer)
				if err != nil {
					t.Error(err)
				}
				_ = conn.Write(r.Context(), websocket.MessageBinary, data)
				_, _, _ = conn.Read(r.Context())
			}))
			defer hs.Close()
			c, err := Dial(context.Background(), "ws"+strings.TrimPrefix(hs.URL, "http"), ClientOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_, err = c.Infer(context.Background(), testObservation("x"))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
			if isText := name == "needs the centre"; errors.Is(err, ErrServer) != isText || errors.Is(err, ErrBadChunk) == isText {
				t.Errorf("error %v is of the wrong class", err)
			}
		})
	}
}

// float64 actions are cast, as the arena does.
func TestFloat64ActionsAreCast(t *testing.T) {
	c, err := Hold{RateHz: 10}.Infer(context.Background(), testObservation(""))
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 0, 8*len(c.Data))
	for _, v := range c.Data {
		bits := math.Float64bits(float64(v))
		for i := 0; i < 8; i++ {
			b = append(b, byte(bits>>(8*i)))
		}
	}
	data, err := npmsgpack.Encode(map[string]any{"actions": npmsgpack.Array{DType: "<f8", Shape: []int{16, 16}, Data: b}})
	if err != nil {
		t.Fatal(err)
	}
	got, _, err := decodeAnswer(data)
	if err != nil || got.At(4, 6) != 1 || got.At(4, 14) != 0.25 {
		t.Errorf("%v, %v", got, err)
	}
}

// A server that states only action_dim (the arena's runner) is refused until the cell file supplies the rest; what it states wins.
func TestIncompleteMetadata(t *testing.T) {
	runner := map[string]any{"server": "umi-arena-runner-proto", "action_dim": int64(16)}
	for _, key := range []string{"rate_hz", "pose_reference", "pose_timing"} {
		full := map[string]any{"rate_hz": 30.0, "pose_reference": "body", "pose_timing": "next"}
		delete(full, key)
		if _, err := ReadContract(runner, full); !errors.Is(err, ErrBadMetadata) || !strings.Contains(err.Error(), key) {
			t.Errorf("without %s: %v", key, err)
		}
	}
	full := map[string]any{"rate_hz": math.NaN(), "pose_reference": "body", "pose_timing": "next"}
	if _, err := ReadContract(runner, full); !errors.Is(err, ErrBadMetadata) {
		t.Errorf("rate NaN: %v", err)
	}
	c, err := ReadContract(runner, map[string]any{"rate_hz": 30, "pose_reference": "body", "pose_timing": "previous"})
	if err != nil || c.PoseTiming != TimingPrevious {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := ReadContract(map[string]any{"action_dim": 15}, nil); !errors.Is(err, ErrBadMetadata) {
		t.Errorf("15 columns: %v", err)
	}
}
