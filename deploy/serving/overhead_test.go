package serving

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/pinch-robotics/pinch/internal/testpeer"
	"github.com/pinch-robotics/pinch/internal/wire/npmsgpack"
)

// request is a full observation: two images of 480 x 640.
func request(t testing.TB) []byte {
	t.Helper()
	left, right := make([]byte, 480*640*3), make([]byte, 480*640*3)
	for i := range left {
		left[i], right[i] = byte(i*31), byte(i*17+3)
	}
	b, err := npmsgpack.Encode(map[string]any{
		"observation.image.left": npmsgpack.Uint8(left, 480, 640, 3), "observation.image.right": npmsgpack.Uint8(right, 480, 640, 3),
		"observation.pose.left_hand_root_to_right_hand_root.absolute": npmsgpack.Float32([]float32{0.2, 0, 0.2, 0, 0, 0, 1}, 7),
		"observation.joint_states":                                    npmsgpack.Float32([]float32{0.4, 0.4}, 2), "prompt": "fold",
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func dialRaw(t testing.TB, url string) *websocket.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	c, _, err := websocket.Dial(ctx, url, &websocket.DialOptions{CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		t.Fatal(err)
	}
	c.SetReadLimit(1 << 26)
	if _, _, err := c.Read(ctx); err != nil { // metadata
		t.Fatal(err)
	}
	return c
}

// The time of one request beyond inference, of our server and of a minimal Python server, asked in turn by the same client in one run.
func TestOverheadPerRequest(t *testing.T) {
	python := testpeer.Python(t, "openpi_client", "websockets", "numpy")
	cmd := exec.Command(python, "testdata/minimal_server.py")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	port, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, Config{Aliases: map[string]Alias{"default": {Pool: pool("a")}}}, newStock("a").load, "")
	peers := []*websocket.Conn{dialRaw(t, s.url), dialRaw(t, "ws://127.0.0.1:"+strings.TrimSpace(port))}
	data := request(t)
	n := 40
	if os.Getenv("PINCH_SOAK") != "" {
		n = 2000
	}
	times := [2][]time.Duration{}
	for i := 0; i < n+5; i++ {
		for p, c := range peers {
			begin := time.Now()
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			err := c.Write(ctx, websocket.MessageBinary, data)
			if err == nil {
				var kind websocket.MessageType
				var answer []byte
				kind, answer, err = c.Read(ctx)
				if err == nil && (kind != websocket.MessageBinary || len(answer) < 1024) {
					t.Fatalf("server %d answers %q", p, answer)
				}
			}
			cancel()
			if err != nil {
				t.Fatal(err)
			}
			if i >= 5 {
				times[p] = append(times[p], time.Since(begin))
			}
		}
	}
	var p50, p90 [2]time.Duration
	for p := range times {
		slices.Sort(times[p])
		p50[p], p90[p] = times[p][len(times[p])/2], times[p][len(times[p])*9/10]
		_ = peers[p].CloseNow()
	}
	ratio := float64(p50[0]) / float64(p50[1])
	t.Logf("overhead of %d requests with two 480x640 images: ours p50 %v p90 %v, Python p50 %v p90 %v, ratio %.2f", n, p50[0], p90[0], p50[1], p90[1], ratio)
	if os.Getenv("PINCH_SOAK") != "" && (ratio > 0.5 || p50[0] > 2*time.Millisecond) {
		t.Errorf("p50 %v and ratio %.2f, want under 2 ms and at most 0.5", p50[0], ratio)
	}
}
