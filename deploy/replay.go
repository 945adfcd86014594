package deploy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/pinch-robotics/pinch/internal/rawlog"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
)

// ErrDiffers marks a replay that decides otherwise than its log.
var ErrDiffers = errors.New("the replay decides otherwise than the log")

// Difference is the first decision in which a replay leaves its log.
type Difference struct {
	Run      int    // of the log's runs, from 0
	TNS      int64  // cell's clock
	Topic    string // of the decision
	Logged   string // the parts that differ; empty: the log has nothing more at this step
	Replayed string // empty: the replay has nothing more
}

// Error implements error.
func (d *Difference) Error() string {
	return fmt.Sprintf("run %d, at %d ns, %s: logged %s, replayed %s", d.Run, d.TNS, d.Topic, orNothing(d.Logged), orNothing(d.Replayed))
}

// Unwrap makes it an ErrDiffers.
func (d *Difference) Unwrap() error { return ErrDiffers }

func orNothing(s string) string {
	if s == "" {
		return "nothing"
	}
	return s
}

// ReplayReport counts what a replay compared.
type ReplayReport struct {
	Runs      int
	Steps     int         // control steps
	Decisions int         // records of chunks, commands, segments and events that came out equal, byte for byte
	First     *Difference // nil: all did
}

// ReplayOptions change what a log is replayed with; the zero value changes nothing.
type ReplayOptions struct {
	// Change edits the cell before a run is replayed; nil: as logged.
	Change func(*Cell) error
	Logger *slog.Logger // nil: silent
}

// decisions are the topics that a replay has to bring forth again.
var decisions = []string{TopicChunk, TopicCommand, TopicSegment, TopicEvent}

// ReplayLog lets the executor decide again what it decided in the runs of a log: from the logged states, frames' times, answers of the policy and wishes of the
// scorer, with no arm, camera or policy. Each decision is compared with the logged one; at the first that differs the replay ends. The error tells that the log can
// not be replayed, not that it differs.
func ReplayLog(ctx context.Context, path string, o ReplayOptions) (ReplayReport, error) {
	answers, err := readAnswers(path)
	if err != nil {
		return ReplayReport{}, err
	}
	log, err := rawlog.Open(path)
	if err != nil {
		return ReplayReport{}, err
	}
	defer log.Close()
	next, stop := iter.Pull2(log.Messages())
	defer stop()
	p := &replayer{o: o, next: next, path: path}
	for run := range answers {
		p.answers, p.report.Runs = answers[run], run+1
		if err := p.run(ctx, run); err != nil {
			var d *Difference
			if errors.As(err, &d) {
				p.report.First = d
				return p.report, nil
			}
			return p.report, fmt.Errorf("replay %s: %w", path, err)
		}
	}
	return p.report, nil
}

// readAnswers reads the policy's answers of every run.
func readAnswers(path string) (runs [][]ChunkRecord, err error) {
	log, err := rawlog.Open(path)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	for m, err := range log.Messages(TopicRun, TopicChunk) {
		if err != nil {
			return nil, fmt.Errorf("replay %s: %w", path, err)
		}
		if m.Channel.Topic == TopicRun {
			runs = append(runs, nil)
			continue
		}
		var c ChunkRecord
		if err := json.Unmarshal(m.Data, &c); err != nil {
			return nil, fmt.Errorf("replay %s: read a chunk: %w", path, err)
		}
		if len(runs) > 0 {
			runs[len(runs)-1] = append(runs[len(runs)-1], c)
		}
	}
	if len(runs) == 0 {
		return nil, fmt.Errorf("replay %s: it holds no run of `pinch deploy` (no %s); logs of earlier releases can not be replayed", path, TopicRun)
	}
	return runs, nil
}

// logged is a decision in the log.
type logged struct {
	topic string
	tNS   int64
	data  []byte
}

// replayer feeds a run from its log, step by step.
type replayer struct {
	o      ReplayOptions
	path   string
	next   func() (rawlog.Message, error, bool)
	report ReplayReport

	held     *rawlog.Message // read ahead: it begins the next step or run
	answers  []ChunkRecord
	expected []logged // of the step under way
	wish     Directive
	session  *Session
	index    int
}

