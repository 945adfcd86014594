package deploy

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/pinch-robotics/pinch/internal/wire/armlink"
)

// run is one Run of a session, step by step.
type run struct {
	s        *Session
	opts     RunOptions
	contract Contract
	exec     *executor
	inq      inquirer
	hist     history
	seen     [2]seen // of the wrist cameras, in this step
	noted    int     // refused messages that the log has already

	steps       int
	frames      [2]int
	newest      int64 // capture time of the observation that the newest chunk answers
	lastEvent   string
	lastEventNS int64
	stall       stall
	scene       scene

	begun    int64
	prompt   string
	pending  *asked
	wantNew  bool  // ask at once, whatever is left of the chunk
	rejects  int   // chunks in a row that were refused or could not be followed
	yielding int64 // when hands that met something have given way
	standing int64 // when the arms came to stand without a chunk; 0: they move
	stopping string
	ending   bool
	res      Result
}

// Run drives the arms with a policy until it ends. A tripped gate is a Result with OutcomeStopped, not an error; an error means that the
// cell, the policy or the log was lost (it wraps ErrCellLost or ErrPolicyLost where one of them is to blame; the arms were told to stop).
func (s *Session) Run(ctx context.Context, opts RunOptions) (Result, error) {
	r, err := s.newRun(opts)
	if err != nil {
		return Result{}, err
	}
	if why, stopped := s.stopped(); stopped {
		return Result{}, fmt.Errorf("run: the cell waits for an acknowledgement (recover): %s", why)
	}
	return r.drive(ctx)
}

// drive runs until the end and sums up.
func (r *run) drive(ctx context.Context) (Result, error) {
	s := r.s
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends an inference that is still under way
	err := r.loop(ctx)
	if err != nil && !errors.Is(err, ErrDiffers) && !errors.Is(err, errLogEnds) {
		_ = r.event("lost", err.Error())
	}
	r.res.Duration = time.Duration(s.state.TNS - r.begun)
	r.res.PolicyLatency = r.inq.latency.summary()
	if math.IsInf(r.res.MinArmDistance, 1) {
		r.res.MinArmDistance = 0 // it was never measured
	}
	if err != nil {
		// Whatever went wrong, arms must not go on with a plan nobody watches.
		_ = s.conn.Write(&armlink.Stop{Reason: err.Error()})
		return r.res, fmt.Errorf("run: %w", err)
	}
	return r.res, nil
}

// replay is Run with answers from a log.
func (s *Session) replay(ctx context.Context, opts RunOptions, answers func(*asked)) (Result, error) {
	r, err := s.newRun(opts)
	if err != nil {
		return Result{}, err
	}
	r.inq.replay = answers
	return r.drive(ctx)
}

func (s *Session) newRun(opts RunOptions) (*run, error) {
	if opts.Policy == nil {
		return nil, errors.New("run: no policy")
	}
	contract, err := ReadContract(opts.Policy.Metadata(), s.cell.Contract)
	if err != nil {
		return nil, fmt.Errorf("run: %w", err)
	}
	r := &run{s: s, opts: opts, contract: contract, prompt: opts.Prompt, wantNew: true}
	period := s.hello.PeriodNS
	for period < 10e6 {
		period += s.hello.PeriodNS // knots closer than 10 ms bring nothing
	}
	r.exec = newExecutor(&s.pair, s.cell, contract, period, s.cell.actionLatency(&s.hello))
	r.inq = inquirer{policy: opts.Policy, lockStep: s.hello.Clock == armlink.LockStep,
		latency: &latencies{initial: ms(s.cell.Control.PolicyLatencyMS)}, maxWait: ms(s.cell.Safety.PolicyMaxMS)}
	r.res.MinArmDistance = math.Inf(1)
	r.res.Prompts = []string{opts.Prompt}
	return r, nil
}

func (r *run) loop(ctx context.Context) error {
	q, finger := r.s.commanded()
	r.begun = r.s.state.TNS
	if err := r.logRun(); err != nil {
		return err
	}
	r.exec.begin(r.begun, q, finger)
	if err := r.event("begin", r.prompt); err != nil {
		return err
	}
	for {
		done, err := r.step(ctx)
		if err != nil || done {
			return err
		}
	}
}

