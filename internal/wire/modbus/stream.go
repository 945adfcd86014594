package modbus

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"
)

// Stream makes a Port of a socket.
type Stream struct {
	net.Conn
}

// DialStream connects to host:port.
func DialStream(ctx context.Context, addr string) (Stream, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return Stream{}, fmt.Errorf("connect to Modbus device %s: %w", addr, err)
	}
	return Stream{c}, nil
}

// SetReadTimeout implements Port.
func (s Stream) SetReadTimeout(d time.Duration) error { return s.SetReadDeadline(time.Now().Add(d)) }

// Read implements Port: 0 bytes when the time-out passes.
func (s Stream) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return n, nil
	}
	return n, err
}

// ResetInputBuffer implements Port: late answers are dropped.
func (s Stream) ResetInputBuffer() error {
	var b [512]byte
	for {
		if err := s.SetReadDeadline(time.Now().Add(time.Microsecond)); err != nil {
			return err
		}
		n, err := s.Conn.Read(b[:])
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil
		case err != nil:
			return err
		case n == 0:
			return nil
		}
	}
}
