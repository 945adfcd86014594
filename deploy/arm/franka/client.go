package franka

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/pinch-robotics/pinch/internal/wire/armlink"
)

// client is one executor. Reading and writing have goroutines of their own, so that one that does not read holds up nothing.
type client struct {
	nc      net.Conn
	conn    *armlink.Conn
	in      chan armlink.Message // closed when it has left
	out     chan armlink.Message
	quit    chan struct{}
	deaf    chan struct{} // closed when nothing can be written any more
	once    sync.Once
	wg      sync.WaitGroup
	greeted bool // Hello has been sent; the process's goroutine owns it
}

// clientBuffer is how many messages may wait in each direction: 0.6 s of states.
const clientBuffer = 64

// errSlow ends a client that does not take its states.
var errSlow = errors.New("the executor does not read its states")

func newClient(nc net.Conn) *client {
	c := &client{nc: nc, conn: armlink.NewConn(nc), in: make(chan armlink.Message, clientBuffer), out: make(chan armlink.Message, clientBuffer),
		quit: make(chan struct{}), deaf: make(chan struct{})}
	c.wg.Add(2)
	go c.read()
	go c.write()
	return c
}

func (c *client) read() {
	defer c.wg.Done()
	defer close(c.in)
	for {
		m, err := c.conn.Read()
		if err != nil {
			return
		}
		select {
		case c.in <- m:
		case <-c.quit:
			return
		}
	}
}

func (c *client) write() {
	defer c.wg.Done()
	defer close(c.deaf)
	for {
		select {
		case m := <-c.out:
			_ = c.nc.SetWriteDeadline(time.Now().Add(time.Second))
			if c.conn.Write(m) != nil {
				_ = c.nc.Close()
				return
			}
		case <-c.quit:
			return
		}
	}
}

// send queues a message, or reports that the client does not read. In lock-step there is time to wait for it.
func (c *client) send(m armlink.Message, wait bool) error {
	if wait {
		select {
		case c.out <- m:
			return nil
		case <-c.deaf:
			return errSlow
		}
	}
	select {
	case c.out <- m:
		return nil
	default:
		return errSlow
	}
}

// close ends the client; its goroutines leave.
func (c *client) close() {
	c.once.Do(func() {
		close(c.quit)
		_ = c.nc.Close()
	})
	c.wg.Wait()
}

// refuse tells a client why it is not served and ends it.
func (c *client) refuse(why string) {
	go func() {
		_ = c.send(&armlink.Fault{Text: why}, false)
		time.Sleep(100 * time.Millisecond) // its goroutine takes a moment to send that
		c.close()
	}()
}

// accept offers each connection until ctx ends.
func accept(ctx context.Context, l net.Listener, clients chan<- *client) {
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	for {
		nc, err := l.Accept()
		if err != nil {
			return
		}
		select {
		case clients <- newClient(nc):
		case <-ctx.Done():
			_ = nc.Close()
			return
		}
	}
}