// step is one control step: let a period pass, look, judge, decide, send.
func (r *run) step(ctx context.Context) (done bool, err error) {
	if err := r.advance(ctx); err != nil {
		return false, err
	}
	now := r.s.state.TNS
	m := r.s.measured()
	r.hist.add(now, m)
	if err := r.record(ctx, now, m); err != nil {
		return false, err
	}
	if r.steps++; r.opts.Watch != nil && r.steps%viewSteps == 0 {
		r.opts.Watch(r.look(now))
	}
	if r.stopping != "" {
		return r.stopped(now)
	}
	if why := r.gates(now); why != "" {
		return false, r.stop(why)
	}
	if r.ending {
		if done, err := r.ended(now); done || err != nil {
			return done, err
		}
		return false, r.send(now)
	}
	if err := r.hook(ctx, now, m); err != nil || r.ending {
		return false, err
	}
	if err := r.plan(ctx, now); err != nil {
		return false, err
	}
	if err := r.giveWay(now); err != nil {
		return false, err
	}
	if r.stopping != "" {
		return false, nil
	}
	return false, r.send(now)
}

// advance lets one period pass. In real time an arm process that stays silent is itself a gate.
func (r *run) advance(ctx context.Context) error {
	if r.s.hello.Clock == armlink.LockStep {
		return r.s.next(ctx)
	}
	limit, cancel := context.WithTimeoutCause(ctx, ms(r.s.cell.Safety.StateMaxAgeMS), errStateAge)
	defer cancel()
	err := r.s.next(limit)
	if err != nil && ctx.Err() == nil && errors.Is(context.Cause(limit), errStateAge) {
		return fmt.Errorf("%w: no state for %v ms", ErrCellLost, r.s.cell.Safety.StateMaxAgeMS)
	}
	return err
}

var errStateAge = errors.New("state too old")

// record logs what was measured and, in lock-step, waits for the frames that are due, so that log and decisions do not depend on who was
// faster.
func (r *run) record(ctx context.Context, now int64, m hands) error {
	for h, w := range r.s.wrists {
		if due, ok := w.newestDue(r.s.hello.StartNS, now); ok && r.inq.lockStep {
			limit, cancel := context.WithTimeoutCause(ctx, answerTimeout, errors.New("camera is silent"))
			err := w.wait(limit, due)
			cancel()
			if err != nil {
				return fmt.Errorf("%w: %w", ErrCellLost, err)
			}
		}
		r.seen[h] = w.upTo(now, r.seen[h])
	}
	if err := r.logState(now); err != nil {
		return err
	}
	if err := r.opts.Log.state(now, m.pose, m.finger); err != nil {
		return err
	}
	for h, w := range r.s.wrists {
		for _, f := range w.fresh(r.seen[h]) {
			if f.CaptureNS < r.begun {
				continue
			}
			r.frames[h]++
			if err := r.opts.Log.frame(h, f); err != nil {
				return err
			}
		}
	}
	return nil
}

// gates returns why the arms must stop, "" when all is well.
func (r *run) gates(now int64) string {
	if why, stopped := r.s.stopped(); stopped {
		return why
	}
	safety := &r.s.cell.Safety
	err, hand, joint := followingError(r.s)
	r.res.MaxFollowing = math.Max(r.res.MaxFollowing, err)
	if err > safety.FollowingRad {
		return fmt.Sprintf("%s arm joint %d is %.3f rad from its command, allowed %.3f", Hands[hand], joint+1, err, safety.FollowingRad)
	}
	r.res.MinArmDistance = math.Min(r.res.MinArmDistance, r.s.surfaces(&r.scene))
	for h, w := range r.s.wrists {
		_, due := w.newestDue(r.s.hello.StartNS, now)
		f, ok := r.seen[h].before(now)
		if age := now - max(f.CaptureNS, r.begun); (due || ok) && age > int64(ms(safety.ObservationMaxAgeMS)) {
			return fmt.Sprintf("newest %s wrist frame is %d ms old, allowed %.0f", Hands[h], age/1e6, safety.ObservationMaxAgeMS)
		}
	}
	if r.pending != nil {
		if wait := now - r.pending.tAsked; wait > int64(ms(safety.PolicyMaxMS)) {
			return fmt.Sprintf("the policy has not answered for %d ms, allowed %.0f", wait/1e6, safety.PolicyMaxMS)
		}
	}
	return r.starvation(now)
}

// starvation counts the times the path ran out, and stops when it stays so.
func (r *run) starvation(now int64) string {
	if !r.exec.resting(now) || r.res.Chunks == 0 || r.ending {
		r.standing = 0
		return ""
	}
	if r.standing == 0 {
		r.standing = now
		r.res.Starved++
		_ = r.event("starved", "the path ran out before the next chunk; the arms stand")
	}
	if now-r.standing > int64(ms(r.s.cell.Safety.StarvationMaxMS)) {
		return fmt.Sprintf("no usable chunk for %d ms", (now-r.standing)/1e6)
	}
	return ""
}

