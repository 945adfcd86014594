package deploy

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/armrt"
	"github.com/pinch-robotics/pinch/internal/imaging"
	"github.com/pinch-robotics/pinch/policy"
)

// wanting is the scripted policy with a contract that asks for more.
type wanting struct {
	scripted
	contract Contract
	answer   func(Observation, Chunk) Chunk // nil: the deltas
}

// Metadata implements Policy.
func (w *wanting) Metadata() map[string]any {
	c := w.contract
	c.RateHz, c.Horizon, c.PoseReference, c.PoseTiming = w.rateHz, 16, ReferenceBody, TimingNext
	return c.Map()
}

// Infer implements Policy.
func (w *wanting) Infer(ctx context.Context, o Observation) (Chunk, error) {
	c, err := w.scripted.Infer(ctx, o)
	if err == nil && w.answer != nil {
		c = w.answer(o, c)
	}
	return c, err
}

// A policy that asks for three moments and committed rows is shown where the hands were 0.1 and 0.2 s before, and told what the arms will do until its answer takes
// over: with 200 ms of inference and a switch 40 ms later, rows of 33 ms, no fewer than seven.
func TestPoliciesGetThePastAndTheCommittedRows(t *testing.T) {
	cell := DefaultCell()
	cell.Control.PolicyLatencyMS = 200
	h := FakeHello()
	arms, _, err := newPair(&h, cell.Safety)
	if err != nil {
		t.Fatal(err)
	}
	var way []frames.Pose // the right hand seen from the left, each ms
	s, _ := fakeSession(t, cell, FakeOptions{FingerRad: [2]float64{0.4, 0.4}, Observe: func(_ int64, cmd [2]armrt.Command) {
		way = append(way, relative([2]frames.Pose{arms.arms[0].handPose(cmd[0].Q), arms.arms[1].handPose(cmd[1].Q)}))
	}})
	p := &wanting{scripted: scripted{rateHz: 30}, contract: Contract{Frames: 3, FrameInterval: 0.1, MaxPrefix: 12}}
	res, err := s.Run(context.Background(), RunOptions{Policy: p, MaxDuration: 4 * time.Second})
	if err != nil || res.Rejected > 0 {
		t.Fatalf("%+v, %v", res, err)
	}
	if first := p.seen[0]; len(first.Past) != 0 || len(first.Prefix) != 0 {
		t.Errorf("the first question, at rest, has %d moments and %d committed numbers", len(first.Past), len(first.Prefix))
	}
	checked := 0
	for i, o := range p.seen[1:] {
		tau := o.Consumed.Seconds()
		if tau < 0.7 || i == len(p.seen)-2 {
			continue // policy time runs with the clock from 0.25 s on
		}
		checked++
		if len(o.Past) != 2 {
			t.Fatalf("question %d at %v s: %d moments before", i, tau, len(o.Past))
		}
		now := nearest(way, o.LeftFromRight)
		for f, past := range o.Past {
			if m, rad := past.LeftFromRight.Distance(way[now-100*(f+1)]); m > 1e-6 || rad > 1e-6 {
				t.Errorf("question %d, moment %d: %.4f m and %.3f rad from where the hands were", i, f+1, m, rad)
			}
			if past.Left.Width != o.Left.Width {
				t.Errorf("question %d, moment %d: picture of %d pixels", i, f+1, past.Left.Width)
			}
		}
		rows := len(o.Prefix) / ActionColumns
		if rows < 7 || rows > 12 {
			t.Fatalf("question %d: %d committed rows", i, rows)
		}
		will := referenceChunk(tau, 30)
		for k := 0; k < rows; k++ {
			for c := 0; c < ActionColumns; c++ {
				got, want := float64(o.Prefix[k*ActionColumns+c]), float64(will.At(k, c))
				if math.Abs(got-want) > 0.0015 && math.Abs(got+want) > 0.0015 {
					t.Errorf("question %d, committed row %d column %d: %v, the arms will do %v", i, k, c, got, want)
				}
			}
		}
	}
	if checked < 4 {
		t.Errorf("%d questions checked of %d", checked, len(p.seen))
	}
}

// nearest is the index of the pose that is nearest to another.
func nearest(way []frames.Pose, to frames.Pose) (at int) {
	best := math.Inf(1)
	for i, p := range way {
		if m, rad := p.Distance(to); m+rad < best {
			best, at = m+rad, i
		}
	}
	return at
}

