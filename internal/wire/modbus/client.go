package modbus

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

// Port is a byte stream whose Read gives up after a time: a serial port of package go.bug.st/serial (0 bytes then), or Stream over a socket.
type Port interface {
	io.ReadWriteCloser
	SetReadTimeout(time.Duration) error
	ResetInputBuffer() error
}

// ErrSilent marks a device that did not answer in time.
var ErrSilent = errors.New("no answer")

// Framing says how PDUs travel.
type Framing string

// The framings.
const (
	RTU Framing = "rtu"
	TCP Framing = "tcp"
)

// Client asks one device. It belongs to one goroutine.
type Client struct {
	port        Port
	framing     Framing
	unit        byte
	timeout     time.Duration
	transaction uint16
	out, in     []byte
	chunk       [512]byte
}

// NewClient wraps an open port to the device with that unit number; timeout bounds each answer, 0 means 100 ms.
func NewClient(port Port, f Framing, unit byte, timeout time.Duration) *Client {
	if timeout == 0 {
		timeout = 100 * time.Millisecond
	}
	return &Client{port: port, framing: f, unit: unit, timeout: timeout}
}

// Close closes the port.
func (c *Client) Close() error { return c.port.Close() }

// Read reads registers with ReadHolding or ReadInput.
func (c *Client) Read(function byte, addr, count uint16) ([]uint16, error) {
	pdu, err := c.ask(readPDU(function, addr, count))
	if err != nil {
		return nil, fmt.Errorf("read %d registers at %04x: %w", count, addr, err)
	}
	v, err := parseRead(pdu, function, count)
	if err != nil {
		return nil, fmt.Errorf("read %d registers at %04x: %w", count, addr, err)
	}
	return v, nil
}

// Write sets registers.
func (c *Client) Write(addr uint16, values ...uint16) error {
	if len(values) == 0 || len(values) > maxRegisters {
		return fmt.Errorf("write %d registers: want 1 to %d", len(values), maxRegisters)
	}
	pdu, err := c.ask(writePDU(addr, values))
	if err == nil {
		err = checkAnswer(pdu, WriteMultiple)
	}
	if err == nil && (len(pdu) != 5 || binary.BigEndian.Uint16(pdu[1:]) != addr || int(binary.BigEndian.Uint16(pdu[3:])) != len(values)) {
		err = fmt.Errorf("%w: % x echoes another request", ErrFrame, pdu)
	}
	if err != nil {
		return fmt.Errorf("write %d registers at %04x: %w", len(values), addr, err)
	}
	return nil
}

// ask sends a PDU and waits for the one that answers it.
func (c *Client) ask(pdu []byte) ([]byte, error) {
	if err := c.port.ResetInputBuffer(); err != nil {
		return nil, fmt.Errorf("clear the port: %w", err)
	}
	c.in = c.in[:0]
	c.transaction++
	if c.framing == TCP {
		c.out = AppendTCP(c.out[:0], c.transaction, c.unit, pdu)
	} else {
		c.out = AppendRTU(c.out[:0], c.unit, pdu)
	}
	if _, err := c.port.Write(c.out); err != nil {
		return nil, err
	}
	for end := time.Now().Add(c.timeout); ; {
		left := time.Until(end)
		if left <= 0 {
			return nil, fmt.Errorf("unit %d: %w within %v", c.unit, ErrSilent, c.timeout)
		}
		if err := c.port.SetReadTimeout(left); err != nil {
			return nil, err
		}
		n, err := c.port.Read(c.chunk[:])
		if err != nil {
			return nil, err
		}
		c.in = append(c.in, c.chunk[:n]...)
		answer, err := c.take()
		if answer != nil || err != nil {
			return answer, err
		}
	}
}

// take cuts a complete answer out of what has arrived: nil while it is not complete.
func (c *Client) take() ([]byte, error) {
	if c.framing == TCP {
		return c.takeTCP()
	}
	if len(c.in) < 3 {
		return nil, nil
	}
	n := answerLength(c.in[1:])
	if c.in[0] != c.unit || n < 0 {
		return nil, fmt.Errorf("%w: begins with % x", ErrFrame, c.in[:3])
	}
	if len(c.in) < 1+n+2 {
		return nil, nil
	}
	frame := c.in[:1+n+2]
	if got, want := binary.LittleEndian.Uint16(frame[1+n:]), CRC(frame[:1+n]); got != want {
		return nil, fmt.Errorf("%w: checksum %04x, computed %04x", ErrFrame, got, want)
	}
	return append([]byte(nil), frame[1:1+n]...), nil
}

// takeTCP skips answers to earlier requests.
func (c *Client) takeTCP() ([]byte, error) {
	for len(c.in) >= 8 {
		length := int(binary.BigEndian.Uint16(c.in[4:]))
		if c.in[2] != 0 || c.in[3] != 0 || length < 3 || length > 254 {
			return nil, fmt.Errorf("%w: header % x", ErrFrame, c.in[:7])
		}
		if len(c.in) < 6+length {
			return nil, nil
		}
		frame := append([]byte(nil), c.in[:6+length]...)
		c.in = c.in[:copy(c.in, c.in[6+length:])]
		if binary.BigEndian.Uint16(frame) == c.transaction && frame[6] == c.unit {
			return frame[7:], nil
		}
	}
	return nil, nil
}
