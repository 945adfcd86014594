package dynamixel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

// Port is a serial port, as package go.bug.st/serial opens it: a Read returns 0 bytes when the time-out passes.
type Port interface {
	io.ReadWriteCloser
	SetReadTimeout(time.Duration) error
	ResetInputBuffer() error
}

// ErrSilent marks a servo that did not answer in time.
var ErrSilent = errors.New("no answer")

// Bus sends instructions and waits for their answers. It belongs to one goroutine.
type Bus struct {
	port    Port
	timeout time.Duration
	out, in []byte
	chunk   [256]byte
}

// NewBus wraps an open port. timeout bounds the wait for each answer; 0 means 20 ms, more than a full answer at 57600 baud, the servo's return
// delay and a USB adapter's latency of 16 ms together would need at the default settings.
func NewBus(port Port, timeout time.Duration) *Bus {
	if timeout == 0 {
		timeout = 20 * time.Millisecond
	}
	return &Bus{port: port, timeout: timeout}
}

// Close closes the port.
func (b *Bus) Close() error { return b.port.Close() }

// ServoError is a refusal or an alarm that a servo states in its answer.
type ServoError struct {
	ID  byte
	Act string
	Err ErrorByte
}

// Error names the servo, what was asked and the reason.
func (e *ServoError) Error() string {
	if e.Err.Code() == 0 {
		return fmt.Sprintf("servo %d: %s: hardware alarm", e.ID, e.Act)
	}
	return fmt.Sprintf("servo %d: %s: %s", e.ID, e.Act, e.Err.Error())
}

// Ping asks one servo for its model number and firmware version.
func (b *Bus) Ping(id byte) (model uint16, firmware byte, err error) {
	p, err := b.ask(Packet{ID: id, Instruction: Ping}, "ping")
	if err != nil {
		return 0, 0, err
	}
	if len(p.Params) != 3 {
		return 0, 0, fmt.Errorf("servo %d: ping: answer has %d bytes, want 3", id, len(p.Params))
	}
	return binary.LittleEndian.Uint16(p.Params), p.Params[2], nil
}

// Read reads one register as a signed number. A hardware alert alone is no error of reading; see Alert of SyncRead's answers and HardwareError.
func (b *Bus) Read(id byte, r Register) (int64, error) {
	data, _, err := b.ReadSpan(id, r.Addr, r.Size)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", r.Name, err)
	}
	return r.Int(data), nil
}

// ReadSpan reads consecutive registers; alert is the hardware alert bit of the answer.
func (b *Bus) ReadSpan(id byte, addr, size uint16) (data []byte, alert bool, err error) {
	params := binary.LittleEndian.AppendUint16(nil, addr)
	params = binary.LittleEndian.AppendUint16(params, size)
	p, err := b.ask(Packet{ID: id, Instruction: Read, Params: params}, fmt.Sprintf("read %d bytes at %d", size, addr))
	if err != nil {
		return nil, false, err
	}
	if len(p.Params) != int(size) {
		return nil, false, fmt.Errorf("servo %d: read at %d: %d bytes, want %d", id, addr, len(p.Params), size)
	}
	return p.Params, p.Err.Alert(), nil
}

// Write sets one register and waits for the servo's word that it did.
func (b *Bus) Write(id byte, r Register, v int64) error {
	params := binary.LittleEndian.AppendUint16(nil, r.Addr)
	_, err := b.ask(Packet{ID: id, Instruction: Write, Params: append(params, r.Bytes(v)...)}, fmt.Sprintf("write %s = %d", r.Name, v))
	return err
}

// Reboot restarts a servo, which clears its hardware error and switches torque off.
func (b *Bus) Reboot(id byte) error {
	_, err := b.ask(Packet{ID: id, Instruction: Reboot}, "reboot")
	return err
}

