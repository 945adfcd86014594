package capture

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/device"
	"github.com/pinch-robotics/pinch/internal/device/camera"
	"github.com/pinch-robotics/pinch/internal/device/pedal"
	"github.com/pinch-robotics/pinch/internal/rawlog"
)

const (
	tickEvery    = 50 * time.Millisecond
	prerollFor   = time.Second
	beforeStart  = 400 * time.Millisecond // a recording begins that long before the press that starts it
	afterEnd     = 250 * time.Millisecond // and ends that long after its last event
	closeTimeout = 10 * time.Second       // a closing recording waits no longer for late devices

	exchangesKept = 15 // clock exchanges that a recording begins with, the window of the estimate
)

// engine is one session. All its fields belong to the goroutine of loop, apart from in and what the drivers own.
type engine struct {
	opts    Options
	rig     *Rig
	clock   device.Clock
	ctx     context.Context // of the drivers
	in      chan event
	devices []*attached
	merge   *merger
	gate    *gate
	pub     *publisher
	axis    axis
	pre     *preroll
	state   sessionState
	console console

	begun     frames.HostTime
	firstTime map[string]frames.DeviceTime // of each shared clock
	newest    map[string]frames.DeviceTime
	judgedAt  map[string]frames.DeviceTime
	connected bool // every device was connected once
	pedalDone bool
	lastEvent frames.HostTime

	exchanges map[string][]frames.ClockSample // the newest, by clock

	rec      *recording
	closing  *closing
	number   int
	faults   map[string]bool
	res      Result
	logged   map[string]uint64 // different messages written, by topic
	loggedTo map[string]int64  // time of the newest of them
	finished rawlog.WriterStats
	shown    uint64
}

// closing is a recording that has had its last event and waits for what belongs to its end.
type closing struct {
	limit   instant
	since   frames.HostTime
	keep    bool
	success bool
	passed  bool // the shared clock has passed the limit
}

func newEngine(opts Options) *engine {
	e := &engine{
		opts: opts, rig: opts.Rig, clock: opts.Clock, in: make(chan event, 256), pub: newPublisher(opts.Rig),
		axis: axis{opts.Rig.Pedal.Clock}, state: sessionState{task: opts.Rig.Task}, ctx: context.Background(),
		firstTime: map[string]frames.DeviceTime{}, newest: map[string]frames.DeviceTime{}, judgedAt: map[string]frames.DeviceTime{},
		faults: map[string]bool{}, exchanges: map[string][]frames.ClockSample{}, logged: map[string]uint64{}, loggedTo: map[string]int64{},
	}
	e.console = console{w: opts.Console, live: opts.Live}
	e.pre = newPreroll(e.axis, prerollFor)
	e.begun = e.clock()
	e.lastEvent = e.begun
	e.attach()
	clocks, names, rates := make([]string, len(e.devices)), make([]string, len(e.devices)), make([]float64, len(e.devices))
	for i, d := range e.devices {
		clocks[i], names[i], rates[i] = d.clock, d.name, d.rateHz
	}
	e.merge = newMerger(clocks, e.begun)
	e.gate = newGate(opts.Rig.Gate, names, rates)
	return e
}

// loop is the session: events in, messages out, until the session is over, ctx ends, a driver fails (driversDone) or the log fails.
func (e *engine) loop(ctx context.Context, driversDone <-chan struct{}) error {
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	var err error
	for err == nil && !e.over() {
		select {
		case ev := <-e.in:
			err = e.arrive(ev)
		case <-tick.C:
			err = e.tick()
		case <-ctx.Done():
			return e.end("interrupted")
		case <-driversDone:
			if ctx.Err() != nil {
				return e.end("interrupted")
			}
			return e.end("a device failed")
		}
	}
	if err != nil {
		return e.abandon(err)
	}
	return e.end("session over")
}

// over tells that the session has done what it was asked for.
func (e *engine) over() bool {
	if e.rec != nil {
		return false
	}
	return (e.opts.Episodes > 0 && len(e.res.Saved) >= e.opts.Episodes) || (e.pedalDone && !e.merge.waiting(len(e.devices)-1, isPress))
}

func isPress(ev event) bool {
	r, ok := ev.body.(pedal.Reading)
	return ok && r.Changed && r.Down
}

// end finishes what is open and says goodbye.
func (e *engine) end(why string) error {
	if e.rec != nil && e.closing == nil {
		now := e.now()
		if err := e.apply(e.state.stop(why), now); err != nil {
			return e.abandon(err)
		}
	}
	if e.closing != nil {
		if err := e.finishRecording(); err != nil {
			return err
		}
	}
	e.console.clear()
	return nil
}

// abandon closes the log of a recording that cannot go on because of err, and adds its name to err; its folder stays for recovery.
func (e *engine) abandon(err error) error {
	if e.rec == nil {
		return err
	}
	name := e.rec.name
	_ = e.rec.log.Close() // its failure is the one that brought us here
	e.rec = nil
	return fmt.Errorf("recording %s is unfinished (`pinch record --recover %s` finishes it): %w", name, e.opts.Out, err)
}

