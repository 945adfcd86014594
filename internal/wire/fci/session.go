package fci

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"sync"
	"syscall"
	"time"
)

// CommandPort is the arm's TCP port.
const CommandPort = 1337

// Session is the TCP side of a connection to one arm. Its methods are safe for concurrent use and block until the arm answers, so they do not
// belong on the thread that answers states.
type Session struct {
	version Version
	conn    *net.TCPConn
	oldTen  bool
	patient bool // answers may take as long as the context lets them

	mu      sync.Mutex // guards what follows and the order of requests on the wire
	next    uint32
	waiting map[uint32]chan answer
	err     error // why the connection ended
	closed  chan struct{}
}

type answer struct {
	call    uint32
	payload []byte
}

// ErrClosed is wrapped by errors of calls on a connection that has ended.
var ErrClosed = errors.New("the connection to the arm has ended")

// dialTimeout and callTimeout bound connecting and an answer. A recovery releases brakes, which takes seconds.
const (
	dialTimeout     = 5 * time.Second
	callTimeout     = 5 * time.Second
	recoveryTimeout = 30 * time.Second
)

// Dial connects to the arm at addr ("host" or "host:port", default port 1337), which then sends its states to udpPort of the address this
// machine connects from. The version is the server's: the newest is tried first, and the one the server names after it. A server of
// another version gives an error wrapping ErrVersion. A patient session waits for answers as long as the context of a call lets it, for simulated arms whose time
// may stand still.
func Dial(ctx context.Context, addr string, udpPort int, patient bool) (*Session, error) {
	if _, _, err := net.SplitHostPort(addr); err != nil {
		addr = net.JoinHostPort(addr, fmt.Sprint(CommandPort))
	}
	v := MaxVersion
	for try := 0; ; try++ {
		s, named, err := connect(ctx, addr, udpPort, v, patient)
		if err != nil {
			return nil, fmt.Errorf("connect to the arm at %s: %w", addr, err)
		}
		if s != nil {
			return s, nil
		}
		if err := named.Check(); err != nil {
			return nil, fmt.Errorf("connect to the arm at %s: %w", addr, err)
		}
		if try > 0 || named == v {
			return nil, fmt.Errorf("connect to the arm at %s: %w: the server names version %d but refuses it", addr, ErrVersion, named)
		}
		v = named
	}
}

// connect makes one attempt; a server that refuses the version gives no session and names its own.
func connect(ctx context.Context, addr string, udpPort int, v Version, patient bool) (*Session, Version, error) {
	d := net.Dialer{Timeout: dialTimeout, KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: time.Second, Interval: time.Second, Count: 3}}
	nc, err := d.DialContext(ctx, "tcp", addr)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil, 0, fmt.Errorf("nothing listens there; is FCI activated in Desk, and does no other program hold control? %w", err)
	}
	if err != nil {
		return nil, 0, err
	}
	s := &Session{version: v, patient: patient, conn: nc.(*net.TCPConn), waiting: map[uint32]chan answer{}, closed: make(chan struct{})}
	go s.read()
	var req [4]byte
	binary.LittleEndian.PutUint16(req[0:], uint16(v))
	binary.LittleEndian.PutUint16(req[2:], uint16(udpPort))
	a, err := s.call(ctx, CallConnect, req[:], callTimeout)
	if err != nil {
		_ = s.Close()
		return nil, 0, err
	}
	if len(a) < 3 {
		_ = s.Close()
		return nil, 0, fmt.Errorf("connect was answered with %d bytes instead of 3; this is no Franka interface", len(a))
	}
	named := Version(binary.LittleEndian.Uint16(a[1:]))
	if a[0] == 0 {
		return s, named, nil
	}
	_ = s.Close()
	return nil, named, nil
}

// Version is the server's version.
func (s *Session) Version() Version { return s.version }

// LocalIP is the address that the arm sends its states to.
func (s *Session) LocalIP() net.IP { return s.conn.LocalAddr().(*net.TCPAddr).IP }

// RemoteIP is the arm's address.
func (s *Session) RemoteIP() net.IP { return s.conn.RemoteAddr().(*net.TCPAddr).IP }

// SetStateBytes tells the length of the arm's state datagrams, which decides a detail of the calls in early releases of version 10. Call it once
// the first state has come.
func (s *Session) SetStateBytes(n int) {
	s.mu.Lock()
	s.oldTen = s.version == 10 && n == stateBytesOld
	s.mu.Unlock()
}

