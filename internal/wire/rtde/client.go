package rtde

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"time"
)

// Client is a connection to a controller that streams one recipe of outputs. It belongs to one goroutine, but Close may come at any time.
type Client struct {
	conn net.Conn
	r    *bufio.Reader
	buf  []byte
	out  Recipe
	// Version is the controller's: major, minor, bugfix, build.
	Version [4]uint32
	// Messages receives the controller's text messages; nil: they are dropped.
	Messages func(source, text string)
}

// Dial connects to host:port and agrees on the protocol version.
func Dial(ctx context.Context, addr string) (*Client, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil, fmt.Errorf("connect to RTDE at %s: nothing listens there; is the robot on, and RTDE allowed under Settings, Security, Services? %w", addr, err)
	}
	if err != nil {
		return nil, fmt.Errorf("connect to RTDE at %s: %w", addr, err)
	}
	c := &Client{conn: conn, r: bufio.NewReaderSize(conn, 1<<16)}
	if err := c.greet(); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("RTDE at %s: %w", addr, err)
	}
	return c, nil
}

// setupTime bounds each exchange before the stream runs.
const setupTime = 2 * time.Second

func (c *Client) greet() error {
	p, err := c.ask(RequestVersion, binary.BigEndian.AppendUint16(nil, ProtocolVersion))
	if err != nil {
		return err
	}
	if len(p) != 1 || p[0] != 1 {
		return fmt.Errorf("the controller does not speak protocol version %d; its software is older than 3.10 (CB3) or 5.4", ProtocolVersion)
	}
	if p, err = c.ask(ControllerVersion, nil); err != nil {
		return err
	}
	if len(p) != 16 {
		return fmt.Errorf("controller version has %d bytes, want 16", len(p))
	}
	for i := range c.Version {
		c.Version[i] = binary.BigEndian.Uint32(p[4*i:])
	}
	return nil
}

// Stream asks for outputs at a frequency (Hz) and starts them.
func (c *Client) Stream(frequencyHz float64, names ...string) (Recipe, error) {
	payload := AppendValue(nil, "DOUBLE", []float64{frequencyHz})
	p, err := c.ask(SetupOutputs, append(payload, strings.Join(names, ",")...))
	if err != nil {
		return Recipe{}, err
	}
	if len(p) < 1 {
		return Recipe{}, errors.New("set up RTDE outputs: empty answer")
	}
	if c.out, err = NewRecipe(p[0], names, string(p[1:])); err != nil {
		return Recipe{}, fmt.Errorf("set up RTDE outputs: %w", err)
	}
	if p, err = c.ask(Start, nil); err != nil {
		return Recipe{}, err
	}
	if len(p) != 1 || p[0] != 1 {
		return Recipe{}, errors.New("start RTDE: the controller refuses")
	}
	return c.out, nil
}

// ask sends a request and waits for the package of the same kind.
func (c *Client) ask(k Kind, payload []byte) ([]byte, error) {
	if err := c.conn.SetDeadline(time.Now().Add(setupTime)); err != nil {
		return nil, err
	}
	if _, err := c.conn.Write(Append(nil, k, payload)); err != nil {
		return nil, fmt.Errorf("send RTDE %c: %w", k, err)
	}
	for {
		got, p, err := ReadPackage(c.r, &c.buf)
		if err != nil {
			return nil, fmt.Errorf("wait for RTDE %c: %w", k, err)
		}
		if got == k {
			return append([]byte(nil), p...), nil
		}
		c.aside(got, p)
	}
}

// Next waits until at for a data package and returns the newest one that has arrived; skipped says how many older ones it took away. The
// payload is valid until the next call.
func (c *Client) Next(at time.Time) (payload []byte, skipped int, err error) {
	if err := c.conn.SetReadDeadline(at); err != nil {
		return nil, 0, err
	}
	for {
		k, p, err := ReadPackage(c.r, &c.buf)
		if err != nil {
			return nil, skipped, err
		}
		if k != Data {
			c.aside(k, p)
			continue
		}
		if err := c.out.Check(p); err != nil {
			return nil, skipped, err
		}
		if !c.waiting() {
			return p, skipped, nil
		}
		skipped++
	}
}

// waiting reports whether a whole package is in the buffer.
func (c *Client) waiting() bool {
	if c.r.Buffered() < 3 {
		return false
	}
	head, err := c.r.Peek(2)
	return err == nil && c.r.Buffered() >= int(binary.BigEndian.Uint16(head))
}

// aside takes a package that nobody asked for.
func (c *Client) aside(k Kind, p []byte) {
	if k != TextMessage || c.Messages == nil || len(p) < 1 {
		return
	}
	n := int(p[0])
	if len(p) < 2+n {
		return
	}
	text, rest := string(p[1:1+n]), p[1+n:]
	if m := int(rest[0]); len(rest) >= 1+m {
		c.Messages(string(rest[1:1+m]), text)
	}
}

// LocalIP is this computer's address as the controller sees it.
func (c *Client) LocalIP() string {
	host, _, _ := net.SplitHostPort(c.conn.LocalAddr().String())
	return host
}

// RemoteIP is the controller's address.
func (c *Client) RemoteIP() string {
	host, _, _ := net.SplitHostPort(c.conn.RemoteAddr().String())
	return host
}

// Close ends the connection, also a blocked Next.
func (c *Client) Close() error { return c.conn.Close() }