// stop begins to stop both arms.
func (r *run) stop(why string) error {
	r.stopping = why
	r.res.Outcome, r.res.Reason = OutcomeStopped, why
	if err := r.event("stop", why); err != nil {
		return err
	}
	return r.s.send(&armlink.Stop{Reason: why})
}

// stopped waits until both arms stand.
func (r *run) stopped(now int64) (bool, error) {
	for h := range Hands {
		if m := r.s.arm(h).Mode; m != armlink.ModeStopped && m != armlink.ModeReflex {
			return false, nil
		}
	}
	return true, r.event("end", string(OutcomeStopped))
}

// ended waits until both arms have come to rest along their path.
func (r *run) ended(now int64) (bool, error) {
	if !r.exec.resting(now) || r.s.arm(0).Mode != armlink.ModeIdle || r.s.arm(1).Mode != armlink.ModeIdle {
		return false, nil
	}
	return true, r.event("end", string(r.res.Outcome))
}

// hook shows the step to the scorer and does what it says.
func (r *run) hook(ctx context.Context, now int64, m hands) error {
	if r.opts.MaxDuration > 0 && now-r.begun >= int64(r.opts.MaxDuration) {
		return r.end(now, OutcomeTime, fmt.Sprintf("time limit of %v", r.opts.MaxDuration))
	}
	if r.stall.watch(now, m, ms(r.s.cell.Safety.StallMS)) {
		r.res.Stalls++
		if err := r.event("stall", fmt.Sprintf("nothing moved for %.1f s", r.s.cell.Safety.StallMS/1000)); err != nil {
			return err
		}
	}
	if r.opts.Step == nil {
		return nil
	}
	st := Step{TNS: now, Elapsed: time.Duration(now - r.begun), Hands: m.pose, FingerRad: m.finger, State: r.s.state, Prompt: r.prompt, Chunks: r.res.Chunks}
	for h := range r.seen {
		st.Frames[h], _ = r.seen[h].before(now)
	}
	d, err := r.opts.Step(ctx, st)
	if err != nil {
		return fmt.Errorf("step hook: %w", err)
	}
	if err := r.logDirective(now, d); err != nil {
		return err
	}
	switch {
	case d.End:
		return r.end(now, OutcomeEnded, d.Reason)
	case d.Prompt != "" && d.Prompt != r.prompt:
		r.prompt, r.wantNew = d.Prompt, true
		r.res.Prompts = append(r.res.Prompts, d.Prompt)
		if r.pending != nil {
			r.pending.stale = true
		}
		return r.event("prompt", d.Prompt)
	}
	return nil
}

// end brings the arms to rest along their path.
func (r *run) end(now int64, o Outcome, reason string) error {
	r.ending = true
	r.res.Outcome, r.res.Reason = o, reason
	r.exec.finish(now)
	return r.send(now)
}

// plan takes an answer over and asks the next question.
func (r *run) plan(ctx context.Context, now int64) error {
	if r.pending != nil {
		if a, ok := r.inq.arrived(r.pending, now); ok {
			p := r.pending
			r.pending = nil
			if err := r.receive(ctx, now, p, a); err != nil || r.stopping != "" {
				return err
			}
		}
	}
	if r.pending == nil && r.due(now) {
		return r.ask(ctx, now)
	}
	return nil
}

// blindSeconds is how long arms follow one chunk at most, where the cell does not say: longer than a person takes to react is blind.
const blindSeconds = 0.5

// due tells whether the next chunk must be asked for, so that it takes over when ExecuteRows are consumed.
func (r *run) due(now int64) bool {
	if r.wantNew {
		return true
	}
	rows := float64(r.s.cell.Control.ExecuteRows)
	if rows == 0 {
		rows = math.Min(float64(r.exec.path.rows)/2, blindSeconds*r.contract.RateHz)
	}
	lead := (r.inq.latency.expect() + ms(r.s.cell.Control.SwitchLeadMS)).Seconds() * r.contract.RateHz
	if all := r.exec.path.rows; all > 0 && lead > float64(all-5) { // five: the age of the picture, and the two rows takeOver wants
		// What is asked while moving would be consumed when it arrives: stop and go instead.
		return r.exec.resting(now)
	}
	return r.exec.consumedRows(now) >= rows-lead
}

