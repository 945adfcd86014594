package eval

import (
	"bytes"
	"context"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/pinch-robotics/pinch/deploy"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
)

// truthRobot answers Truth from a list, the last entry for ever.
type truthRobot struct {
	Robot
	list []*armlink.Truth
}

func (r *truthRobot) Truth(context.Context) (*armlink.Truth, error) {
	t := r.list[0]
	if len(r.list) > 1 {
		r.list = r.list[1:]
	}
	return t, nil
}

// truth makes a scene with the block 0.3 m from the tray; change edits it.
func truth(done int, change func(*armlink.Truth)) *armlink.Truth {
	t := &armlink.Truth{
		Bodies: map[string]armlink.Pose{
			"block": {0, -0.2, 0.026, 0, 0, 0, 1}, "tray": {0, 0.1, 0, 0, 0, 0, 1}, "right_hand": {0, -0.2, 0.3, 0, 0, 0, 1}, "left_hand": {0, 0.3, 0.3, 0, 0, 0, 1},
		},
		Flags:  map[string]bool{"on_table": true},
		Values: map[string]float64{"milestones_done": float64(done), "closest_reach_m": 0.061, "max_rise_m": 0.012},
	}
	for j := range done {
		t.Values["milestone_"+string(rune('1'+j))+"_ns"] = float64(1000 + j)
	}
	if change != nil {
		change(t)
	}
	return t
}

func TestSimulatorScorerNamesTheFirstCause(t *testing.T) {
	away := func(tr *armlink.Truth) { tr.Bodies["right_hand"] = armlink.Pose{0.1, -0.2, 0.3, 0, 0, 0, 1} }
	flags := func(names ...string) func(*armlink.Truth) {
		return func(tr *armlink.Truth) {
			away(tr)
			tr.Flags = map[string]bool{}
			for _, n := range names {
				tr.Flags[n] = true
			}
		}
	}
	cases := []struct {
		name      string
		middle    *armlink.Truth // seen while the trial ran
		end       *armlink.Truth
		cause     Cause
		text      string
		finalText string
	}{
		{"never moved", truth(0, nil), truth(0, nil), CauseStall, "0 mm from its start", "on the table, 300 mm from the middle of the tray, tilted 0 degrees"},
		{"missed", truth(0, away), truth(0, away), CauseReach, "no nearer to the block than 61 mm", "on the table"},
		{"did not close", truth(1, flags("on_table", "touched_right")), truth(1, flags("on_table")), CauseGrasp, "did not close", "on the table"},
		{"slipped", truth(1, flags("held_right", "touched_right")), truth(1, flags("on_table")), CauseGrasp, "rose only 12 mm", "on the table"},
		{"no contact", truth(1, away), truth(1, flags("on_table")), CauseGrasp, "did not touch", "on the table"},
		{"dropped", truth(2, flags("held_right")), truth(2, flags("on_table")), CauseTransport, "let go 300 mm", "on the table"},
		{"held on", truth(2, flags("held_right")), truth(2, flags("held_right")), CauseTransport, "still held", "in the right hand"},
		{"beside", truth(3, flags("held_right")), truth(3, flags("on_table")), CausePlace, "ended 300 mm", "on the table"},
		{"tilted", truth(3, flags("held_right")), truth(3, flags("on_tray")), CausePlace, "tilted, moving or still touched", "on the tray"},
		{"never let go", truth(3, flags("held_right")), truth(3, flags("held_right", "on_tray")), CausePlace, "not let go", "in the right hand"},
		{"placed", truth(4, flags("on_tray")), truth(4, flags("on_tray")), "", "", "on the tray"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := &SimScorer{}
			robot := &truthRobot{list: []*armlink.Truth{truth(0, nil), c.middle, c.end}}
			if err := s.Begin(t.Context(), robot, Condition{Name: "c"}); err != nil {
				t.Fatal(err)
			}
			v, err := s.Judge(t.Context(), deploy.Step{})
			if err != nil {
				t.Fatal(err)
			}
			if want := int(c.middle.Values["milestones_done"]); v.Done != want {
				t.Errorf("done %d, want %d", v.Done, want)
			}
			f, err := s.End(t.Context(), deploy.Result{})
			if err != nil {
				t.Fatal(err)
			}
			if f.Cause != c.cause || !strings.Contains(f.CauseText, c.text) || !strings.Contains(f.FinalState, c.finalText) {
				t.Errorf("got %q %q, final %q", f.Cause, f.CauseText, f.FinalState)
			}
			if len(f.Times) != f.Done || f.Done > 0 && f.Times[0] != 1000 {
				t.Errorf("times %v for %d milestones", f.Times, f.Done)
			}
		})
	}
}

