package eval

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gonum.org/v1/gonum/spatial/r3"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/deploy"
	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/folderlock"
	"github.com/pinch-robotics/pinch/internal/meta"
	"github.com/pinch-robotics/pinch/internal/rawlog"
	"github.com/pinch-robotics/pinch/internal/testpeer"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
)

// world is deploy's fake cell with a made-up task: every 15 mm that the right hand goes from its start passes a milestone.
type world struct {
	*deploy.Session
	start frames.Pose
	done  int
	scene []byte

	runErr error // what Run says after the trial
	homes  int   // how often the arms still go home; negative: always
	stays  bool  // the cell goes on when its client leaves
}

func (w *world) Close() error {
	if w.stays {
		return nil
	}
	return w.Session.Close()
}

func (w *world) Run(ctx context.Context, o deploy.RunOptions) (deploy.Result, error) {
	r, err := w.Session.Run(ctx, o)
	if w.runErr != nil {
		err = w.runErr
	}
	return r, err
}

func (w *world) Home(ctx context.Context, starts [2]deploy.HandStart) error {
	if w.homes == 0 {
		return errors.New("home: no path is free")
	}
	w.homes--
	return w.Session.Home(ctx, starts)
}

func newWorld(ctx context.Context) (*world, error) {
	fake, err := deploy.NewFake(deploy.FakeOptions{})
	if err != nil {
		return nil, err
	}
	s, err := deploy.Connect(ctx, deploy.DefaultCell(), deploy.ConnectOptions{Conn: fake.Conn(), OpenCamera: fake.OpenCamera})
	if err != nil {
		return nil, err
	}
	return &world{Session: s, homes: -1}, nil
}

func (w *world) SetScene(_ context.Context, condition []byte) error {
	w.scene, w.start, w.done = condition, w.HandPose(1), 0
	return nil
}

func (w *world) Truth(context.Context) (*armlink.Truth, error) {
	moved := r3.Norm(r3.Sub(w.HandPose(1).Pos, w.start.Pos))
	w.done = max(w.done, min(4, int(moved/0.015)))
	hand := w.HandPose(1).ArrayXYZXYZW()
	t := truth(w.done, func(t *armlink.Truth) { t.Bodies["right_hand"] = hand })
	start := w.start.ArrayXYZXYZW()
	if w.Now() == 0 || moved == 0 {
		t.Bodies["right_hand"] = start
	}
	return t, nil
}

// pusher moves the right hand along its own -X (away from the table) at 3 cm/s and notes the prompts it was given.
type pusher struct {
	stubPolicy
	step float64 // metres per row, at 10 Hz

	mu      sync.Mutex
	prompts []string
	fail    int // the first calls that fail
}

func (p *pusher) Infer(_ context.Context, obs deploy.Observation) (deploy.Chunk, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fail > 0 {
		p.fail--
		return deploy.Chunk{}, errors.New("the model is gone")
	}
	if n := len(p.prompts); n == 0 || p.prompts[n-1] != obs.Prompt {
		p.prompts = append(p.prompts, obs.Prompt)
	}
	c := deploy.Chunk{Rows: 16, Cols: deploy.ActionColumns}
	for range c.Rows {
		row := make([]float32, deploy.ActionColumns)
		row[6], row[13] = 1, 1
		row[7] = float32(-p.step)
		row[14], row[15] = float32(obs.FingerRad[0]), float32(obs.FingerRad[1])
		c.Data = append(c.Data, row...)
	}
	return c, nil
}

// shortTask is the demo's task with limits for a test.
func shortTask(t testing.TB) Task {
	task := blockToTray(t)
	task.TimeLimitS, task.StallS, task.SettleS = 12, 1, 0.2
	return task
}

