package dynamixel

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"go.bug.st/serial"

	"github.com/pinch-robotics/pinch/deploy/arm"
	"github.com/pinch-robotics/pinch/deploy/hand"
	"github.com/pinch-robotics/pinch/internal/robotmodel"
	wire "github.com/pinch-robotics/pinch/internal/wire/dynamixel"
)

// Options describe one servo and its calibration.
type Options struct {
	Port   string       `yaml:"port"` // device file of the serial adapter
	Baud   int          `yaml:"baud"` // default 57600, the servo's own
	ID     int          `yaml:"id"`   // default 1
	Points []hand.Point `yaml:"points"`
	// GripCurrentA is the current with which the fingers may press; default 0.5 (the servo stalls at 2.3 A on 12 V).
	GripCurrentA float64 `yaml:"grip_current_a"`
	// MaxTemperatureC ends motion above it; default 70, the servo cuts its torque at 80.
	MaxTemperatureC float64 `yaml:"max_temperature_c"`
	// WatchdogMS is the silence after which the servo stops by itself; default 200, rounded up to 20.
	WatchdogMS float64 `yaml:"watchdog_ms"`
	PeriodMS   float64 `yaml:"period_ms"` // distance of exchanges; default 20
	// AnswerMS is how long an answer may take; default: its bytes at this baud rate and 25 ms for the latency timers of USB adapters.
	AnswerMS float64 `yaml:"answer_ms"`
	// Open opens the port; nil: the serial device Port.
	Open func(port string, baud int) (wire.Port, error) `yaml:"-"`
}

// withDefaults fills and checks; each fault names its key.
func (o Options) withDefaults() (Options, error) {
	def := func(v *float64, d float64) {
		if *v == 0 {
			*v = d
		}
	}
	def(&o.GripCurrentA, 0.5)
	def(&o.MaxTemperatureC, 70)
	def(&o.WatchdogMS, 200)
	def(&o.PeriodMS, 20)
	if o.Baud == 0 {
		o.Baud = 57600
	}
	if o.ID == 0 {
		o.ID = 1
	}
	def(&o.AnswerMS, statusBytes*10*1e3/float64(o.Baud)+25)
	if len(o.Points) == 0 {
		g := robotmodel.YUBI()
		// One turn of the servo is one turn of the finger (equal spur gears); the middle of the range is where the horn is mounted.
		o.Points = []hand.Point{{Rad: g.ClosedRad, Count: 2048}, {Rad: g.OpenRad, Count: 2048 + g.OpenRad/wire.RadPerCount}}
	}
	for _, b := range []struct {
		key       string
		v, lo, hi float64
	}{
		{"baud", float64(o.Baud), 9600, 4_500_000}, {"id", float64(o.ID), 0, float64(wire.MaxID)},
		{"grip_current_a", o.GripCurrentA, 0.02, 3.2}, {"max_temperature_c", o.MaxTemperatureC, 30, 80},
		{"watchdog_ms", o.WatchdogMS, 20, wire.MaxWatchdogUnits * wire.WatchdogUnitMS}, {"period_ms", o.PeriodMS, 2, 100},
		{"answer_ms", o.AnswerMS, 1, 1000},
	} {
		if !(b.v >= b.lo && b.v <= b.hi) {
			return o, fmt.Errorf("gripper: %s: %v is outside %v to %v", b.key, b.v, b.lo, b.hi)
		}
	}
	if o.PeriodMS*2 > o.WatchdogMS {
		return o, fmt.Errorf("gripper: watchdog_ms: %v is less than two periods of %v ms", o.WatchdogMS, o.PeriodMS)
	}
	if o.Open == nil {
		o.Open = openSerial
	}
	return o, nil
}

func openSerial(path string, baud int) (wire.Port, error) {
	p, err := serial.Open(path, &serial.Mode{BaudRate: baud})
	if err != nil {
		return nil, fmt.Errorf("open serial port %s: %w", path, err)
	}
	return p, nil
}

// Hand is one servo. It implements arm.Hand.
type Hand struct {
	opts  Options
	scale hand.Scale
	id    byte
	turns float64 // counts to add to the servo's position, whole turns

	mu  sync.Mutex // guards bus against Close during an exchange
	bus *wire.Bus
}

