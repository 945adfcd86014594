//go:build mujoco && cgo

package sim

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"math"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/pinch-robotics/pinch/frames"
)

// hashEpisodes runs two episodes and hashes every sample, images included, and the truth after each.
func hashEpisodes(t *testing.T) string {
	c := newCell(t, Config{Mode: ModeHandheld, Wrist: Size{320, 240}})
	rig, err := NewHandheld(c, HandheldConfig{WristHz: 6, CenterHz: 2})
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.New()
	for i := range 2 {
		for s, err := range rig.Episode(NewCondition(Train, 100+i)) {
			if err != nil {
				t.Fatal(err)
			}
			hashSample(sum, s)
		}
		fmt.Fprintf(sum, "%+v %+v", rig.Outcome(), c.Truth())
	}
	return hex.EncodeToString(sum.Sum(nil))
}

func hashSample(sum hash.Hash, s Sample) {
	binary.Write(sum, binary.LittleEndian, s.Time)
	switch {
	case s.Image != nil:
		sum.Write([]byte(s.Image.Camera))
		sum.Write(s.Image.JPEG)
		sum.Write(s.Image.RGB)
	case s.Encoder != nil:
		fmt.Fprintf(sum, "%+v", *s.Encoder)
	case s.Tracker != nil:
		fmt.Fprintf(sum, "%+v", *s.Tracker)
	case s.Pedal != nil:
		fmt.Fprintf(sum, "%+v", *s.Pedal)
	}
}

// Equal seeds give equal bytes: in this process and in another one.
func TestSameSeedsSameBytes(t *testing.T) {
	const ask = "PINCH_SIM_HASH"
	if os.Getenv(ask) != "" {
		fmt.Printf("hash=%s\n", hashEpisodes(t))
		return
	}
	here := hashEpisodes(t)
	cmd := exec.Command(os.Args[0], "-test.run", "^TestSameSeedsSameBytes$")
	cmd.Env = append(os.Environ(), ask+"=1")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if want := "hash=" + here; !strings.Contains(string(out), want) {
		t.Errorf("another process got %q, want %q", out, want)
	}
}

// An episode does not depend on what the cell did before it.
func TestResetForgets(t *testing.T) {
	run := func(c *Cell) (path []frames.Pose) {
		cond := NewCondition(Train, 5)
		if err := c.Reset(cond); err != nil {
			t.Fatal(err)
		}
		d := NewDemonstrator(cond, false)
		for range 2000 {
			cmd := d.Next(c.View(), 0.002)
			for _, s := range Sides {
				c.SetHand(s, cmd.Hands[s])
				c.SetGripper(s, cmd.FingerRad[s])
			}
			if err := c.Advance(c.Now() + 2*TickNS); err != nil {
				t.Fatal(err)
			}
			path = append(path, c.Truth().Block)
		}
		return path
	}
	c := newCell(t, Config{Mode: ModeHandheld, RenderThreads: 1})
	first, second := run(c), run(c)
	for i := range first {
		if first[i] != second[i] {
			t.Fatalf("step %d: the block is at %v, in the second run at %v", i, first[i], second[i])
		}
	}
	if d, _ := first[0].Distance(first[len(first)-1]); d < 0.05 {
		t.Errorf("the block moved by only %v m in 4 s, so the test says nothing", d)
	}
}

// Demonstrations succeed, look like a person's (speed, length, variety), and their samples keep their clocks.
func TestDemonstrations(t *testing.T) {
	c := newCell(t, Config{Mode: ModeHandheld, RenderThreads: 1})
	rig, err := NewHandheld(c, HandheldConfig{WristHz: -1, CenterHz: -1})
	if err != nil {
		t.Fatal(err)
	}
	const n = 20
	good, lengths := 0, map[int]bool{}
	for i := range n {
		var last Sample
		var pedals []PedalEvent
		var tracks []Sample
		var fastest float64
		for s, err := range rig.Episode(NewCondition(Train, 200+i)) {
			if err != nil {
				t.Fatal(err)
			}
			if s.Time < last.Time {
				t.Fatalf("episode %d: a sample at %d follows one at %d", i, s.Time, last.Time)
			}
			last = s
			switch {
			case s.Pedal != nil:
				pedals = append(pedals, *s.Pedal)
			case s.Tracker != nil:
				// Speed over five frames, so that tracker noise does not count.
				if tracks = append(tracks, s); len(tracks) > 5 {
					a := tracks[len(tracks)-6]
					d := norm(sub(s.Tracker.Hands[Right].Pos, a.Tracker.Hands[Right].Pos))
					fastest = max(fastest, d/s.Time.Sub(a.Time).Seconds())
				}
			}
		}
		o := rig.Outcome()
		if o.Success {
			good++
		}
		took := o.End.Sub(o.Start)
		lengths[int(took/(100*time.Millisecond))] = true
		if took < 3500*time.Millisecond || took > 10*time.Second {
			t.Errorf("episode %d took %v between first and last press", i, took)
		}
		if fastest > 0.36 || fastest < 0.12 {
			t.Errorf("episode %d: the right hand's top speed was %.2f m/s", i, fastest)
		}
		accept, up := PedalEvent{PedalAccept, true}, PedalEvent{PedalAccept, false}
		if want := []PedalEvent{accept, up, accept, up, accept, up}; fmt.Sprint(pedals) != fmt.Sprint(want) {
			t.Errorf("episode %d: pedal events %v, want three presses of accept", i, pedals)
		}
		if rate := float64(len(tracks)) / last.Time.Sub(tracks[0].Time).Seconds(); math.Abs(rate-72) > 1.5 {
			t.Errorf("episode %d: tracker at %.1f Hz, want 72", i, rate)
		}
	}
	if good < n*95/100 {
		t.Errorf("%d of %d demonstrations succeeded, want 95 %%", good, n)
	}
	if len(lengths) < 6 {
		t.Errorf("%d demonstrations have only %d different lengths", n, len(lengths))
	}
}

