package rigserve

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// pty is a pseudo terminal: the recorder opens path as if it were a USB serial port.
type pty struct {
	master *os.File
	path   string
}

func openPTY() (*pty, error) {
	m, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("make a pseudo terminal: %w", err)
	}
	p := &pty{master: m}
	if err := p.setUp(); err != nil {
		_ = m.Close()
		return nil, fmt.Errorf("make a pseudo terminal: %w", err)
	}
	return p, nil
}

// setUp unlocks the terminal, makes it raw (no echo back to us, no line editing), and opens and closes it once: from then on the
// master sees by POLLHUP whether anyone has it open.
func (p *pty) setUp() error {
	return p.control(func(fd int) error {
		if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
			return err
		}
		n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
		if err != nil {
			return err
		}
		p.path = fmt.Sprintf("/dev/pts/%d", n)
		slave, err := unix.Open(p.path, unix.O_RDWR|unix.O_NOCTTY, 0)
		if err != nil {
			return err
		}
		defer unix.Close(slave)
		t, err := unix.IoctlGetTermios(slave, unix.TCGETS)
		if err != nil {
			return err
		}
		t.Iflag, t.Oflag, t.Lflag = 0, 0, 0
		t.Cflag = t.Cflag&^(unix.CSIZE|unix.PARENB) | unix.CS8
		return unix.IoctlSetTermios(slave, unix.TCSETS, t)
	})
}

func (p *pty) control(f func(fd int) error) error {
	raw, err := p.master.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = f(int(fd)) }); err != nil {
		return err
	}
	return inner
}

// isOpen tells whether someone has the terminal open.
func (p *pty) isOpen() bool {
	open := false
	err := p.control(func(fd int) error {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		_, err := unix.Poll(fds, 0)
		open = err == nil && fds[0].Revents&unix.POLLHUP == 0
		return err
	})
	return err == nil && open
}

// waitOpen returns when the recorder has opened the terminal.
func (p *pty) waitOpen(ctx context.Context) error {
	for !p.isOpen() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil
}

// write sends bytes, waiting while the reader is behind; ctx ends the wait. A terminal that nobody reads any more is an error.
func (p *pty) write(ctx context.Context, b []byte) error {
	stop := context.AfterFunc(ctx, func() { _ = p.master.SetWriteDeadline(time.Unix(1, 0)) })
	defer stop()
	_, err := p.master.Write(b)
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

func (p *pty) close() { _ = p.master.Close() }