// New checks the options; nothing is opened yet.
func New(o Options) (*Hand, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	s, err := hand.NewScale(o.Points)
	if err != nil {
		return nil, fmt.Errorf("gripper: %w", err)
	}
	return &Hand{opts: o, scale: s, id: byte(o.ID)}, nil
}

// Range implements arm.Hand.
func (h *Hand) Range() (closed, open float64) {
	return h.opts.Points[0].Rad, h.opts.Points[len(h.opts.Points)-1].Rad
}

// Period implements arm.Hand.
func (h *Hand) Period() time.Duration {
	return time.Duration(h.opts.PeriodMS * float64(time.Millisecond))
}

// statusBytes is the largest answer: registers 64 to 146 with head and checksum.
const statusBytes = 83 + 11 + 8

// Start implements arm.Hand: it sets the servo up without motion.
func (h *Hand) Start(context.Context) (arm.HandState, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	port, err := h.opts.Open(h.opts.Port, h.opts.Baud)
	if err != nil {
		return arm.HandState{}, err
	}
	h.bus = wire.NewBus(port, time.Duration(h.opts.AnswerMS*float64(time.Millisecond)))
	if err := h.setUp(); err != nil {
		return arm.HandState{}, fmt.Errorf("%s: %w", h.opts.Port, err)
	}
	return h.read()
}

// setUp brings the servo into current-based position mode, standing where it is.
func (h *Hand) setUp() error {
	if _, _, err := h.bus.Ping(h.id); err != nil {
		return err
	}
	status, err := h.bus.Read(h.id, wire.HardwareError)
	if err != nil {
		return err
	}
	if status != 0 {
		return fmt.Errorf("servo %d has shut down (%s); take the cause away, then reset it (`pinch hand reset`) with nothing in the fingers",
			h.id, wire.HardwareErrorText(byte(status)))
	}
	for _, w := range []struct {
		r wire.Register
		v int64
	}{{wire.BusWatchdog, 0}, {wire.TorqueEnable, 0}, {wire.OperatingMode, wire.ModeCurrentPosition}} {
		if err := h.bus.Write(h.id, w.r, w.v); err != nil {
			return err
		}
	}
	limit, err := h.bus.Read(h.id, wire.CurrentLimit)
	if err != nil {
		return err
	}
	current := int64(math.Round(h.opts.GripCurrentA / wire.AmperePerCount))
	if current > limit {
		return fmt.Errorf("grip_current_a: %.2f A is more than the servo's current limit of %.2f A", h.opts.GripCurrentA, float64(limit)*wire.AmperePerCount)
	}
	return h.hold(current)
}

// hold switches torque on with the goal where the servo stands, and starts the watchdog.
func (h *Hand) hold(current int64) error {
	if err := h.bus.Write(h.id, wire.TorqueEnable, 1); err != nil {
		return err
	}
	// Switching torque on may bring the position back into one turn, so it is read only now.
	at, err := h.bus.Read(h.id, wire.PresentPosition)
	if err != nil {
		return err
	}
	lo, hi := h.scale.Ends()
	h.turns = 4096 * math.Round(((lo+hi)/2-float64(at))/4096)
	if c := float64(at) + h.turns; c < lo-200 || c > hi+200 {
		return fmt.Errorf("servo %d stands at %d counts, %.0f beyond the calibrated %.0f to %.0f; calibrate the gripper", h.id, at, math.Max(lo-c, c-hi), lo, hi)
	}
	for _, w := range []struct {
		r wire.Register
		v int64
	}{
		{wire.GoalPosition, at}, {wire.GoalCurrent, current}, {wire.ProfileAccel, 0}, {wire.ProfileVelocity, 0},
		{wire.BusWatchdog, int64(math.Ceil(h.opts.WatchdogMS / wire.WatchdogUnitMS))},
	} {
		if err := h.bus.Write(h.id, w.r, w.v); err != nil {
			return err
		}
	}
	return nil
}