// run replays one run; the log stands before its RunRecord.
func (p *replayer) run(ctx context.Context, index int) error {
	p.index = index
	var rec RunRecord
	for {
		m, err := p.read()
		if err != nil {
			return err
		}
		if m == nil {
			return io.ErrUnexpectedEOF
		}
		if m.Channel.Topic == TopicRun {
			if err := json.Unmarshal(m.Data, &rec); err != nil {
				return fmt.Errorf("read the run's beginning: %w", err)
			}
			break
		}
	}
	if p.o.Change != nil {
		if err := p.o.Change(&rec.Cell); err != nil {
			return err
		}
	}
	s, err := p.open(rec)
	if err != nil {
		return err
	}
	if err := p.block(); err != nil {
		return err
	}
	_, err = s.replay(ctx, RunOptions{
		Policy: logPolicy{rec.Contract}, Prompt: rec.Prompt, MaxDuration: time.Duration(rec.MaxDurationNS), Log: &TrialLog{tap: p.compare},
		Step: func(context.Context, Step) (Directive, error) { return p.wish, nil },
	}, p.answer)
	switch {
	case errors.Is(err, ErrDiffers):
		return err
	case err != nil && !errors.Is(err, errLogEnds) && !errors.Is(err, ErrPolicyLost):
		return err
	}
	return p.leftover()
}

// open makes a session without arms and cameras.
func (p *replayer) open(rec RunRecord) (*Session, error) {
	s := &Session{cell: rec.Cell, hello: rec.Hello, state: rec.State, conn: armlink.NewConn(nowhere{}), log: p.o.Logger}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if err := s.cell.Validate(); err != nil {
		return nil, err
	}
	if err := s.placeArms(); err != nil {
		return nil, err
	}
	for h, name := range Hands {
		info, err := findCamera(&s.hello, name)
		if err != nil {
			return nil, err
		}
		s.wrists[h] = &wrist{info: info, changed: make(chan struct{}), taken: -1}
	}
	s.source = p.step
	p.session = s
	return s, nil
}

// nowhere is the link of a replay.
type nowhere struct{}

// Read implements io.Reader.
func (nowhere) Read([]byte) (int, error) { return 0, io.EOF }

// Write implements io.Writer.
func (nowhere) Write(b []byte) (int, error) { return len(b), nil }

// Close implements io.Closer.
func (nowhere) Close() error { return nil }

// logPolicy states the logged contract; it is never asked.
type logPolicy struct{ contract Contract }

// Metadata implements Policy.
func (l logPolicy) Metadata() map[string]any { return l.contract.Map() }

// Infer implements Policy.
func (l logPolicy) Infer(context.Context, Observation) (Chunk, error) {
	return Chunk{}, errors.New("a policy in a log is not asked")
}

// errLogEnds ends a replay where its log ends.
var errLogEnds = errors.New("the log ends")

// read takes the next message, nil at the end. What can not be read ends the replay: it would decide otherwise for no fault of its own.
func (p *replayer) read() (*rawlog.Message, error) {
	if m := p.held; m != nil {
		p.held = nil
		return m, nil
	}
	m, err, ok := p.next()
	var loss *rawlog.Loss
	switch {
	case !ok:
		return nil, nil
	case errors.As(err, &loss) && strings.Contains(loss.Reason, "not closed"):
		return nil, nil // the run was cut off: everything up to there counts
	case err != nil:
		return nil, err
	}
	return &m, nil
}

// step gives the next state with everything that came with it.
func (p *replayer) step() error {
	if err := p.leftover(); err != nil {
		return err
	}
	m, err := p.read()
	if err != nil {
		return err
	}
	if m == nil || m.Channel.Topic == TopicRun {
		p.held = m
		return errLogEnds
	}
	var rec StateRecord
	if err := json.Unmarshal(m.Data, &rec); err != nil {
		return fmt.Errorf("read a state: %w", err)
	}
	if err := p.session.take(&rec.State); err != nil {
		return err
	}
	p.session.faults = append(p.session.faults, rec.Refused...)
	p.report.Steps++
	if err := p.block(); err != nil {
		return err
	}
	for h, w := range p.session.wrists { // frames from before the run are not in the log
		if t := rec.FrameNS[h]; t > 0 && (len(w.frames) == 0 || w.frames[len(w.frames)-1].CaptureNS < t) {
			w.keep(Frame{CaptureNS: t})
			w.taken = t
		}
	}
	return nil
}

