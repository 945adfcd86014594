package capture

import (
	"context"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/device"
	"github.com/pinch-robotics/pinch/internal/device/camera"
	"github.com/pinch-robotics/pinch/internal/device/encoder"
	"github.com/pinch-robotics/pinch/internal/device/pedal"
	"github.com/pinch-robotics/pinch/internal/device/tracker"
)

// laneBytes bounds what one device may have waiting; beyond it the device's connection is not read.
const laneBytes = 64 << 20

// eventOverhead is a guess of the memory of an event beside its data.
const eventOverhead = 256

// attached is one device of the session.
type attached struct {
	name   string
	clock  string
	rateHz float64 // expected; 0: none
	room   *semaphore.Weighted
	state  device.State
	err    error // why it is not connected
	handle func(e event) error
	camera *camera.Source
	rig    *Camera
	run    func(ctx context.Context) error
}

// clockReading is one exchange with a device clock; it passes like a reading.
type clockReading struct{ sample frames.ClockSample }

// attach lists the rig's devices in the order that breaks ties of time: cameras, encoders, tracker, pedal.
func (e *engine) attach() {
	for i := range e.rig.Cameras {
		e.attachCamera(&e.rig.Cameras[i])
	}
	for i := range e.rig.Encoders {
		e.attachEncoder(&e.rig.Encoders[i])
	}
	if e.rig.Tracker.Address != "" {
		e.attachTracker()
	}
	e.attachPedal()
}

func (e *engine) addDevice(d *attached) int {
	d.room = semaphore.NewWeighted(laneBytes)
	e.devices = append(e.devices, d)
	return len(e.devices) - 1
}

func (e *engine) attachCamera(c *Camera) {
	d := &attached{name: c.Name + " camera", clock: c.Clock, rateHz: c.RateHz, rig: c}
	id := e.addDevice(d)
	d.camera = &camera.Source{Name: d.name, URL: c.URL, UDP: c.UDP, Clock: e.clock, Status: e.statusOf(id)}
	d.handle = func(ev event) error { return e.pub.camera(ev, c, ev.body.(camera.Frame)) }
	d.run = func(ctx context.Context) error {
		return d.camera.Run(ctx, func(f camera.Frame) {
			e.emit(ctx, event{source: id, host: f.Received, device: f.Device, timed: f.Timed && c.Clock != "", bytes: len(f.Data), body: f})
		})
	}
}

func (e *engine) attachEncoder(c *Encoder) {
	d := &attached{name: c.Side + " encoder", clock: c.Clock, rateHz: c.RateHz}
	id := e.addDevice(d)
	side := encoder.Left
	if c.Side == sides[1] {
		side = encoder.Right
	}
	src := &encoder.Source{Name: d.name, Port: encoder.Serial(c.Port), Side: side, ID: c.ID, Clock: e.clock, Status: e.statusOf(id)}
	d.handle = func(ev event) error { return e.pub.encoder(ev, c, ev.body.(encoder.Reading)) }
	d.run = func(ctx context.Context) error {
		return src.Run(ctx, func(r encoder.Reading) {
			e.emit(ctx, event{source: id, host: r.Received, device: r.Device, timed: r.Timed && c.Clock != "", body: r})
		})
	}
}

func (e *engine) attachTracker() {
	c := &e.rig.Tracker
	d := &attached{name: "tracker", clock: c.Clock, rateHz: c.RateHz}
	id := e.addDevice(d)
	src := &tracker.Source{Name: d.name, Address: c.Address, Sync: c.Sync, Clock: e.clock, Status: e.statusOf(id)}
	d.handle = func(ev event) error { return e.pub.tracker(ev, ev.body.(tracker.Reading)) }
	d.run = func(ctx context.Context) error {
		src.OnClock = func(s frames.ClockSample) {
			e.emit(ctx, event{source: id, host: s.Host, body: clockReading{s}})
		}
		return src.Run(ctx, func(r tracker.Reading) {
			e.emit(ctx, event{source: id, host: r.Received, device: r.Device, timed: r.Timed && c.Clock != "", body: r})
		})
	}
}

func (e *engine) attachPedal() {
	c := &e.rig.Pedal
	d := &attached{name: "pedal", clock: c.Clock}
	id := e.addDevice(d)
	src := &pedal.Source{
		Name: d.name, Path: c.Path, Keys: [pedal.Buttons]uint16(c.Keys), Debounce: c.Debounce, EndsWithStream: c.EndsSession,
		Clock: e.clock, Status: e.statusOf(id),
	}
	if c.Debounce == 0 {
		src.Debounce = -1 // the rig file says none
	}
	d.handle = func(ev event) error {
		e.pub.pedalPublish(ev, ev.body.(pedal.Reading))
		return nil
	}
	d.run = func(ctx context.Context) error {
		return src.Run(ctx, func(r pedal.Reading) {
			e.emit(ctx, event{source: id, host: r.Received, device: r.Device, timed: c.Clock != "", body: r})
		})
	}
}

// startDevices runs every driver until ctx ends. The first error of a driver ends the others.
func (e *engine) startDevices(ctx context.Context, g *errgroup.Group) {
	e.ctx = ctx
	for _, d := range e.devices {
		g.Go(func() error { return d.run(ctx) })
	}
}

// emit hands an event to the loop; it waits while the device has too much waiting already.
func (e *engine) emit(ctx context.Context, ev event) {
	ev.bytes = min(ev.bytes+eventOverhead, laneBytes)
	if e.devices[ev.source].room.Acquire(ctx, int64(ev.bytes)) != nil {
		return
	}
	select {
	case e.in <- ev:
	case <-ctx.Done():
	}
}

// statusOf passes a driver's status to the loop, in order with its readings.
func (e *engine) statusOf(id int) device.StatusFunc {
	return func(s device.Status) {
		select {
		case e.in <- event{source: id, body: s}:
		case <-e.ctx.Done():
		}
	}
}
