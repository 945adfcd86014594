package dynamixel

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Instruction is the byte that says what a packet is.
type Instruction byte

// The instructions of protocol 2.0 that this package sends or answers.
const (
	Ping         Instruction = 0x01
	Read         Instruction = 0x02
	Write        Instruction = 0x03
	RegWrite     Instruction = 0x04
	Action       Instruction = 0x05
	FactoryReset Instruction = 0x06
	Reboot       Instruction = 0x08
	Status       Instruction = 0x55
	SyncRead     Instruction = 0x82
	SyncWrite    Instruction = 0x83
)

// Broadcast is the id that all servos listen to; MaxID the highest id of one servo.
const (
	Broadcast byte = 0xFE
	MaxID     byte = 252
)

// maxLength bounds the length field: larger packets do not fit the servos' buffers.
const maxLength = 1024

// Packet is one packet without stuffing. Err is the error byte of a status packet, else 0.
type Packet struct {
	ID          byte
	Instruction Instruction
	Err         ErrorByte
	Params      []byte
}

// ErrorByte is the error byte of a status packet: bit 7 is the hardware alert, the rest a code.
type ErrorByte byte

// Alert reports a hardware error, whose reason is in register HardwareError.
func (e ErrorByte) Alert() bool { return e&0x80 != 0 }

// Code is the processing error, 0 for none.
func (e ErrorByte) Code() byte { return byte(e & 0x7F) }

// The codes a servo answers a wrong instruction with.
const (
	CodeResult      = 1
	CodeInstruction = 2
	CodeCRC         = 3
	CodeRange       = 4
	CodeLength      = 5
	CodeLimit       = 6
	CodeAccess      = 7
)

var codeNames = [...]string{CodeResult: "the servo could not carry it out", CodeInstruction: "unknown instruction", CodeCRC: "checksum is wrong",
	CodeRange: "value out of range", CodeLength: "wrong data length", CodeLimit: "value beyond the servo's limit",
	CodeAccess: "register is read-only now (torque on, or the bus watchdog has tripped)"}

// Error implements error for a code other than 0.
func (e ErrorByte) Error() string {
	if c := int(e.Code()); c > 0 && c < len(codeNames) {
		return codeNames[c]
	}
	return fmt.Sprintf("error code %d", e.Code())
}

// Append adds the packet's bytes to b.
func Append(b []byte, p Packet) []byte {
	start := len(b)
	b = append(b, 0xFF, 0xFF, 0xFD, 0x00, p.ID, 0, 0)
	body := make([]byte, 0, 2+len(p.Params))
	body = append(body, byte(p.Instruction))
	if p.Instruction == Status {
		body = append(body, byte(p.Err))
	}
	body = append(body, p.Params...)
	b = appendStuffed(b, body)
	binary.LittleEndian.PutUint16(b[start+5:], uint16(len(b)-start-7+2))
	return binary.LittleEndian.AppendUint16(b, CRC(b[start:]))
}

// appendStuffed adds body with FD inserted after each FF FF FD.
func appendStuffed(b, body []byte) []byte {
	run := 0 // how much of FF FF FD the last bytes are
	for _, c := range body {
		b = append(b, c)
		switch {
		case run < 2 && c == 0xFF:
			run++
		case run == 2 && c == 0xFF: // FF FF FF still ends in FF FF
		case run == 2 && c == 0xFD:
			b = append(b, 0xFD)
			run = 0
		case c == 0xFF:
			run = 1
		default:
			run = 0
		}
	}
	return b
}

// unstuff removes the inserted bytes in place; it reports false when FF FF FD appears without them.
func unstuff(b []byte) ([]byte, bool) {
	out := b[:0]
	run := 0
	for i := 0; i < len(b); i++ {
		c := b[i]
		out = append(out, c)
		switch {
		case run < 2 && c == 0xFF:
			run++
		case run == 2 && c == 0xFF:
		case run == 2 && c == 0xFD:
			if i+1 >= len(b) || b[i+1] != 0xFD {
				return nil, false
			}
			i++
			run = 0
		case c == 0xFF:
			run = 1
		default:
			run = 0
		}
	}
	return out, true
}

// ErrFrame marks bytes that are no valid packet: noise, a wrong checksum, a length out of bounds.
var ErrFrame = errors.New("no valid Dynamixel packet")

// Split looks for the first packet in b. It returns the packet and how many bytes of b are used up; n == 0 and no error means that more bytes
// are needed. Bytes before a header are skipped as noise. With an error wrapping ErrFrame, n bytes are to be dropped; decoding may
// go on behind them. The parameters are a copy.
func Split(b []byte) (p Packet, n int, err error) {
	at := header(b)
	if at > 0 {
		return p, at, fmt.Errorf("%w: %d bytes of noise", ErrFrame, at)
	}
	if len(b) < 7 {
		return p, 0, nil
	}
	length := int(binary.LittleEndian.Uint16(b[5:]))
	if length < 3 || length > maxLength {
		return p, 3, fmt.Errorf("%w: length %d", ErrFrame, length)
	}
	total := 7 + length
	if len(b) < total {
		return p, 0, nil
	}
	if want, got := CRC(b[:total-2]), binary.LittleEndian.Uint16(b[total-2:]); want != got {
		return p, 3, fmt.Errorf("%w: checksum %04x, computed %04x", ErrFrame, got, want)
	}
	body, ok := unstuff(append([]byte(nil), b[7:total-2]...))
	if !ok {
		return p, total, fmt.Errorf("%w: a header inside without stuffing", ErrFrame)
	}
	p.ID, p.Instruction, body = b[4], Instruction(body[0]), body[1:]
	if p.Instruction == Status {
		if len(body) < 1 {
			return p, total, fmt.Errorf("%w: status without an error byte", ErrFrame)
		}
		p.Err, body = ErrorByte(body[0]), body[1:]
	}
	p.Params = body
	return p, total, nil
}

// header is the index of the first FF FF FD 00, or of what may become one at the end of b.
func header(b []byte) int {
	want := [4]byte{0xFF, 0xFF, 0xFD, 0x00}
	for i := range b {
		k := 0
		for k < 4 && i+k < len(b) && b[i+k] == want[k] {
			k++
		}
		if k == 4 || (i+k == len(b) && k > 0) {
			return i
		}
	}
	return len(b)
}

// CRC is the checksum of protocol 2.0. Source: ROBOTIS e-manual, "CRC calculation".
func CRC(b []byte) uint16 {
	var crc uint16
	for _, c := range b {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^c]
	}
	return crc
}

var crcTable = func() (t [256]uint16) {
	for i := range t {
		r := uint16(i) << 8
		for k := 0; k < 8; k++ {
			if r&0x8000 != 0 {
				r = r<<1 ^ 0x8005
			} else {
				r <<= 1
			}
		}
		t[i] = r
	}
	return t
}()
