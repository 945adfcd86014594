package stub

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"sync"
	"time"

	wire "github.com/pinch-robotics/pinch/internal/wire/dynamixel"
)

// Servo is an XM430-W350 on a serial bus: a control table, a motor that moves with limited speed and current, and the rules that guard them.
// Safe for concurrent use.
type Servo struct {
	ID  byte
	Now func() time.Time // nil: time.Now
	// Motor replaces the servo's own motor, for a gripper of the simulated cell. At every instruction it is told the goal (counts; NaN: no torque) and says
	// where it stands and whether it presses against something. nil: the servo's own.
	Motor func(goal float64) (position float64, presses bool)

	mu       sync.Mutex // guards the rest
	table    [512]byte
	position float64 // counts
	velocity float64 // counts/s
	wall     float64 // a hard object at this count, NaN: none
	side     float64 // the direction in which it is, seen from where the finger was
	last     time.Time
	heard    time.Time // last instruction for the watchdog
	refused  []string
	silent   bool
}

// eepromEnd is where the part of the table begins that may be written with torque on.
const eepromEnd = 64

// NewServo makes a servo at a position (counts), torque off.
func NewServo(id byte, position float64) *Servo {
	s := &Servo{ID: id, position: position, wall: math.NaN()}
	s.set(wire.ModelNumber, 1020)
	s.set(wire.FirmwareVersion, 48)
	s.set(wire.ReturnDelay, 250)
	s.set(wire.OperatingMode, wire.ModePosition)
	s.set(wire.TemperatureMax, 80)
	s.set(wire.CurrentLimit, 1193)
	s.set(wire.MaxPosition, 4095)
	s.set(wire.GoalCurrent, 1193)
	s.set(wire.PresentTemp, 31)
	s.set(wire.PresentVoltage, 120)
	s.set(wire.GoalPosition, int64(position))
	return s
}

func (s *Servo) set(r wire.Register, v int64) { copy(s.table[r.Addr:], r.Bytes(v)) }
func (s *Servo) get(r wire.Register) int64    { return r.Int(s.table[r.Addr:]) }

func (s *Servo) now() time.Time {
	if s.Now != nil {
		return s.Now()
	}
	return time.Now()
}

// Serve answers the bus until it closes.
func (s *Servo) Serve(bus io.ReadWriter) {
	var in []byte
	buf := make([]byte, 512)
	for {
		n, err := bus.Read(buf)
		if err != nil {
			return
		}
		in = append(in, buf[:n]...)
		for {
			p, used, err := wire.Split(in)
			in = in[:copy(in, in[used:])]
			if err != nil {
				continue
			}
			if used == 0 {
				break
			}
			if out := s.answer(p); out != nil {
				if _, err := bus.Write(out); err != nil {
					return
				}
			}
		}
	}
}

// answer carries out one instruction and returns the bytes of its answer, nil for none.
func (s *Servo) answer(p wire.Packet) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.silent || p.Instruction == wire.Status {
		return nil
	}
	s.advance()
	mine := p.ID == s.ID || p.ID == wire.Broadcast
	if !mine {
		return nil
	}
	s.heard = s.now()
	reply := func(code byte, params []byte) []byte {
		if code != 0 {
			s.refused = append(s.refused, fmt.Sprintf("instruction %02x at %v: %s", byte(p.Instruction), p.Params, wire.ErrorByte(code).Error()))
		}
		if s.get(wire.HardwareError) != 0 {
			code |= 0x80
		}
		return wire.Append(nil, wire.Packet{ID: s.ID, Instruction: wire.Status, Err: wire.ErrorByte(code), Params: params})
	}
	switch p.Instruction {
	case wire.Ping:
		return reply(0, append(append([]byte(nil), s.table[0:2]...), s.table[6]))
	case wire.Read:
		if len(p.Params) != 4 {
			return reply(wire.CodeLength, nil)
		}
		return s.read(p.Params, reply)
	case wire.Write:
		if len(p.Params) < 3 {
			return reply(wire.CodeLength, nil)
		}
		code := s.write(binary.LittleEndian.Uint16(p.Params), p.Params[2:])
		return reply(code, nil)
	case wire.SyncRead:
		for i, id := range p.Params[min(4, len(p.Params)):] {
			if id == s.ID && i == 0 { // with more servos on the bus a real one waits for those before it
				return s.read(p.Params[:4], reply)
			}
		}
		return nil
	case wire.SyncWrite:
		s.syncWrite(p.Params)
		return nil
	case wire.Reboot:
		s.set(wire.HardwareError, 0)
		s.set(wire.TorqueEnable, 0)
		s.set(wire.BusWatchdog, 0)
		return reply(0, nil)
	}
	return reply(wire.CodeInstruction, nil)
}

