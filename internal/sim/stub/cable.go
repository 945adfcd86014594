package stub

import (
	"io"
	"sync"
)

// Cable is a line that can be pulled: bytes are lost in both directions then.
type Cable struct {
	Line io.ReadWriter

	mu  sync.Mutex // guards cut
	cut bool
}

// Cut pulls the cable, or plugs it in again.
func (c *Cable) Cut(cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = cut
}

func (c *Cable) isCut() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cut
}

// Read implements io.Reader.
func (c *Cable) Read(b []byte) (int, error) {
	for {
		n, err := c.Line.Read(b)
		if err != nil || !c.isCut() {
			return n, err
		}
	}
}

// Write implements io.Writer.
func (c *Cable) Write(b []byte) (int, error) {
	if c.isCut() {
		return len(b), nil
	}
	return c.Line.Write(b)
}