// ask sends the newest observation: both wrist frames at their newest common time, the hands as measured then.
func (r *run) ask(ctx context.Context, now int64) error {
	left, okL := r.seen[0].before(now)
	right, okR := r.seen[1].before(now)
	if !okL || !okR {
		return nil // the first frames are still to come; the age gate watches
	}
	t := min(left.CaptureNS, right.CaptureNS)
	m, jpeg, ok := r.moment(t)
	if !ok {
		return nil // captured before the run began
	}
	origin := r.exec.policyTime(t - r.exec.latency)
	a := &asked{obs: observation(m, r.prompt, origin), jpeg: [][2][]byte{jpeg}, hands: m.pose, tObs: t, tAsked: now}
	r.extras(a, t, now, origin)
	r.wantNew = false
	r.pending = a
	r.inq.ask(ctx, a)
	return nil
}

// receive judges an answer.
func (r *run) receive(ctx context.Context, now int64, p *asked, a answered) error {
	if ctx.Err() != nil {
		return ctx.Err() // the caller gave up; that is nobody's fault
	}
	if a.err == nil {
		a.err = a.chunk.Check()
	}
	lost := a.err != nil && !errors.Is(a.err, ErrBadChunk)
	err := a.err
	if err == nil && !p.stale {
		err = r.follow(now, p, a.chunk)
	}
	if logErr := r.logChunk(now, p, a, err); logErr != nil {
		return logErr
	}
	switch {
	case lost:
		return fmt.Errorf("%w: %w", ErrPolicyLost, a.err)
	case p.stale:
		return nil // wantNew asks again, with the new prompt
	case errors.Is(err, ErrStop):
		return r.stop(err.Error())
	case err != nil:
		return r.refuse("rejected", err)
	}
	r.res.Chunks++
	r.rejects, r.newest = 0, p.tObs
	if r.exec.short > 0 {
		r.res.Shortened++
		r.wantNew = true
		return r.event("shortened", fmt.Sprintf("only %d rows can be reached", r.exec.short))
	}
	return nil
}

// follow lets a chunk take over.
func (r *run) follow(now int64, p *asked, c Chunk) error {
	c, err := deltas(c, r.contract.Answer, p.hands)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrRejected, err)
	}
	return r.exec.takeOver(now, p.tObs, c)
}

// refuse counts a chunk that was refused, or that the arms could not follow, and asks for another; too many in a row stop the run.
func (r *run) refuse(kind string, why error) error {
	r.res.Rejected++
	r.rejects++
	r.wantNew = true
	if err := r.event(kind, why.Error()); err != nil {
		return err
	}
	if r.rejects >= r.s.cell.Safety.RejectedChunks {
		return r.stop(fmt.Sprintf("%d chunks rejected in a row, the last: %v", r.rejects, why))
	}
	return nil
}

// giveWay lets hands give way to what holds them. It does so once for each meeting: the arms need a moment to follow, and what still holds
// them then is met again.
func (r *run) giveWay(now int64) error {
	limit := r.s.cell.Control.ContactRad
	if limit == 0 || now < r.yielding {
		return nil
	}
	var met [2]bool
	var text string
	for h := range Hands {
		if far, joint := pressed(r.s, h, time.Duration(r.exec.latency)); far > limit {
			met[h] = true
			text = fmt.Sprintf("%s arm joint %d is pressed %.3f rad off its command; the hand gives way", Hands[h], joint+1, far)
		}
	}
	if text == "" {
		return nil
	}
	r.yielding = now + int64(ms(r.s.cell.Control.SwitchLeadMS+yieldMS)) + r.exec.latency
	r.res.Contacts++
	r.exec.giveWay(now, met, [2]armlink.Joints{r.s.arm(0).Q, r.s.arm(1).Q})
	return r.event("contact", text)
}

// send extends the plan and sends what is new.
func (r *run) send(now int64) error {
	first, err := r.exec.extend(now)
	if err != nil && !r.ending {
		err = r.refuse("lost", err)
		if err != nil || r.stopping != "" {
			return err
		}
	}
	knots := r.exec.knots(first)
	if err := r.logSegment(now, knots); err != nil {
		return err
	}
	if err := r.s.sendSegments(knots); err != nil {
		return err
	}
	for _, text := range r.s.faults {
		if err := r.event("fault", text); err != nil {
			return err
		}
	}
	r.s.faults, r.noted = nil, 0
	c := r.exec.commits[r.exec.commitAt(now)]
	return r.opts.Log.json(TopicCommand, now, CommandRecord{TNS: now, PolicyTime: c.tau, Rate: c.rate, Q: c.q, FingerRad: c.finger})
}