// SyncWrite sets the same registers of several servos with one packet. Nobody answers it.
func (b *Bus) SyncWrite(addr, size uint16, data map[byte][]byte, order []byte) error {
	params := binary.LittleEndian.AppendUint16(nil, addr)
	params = binary.LittleEndian.AppendUint16(params, size)
	for _, id := range order {
		if len(data[id]) != int(size) {
			return fmt.Errorf("sync write: servo %d has %d bytes, want %d", id, len(data[id]), size)
		}
		params = append(append(params, id), data[id]...)
	}
	return b.send(Packet{ID: Broadcast, Instruction: SyncWrite, Params: params})
}

// Answer is one servo's part of a SyncRead.
type Answer struct {
	Data  []byte
	Alert bool // hardware alert; HardwareError says why
}

// SyncRead reads the same registers of several servos; the answers come in the order of ids. The error names the first servo that is silent.
func (b *Bus) SyncRead(addr, size uint16, ids []byte) ([]Answer, error) {
	params := binary.LittleEndian.AppendUint16(nil, addr)
	params = binary.LittleEndian.AppendUint16(params, size)
	if err := b.send(Packet{ID: Broadcast, Instruction: SyncRead, Params: append(params, ids...)}); err != nil {
		return nil, err
	}
	out := make([]Answer, 0, len(ids))
	for _, id := range ids {
		p, err := b.receive(id)
		if err != nil {
			return nil, fmt.Errorf("sync read at %d: %w", addr, err)
		}
		if p.Err.Code() != 0 {
			return nil, &ServoError{id, fmt.Sprintf("sync read at %d", addr), p.Err}
		}
		if len(p.Params) != int(size) {
			return nil, fmt.Errorf("servo %d: sync read at %d: %d bytes, want %d", id, addr, len(p.Params), size)
		}
		out = append(out, Answer{p.Params, p.Err.Alert()})
	}
	return out, nil
}

// tries is how often an instruction that may be repeated is sent when nobody answers: one lost byte is nothing to give up for.
const tries = 3

func (b *Bus) ask(p Packet, act string) (Packet, error) {
	var a Packet
	for try := 1; ; try++ {
		err := b.send(p)
		if err != nil {
			return Packet{}, fmt.Errorf("servo %d: %s: %w", p.ID, act, err)
		}
		if a, err = b.receive(p.ID); err == nil {
			break
		}
		if !errors.Is(err, ErrSilent) || p.Instruction == Reboot || try == tries {
			return a, fmt.Errorf("%s: %w", act, err)
		}
	}
	if a.Err.Code() != 0 {
		return a, &ServoError{p.ID, act, a.Err}
	}
	return a, nil
}

// send drops what is left of earlier answers, so that a late one is not taken for the next.
func (b *Bus) send(p Packet) error {
	if err := b.port.ResetInputBuffer(); err != nil {
		return fmt.Errorf("clear the serial port: %w", err)
	}
	b.in = b.in[:0]
	b.out = Append(b.out[:0], p)
	if _, err := b.port.Write(b.out); err != nil {
		return fmt.Errorf("write to the serial port: %w", err)
	}
	return nil
}

// receive waits for the status packet of a servo; noise and packets of others are skipped.
func (b *Bus) receive(id byte) (Packet, error) {
	end := time.Now().Add(b.timeout)
	for {
		for {
			p, n, err := Split(b.in)
			b.in = b.in[:copy(b.in, b.in[n:])]
			if err != nil {
				continue
			}
			if n == 0 {
				break
			}
			if p.Instruction == Status && p.ID == id { // an adapter may echo our own instruction
				return p, nil
			}
		}
		left := time.Until(end)
		if left <= 0 {
			return Packet{}, fmt.Errorf("servo %d: %w within %v; check power, cable, baud rate and id", id, ErrSilent, b.timeout)
		}
		if err := b.port.SetReadTimeout(left); err != nil {
			return Packet{}, fmt.Errorf("servo %d: set the time-out of the serial port: %w", id, err)
		}
		n, err := b.port.Read(b.chunk[:])
		if err != nil {
			return Packet{}, fmt.Errorf("servo %d: read the serial port: %w", id, err)
		}
		b.in = append(b.in, b.chunk[:n]...)
	}
}