// block reads up to the next state or run: frames, wishes and decisions of the step under way.
func (p *replayer) block() error {
	p.wish = Directive{}
	for {
		m, err := p.read()
		if err != nil || m == nil {
			return err
		}
		switch topic := m.Channel.Topic; {
		case topic == TopicState || topic == TopicRun:
			p.held = m
			return nil
		case topic == TopicDirective:
			var d DirectiveRecord
			if err := json.Unmarshal(m.Data, &d); err != nil {
				return fmt.Errorf("read a directive: %w", err)
			}
			p.wish = Directive{Prompt: d.Prompt, End: d.End, Reason: d.Reason}
		case slices.Contains(decisions, topic):
			p.expected = append(p.expected, logged{topic, m.PublishTime, slices.Clone(m.Data)})
		default:
			for h, name := range Hands {
				if topic == imageTopic(name) {
					p.session.wrists[h].keep(Frame{CaptureNS: m.PublishTime})
				}
			}
		}
	}
}

// answer gives the policy's next answer, due when the log took it; after the last there is none.
func (p *replayer) answer(a *asked) {
	if len(p.answers) == 0 {
		return
	}
	rec := p.answers[0]
	p.answers = p.answers[1:]
	r := answered{took: time.Duration(rec.TookNS)}
	if rec.Error != "" {
		r.err = &loggedError{rec.Error, rec.Lost}
	} else {
		r.chunk = Chunk{Rows: len(rec.Actions), Cols: ActionColumns, Data: slices.Concat(rec.Actions...), Checkpoint: rec.Checkpoint}
	}
	a.due = rec.TakenNS
	a.answer <- r
}

// loggedError is a policy's error of the log.
type loggedError struct {
	text string
	lost bool
}

// Error implements error.
func (e *loggedError) Error() string { return e.text }

// Is makes an answer that broke the contract an ErrBadChunk.
func (e *loggedError) Is(target error) bool { return target == ErrBadChunk && !e.lost }

// compare takes one record of the replay.
func (p *replayer) compare(topic string, tNS int64, data []byte) error {
	if !slices.Contains(decisions, topic) {
		return nil
	}
	if len(p.expected) == 0 {
		return &Difference{p.index, tNS, topic, "", clip(string(data))}
	}
	want := p.expected[0]
	p.expected = p.expected[1:]
	if want.topic != topic {
		return &Difference{p.index, tNS, want.topic, clip(string(want.data)), topic + " " + clip(string(data))}
	}
	if string(want.data) != string(data) {
		a, b := apart(want.data, data)
		return &Difference{p.index, tNS, topic, a, b}
	}
	p.report.Decisions++
	return nil
}

// leftover is the decision that the log has and the replay has not. Where a run was lost, the log says so.
func (p *replayer) leftover() error {
	for _, l := range p.expected {
		var e EventRecord
		if l.topic == TopicEvent && json.Unmarshal(l.data, &e) == nil && e.Kind == "lost" {
			continue
		}
		return &Difference{p.index, l.tNS, l.topic, clip(string(l.data)), ""}
	}
	p.expected = nil
	return nil
}

// apart writes the keys of two JSON objects that differ.
func apart(a, b []byte) (string, string) {
	var x, y map[string]any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return clip(string(a)), clip(string(b))
	}
	var left, right []string
	for _, key := range sortedKeys(x, y) {
		if !reflect.DeepEqual(x[key], y[key]) {
			left = append(left, fmt.Sprintf("%s %v", key, x[key]))
			right = append(right, fmt.Sprintf("%s %v", key, y[key]))
		}
	}
	return clip(strings.Join(left, ", ")), clip(strings.Join(right, ", "))
}

func sortedKeys(maps ...map[string]any) (keys []string) {
	for _, m := range maps {
		for k := range m {
			if !slices.Contains(keys, k) {
				keys = append(keys, k)
			}
		}
	}
	slices.Sort(keys)
	return keys
}

// clip shortens what a difference shows.
func clip(s string) string {
	const most = 300
	if len(s) <= most {
		return s
	}
	return s[:most] + "..."
}
