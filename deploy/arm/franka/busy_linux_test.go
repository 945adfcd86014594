package franka

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/pinch-robotics/pinch/internal/sim/fciserve"
	"github.com/pinch-robotics/pinch/internal/testpeer"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
)

// Beside one busy program on every processor, for ten minutes: the loop's longest late run against the longest latency that cyclictest finds at the
// same priority in the same run, and nothing for the strict arm to object to. PINCH_BUSY_SECONDS runs a shorter form.
func TestBesideABusyMachine(t *testing.T) {
	seconds, _ := strconv.Atoi(os.Getenv("PINCH_BUSY_SECONDS"))
	if os.Getenv("PINCH_SOAK") != "" {
		seconds = 600
	}
	if seconds == 0 {
		t.Skip("a long run: PINCH_SOAK=1, or PINCH_BUSY_SECONDS=60")
	}
	chrt := testpeer.Program(t, "chrt", "util-linux")
	cyclictest := testpeer.Program(t, "cyclictest", "rt-tests")
	c := newCell(t, 400*time.Microsecond)
	if !c.ready() {
		t.Fatal("the arms do not become ready")
	}
	for range runtime.NumCPU() {
		run(t, exec.Command(chrt, "-o", "0", "sh", "-c", "while :; do :; done")) // ordinary programs, whatever this one has become
	}
	report := filepath.Join(t.TempDir(), "cyclictest.json")
	cyclic := exec.Command(cyclictest, "-q", "-t", "1", "-p", "80", "-i", "1000", "-D", strconv.Itoa(seconds), "--json="+report)
	run(t, cyclic)
	stopped := 0
	// Segments reach ten seconds ahead: how this test itself is scheduled does not matter.
	for end := time.Now().Add(time.Duration(seconds) * time.Second); time.Now().Before(end); time.Sleep(time.Second) {
		for i, a := range c.arms {
			st, tns, _, _ := a.look()
			if st.Mode.NeedsRecover() {
				t.Logf("%s arm stopped: %s", sides[i], st.Reason)
				if stopped++; !c.ready() {
					t.Fatalf("the %s arm does not become ready again", sides[i])
				}
				break
			}
			_ = a.conn.Write(wave(sides[i], c.from[i], c.began[i], tns, 10*time.Second))
		}
	}
	time.Sleep(time.Second)
	var found struct {
		Thread map[string]struct {
			Max float64 `json:"max"`
			Avg float64 `json:"avg"`
		} `json:"thread"`
	}
	data, err := os.ReadFile(report)
	if err == nil {
		err = json.Unmarshal(data, &found)
	}
	if err != nil || found.Thread["0"].Max == 0 {
		t.Fatalf("cyclictest reported %s, %v", data, err)
	}
	latency := found.Thread["0"].Max / 1000
	for i, name := range sides {
		var s fciserve.Stats
		c.on(i, func(r *fciserve.Robot) { s = r.Stats })
		st, _, _, _ := c.arms[i].look()
		t.Logf("%s arm: %d commands, %d late, longest late run %d ms; cyclictest's longest latency %.2f ms: ratio %.2f; %s (%s)", name, s.Accepted, s.Lost, s.LongestLoss,
			latency, float64(s.LongestLoss)/latency, st.Mode, st.Reason)
		if s.Violations > 0 {
			t.Errorf("%s arm: %d violations, last %s", name, s.Violations, s.LastViolation)
		}
	}
	t.Logf("%d s, the arms were stopped and made ready again %d times", seconds, stopped)
	for _, a := range c.arms {
		_ = a.conn.Write(&armlink.Stop{Reason: "end of the test"})
	}
}

// run starts a program that ends with the test.
func run(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
}
