package rtspserve

import (
	"net"
	"sync/atomic"
)

// countingConn counts the RTP packets that have really been written to one reader's connection; the difference to those handed to the
// library is the length of its queue, which the library does not tell. The library writes one message per Write: '$' starts an
// interleaved RTP packet, anything else is RTSP text (RFC 2326, section 10.12).
type countingConn struct {
	net.Conn
	packets atomic.Uint64
	onText  func(*countingConn) // called after RTSP text was written
}

func (c *countingConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if err != nil || len(b) == 0 {
		return n, err
	}
	if b[0] == '$' {
		c.packets.Add(1)
	} else {
		c.onText(c)
	}
	return n, nil
}

// countingListener wraps what it accepts.
type countingListener struct {
	net.Listener
	onText func(*countingConn)
}

func (l countingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &countingConn{Conn: c, onText: l.onText}, nil
}
