// Package robotiq drives a Robotiq 2F gripper over Modbus as an arm.Hand.
//
// The gripper counts from 0 (open) to 255 (closed) and must be activated once after power comes: it then closes and opens by itself. Start
// does that only when it is needed. The gripper has no watchdog of its own: when this process dies it finishes its last move and holds.
//
// Source: Robotiq 2F-85 and 2F-140 instruction manual, "Control".
package robotiq

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"go.bug.st/serial"

	"github.com/pinch-robotics/pinch/deploy/arm"
	"github.com/pinch-robotics/pinch/deploy/hand"
	"github.com/pinch-robotics/pinch/internal/robotmodel"
	"github.com/pinch-robotics/pinch/internal/wire/modbus"
)

// Options describe one gripper.
type Options struct {
	// Address is rtu:/dev/ttyUSB0 (serial line, 115200 8N1), tcp:HOST:PORT (Modbus TCP) or rtutcp:HOST:PORT (RTU frames through a socket, as a
	// robot's tool connector forwards them).
	Address string `yaml:"address"`
	Unit    int    `yaml:"unit"`  // default 9
	Speed   int    `yaml:"speed"` // 1 to 255, default 255: 150 mm/s
	Force   int    `yaml:"force"` // 1 to 255, default 60
	// Points tie finger angles to the gripper's counts; default: the YUBI gripper's range over 230 (closed) to 3 (open).
	Points   []hand.Point `yaml:"points"`
	PeriodMS float64      `yaml:"period_ms"` // distance of exchanges; default 20
	AnswerMS float64      `yaml:"answer_ms"` // how long an answer may take; default 60
}

func (o Options) withDefaults() (Options, error) {
	for _, d := range []struct {
		v *int
		d int
	}{{&o.Unit, 9}, {&o.Speed, 255}, {&o.Force, 60}} {
		if *d.v == 0 {
			*d.v = d.d
		}
	}
	if o.PeriodMS == 0 {
		o.PeriodMS = 20
	}
	if o.AnswerMS == 0 {
		o.AnswerMS = 60
	}
	if len(o.Points) == 0 {
		g := robotmodel.YUBI()
		o.Points = []hand.Point{{Rad: g.ClosedRad, Count: 230}, {Rad: g.OpenRad, Count: 3}}
	}
	for _, b := range []struct {
		key       string
		v, lo, hi float64
	}{
		{"unit", float64(o.Unit), 1, 247}, {"speed", float64(o.Speed), 1, 255}, {"force", float64(o.Force), 1, 255},
		{"period_ms", o.PeriodMS, 5, 200}, {"answer_ms", o.AnswerMS, 5, 2000},
		{"points: count", o.Points[0].Count, 0, 255}, {"points: count", o.Points[len(o.Points)-1].Count, 0, 255},
	} {
		if !(b.v >= b.lo && b.v <= b.hi) {
			return o, fmt.Errorf("gripper: %s: %v is outside %v to %v", b.key, b.v, b.lo, b.hi)
		}
	}
	kind, where, ok := strings.Cut(o.Address, ":")
	if !ok || where == "" || (kind != "rtu" && kind != "tcp" && kind != "rtutcp") {
		return o, fmt.Errorf("gripper: address: %q, want rtu:/dev/..., tcp:host:port or rtutcp:host:port", o.Address)
	}
	return o, nil
}

// Registers and bits. Source: manual, "Register mapping".
const (
	requestAddr = 0x03E8 // action, position, speed and force
	statusAddr  = 0x07D0 // status, fault and echo, position and current
	actActivate = 0x0100
	actGo       = 0x0900 // activate and go to the requested position
)

// status is the three status registers.
type status struct {
	activated bool // gSTA 3
	object    int  // gOBJ: 0 moving, 1 object while opening, 2 object while closing, 3 at the position
	fault     byte // gFLT
	count     float64
	currentA  float64
}

func parse(v []uint16) status {
	s := byte(v[0] >> 8)
	return status{activated: s>>4&3 == 3, object: int(s >> 6), fault: byte(v[1]>>8) & 0x0F, count: float64(v[2] >> 8), currentA: float64(v[2]&0xFF) * 0.01}
}

// faults are those that end motion. 9 only tells of an earlier silence.
var faults = map[byte]string{
	0x5: "it is not activated: was its power cut?", 0x7: "it is not activated: was its power cut?", 0x8: "it is too hot, let it cool",
	0xA: "its supply voltage is too low", 0xB: "automatic release is in progress", 0xC: "internal fault; contact the vendor",
	0xD: "activation failed: is something between the fingers?", 0xE: "overcurrent", 0xF: "automatic release has ended",
}