// All of it crosses the wire; a request whose extra keys have a wrong shape is refused by name.
func TestExtrasCrossTheWire(t *testing.T) {
	o := testObservation("go")
	other := testObservation("")
	other.LeftFromRight, other.FingerRad = frames.Pose{Rot: frames.QuatFromRPY(0.1, 0.2, 0.3)}, [2]float64{0.1, 0.2}
	other.Right.Pix[12345] = 200
	o.Past = []Observation{other, testObservation("")}
	o.Hands = &[2]frames.Pose{frames.Identity, other.LeftFromRight}
	o.Prefix = make([]float32, 3*ActionColumns)
	for i := range o.Prefix {
		o.Prefix[i] = float32(i) / 8
	}
	got := make(chan Observation, 2)
	echo := &listening{got: got}
	client, err := Dial(context.Background(), "ws://"+startServer(t, echo, ServeOptions{}), ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	<-got // the warm-up
	if _, err := client.Infer(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	back := <-got
	if !slices.Equal(back.Prefix, o.Prefix) || len(back.Past) != 2 || back.Hands == nil {
		t.Fatalf("%d moments, prefix %v, hands %v", len(back.Past), back.Prefix, back.Hands)
	}
	for f, p := range back.Past {
		if m, rad := p.LeftFromRight.Distance(o.Past[f].LeftFromRight); m > 1e-6 || rad > 1e-6 || math.Abs(p.FingerRad[1]-o.Past[f].FingerRad[1]) > 1e-6 {
			t.Errorf("moment %d: %+v", f, p.LeftFromRight)
		}
		for _, im := range [][2]imaging.RGB{{p.Left, o.Past[f].Left}, {p.Right, o.Past[f].Right}} {
			if !slices.Equal(im[0].Pix, im[1].Pix) {
				t.Errorf("moment %d: a picture changed on its way", f)
			}
		}
	}
	if m, rad := back.Hands[1].Distance(other.LeftFromRight); m > 1e-6 || rad > 1e-6 {
		t.Errorf("hands %+v", back.Hands)
	}
	o.Prefix = make([]float32, ActionColumns*(maxPrefixRows+1))
	if _, err := client.Infer(context.Background(), o); err == nil || !strings.Contains(err.Error(), KeyPrefix) {
		t.Errorf("a prefix of %d rows: error %v", maxPrefixRows+1, err)
	}
}

// listening hands on what it is asked.
type listening struct {
	Hold
	got chan Observation
}

// Metadata implements Policy.
func (l *listening) Metadata() map[string]any { return Hold{RateHz: 30}.Metadata() }

// Infer implements Policy.
func (l *listening) Infer(ctx context.Context, o Observation) (Chunk, error) {
	l.got <- o
	return l.Hold.Infer(ctx, o)
}

// A small policy of two moments that was built for committed prefixes, behind the server: it states what it wants, its answer begins with the committed rows and
// goes on from them, the moment before changes it, and all of that is what the policy in process does.
func TestAPolicyWithPastAndPrefixIsServed(t *testing.T) {
	arch := policy.Architectures["nano"]
	arch.TokenTime, arch.MaxPrefix = true, 4
	preset := policy.PresetOptions{ImageSize: 16, Horizon: 16, MaxTokens: 12, Frames: 2, FrameStride: 6}
	p := untrainedAs(t, preset, arch, policy.Options{Threads: 1})
	c, err := NewCheckpoint(p)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	client, err := Dial(ctx, "ws://"+startServer(t, c, ServeOptions{}), ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	contract, err := ReadContract(client.Metadata(), nil)
	if err != nil || contract.Frames != 2 || contract.FrameInterval != 0.2 || contract.MaxPrefix != 4 {
		t.Fatalf("%+v, %v", contract, err)
	}
	o := testObservation("go")
	infer := func(o Observation) Chunk {
		t.Helper()
		a, err := client.Infer(ctx, o)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	plain := infer(o)
	before := testObservation("")
	before.LeftFromRight = frames.Pose{Rot: frames.QuatFromRPY(0.1, 0.2, 0.3)}
	o.Past = []Observation{before}
	if past := infer(o); slices.Equal(past.Data, plain.Data) {
		t.Error("the moment before makes no difference")
	}
	o.Prefix = referenceChunk(0.5, contract.RateHz).Data[:3*ActionColumns]
	committed := infer(o)
	for i, want := range o.Prefix {
		if got := committed.Data[i]; math.Abs(float64(got-want)) > 1e-4 && math.Abs(float64(got+want)) > 1e-4 {
			t.Errorf("committed row %d column %d came back as %v, was %v", i/ActionColumns, i%ActionColumns, got, want)
		}
	}
	direct, err := c.Infer(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	for i := range direct.Data {
		if d := direct.Data[i] - committed.Data[i]; d > 1e-4 || d < -1e-4 {
			t.Fatalf("number %d is %v in process and %v served", i, direct.Data[i], committed.Data[i])
		}
	}
	o.Prefix = referenceChunk(0.5, contract.RateHz).Data[:5*ActionColumns]
	if _, err := client.Infer(ctx, o); err == nil || !strings.Contains(err.Error(), "at most 4") {
		t.Errorf("five committed rows: error %v", err)
	}
}

// Answers in the three forms say the same: those of one policy, turned into deltas, are equal, and the arms take the same way.
func TestAnswerForms(t *testing.T) {
	o := testObservation("go")
	o.Hands = &[2]frames.Pose{{Rot: frames.QuatFromRPY(0.3, 0, 1)}, {Rot: frames.QuatFromRPY(-0.3, 0.2, 0)}}
	o.Hands[0].Pos.X, o.Hands[1].Pos.Y = 0.4, -0.3
	var want Chunk
	for i, form := range []policy.Answer{policy.AnswerSteps, policy.AnswerChunk, policy.AnswerAbsolute} {
		p := untrainedAs(t, policy.PresetOptions{ImageSize: 16, Horizon: 16, MaxTokens: 12}, policy.Architectures["nano"], policy.Options{Threads: 1, Answer: form})
		c, err := NewCheckpoint(p)
		if err != nil {
			t.Fatal(err)
		}
		contract, err := ReadContract(c.Metadata(), nil)
		if err != nil || string(contract.Answer) != string(form) {
			t.Fatalf("%s: %+v, %v", form, contract, err)
		}
		a, err := c.Infer(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		d, err := deltas(a, contract.Answer, *o.Hands)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			want = d
			continue
		}
		if slices.Equal(a.Data, want.Data) {
			t.Errorf("%s: the answer is in deltas", form)
		}
		for k := range d.Data {
			if math.Abs(float64(d.Data[k]-want.Data[k])) > 2e-6 {
				t.Fatalf("%s: number %d is %v, in deltas %v", form, k, d.Data[k], want.Data[k])
			}
		}
	}
	var ways [3][]armrt.Command
	for i, form := range []AnswerForm{AnswerDeltas, AnswerChunkPoses, AnswerAbsolute} {
		p := &wanting{scripted: scripted{rateHz: 30}, contract: Contract{Answer: form}}
		p.answer = func(o Observation, c Chunk) Chunk {
			if form != AnswerDeltas {
				at := [2]frames.Pose{frames.Identity, frames.Identity}
				if form == AnswerAbsolute {
					at = *o.Hands
				}
				rows, err := absolute(c, at, ReferenceBody)
				if err != nil {
					t.Fatal(err)
				}
				for k, r := range rows {
					copy(c.Data[k*ActionColumns:], poseFloats(poseFloats(nil, r.pose[0]), r.pose[1]))
				}
			}
			return c
		}
		s, _ := fakeSession(t, DefaultCell(), FakeOptions{FingerRad: [2]float64{0.4, 0.4}, Lag: 20 * time.Millisecond,
			Observe: func(_ int64, cmd [2]armrt.Command) { ways[i] = append(ways[i], cmd[0], cmd[1]) }})
		if res, err := s.Run(context.Background(), RunOptions{Policy: p, MaxDuration: 2 * time.Second}); err != nil || res.Rejected > 0 || res.Chunks < 4 {
			t.Fatalf("%s: %+v, %v", form, res, err)
		}
	}
	for i := 1; i < 3; i++ {
		for k := range ways[0] {
			for j, q := range ways[0][k].Q {
				if d := math.Abs(ways[i][k].Q[j] - q); d > 1e-4 {
					t.Fatalf("form %d: command %d joint %d is %v rad from the deltas' way", i, k, j+1, d)
				}
			}
		}
	}
}
