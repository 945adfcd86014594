package armlink

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"strings"
	"sync"
	"syscall"

	"github.com/vmihailenco/msgpack/v5"
)

// Conn reads and writes messages over a byte stream. Write is safe for concurrent use; Read belongs to one goroutine.
type Conn struct {
	rwc io.ReadWriteCloser
	r   *bufio.Reader

	mu  sync.Mutex // guards buf and the order of frames on the wire
	buf bytes.Buffer
}

// NewConn wraps a stream, for example a net.Conn or one end of net.Pipe. Close closes the stream.
func NewConn(rwc io.ReadWriteCloser) *Conn {
	return &Conn{rwc: rwc, r: bufio.NewReaderSize(rwc, 1<<16)}
}

// Write sends one message.
func (c *Conn) Write(m Message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.buf.Reset()
	c.buf.Write([]byte{0, 0, 0, 0, byte(m.Kind())})
	if err := msgpack.NewEncoder(&c.buf).Encode(m); err != nil {
		return fmt.Errorf("encode %T: %w", m, err)
	}
	frame := c.buf.Bytes()
	if len(frame)-4 > MaxFrame {
		return fmt.Errorf("encode %T: %d bytes exceed the frame limit of %d", m, len(frame)-4, MaxFrame)
	}
	binary.LittleEndian.PutUint32(frame, uint32(len(frame)-4))
	if _, err := c.rwc.Write(frame); err != nil {
		return fmt.Errorf("send %T: %w", m, err)
	}
	return nil
}

// Read receives the next message. A clean end of the stream is io.EOF; a broken frame, an unknown kind or an unknown key is an error after
// which the stream must be closed.
func (c *Conn) Read() (Message, error) {
	var head [5]byte
	if _, err := io.ReadFull(c.r, head[:4]); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, io.EOF
		}
		return nil, fmt.Errorf("read frame length: %w", err)
	}
	n := binary.LittleEndian.Uint32(head[:4])
	if n < 1 || n > MaxFrame {
		return nil, fmt.Errorf("read frame: length %d outside 1..%d; the peer does not speak armlink %d", n, MaxFrame, Version)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(c.r, body); err != nil {
		return nil, fmt.Errorf("read frame of %d bytes: %w", n, unexpected(err))
	}
	m := newMessage(Kind(body[0]))
	if m == nil {
		return nil, fmt.Errorf("read frame: unknown message kind %d", body[0])
	}
	dec := msgpack.NewDecoder(bytes.NewReader(body[1:]))
	dec.DisallowUnknownFields(true)
	if err := dec.Decode(m); err != nil {
		return nil, fmt.Errorf("decode %T: %w", m, err)
	}
	return m, nil
}

// Close closes the stream, which also ends a blocked Read.
func (c *Conn) Close() error { return c.rwc.Close() }

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Dial connects to "tcp:host:port" or "unix:/path".
func Dial(ctx context.Context, addr string) (*Conn, error) {
	network, where, err := splitAddr(addr)
	if err != nil {
		return nil, err
	}
	var d net.Dialer
	nc, err := d.DialContext(ctx, network, where)
	if err != nil {
		if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("connect to arm process at %s: nothing listens there, start it (`pinch sim robot` is the simulated one) or correct arm_link: %w", addr, err)
		}
		return nil, fmt.Errorf("connect to arm process at %s: %w", addr, err)
	}
	return NewConn(nc), nil
}

// Listen opens "tcp:host:port" or "unix:/path" for a server; wrap each accepted connection with NewConn.
func Listen(addr string) (net.Listener, error) {
	network, where, err := splitAddr(addr)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen(network, where)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("listen for the executor at %s: another program uses this address; stop it or choose another one: %w", addr, err)
	}
	if err != nil {
		return nil, fmt.Errorf("listen for the executor at %s: %w", addr, err)
	}
	return l, nil
}

func splitAddr(addr string) (network, where string, err error) {
	network, where, ok := strings.Cut(addr, ":")
	if !ok || where == "" || (network != "tcp" && network != "unix") {
		return "", "", fmt.Errorf("arm process address %q: want tcp:host:port or unix:/path", addr)
	}
	return network, where, nil
}