// options are those of a run of a pusher against hold on n conditions.
func options(t testing.TB, n int, p *pusher) (Options, *int) {
	connects := 0
	contract, err := deploy.ReadContract(p.Metadata(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return Options{
		Task: shortTask(t), Trials: n, Seed: 3, Out: filepath.Join(t.TempDir(), "eval"), Scorer: &SimScorer{}, Record: []string{},
		Entrants: []Entrant{{PolicyName, p, "moves"}, Hold(contract)},
		Connect: func(ctx context.Context) (Robot, error) {
			connects++
			return newWorld(ctx)
		},
	}, &connects
}

func TestRunScoresTrialsAndAdvancesPrompts(t *testing.T) {
	p := &pusher{step: 0.003}
	o, connects := options(t, 2, p)
	o.Record = nil // the first entrant's trials become a dataset
	testpeer.Program(t, "ffmpeg", "ffmpeg")
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Summary(PolicyName); got.Score.Estimate != 1 || got.Ends[EndComplete] != 2 {
		t.Errorf("policy: %+v", got)
	}
	if got := r.Summary(HoldName); got.Score.Estimate != 0 || got.Ends[EndStall] != 2 || got.Causes[CauseStall] != 2 {
		t.Errorf("hold: %+v", got)
	}
	if *connects != 1 {
		t.Errorf("%d connections for one cell without faults", *connects)
	}
	// The second prompt comes when the scorer has seen both milestones of the first, and never before.
	want := []string{"pick up the block", "put the block on the tray"}
	if d := cmp.Diff(slices.Concat(want, want), p.prompts); d != "" {
		t.Errorf("prompts: %s", d)
	}
	for _, tr := range r.Trials {
		if tr.Entrant != PolicyName {
			continue
		}
		var labels []string
		for _, pic := range tr.Pictures {
			if pic.Label == "lift" && (len(tr.Prompts) != 2 || tr.Prompts[1].TNS < pic.TNS) {
				t.Errorf("%s: lifted at %d ns, prompts %v", tr.Condition, pic.TNS, tr.Prompts)
			}
			if pic.Hand == "right" {
				labels = append(labels, pic.Label)
			}
			if _, err := os.Stat(filepath.Join(tr.dir(o.Out), pic.File)); err != nil {
				t.Error(err)
			}
		}
		if d := cmp.Diff([]string{"start", "reach", "lift", "carry", "place", "end"}, labels); d != "" {
			t.Errorf("%s: pictures %s", tr.Condition, d)
		}
	}
	d, err := dataset.Open(filepath.Join(o.Out, "datasets", PolicyName))
	if err != nil {
		t.Fatal(err)
	}
	if got := d.Info().TotalEpisodes; got != 4 {
		t.Errorf("the dataset has %d episodes, want two for each of two trials", got)
	}
	if d := cmp.Diff(want, d.Tasks()); d != "" {
		t.Errorf("tasks: %s", d)
	}
}

// finished lists the trial.json files with their times of change.
func finished(t *testing.T, out string) map[string]time.Time {
	t.Helper()
	found := map[string]time.Time{}
	paths, err := filepath.Glob(filepath.Join(out, "trials", "*", "*", "*", "trial.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range paths {
		st, err := os.Stat(p)
		if err != nil {
			t.Fatal(err)
		}
		found[p] = st.ModTime()
	}
	return found
}

func TestAnInterruptedRunGoesOn(t *testing.T) {
	p := &pusher{step: 0.003}
	o, _ := options(t, 2, p)
	ctx, cancel := context.WithCancel(t.Context())
	o.Progress = func(done, _ int, _ string, tr *Trial) {
		if tr != nil && done == 2 {
			cancel()
		}
	}
	if _, err := Run(ctx, o); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	before := finished(t, o.Out)
	if len(before) != 2 {
		t.Fatalf("%d trials are finished, want 2", len(before))
	}
	if _, err := os.Stat(filepath.Join(o.Out, ReportJSON)); err == nil {
		t.Error("an interrupted run has a report")
	}
	o.Progress = nil
	first, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for path, at := range finished(t, o.Out) {
		if old, ok := before[path]; ok && !old.Equal(at) {
			t.Errorf("%s was run again", path)
		}
	}
	// A finished run only reads.
	o.Connect = func(context.Context) (Robot, error) { return nil, errors.New("must not connect") }
	second, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	a, _ := json.Marshal(first.Summaries)
	b, _ := json.Marshal(second.Summaries)
	if string(a) != string(b) {
		t.Errorf("summaries differ:\n%s\n%s", a, b)
	}
}

// Same seeds, same trials, except for measured times.
func TestSameSeedsSameTrials(t *testing.T) {
	var runs [2][]Trial
	for k := range runs {
		o, _ := options(t, 1, &pusher{step: 0.003})
		r, err := Run(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		for _, tr := range r.Trials {
			tr.Wall = Wall{}
			runs[k] = append(runs[k], tr)
		}
	}
	if d := cmp.Diff(runs[0], runs[1]); d != "" {
		t.Error(d)
	}
}

func TestASystemFaultIsRunAgain(t *testing.T) {
	p := &pusher{step: 0.003, fail: 1}
	o, connects := options(t, 1, p)
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	s := r.Summary(PolicyName)
	if s.Reruns != 1 || s.Score.Estimate != 1 || s.Trials != 1 {
		t.Errorf("%+v", s)
	}
	if *connects != 2 {
		t.Errorf("%d connections, want a fresh one after the fault", *connects)
	}
	void := r.Trials[slices.IndexFunc(r.Trials, func(t Trial) bool { return !t.Counts })]
	if void.End != EndFault || void.Cause != CauseSystem || !strings.Contains(void.Reason, "the model is gone") {
		t.Errorf("%+v", void)
	}
}

// After a policy was lost the arms of a cell that goes on by itself are stopped; they must not stay so.
func TestALostPolicyDoesNotLeaveTheArmsStopped(t *testing.T) {
	o, _ := options(t, 1, &pusher{step: 0.003, fail: 1})
	cell, err := newWorld(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer cell.Session.Close()
	cell.stays = true
	o.Connect = func(context.Context) (Robot, error) { return cell, nil }
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if s := r.Summary(PolicyName); s.Reruns != 1 || s.Score.Estimate != 1 {
		t.Errorf("%+v", s)
	}
}

// A full disk is no fault of a trial: the run ends with one error and goes on later.
func TestAnErrorOfTheLogEndsTheRun(t *testing.T) {
	o, connects := options(t, 1, &pusher{step: 0.003})
	connect := o.Connect
	o.Connect = func(ctx context.Context) (Robot, error) {
		r, err := connect(ctx)
		if err == nil {
			r.(*world).runErr = errors.New("run: trial log, /tf: no space left on device")
		}
		return r, err
	}
	if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "no space left on device") {
		t.Fatalf("got %v", err)
	}
	if n := len(finished(t, o.Out)); n != 0 || *connects != 1 {
		t.Errorf("%d trials count, %d connections", n, *connects)
	}
	o.Connect = connect
	if r, err := Run(t.Context(), o); err != nil || r.Summary(PolicyName).Reruns != 0 {
		t.Errorf("the run does not go on: %v", err)
	}
}

// Arms that cannot go home get a fresh cell, once; then the run ends.
func TestArmsThatCannotGoHome(t *testing.T) {
	o, connects := options(t, 1, &pusher{step: 0.003})
	connect := o.Connect
	homes := 1
	o.Connect = func(ctx context.Context) (Robot, error) {
		r, err := connect(ctx)
		if err == nil {
			r.(*world).homes = homes
		}
		return r, err
	}
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Trials) != 2 || *connects != 2 {
		t.Errorf("%d trials on %d connections, want 2 trials without a void one on 2 connections", len(r.Trials), *connects)
	}
	homes, o.Out = 0, filepath.Join(t.TempDir(), "eval")
	if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "no path is free") {
		t.Errorf("got %v", err)
	}
}

func TestTheOutputFolderIsTheRunsOwn(t *testing.T) {
	o, _ := options(t, 1, &pusher{step: 0.003})
	if err := os.MkdirAll(filepath.Join(o.Out, "videos"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "holds videos but no plan.json") {
		t.Errorf("got %v", err)
	}
	if entries, _ := os.ReadDir(o.Out); len(entries) != 1 {
		t.Errorf("the foreign folder was touched: %v", entries)
	}
	o.Out = t.TempDir()
	lock, err := folderlock.Take(o.Out)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	if _, err := Run(t.Context(), o); !errors.Is(err, folderlock.ErrHeld) {
		t.Errorf("got %v", err)
	}
}

// Recordings of two evaluations may meet in one dataset: their identifiers differ with seed and policy, not with the folder. Segments
// lie within the log's receive times.
func TestRecordingsOfTwoRuns(t *testing.T) {
	ids := map[string]int{}
	read := func(seed uint64) {
		o, _ := options(t, 1, &pusher{step: 0.003})
		o.Seed = seed
		if _, err := Run(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		dirs, _ := filepath.Glob(filepath.Join(o.Out, "trials", "*", "*", "*"))
		if len(dirs) != 2 {
			t.Fatalf("trials %v", dirs)
		}
		for _, dir := range dirs {
			m, err := meta.Read(dir)
			if err != nil {
				t.Fatal(err)
			}
			ids[m.UUID]++
			log, err := rawlog.Open(filepath.Join(dir, logName))
			if err != nil {
				t.Fatal(err)
			}
			first, last := log.Info().Start, log.Info().End
			_ = log.Close()
			begin, end := m.Segments[0].StartTime, m.Segments[len(m.Segments)-1].EndTime
			if begin < meta.Seconds(int64(first))-1e-5 || end < begin || end > meta.Seconds(int64(last))+1e-5 {
				t.Errorf("%s: segments from %f to %f, log from %f to %f", dir, begin, end, meta.Seconds(int64(first)), meta.Seconds(int64(last)))
			}
		}
	}
	read(3)
	read(3)
	read(4)
	if len(ids) != 4 {
		t.Errorf("%d identifiers for two plans of two trials", len(ids))
	}
	for id, n := range ids {
		if n > 2 {
			t.Errorf("%s stands for %d trials", id, n)
		}
	}
}

// After the declared number of reruns a trial counts as it stands: nothing is dropped.
func TestRerunsEnd(t *testing.T) {
	p := &pusher{step: 0.003, fail: 1000}
	o, _ := options(t, 1, p)
	o.Task.Aborted.MaxReruns = 1
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if s := r.Summary(PolicyName); s.Reruns != 1 || s.Trials != 1 || s.Score.Estimate != 0 || s.Causes[CauseSystem] != 1 {
		t.Errorf("%+v", s)
	}
}

// A policy that asks for 2 m/s is stopped by a gate, which counts; the trials after it run.
func TestASafetyStopCounts(t *testing.T) {
	p := &pusher{step: 0.2}
	o, _ := options(t, 2, p)
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	s := r.Summary(PolicyName)
	if s.Ends[EndStopped] != 2 || s.Causes[CauseSafety] != 2 || s.Reruns != 0 || s.Score.Estimate != 0 {
		t.Errorf("%+v", s)
	}
	if h := r.Summary(HoldName); h.Ends[EndStall] != 2 {
		t.Errorf("hold after a stop: %+v", h)
	}
}

// The time limit scores a trial as it stands: at 4.5 mm/s the hand passes some milestones, not all.
func TestTheTimeLimitScoresSoFar(t *testing.T) {
	o, _ := options(t, 1, &pusher{step: 0.0012})
	o.Task.TimeLimitS, o.Task.StallS = 4, 0
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if s := r.Summary(PolicyName); s.Ends[EndTime] != 1 || s.Score.Estimate == 0 || s.Score.Estimate == 1 {
		t.Errorf("%+v", s)
	}
}

func TestACellThatCannotBeReachedIsOneError(t *testing.T) {
	o, _ := options(t, 1, &pusher{step: 0.003})
	o.Connect = func(context.Context) (Robot, error) { return nil, errors.New("connection refused") }
	if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "reach the cell: connection refused") {
		t.Errorf("got %v", err)
	}
	if n := len(finished(t, o.Out)); n != 0 {
		t.Errorf("%d trials exist", n)
	}
}