// Hand is one gripper. It implements arm.Hand.
type Hand struct {
	opts  Options
	scale hand.Scale

	mu     sync.Mutex // guards client against Close during an exchange
	client *modbus.Client
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
	return &Hand{opts: o, scale: s}, nil
}

// Range implements arm.Hand.
func (h *Hand) Range() (closed, open float64) {
	return h.opts.Points[0].Rad, h.opts.Points[len(h.opts.Points)-1].Rad
}

// Period implements arm.Hand.
func (h *Hand) Period() time.Duration {
	return time.Duration(h.opts.PeriodMS * float64(time.Millisecond))
}

func (h *Hand) open(ctx context.Context) (modbus.Port, modbus.Framing, error) {
	kind, where, _ := strings.Cut(h.opts.Address, ":")
	if kind == "rtu" {
		p, err := serial.Open(where, &serial.Mode{BaudRate: 115200})
		if err != nil {
			return nil, "", fmt.Errorf("open serial port %s: %w", where, err)
		}
		return p, modbus.RTU, nil
	}
	s, err := modbus.DialStream(ctx, where)
	if err != nil {
		return nil, "", err
	}
	if kind == "tcp" {
		return s, modbus.TCP, nil
	}
	return s, modbus.RTU, nil
}

// Start implements arm.Hand. It activates a gripper that is not, which moves the fingers over their whole range.
func (h *Hand) Start(ctx context.Context) (arm.HandState, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	port, framing, err := h.open(ctx)
	if err != nil {
		return arm.HandState{}, err
	}
	h.client = modbus.NewClient(port, framing, byte(h.opts.Unit), time.Duration(h.opts.AnswerMS*float64(time.Millisecond)))
	s, err := h.status()
	if err == nil && !s.activated {
		s, err = h.activate(ctx)
	}
	if err != nil {
		return arm.HandState{}, fmt.Errorf("gripper at %s: %w", h.opts.Address, err)
	}
	if err := h.check(s); err != nil {
		return arm.HandState{}, err
	}
	return h.state(s), nil
}

// activateTime is how long an activation may take: closing and opening at low speed.
const activateTime = 10 * time.Second

func (h *Hand) activate(ctx context.Context) (status, error) {
	// Clearing rACT first resets faults of an earlier activation.
	if err := h.client.Write(requestAddr, 0, 0, 0); err != nil {
		return status{}, err
	}
	if err := h.client.Write(requestAddr, actActivate, 0, 0); err != nil {
		return status{}, err
	}
	for end := time.Now().Add(activateTime); ; {
		s, err := h.status()
		switch {
		case err != nil:
			return s, err
		case s.activated:
			return s, nil
		case s.fault >= 0x8 && s.fault != 9:
			return s, h.check(s)
		case time.Now().After(end):
			return s, fmt.Errorf("activation has not ended after %v: is something between the fingers?", activateTime)
		}
		select {
		case <-ctx.Done():
			return s, ctx.Err()
		case <-time.After(h.Period()):
		}
	}
}

func (h *Hand) status() (status, error) {
	v, err := h.client.Read(modbus.ReadHolding, statusAddr, 3)
	if err != nil {
		return status{}, err
	}
	return parse(v), nil
}

func (h *Hand) check(s status) error {
	if why, bad := faults[s.fault]; bad {
		return fmt.Errorf("%w: fault %X: %s", arm.ErrHandAlarm, s.fault, why)
	}
	if !s.activated {
		return fmt.Errorf("%w: %s", arm.ErrHandAlarm, faults[0x7])
	}
	return nil
}

func (h *Hand) state(s status) arm.HandState {
	return arm.HandState{Rad: h.scale.Rad(s.count), CurrentA: s.currentA, Holding: s.object == 1 || s.object == 2}
}

// Exchange implements arm.Hand. A gripper that has lost its activation is not activated here, because that would move its fingers.
func (h *Hand) Exchange(_ context.Context, goalRad float64) (arm.HandState, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.client == nil {
		return arm.HandState{}, errors.New("the gripper is closed")
	}
	s, err := h.status()
	if err != nil {
		return arm.HandState{}, err
	}
	if err := h.check(s); err != nil {
		return h.state(s), err
	}
	goal := uint16(math.Round(h.scale.Count(goalRad)))
	return h.state(s), h.client.Write(requestAddr, actGo, goal, uint16(h.opts.Speed)<<8|uint16(h.opts.Force))
}

// Recover implements arm.Hand: it tells whether the gripper is fit again. A lost activation needs a new Start.
func (h *Hand) Recover(context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.client == nil {
		return errors.New("the gripper is closed")
	}
	s, err := h.status()
	if err != nil {
		return err
	}
	return h.check(s)
}

// Close implements arm.Hand. The gripper goes on to its last goal and holds.
func (h *Hand) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.client == nil {
		return nil
	}
	err := h.client.Close()
	h.client = nil
	return err
}