func TestSimulatorScorerRefusesABadStart(t *testing.T) {
	for want, first := range map[string]*armlink.Truth{
		"1 milestones are passed before": truth(1, nil),
		"no milestones_done":             truth(0, func(tr *armlink.Truth) { delete(tr.Values, "milestones_done") }),
	} {
		err := (&SimScorer{}).Begin(t.Context(), &truthRobot{list: []*armlink.Truth{first}}, Condition{Name: "eval-3"})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "eval-3") {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// syncBuffer is a bytes.Buffer for two goroutines.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// judgeUntil judges until the verdict is as wanted; lines reach the scorer through a goroutine.
func judgeUntil(t *testing.T, p *PersonScorer, tNS int64, ok func(Verdict) bool) Verdict {
	t.Helper()
	for {
		v, err := p.Judge(t.Context(), deploy.Step{TNS: tNS})
		if err != nil {
			t.Fatal(err)
		}
		if ok(v) {
			return v
		}
	}
}

func TestAPersonScoresThroughTheSameInterface(t *testing.T) {
	in, keyboard := io.Pipe()
	screen := &syncBuffer{}
	p := NewPersonScorer(blockToTray(t), in, screen)
	typed := func(text string) {
		if _, err := io.WriteString(keyboard, text); err != nil {
			t.Error(err)
		}
	}
	go typed("\n") // the scene stands
	if err := p.Reset(t.Context(), Condition{Name: "c-1", Note: "overlay 3"}); err != nil {
		t.Fatal(err)
	}
	if err := p.Begin(t.Context(), nil, Condition{Name: "c-1"}); err != nil {
		t.Fatal(err)
	}
	done := func(n int) func(Verdict) bool { return func(v Verdict) bool { return v.Done == n } }
	go typed("\n")
	judgeUntil(t, p, 100, done(1))
	go typed("y\n")
	judgeUntil(t, p, 200, done(2))
	go typed("u\n")
	judgeUntil(t, p, 300, done(1))
	go typed("what\n\n")
	judgeUntil(t, p, 400, done(2))
	go typed("stop arm too close\n")
	v := judgeUntil(t, p, 500, func(v Verdict) bool { return v.Abort != "" })
	if v.Abort != "stopped by the person: arm too close" {
		t.Errorf("abort %q", v.Abort)
	}
	go typed("block on the floor\nbad cause\ntransport slipped at the rim\n")
	f, err := p.End(t.Context(), deploy.Result{})
	if err != nil {
		t.Fatal(err)
	}
	if f.Done != 2 || f.Times[0] != 100 || f.Times[1] != 400 || f.Cause != CauseTransport || f.CauseText != "slipped at the rim" || f.FinalState != "block on the floor" {
		t.Errorf("%+v", f)
	}
	for _, want := range []string{"overlay 3", "waiting for: reach", `"what" is none of`, "First cause"} {
		if !strings.Contains(screen.String(), want) {
			t.Errorf("the screen lacks %q", want)
		}
	}
	_ = keyboard.Close()
	if _, err := p.End(t.Context(), deploy.Result{}); err == nil {
		t.Error("the end of the input is no answer")
	}
}