func (s *Servo) read(params []byte, reply func(byte, []byte) []byte) []byte {
	addr, size := int(binary.LittleEndian.Uint16(params)), int(binary.LittleEndian.Uint16(params[2:]))
	if size < 1 || addr+size > len(s.table) {
		return reply(wire.CodeRange, nil)
	}
	return reply(0, append([]byte(nil), s.table[addr:addr+size]...))
}

func (s *Servo) syncWrite(params []byte) {
	if len(params) < 4 {
		return
	}
	addr, size := binary.LittleEndian.Uint16(params), int(binary.LittleEndian.Uint16(params[2:]))
	for rest := params[4:]; len(rest) >= size+1; rest = rest[size+1:] {
		if rest[0] == s.ID {
			if code := s.write(addr, rest[1:size+1]); code != 0 {
				s.refused = append(s.refused, fmt.Sprintf("sync write at %d: %s", addr, wire.ErrorByte(code).Error()))
			}
		}
	}
}

// goals are the registers that a tripped watchdog makes read-only.
func isGoal(addr uint16) bool { return addr >= 100 && addr < 120 }

// writable are the registers that may be written, with their bounds.
var writable = []struct {
	r      wire.Register
	lo, hi int64
}{
	{wire.ReturnDelay, -128, 127}, {wire.OperatingMode, 0, 16}, {wire.TemperatureMax, 0, 100}, {wire.CurrentLimit, 0, 1193},
	{wire.MaxPosition, 0, 4095}, {wire.MinPosition, 0, 4095}, {wire.TorqueEnable, 0, 1}, {wire.BusWatchdog, 0, 127},
	{wire.GoalCurrent, -1193, 1193}, {wire.GoalVelocity, -1023, 1023}, {wire.ProfileAccel, 0, 32767}, {wire.ProfileVelocity, 0, 32767},
	{wire.GoalPosition, -1_048_575, 1_048_575},
}

// write changes one register or refuses with a code. Source: e-manual, sections of the control table.
func (s *Servo) write(addr uint16, data []byte) byte {
	torque := s.get(wire.TorqueEnable) == 1
	for _, w := range writable {
		if w.r.Addr != addr {
			continue
		}
		if len(data) != int(w.r.Size) {
			return wire.CodeLength
		}
		v := w.r.Int(data)
		switch {
		case addr < eepromEnd && torque:
			return wire.CodeAccess
		case isGoal(addr) && byte(s.get(wire.BusWatchdog)) == wire.WatchdogTripped:
			return wire.CodeRange
		case v < w.lo || v > w.hi:
			return wire.CodeRange
		case w.r == wire.GoalCurrent && (v > s.get(wire.CurrentLimit) || v < -s.get(wire.CurrentLimit)):
			return wire.CodeLimit
		case w.r == wire.GoalPosition && s.get(wire.OperatingMode) == wire.ModePosition && (v < s.get(wire.MinPosition) || v > s.get(wire.MaxPosition)):
			return wire.CodeLimit
		case w.r == wire.TorqueEnable && v == 1 && s.get(wire.HardwareError) != 0:
			return wire.CodeAccess
		case w.r == wire.TorqueEnable && v == 1 && !torque:
			if s.get(wire.OperatingMode) == wire.ModePosition {
				s.position -= 4096 * math.Floor(s.position/4096)
			}
			s.set(wire.GoalPosition, int64(math.Round(s.position)))
			s.velocity = 0
		}
		copy(s.table[addr:], data)
		return 0
	}
	return wire.CodeAccess
}