// arrive takes one event from a driver and processes everything that may pass now.
func (e *engine) arrive(ev event) error {
	now := e.clock()
	if _, ok := ev.body.(clockReading); !ok {
		e.lastEvent = now
	}
	if s, ok := ev.body.(device.Status); ok {
		return e.status(ev.source, s, now)
	}
	e.merge.add(ev, now)
	return e.drain(now)
}

func (e *engine) drain(now frames.HostTime) error {
	for {
		ev, ok := e.merge.next(now)
		if !ok {
			return nil
		}
		err := e.process(ev)
		e.devices[ev.source].room.Release(int64(ev.bytes))
		if err != nil {
			return err
		}
	}
}

func (e *engine) status(source int, s device.Status, now frames.HostTime) error {
	d := e.devices[source]
	if s.Warning != "" {
		e.opts.Log.Warn(s.Warning, "device", s.Name)
		return nil
	}
	d.err = s.Err
	if s.State == d.state && s.Err == nil {
		return nil
	}
	e.opts.Log.Info("device "+s.State.String(), "device", s.Name, "err", s.Err)
	if s.State == device.Lost && d.state == device.Connected {
		e.console.line("%s lost: %v", s.Name, s.Err)
	}
	if s.State == device.Connected && d.state == device.Lost {
		e.console.line("%s is back", s.Name)
	}
	d.state = s.State
	e.merge.setLive(source, s.State == device.Connected || s.State == device.Connecting, now)
	if s.State == device.Lost {
		e.resetUnwrap(d.name)
	}
	if s.State == device.Ended {
		e.pedalDone = true
	}
	return e.drain(now)
}

// resetUnwrap starts an encoder's turn count anew after a reconnect.
func (e *engine) resetUnwrap(name string) {
	for i, side := range sides {
		if name == side+" encoder" {
			e.pub.unwrap[i].Reset()
		}
	}
}

// process turns one event into messages, and a pedal press into what it asks for.
func (e *engine) process(ev event) error {
	d := e.devices[ev.source]
	if c, ok := ev.body.(clockReading); ok {
		return e.clockSample(d.clock, c.sample)
	}
	e.watch(ev)
	if err := d.handle(ev); err != nil {
		return err
	}
	for _, m := range e.pub.take() {
		if err := e.log(m); err != nil {
			return err
		}
	}
	if isPress(ev) {
		return e.press(ev.body.(pedal.Reading).Button, instant{ev.device, ev.host})
	}
	return nil
}

// log keeps a message for the pre-roll and writes it to the open recording, unless it lies after its end.
func (e *engine) log(m message) error {
	e.pre.add(m)
	if e.rec == nil {
		return nil
	}
	if e.closing != nil && e.axis.after(&m, e.closing.limit) {
		e.closing.passed = e.closing.passed || e.axis.shared(&m)
		return e.maybeFinish()
	}
	return e.write(&m)
}

func (e *engine) write(m *message) error {
	if err := e.rec.write(m); err != nil {
		return err
	}
	e.shown++
	// A frame may be in two recordings, in the tail of one and the pre-roll of the next; it counts once.
	if at := axisTime(m.clock, event{host: m.host, device: m.device}); at > e.loggedTo[m.topic] {
		e.loggedTo[m.topic] = at
		e.logged[m.topic]++
	}
	if shownHook != nil {
		shownHook(m)
	}
	return nil
}

// shownHook lets a test of this package see every message the moment it counts as shown.
var shownHook func(m *message)

// press does what a button asks for.
func (e *engine) press(button int, at instant) error {
	var c command
	switch button {
	case e.rig.Pedal.Accept:
		c = cmdAccept
	case e.rig.Pedal.Reject:
		c = cmdReject
	case e.rig.Pedal.Cancel:
		c = cmdCancel
	default:
		return nil
	}
	if !e.state.recording && c == cmdAccept {
		if why := e.blocked(); why != "" {
			e.console.line("cannot start: %s", why)
			return nil
		}
	}
	return e.apply(e.state.apply(c), at)
}

// blocked says why no recording may start, or "".
func (e *engine) blocked() string {
	if missing := e.gate.missing(); len(missing) > 0 {
		return "nothing yet from " + strings.Join(missing, ", ")
	}
	if faults := e.gate.faults(); len(faults) > 0 {
		return strings.Join(faults, "; ")
	}
	if err := checkFree(e.opts.Out, e.opts.MinFreeBytes); err != nil {
		return err.Error()
	}
	return ""
}

