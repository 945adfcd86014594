package pedal

import (
	"os"
	"syscall"
)

// openNonblocking opens an event device or FIFO so that reads wait in Go's poller, where a deadline ends them. A FIFO is opened
// for writing too: then there is always a reader and a writer, and nothing that is written between two writers is lost.
func openNonblocking(path string, fifo bool) (stream, error) {
	flag := os.O_RDONLY
	if fifo {
		flag = os.O_RDWR
	}
	return os.OpenFile(path, flag|syscall.O_NONBLOCK, 0)
}