// Done is closed when the connection has ended; Err then says why.
func (s *Session) Done() <-chan struct{} { return s.closed }

// Err is why the connection ended, nil while it lives.
func (s *Session) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Close ends the connection; a running motion is stopped by the arm.
func (s *Session) Close() error {
	err := s.conn.Close()
	<-s.closed
	return err
}

// send writes a request and returns the channel of its answers, which has to be given up with forget.
func (s *Session) send(c Call, payload []byte) (uint32, chan answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, nil, fmt.Errorf("%s: %w: %w", c, ErrClosed, s.err)
	}
	n, ok := s.version.number(c, s.oldTen)
	if !ok {
		return 0, nil, fmt.Errorf("%s: interface version %d has no such call", c, s.version)
	}
	id := s.next
	s.next++
	msg := make([]byte, headerBytes, headerBytes+len(payload))
	binary.LittleEndian.PutUint32(msg[0:], n)
	binary.LittleEndian.PutUint32(msg[4:], id)
	binary.LittleEndian.PutUint32(msg[8:], uint32(headerBytes+len(payload)))
	ch := make(chan answer, 2) // a move has two answers
	s.waiting[id] = ch
	if _, err := s.conn.Write(append(msg, payload...)); err != nil {
		delete(s.waiting, id)
		return 0, nil, fmt.Errorf("%s: %w", c, err)
	}
	return id, ch, nil
}

func (s *Session) forget(id uint32) {
	s.mu.Lock()
	delete(s.waiting, id)
	s.mu.Unlock()
}

// call sends a request and returns the payload of its answer, status byte first.
func (s *Session) call(ctx context.Context, c Call, payload []byte, limit time.Duration) ([]byte, error) {
	id, ch, err := s.send(c, payload)
	if err != nil {
		return nil, err
	}
	defer s.forget(id)
	return s.wait(ctx, c, ch, limit)
}

func (s *Session) wait(ctx context.Context, c Call, ch chan answer, limit time.Duration) ([]byte, error) {
	var late <-chan time.Time
	if !s.patient {
		t := time.NewTimer(limit)
		defer t.Stop()
		late = t.C
	}
	select {
	case a := <-ch:
		return a.payload, nil
	case <-s.closed:
		select { // an answer that came before the end counts
		case a := <-ch:
			return a.payload, nil
		default:
		}
		return nil, fmt.Errorf("%s: %w: %w", c, ErrClosed, s.Err())
	case <-late:
		return nil, fmt.Errorf("%s: the arm did not answer within %v", c, limit)
	case <-ctx.Done():
		return nil, fmt.Errorf("%s: %w", c, ctx.Err())
	}
}

// maxAnswer bounds an answer; a robot description has about 20 kB.
const maxAnswer = 16 << 20

// read hands answers to their calls until the stream ends.
func (s *Session) read() {
	err := s.readAll()
	s.mu.Lock()
	s.err = err
	s.mu.Unlock()
	close(s.closed)
}

func (s *Session) readAll() error {
	for {
		var head [headerBytes]byte
		if _, err := io.ReadFull(s.conn, head[:]); err != nil {
			if errors.Is(err, io.EOF) {
				return errors.New("the arm closed it")
			}
			return err
		}
		n, id, size := binary.LittleEndian.Uint32(head[0:]), binary.LittleEndian.Uint32(head[4:]), binary.LittleEndian.Uint32(head[8:])
		if size < headerBytes+1 || size > maxAnswer {
			return fmt.Errorf("an answer states %d bytes; this is no Franka interface", size)
		}
		payload := make([]byte, size-headerBytes)
		if _, err := io.ReadFull(s.conn, payload); err != nil {
			return fmt.Errorf("an answer of %d bytes broke off: %w", size, err)
		}
		s.mu.Lock()
		ch := s.waiting[id]
		s.mu.Unlock()
		if ch == nil {
			continue // of a call that was given up
		}
		select {
		case ch <- answer{n, payload}:
		default:
			return fmt.Errorf("call %d has more than two answers", id)
		}
	}
}

// simple makes a call whose status 0 means success.
func (s *Session) simple(ctx context.Context, c Call, payload []byte, limit time.Duration, status func(byte) string) error {
	a, err := s.call(ctx, c, payload, limit)
	if err != nil {
		return err
	}
	if a[0] != 0 {
		return &StatusError{Call: c, Status: a[0], Text: status(a[0])}
	}
	return nil
}

func floats(vs ...[]float64) (b []byte) {
	for _, v := range vs {
		for _, x := range v {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
		}
	}
	return b
}
