package pedal

import (
	"os"
	"syscall"
)

// openNonblocking opens an event device or FIFO so that reads wait in Go's poller, where a deadline ends them, and opening a
// FIFO without a writer does not hang.
func openNonblocking(path string) (stream, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}