// apply carries out what the state machine decided.
func (e *engine) apply(s step, at instant) error {
	if s.begin {
		if e.closing != nil { // the next episode begins before the last one's tail has passed
			if err := e.finishRecording(); err != nil {
				return err
			}
		}
		if err := e.startRecording(at); err != nil {
			return err
		}
	}
	for _, ev := range s.events {
		if err := e.rec.event(ev, e.axis.clock, at.host, at.device); err != nil {
			return err
		}
		e.console.session(e.rec.name, ev)
	}
	if s.end {
		e.closing = &closing{limit: at.add(afterEnd), since: e.clock(), keep: s.keep, success: s.keep && e.state.success()}
	}
	return nil
}

// startRecording opens a recording that begins a little before at, with what the pre-roll holds.
func (e *engine) startRecording(at instant) error {
	e.number++
	name := at.host.Time().Format("20060102-150405") + fmt.Sprintf("-%04d", e.number)
	rec, err := createRecording(e.opts.Out, name, e.describe(at), e.opts.Writer)
	if err != nil {
		return err
	}
	e.rec = rec
	begin := at.add(-beforeStart)
	clock := ""
	if e.rig.Tracker.Clock == e.axis.clock {
		clock = e.axis.clock
	}
	static := staticTransforms(e.rig, e.pub.stamp(clock, event{host: begin.host, device: begin.device, timed: clock != ""}))
	if err := e.write(&message{
		topic: topicTFStatic, typeName: static.TypeName(), clock: clock, host: begin.host, device: begin.device, data: static.MarshalCDR(nil),
	}); err != nil {
		return err
	}
	for _, clock := range slices.Sorted(maps.Keys(e.exchanges)) { // so that a short recording has its clocks too
		for _, s := range e.exchanges[clock] {
			if err := e.writeExchange(clock, s); err != nil {
				return err
			}
		}
	}
	for _, m := range e.pre.from(begin) {
		if err := e.write(&m); err != nil {
			return err
		}
	}
	return nil
}

// maybeFinish finishes a closing recording once everything that belongs to it has passed.
func (e *engine) maybeFinish() error {
	c := e.closing
	if c == nil {
		return nil
	}
	now := e.clock()
	sharedDone, hostDone := c.passed, now >= c.limit.host
	for i := range e.devices {
		if e.devices[i].clock != e.axis.clock || e.axis.clock == "" {
			sharedDone = sharedDone && hostDone // some devices are judged by host time
		}
	}
	if e.axis.clock == "" {
		sharedDone = hostDone
	}
	if sharedDone || now.Sub(c.since) > closeTimeout {
		return e.finishRecording()
	}
	return nil
}

// finishRecording closes the open recording for good.
func (e *engine) finishRecording() error {
	rec, c := e.rec, e.closing
	e.rec, e.closing = nil, nil
	clear(e.faults)
	var dir string
	var err error
	if c.keep {
		dir, err = rec.finish(c.success)
	} else {
		dir, err = rec.discard()
	}
	stats := rec.log.Stats()
	e.finished.Written += stats.Written
	e.finished.Durable += stats.Durable
	e.res.Messages += stats.Durable
	if err != nil {
		return err
	}
	if c.keep {
		e.res.Saved = append(e.res.Saved, dir)
		e.console.line("saved %s: %d segments, success %v, %d messages", dir, len(rec.meta.Segments), c.success, stats.Durable)
	} else {
		e.res.Discarded = append(e.res.Discarded, dir)
		e.console.line("discarded; the data is kept in %s", dir)
	}
	return nil
}

func (e *engine) clockSample(clock string, s frames.ClockSample) error {
	if clock == "" {
		return nil
	}
	e.pub.clocks.sampled(clock, s)
	e.exchanges[clock] = append(e.exchanges[clock], s)
	if n := len(e.exchanges[clock]); n > exchangesKept {
		e.exchanges[clock] = e.exchanges[clock][n-exchangesKept:]
	}
	if e.rec == nil || e.closing != nil {
		return nil
	}
	return e.writeExchange(clock, s)
}

func (e *engine) writeExchange(clock string, s frames.ClockSample) error {
	return e.rec.writeJSON(rawlog.TopicClock, rawlog.ClockSampleSchema, "", s.Host, 0, rawlog.ClockSample{
		Clock: clock, DeviceNS: int64(s.Device), HostNS: int64(s.Host), RoundTripNS: int64(s.RoundTrip),
	})
}

// now is the present moment on both axes.
func (e *engine) now() instant { return instant{e.newest[e.axis.clock], e.clock()} }

// result sums up the session.
func (e *engine) result() Result {
	r := e.res
	for _, d := range e.devices {
		if d.camera == nil {
			continue
		}
		c := d.camera.Counts()
		logged := e.logged[topicCamera(d.rig.Name, camera.MJPEG)] + e.logged[topicCamera(d.rig.Name, camera.H264)]
		r.Cameras = append(r.Cameras, CameraCount{d.rig.Name, c.Frames, c.Bad, c.PacketsLost, logged})
	}
	return r
}