// Exchange implements arm.Hand: one reading of the servo's whole state, then the goal. Its alarms wrap arm.ErrHandAlarm.
func (h *Hand) Exchange(_ context.Context, goalRad float64) (arm.HandState, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.bus == nil {
		return arm.HandState{}, errors.New("the gripper is closed")
	}
	st, err := h.read()
	if err != nil {
		return st, err
	}
	goal := int64(math.Round(h.scale.Count(goalRad) - h.turns))
	return st, h.bus.SyncWrite(wire.GoalPosition.Addr, wire.GoalPosition.Size,
		map[byte][]byte{h.id: wire.GoalPosition.Bytes(goal)}, []byte{h.id})
}

// read takes registers 64 to 146 with one packet and checks them.
func (h *Hand) read() (arm.HandState, error) {
	first := wire.TorqueEnable.Addr
	answers, err := h.bus.SyncRead(first, wire.PresentTemp.Addr+1-first, []byte{h.id})
	if err != nil {
		return arm.HandState{}, err
	}
	get := func(r wire.Register) int64 { return r.Int(answers[0].Data[r.Addr-first:]) }
	st := arm.HandState{
		Rad:          h.scale.Rad(float64(get(wire.PresentPosition)) + h.turns),
		CurrentA:     float64(get(wire.PresentCurrent)) * wire.AmperePerCount,
		TemperatureC: float64(get(wire.PresentTemp)),
	}
	// Pressing with nearly the whole allowed current without moving is holding something.
	st.Holding = math.Abs(st.CurrentA) > 0.7*h.opts.GripCurrentA && math.Abs(float64(get(wire.PresentVelocity)))*wire.RadPerSPerCount < 0.1
	switch hw := byte(get(wire.HardwareError)); {
	case hw != 0 || answers[0].Alert:
		return st, fmt.Errorf("%w: servo %d: %s", arm.ErrHandAlarm, h.id, wire.HardwareErrorText(hw))
	case get(wire.TorqueEnable) != 1:
		return st, fmt.Errorf("%w: servo %d has lost its torque; was its power cut?", arm.ErrHandAlarm, h.id)
	case byte(get(wire.BusWatchdog)) == wire.WatchdogTripped:
		return st, fmt.Errorf("%w: servo %d stopped because this process was silent for %v ms (bus watchdog)", arm.ErrHandAlarm, h.id, h.opts.WatchdogMS)
	case st.TemperatureC > h.opts.MaxTemperatureC:
		return st, fmt.Errorf("%w: servo %d is at %v °C, allowed are %v; let it cool", arm.ErrHandAlarm, h.id, st.TemperatureC, h.opts.MaxTemperatureC)
	}
	return st, nil
}

// Recover implements arm.Hand. It clears the watchdog with the goal where the servo stands; a servo that has shut down is not restarted here,
// because that would let go.
func (h *Hand) Recover(context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.bus == nil {
		return errors.New("the gripper is closed")
	}
	status, err := h.bus.Read(h.id, wire.HardwareError)
	if err != nil {
		return err
	}
	if status != 0 {
		return fmt.Errorf("servo %d has shut down (%s); reset it (`pinch hand reset`) with nothing in the fingers", h.id, wire.HardwareErrorText(byte(status)))
	}
	if err := h.bus.Write(h.id, wire.BusWatchdog, 0); err != nil {
		return err
	}
	return h.hold(int64(math.Round(h.opts.GripCurrentA / wire.AmperePerCount)))
}

// Close implements arm.Hand. The servo keeps its torque and holds; its watchdog trips, so that nothing but Start or Recover moves it again.
func (h *Hand) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.bus == nil {
		return nil
	}
	err := h.bus.Close()
	h.bus = nil
	return err
}

// Reset restarts a servo that has shut down. It lets go of what it holds.
func Reset(o Options) error {
	o, err := o.withDefaults()
	if err != nil {
		return err
	}
	port, err := o.Open(o.Port, o.Baud)
	if err != nil {
		return err
	}
	bus := wire.NewBus(port, 50*time.Millisecond)
	defer bus.Close()
	if err := bus.Reboot(byte(o.ID)); err != nil {
		return fmt.Errorf("%s: %w", o.Port, err)
	}
	for end := time.Now().Add(2 * time.Second); ; {
		if _, _, err = bus.Ping(byte(o.ID)); err == nil {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s: after its restart: %w", o.Port, err)
		}
	}
}
