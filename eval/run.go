package eval

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/pinch-robotics/pinch/deploy"
	"github.com/pinch-robotics/pinch/internal/folderlock"
)

// Options of a run.
type Options struct {
	Task     Task
	TaskDir  string // folder of the task file, for its conditions file
	Trials   int    // conditions, each met by every entrant; default 15
	Seed     uint64 // of the order and the statistics
	Entrants []Entrant
	Scorer   Scorer
	// Connect reaches the cell. It is called at the start and again after a fault, so it may start a lost cell anew.
	Connect func(ctx context.Context) (Robot, error)
	Out     string // output folder: new, or that of an interrupted run with the same plan
	// Record lists the entrants whose trials are turned into a dataset each (Out/datasets/NAME); nil: the first one.
	Record []string
	// Progress is called before each trial (trial nil) and after it; may be nil.
	Progress func(done, total int, next string, trial *Trial)
	Logger   *slog.Logger // nil: silent
}

// Run runs all trials that are not there yet, and writes the report. When ctx ends it returns ctx's error; every finished trial
// is kept and the next Run goes on with the others.
func Run(ctx context.Context, o Options) (*Report, error) {
	if o.Trials == 0 {
		o.Trials = 15
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if err := o.Task.Validate(); err != nil {
		return nil, fmt.Errorf("task: %w", err)
	}
	conditions, err := o.Task.Conditions.List(o.Trials, o.TaskDir)
	if err != nil {
		return nil, err
	}
	plan, err := newPlan(o.Task, conditions, o.Entrants, o.Seed)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.Out, 0o755); err != nil {
		return nil, fmt.Errorf("make the output folder: %w", err)
	}
	lock, err := folderlock.Take(o.Out)
	if err != nil {
		return nil, fmt.Errorf("eval: %w", err)
	}
	defer lock.Release()
	if err := plan.register(o.Out); err != nil {
		return nil, err
	}
	r := &runner{o: o, plan: plan, entrants: map[string]Entrant{}}
	if r.digest, err = plan.digest(); err != nil {
		return nil, err
	}
	defer r.disconnect()
	for _, e := range o.Entrants {
		r.entrants[e.Name] = e
	}
	trials, err := r.all(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.datasets(ctx); err != nil {
		return nil, err
	}
	return finish(o.Out, plan, trials)
}

type runner struct {
	o        Options
	plan     Plan
	digest   string // of the plan
	entrants map[string]Entrant
	robot    Robot // nil: not connected
}

// all walks the plan: conditions in order, entrants in the block's order.
func (r *runner) all(ctx context.Context) ([]Trial, error) {
	var trials []Trial
	total, done := len(r.plan.Conditions)*len(r.plan.Entrants), 0
	for n, c := range r.plan.Conditions {
		for _, name := range r.plan.Order[n] {
			r.report(done, total, fmt.Sprintf("%s on %s", name, c.Name), nil)
			attempts, err := r.untilCounted(ctx, n, c, r.entrants[name])
			if err != nil {
				return nil, err
			}
			trials = append(trials, attempts...)
			done++
			r.report(done, total, "", &trials[len(trials)-1])
		}
	}
	return trials, nil
}

func (r *runner) report(done, total int, next string, t *Trial) {
	if r.o.Progress != nil {
		r.o.Progress(done, total, next, t)
	}
}

// untilCounted runs a trial, and again as the task's rule for aborted trials says; the last attempt counts.
func (r *runner) untilCounted(ctx context.Context, n int, c Condition, e Entrant) ([]Trial, error) {
	var attempts []Trial
	for k := 1; ; k++ {
		t := Trial{Entrant: e.Name, Condition: c.Name, Number: n, Attempt: k}
		old, ok, err := readTrial(t.dir(r.o.Out))
		if err != nil {
			return nil, err
		}
		if ok {
			t = old
		} else if err := r.once(ctx, &t, c, e); err != nil {
			return nil, err
		}
		attempts = append(attempts, t)
		if t.Counts {
			return attempts, nil
		}
	}
}

// once runs one attempt and writes it. An error means that no trial happened: the context ended, the disk failed, or the cell can
// not be reached at all.
func (r *runner) once(ctx context.Context, t *Trial, c Condition, e Entrant) error {
	dir := t.dir(r.o.Out)
	if err := os.RemoveAll(dir); err != nil { // what an interrupted attempt left
		return fmt.Errorf("clear the trial's folder: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make the trial's folder: %w", err)
	}
	err := r.drive(ctx, t, c, e, dir)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var fault faultError
	switch {
	case errors.As(err, &fault):
		t.End, t.Reason = EndFault, fault.Error()
		t.Cause, t.CauseText = CauseSystem, fault.Error()
		r.o.Logger.Warn("trial aborted by a fault", "entrant", e.Name, "condition", c.Name, "err", fault.err)
		r.disconnect() // the next attempt starts on a fresh connection
	case err != nil:
		return fmt.Errorf("trial of %s on condition %s: %w", e.Name, c.Name, err)
	}
	rule := r.plan.Task.Aborted
	action, aborted := t.aborted(rule)
	t.Counts = !aborted || action == CountSoFar || t.Attempt > rule.MaxReruns
	t.Score = r.plan.Task.Rubric().Credit(t.Done)
	return t.write(dir)
}

// faultError marks what the task's rule calls a system fault.
type faultError struct{ err error }

func (f faultError) Error() string { return f.err.Error() }
func (f faultError) Unwrap() error { return f.err }

// lost tells whether err means that the cell or the policy is gone, which is what can befall a trial. Anything else, such as a full disk
// or a question that the scorer could not ask, would befall the next attempt too and ends the run.
func lost(err error) bool {
	return errors.Is(err, deploy.ErrCellLost) || errors.Is(err, deploy.ErrPolicyLost)
}

// fault marks err as a system fault if the cell or the policy is lost.
func fault(err error) error {
	if lost(err) {
		return faultError{err}
	}
	return err
}

// drive brings the cell to the condition, runs the policy and asks the scorer.
func (r *runner) drive(ctx context.Context, t *Trial, c Condition, e Entrant, dir string) error {
	if err := r.ready(ctx, c); err != nil {
		return err
	}
	if err := r.o.Scorer.Begin(ctx, r.robot, c); err != nil {
		return fault(err)
	}
	if aware, ok := e.Policy.(trialAware); ok {
		aware.BeginTrial(t.Number)
	}
	// Sampling noise begins anew, so a trial does not depend on the trials before it.
	if p, ok := e.Policy.(deploy.Resetter); ok {
		p.Reset()
	}
	log, err := newRecording(dir, r.robot.Hello(), r.digest, r.plan.Task.Name, *t)
	if err != nil {
		return err
	}
	a := &attempt{task: r.plan.Task, scorer: r.o.Scorer, log: log, dir: dir, trial: t}
	if err := a.start(r.robot.Now()); err != nil {
		return errors.Join(err, log.abandon())
	}
	result, runErr := r.robot.Run(ctx, deploy.RunOptions{
		Policy: e.Policy, Prompt: t.Prompts[0].Prompt, MaxDuration: r.plan.Task.TimeLimit(), Step: a.step, Log: log.trial,
	})
	t.take(result)
	t.Done = a.done
	if runErr != nil {
		if ctx.Err() != nil {
			return errors.Join(ctx.Err(), log.abandon())
		}
		return r.afterFault(ctx, runErr, log)
	}
	if err := a.picture("end", a.last); err != nil {
		return errors.Join(err, log.abandon())
	}
	if t.Finding, err = r.o.Scorer.End(ctx, result); err != nil {
		return r.afterFault(ctx, err, log)
	}
	if t.End == EndStopped && t.Done < len(r.plan.Task.Rubric()) {
		t.Cause = CauseSafety // the reason says which gate; the text, how far it came
	}
	if err := log.end(r.robot.Now(), t.Done == len(r.plan.Task.Rubric())); err != nil {
		return err
	}
	if result.Stopped() {
		r.recover(ctx)
	}
	return nil
}

// recover makes stopped arms ready again, as the person who watches an evaluation would.
func (r *runner) recover(ctx context.Context) {
	if err := r.robot.Recover(ctx); err != nil {
		r.o.Logger.Warn("the arms did not recover; connecting anew", "err", err)
		r.disconnect()
	}
}

// afterFault finishes the log of a trial that err ended. A log that cannot be finished ends the run, whatever ended the trial.
func (r *runner) afterFault(ctx context.Context, err error, log *recording) error {
	if !lost(err) {
		return errors.Join(err, log.abandon())
	}
	if logErr := log.end(r.robot.Now(), false); logErr != nil {
		return errors.Join(logErr, err)
	}
	if errors.Is(err, deploy.ErrPolicyLost) { // the arms were stopped, and a cell that goes on by itself would stay so
		r.recover(ctx)
	}
	return faultError{err}
}

// take copies deploy's result. An end that the step hook decided stands.
func (t *Trial) take(res deploy.Result) {
	t.Reason = res.Reason
	t.Seconds = res.Duration.Seconds()
	t.Motion = Motion{res.Chunks, res.Rejected, res.Shortened, res.Contacts, res.Starved, res.MaxFollowing, res.MinArmDistance}
	ms := func(d interface{ Seconds() float64 }) float64 { return 1000 * d.Seconds() }
	t.Wall = Wall{ms(res.PolicyLatency.P50), ms(res.PolicyLatency.P99), res.PolicyLatency.N}
	switch res.Outcome {
	case deploy.OutcomeStopped:
		t.End = EndStopped
	case deploy.OutcomeTime:
		t.End = EndTime
	}
}

// ready connects if need be, homes the arms and lets the scene be laid out.
func (r *runner) ready(ctx context.Context, c Condition) error {
	starts, err := c.HandStarts()
	if err != nil {
		return err
	}
	if err := r.home(ctx, starts); err != nil {
		return fmt.Errorf("condition %s: %w", c.Name, err)
	}
	if person, ok := r.o.Scorer.(Resetter); ok {
		return fault(person.Reset(ctx, c))
	}
	if len(c.Scene) == 0 {
		return fmt.Errorf("condition %s has no scene for the simulator; a robot needs a person as scorer", c.Name)
	}
	if err := r.robot.SetScene(ctx, c.Scene); err != nil {
		return fault(fmt.Errorf("lay out condition %s: %w", c.Name, err))
	}
	return nil
}

// home moves the arms to their starts. When they cannot go there, a cell that is connected anew, and so perhaps started anew, gets one
// more chance: a trial may leave arms where no path leads away.
func (r *runner) home(ctx context.Context, starts [2]deploy.HandStart) error {
	for again := r.robot != nil; ; again = false {
		if r.robot == nil {
			robot, err := r.o.Connect(ctx)
			if err != nil {
				return fmt.Errorf("reach the cell: %w", err)
			}
			r.robot = robot
		}
		err := r.robot.Home(ctx, starts)
		if err == nil || ctx.Err() != nil {
			return err
		}
		if lost(err) || !again {
			return fault(fmt.Errorf("home the arms: %w", err))
		}
		r.o.Logger.Warn("the arms cannot go home; connecting anew", "err", err)
		r.disconnect()
	}
}

func (r *runner) disconnect() {
	if r.robot == nil {
		return
	}
	if err := r.robot.Close(); err != nil {
		r.o.Logger.Warn("close the cell", "err", err)
	}
	r.robot = nil
}
