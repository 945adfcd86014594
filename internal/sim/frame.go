package sim

import "github.com/pinch-robotics/pinch/frames"

// Frame is one rendered image.
type Frame struct {
	Camera Camera
	Time   frames.DeviceTime // of the scene shown
	Size   Size
	RGB    []byte // rows from the top, 3 bytes a pixel; nil unless asked for
	JPEG   []byte // baseline, standard Huffman tables, 4:2:0; nil unless asked for
}

// Shot asks for one image of the scene as it stands.
type Shot struct {
	Camera Camera
	RGB    bool
	JPEG   bool
}

// Capture snapshots the scene for each shot and returns at once; rendering goes on beside the physics on the render threads.
// Wait on every Pending before Close.
func (c *Cell) Capture(shots ...Shot) []*Pending {
	out := make([]*Pending, len(shots))
	for i, shot := range shots {
		out[i] = c.eng.snapshot(shot, c.cfg.size(shot.Camera), c.now)
	}
	return out
}

// Render is Capture and Wait: the images of the scene as it stands, in the order of the shots.
func (c *Cell) Render(shots ...Shot) ([]Frame, error) {
	pending := c.Capture(shots...)
	out := make([]Frame, len(pending))
	for i, p := range pending {
		f, err := p.Wait()
		if err != nil {
			return nil, err
		}
		out[i] = f
	}
	return out, nil
}

// Pending is an image being rendered.
type Pending struct {
	done  chan struct{}
	frame Frame
	err   error
}

// Wait blocks until the image is there. It may be called more than once.
func (p *Pending) Wait() (Frame, error) {
	<-p.done
	return p.frame, p.err
}