// noLoadSpeed of an XM430-W350 at 12 V: 46 rpm, in counts per second.
const noLoadSpeed = 46.0 / 60 * 4096

// advance moves the motor to the present.
func (s *Servo) advance() {
	now := s.now()
	if s.last.IsZero() {
		s.last, s.heard = now, now
	}
	dt := now.Sub(s.last).Seconds()
	s.last = now
	if w := s.get(wire.BusWatchdog); w > 0 && now.Sub(s.heard) > time.Duration(w)*wire.WatchdogUnitMS*time.Millisecond {
		s.set(wire.BusWatchdog, -1)
		s.set(wire.GoalPosition, int64(math.Round(s.position)))
	}
	s.set(wire.PresentCurrent, 0)
	s.velocity = 0
	torque := s.get(wire.TorqueEnable) == 1 && s.get(wire.HardwareError) == 0 && byte(s.get(wire.BusWatchdog)) != wire.WatchdogTripped
	switch {
	case s.Motor != nil:
		s.drive(torque, dt)
	case torque:
		s.move(dt)
	}
	s.set(wire.PresentPosition, int64(math.Round(s.position)))
	s.set(wire.PresentVelocity, int64(math.Round(s.velocity/4096*60/0.229)))
	moving := int64(0)
	if s.velocity != 0 {
		moving = 1
	}
	s.set(wire.Moving, moving)
}

// move goes toward the goal; an object stops the finger, and the motor then presses with the goal current.
func (s *Servo) move(dt float64) {
	speed := noLoadSpeed
	if v := s.get(wire.ProfileVelocity); v > 0 {
		speed = math.Min(speed, float64(v)*0.229/60*4096)
	}
	way := float64(s.get(wire.GoalPosition)) - s.position
	step := math.Copysign(math.Min(math.Abs(way), speed*dt), way)
	next := s.position + step
	blocked := !math.IsNaN(s.wall) && way*s.side > 0 && (next-s.wall)*s.side >= 0
	if blocked {
		next = s.wall
		s.set(wire.PresentCurrent, int64(math.Copysign(float64(s.get(wire.GoalCurrent)), way)))
	} else if dt > 0 {
		s.velocity = step / dt
	}
	s.position = next
}

// drive lets the motor of someone else move.
func (s *Servo) drive(torque bool, dt float64) {
	goal := math.NaN()
	if torque {
		goal = float64(s.get(wire.GoalPosition))
	}
	at, presses := s.Motor(goal)
	if dt > 0 {
		s.velocity = (at - s.position) / dt
	}
	s.position = at
	if presses {
		s.set(wire.PresentCurrent, int64(math.Copysign(float64(s.get(wire.GoalCurrent)), goal-at)))
	}
}

// Position is where the motor stands now, in counts.
func (s *Servo) Position() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance()
	return s.position
}

// PutObject places something hard between the fingers at a position; NaN takes it away.
func (s *Servo) PutObject(count float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance()
	s.wall, s.side = count, math.Copysign(1, count-s.position)
}

// SetTemperature heats the motor (°C); above its limit the servo shuts down.
func (s *Servo) SetTemperature(c int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(wire.PresentTemp, c)
	if c > s.get(wire.TemperatureMax) {
		s.shutDown(0x04)
	}
}

// ShutDown raises bits of the hardware error status, which cuts the torque.
func (s *Servo) ShutDown(status byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shutDown(status)
}

func (s *Servo) shutDown(status byte) {
	s.set(wire.HardwareError, int64(status))
	s.set(wire.TorqueEnable, 0)
}

// Cut makes the servo deaf and mute, as a pulled cable does; Cut(false) plugs it in again.
func (s *Servo) Cut(cut bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance()
	s.silent = cut
}

// Register reads one register as the servo has it.
func (s *Servo) Register(r wire.Register) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance()
	return s.get(r)
}

// Refused lists the instructions it refused and why.
func (s *Servo) Refused() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.refused...)
}
