package dataset

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// writeUntilKilled is the child of TestKilledWriter: it adds episodes and prints a line for each accepted one.
func writeUntilKilled(root string) {
	var videos map[string]string
	json.Unmarshal([]byte(os.Getenv("PINCH_TEST_VIDEOS")), &videos)
	w, err := OpenWriter(root, WriterOptions{})
	if err != nil {
		fmt.Println("error", err)
		return
	}
	fmt.Println("open", w.NumEpisodes())
	for {
		const n = 9
		ep := Episode{Length: n, Tasks: []string{"task"}, Columns: map[string]any{}, Videos: videos,
			Extra: map[string]any{"recording_sha256": "x", "success": true, "tags": []string{}, "score": 0.5}}
		ep.Columns = map[string]any{"observation.state": make([]float32, 3*n), "action": make([]float64, 2*n), "observation.image.left.is_fresh": make([]bool, n),
			"capture_ns": make([]int64, n), "pedal": make([]int32, 3*n), "note": make([]string, n)}
		ep = withStats(ep)
		i, err := w.AddEpisode(context.Background(), ep)
		if err != nil {
			fmt.Println("error", err)
			return
		}
		fmt.Println("accepted", i)
	}
}

// Kill -9 at random moments: every accepted episode must be there after the next opening, complete, and at most the one in
// flight may be there besides.
func TestKilledWriter(t *testing.T) {
	root := filepath.Join(t.TempDir(), "set")
	mustCreate(t, root).Close()
	videos, _ := json.Marshal(map[string]string{"observation.images.left": testVideo(t, 9, 1), "observation.images.right": testVideo(t, 9, 2)})
	rng := rand.New(rand.NewPCG(1, 2))
	accepted := 0
	kills := 30
	if os.Getenv("PINCH_SOAK") != "" {
		kills = 300
	}
	for range kills {
		accepted = killOnce(t, root, string(videos), accepted, rng.IntN(3), time.Duration(rng.IntN(30))*time.Millisecond)
		w, err := OpenWriter(root, WriterOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if n := w.NumEpisodes(); n != accepted && n != accepted+1 {
			t.Fatalf("%d episodes after %d were accepted", n, accepted)
		}
		accepted = w.NumEpisodes()
		w.Close()
		d := mustOpen(t, root)
		if _, err := d.Identity(); err != nil {
			t.Fatal(err)
		}
		if stray := strayFiles(t, root, d); len(stray) > 0 {
			t.Fatalf("stray files %v", stray)
		}
	}
	if accepted < kills/2 {
		t.Errorf("only %d episodes in all: the children did nothing", accepted)
	}
	if s := official(t, root, "1"); s.Episodes != accepted {
		t.Errorf("the official loader saw %d episodes, %d were accepted", s.Episodes, accepted)
	}
}

// compactUntilKilled is the child of TestKilledCompaction: it packs the dataset again and again.
func compactUntilKilled(root string) {
	for {
		d, err := Open(root)
		if err != nil {
			fmt.Println("error", err)
			return
		}
		p := Keep(d)
		p.Pack = true
		fmt.Println("start")
		if _, err := Rebuild(context.Background(), root, p, RebuildOptions{InPlace: true}); err != nil {
			fmt.Println("error", err)
			return
		}
	}
}

// Kill -9 at random moments of a compaction in place: the dataset is always there, with its identity.
func TestKilledCompaction(t *testing.T) {
	root := makeDataset(t)
	identity := mustIdentify(t, root)
	rng := rand.New(rand.NewPCG(3, 4))
	kills := 10
	if os.Getenv("PINCH_SOAK") != "" {
		kills = 100
	}
	for range kills {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "PINCH_TEST_COMPACT="+root)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if what, rest, _ := strings.Cut(lines.Text(), " "); what == "error" {
				t.Errorf("child: %s", rest)
			}
			time.AfterFunc(time.Duration(rng.IntN(40))*time.Millisecond, func() { cmd.Process.Signal(syscall.SIGKILL) })
		}
		cmd.Wait()
		if mustIdentify(t, root) != identity {
			t.Fatal("the dataset changed")
		}
	}
	w, err := OpenWriter(root, WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	trusted(t, root)
	greys(t, official(t, root, "1"), []int{0, 1, 2})
}

// killOnce runs the child until it has accepted some more episodes and a random time has passed, and returns the number of
// accepted episodes.
func killOnce(t *testing.T, root, videos string, before, more int, after time.Duration) int {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "PINCH_TEST_WRITER="+root, "PINCH_TEST_VIDEOS="+videos)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	accepted := before
	for lines := bufio.NewScanner(out); lines.Scan(); {
		what, rest, _ := strings.Cut(lines.Text(), " ")
		switch what {
		case "open":
			if rest != fmt.Sprint(before) {
				t.Errorf("the child opened %s episodes, want %d", rest, before)
			}
		case "accepted":
			accepted++
		case "error":
			t.Errorf("child: %s", rest)
		}
		if accepted-before == more && (what == "accepted" || what == "open") {
			time.AfterFunc(after, func() { cmd.Process.Signal(syscall.SIGKILL) })
		}
	}
	cmd.Wait()
	return accepted
}