// With mistakes switched on, some episodes reject a first attempt and still succeed, and some are cancelled.
func TestMistakes(t *testing.T) {
	c := newCell(t, Config{Mode: ModeHandheld, RenderThreads: 1})
	rig, err := NewHandheld(c, HandheldConfig{WristHz: -1, CenterHz: -1, Mistakes: true})
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for i := range 16 {
		presses := ""
		for s, err := range rig.Episode(NewCondition(Train, 300+i)) {
			if err != nil {
				t.Fatal(err)
			}
			if s.Pedal != nil && s.Pedal.Down {
				presses += [3]string{"c", "r", "a"}[s.Pedal.Button]
			}
		}
		kinds[presses]++
		if cancelled := strings.HasSuffix(presses, "c"); rig.Outcome().Success == cancelled {
			t.Errorf("episode %d with presses %q: success %v", i, presses, rig.Outcome().Success)
		}
	}
	if kinds["aaa"] == 0 || kinds["araa"] == 0 || kinds["ac"]+kinds["aac"] == 0 || kinds["aaa"]+kinds["araa"]+kinds["ac"]+kinds["aac"] != 16 {
		t.Errorf("episodes by presses: %v", kinds)
	}
}

// What the hands did, the arms can do: the recorded path, solved for the joints, gives all four milestones on the arms too, with
// joint speeds far inside the arm's limits. The finger angles sent are the measured ones, so the soft pads carry the grip over.
func TestArmsRepeatDemonstrations(t *testing.T) {
	hand := newCell(t, Config{Mode: ModeHandheld, RenderThreads: 1})
	robot := newCell(t, Config{Mode: ModeRobot, RenderThreads: 1})
	for i := range 4 {
		cond := NewCondition(Eval, i)
		progress, worst, speed := repeat(t, hand, robot, cond)
		if progress.Done != 4 || !robot.Truth().Milestones().Placed {
			t.Errorf("%s: %d milestones on the arms", cond.Name, progress.Done)
		}
		if worst > 0.003 {
			t.Errorf("%s: the arm's hand was up to %v m off the recorded path", cond.Name, worst)
		}
		if speed > 0.6 {
			t.Errorf("%s: the path needs %.0f %% of a joint's speed limit", cond.Name, 100*speed)
		}
	}
}

// The grip holds: carried for ten seconds, the block creeps less than a millimetre in the hand.
func TestGripDoesNotCreep(t *testing.T) {
	c := newCell(t, Config{Mode: ModeHandheld, RenderThreads: 1})
	d := NewDemonstrator(NewCondition(Train, 0), false) // a new cell stands in it
	var cmd Command
	for d.phase != carrying {
		cmd = d.Next(c.View(), 0.002)
		for _, s := range Sides {
			c.SetHand(s, cmd.Hands[s])
			c.SetGripper(s, cmd.FingerRad[s])
		}
		if err := c.Advance(c.Now() + 2*TickNS); err != nil {
			t.Fatal(err)
		}
	}
	c.Advance(c.Now() + 5e8)
	inHand := func() frames.Pose { return c.HandPose(Right).Inv().Mul(c.Truth().Block) }
	before := inHand()
	if err := c.Advance(c.Now() + 10e9); err != nil {
		t.Fatal(err)
	}
	if d, a := inHand().Distance(before); d > 1e-3 || a > 0.02 || !c.Truth().Held[Right] {
		t.Errorf("in 10 s the block crept %v m, %v rad; held %v", d, a, c.Truth().Held[Right])
	}
}
