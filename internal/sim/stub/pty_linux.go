package stub

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// PTY is a pseudo terminal: clients open Path as if it were a serial adapter, the device reads and writes Master.
type PTY struct {
	Master *os.File
	Path   string
	keep   int // the terminal's own end, kept open so that clients may come and go
}

// OpenPTY makes a raw pseudo terminal.
func OpenPTY() (*PTY, error) {
	m, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("make a pseudo terminal: %w", err)
	}
	p := &PTY{Master: m}
	raw, err := m.SyscallConn()
	if err == nil {
		var inner error
		err = raw.Control(func(fd uintptr) { inner = p.unlock(int(fd)) })
		if err == nil {
			err = inner
		}
	}
	if err != nil {
		_ = m.Close()
		return nil, fmt.Errorf("make a pseudo terminal: %w", err)
	}
	return p, nil
}

func (p *PTY) unlock(fd int) error {
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return err
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		return err
	}
	p.Path = fmt.Sprintf("/dev/pts/%d", n)
	if p.keep, err = unix.Open(p.Path, unix.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		return err
	}
	t, err := unix.IoctlGetTermios(p.keep, unix.TCGETS)
	if err != nil {
		return err
	}
	t.Iflag, t.Oflag, t.Lflag = 0, 0, 0
	t.Cflag = t.Cflag&^(unix.CSIZE|unix.PARENB) | unix.CS8
	return unix.IoctlSetTermios(p.keep, unix.TCSETS, t)
}

// Close pulls the adapter: clients see their port vanish.
func (p *PTY) Close() error {
	_ = unix.Close(p.keep)
	return p.Master.Close()
}
