package loader

// Batch is one step's windows. Its arrays are contiguous and belong to the caller until Release.
type Batch struct {
	// Step it was made for.
	Step int
	// Samples says where each window comes from.
	Samples []Sample
	// Tasks are the instructions at each window's frame.
	Tasks []string
	// Images and Columns in the order of the Config.
	Images  []ImageArray
	Columns []FloatArray

	home *Loader
}

// Sample is one window's origin.
type Sample struct {
	Number  uint64 // in the endless order
	Set     int    // place in the mixture
	Episode int    // number in its dataset
	Frame   int    // row of the episode that the offsets count from
}

// ImageArray is uint8 of shape (batch, times, height, width, 3), RGB.
type ImageArray struct {
	Feature              string
	Times, Height, Width int
	Pix                  []byte
	Pad                  []bool // (batch, times): true where the time lies outside the episode; the nearest frame stands there
}

// FloatArray is float32 of shape (batch, times, dim).
type FloatArray struct {
	Feature    string
	Times, Dim int
	Values     []float32
	Pad        []bool // as in ImageArray
}

// Release gives the batch's memory back for another one. The caller must not touch it afterwards.
func (b *Batch) Release() {
	if b.home != nil {
		select {
		case b.home.spare <- b:
		default:
		}
	}
}

// newBatch takes a released batch or makes one.
func (l *Loader) newBatch(step int) *Batch {
	select {
	case b := <-l.spare:
		b.Step = step
		return b
	default:
	}
	n := l.cfg.Batch
	b := &Batch{Step: step, Samples: make([]Sample, n), Tasks: make([]string, n), home: l}
	for _, im := range l.cfg.Images {
		t := len(im.Offsets)
		b.Images = append(b.Images, ImageArray{Feature: im.Feature, Times: t, Height: im.Geometry.Height, Width: im.Geometry.Width,
			Pix: make([]byte, n*t*im.bytes()), Pad: make([]bool, n*t)})
	}
	for i, c := range l.cfg.Columns {
		t, dim := len(c.Offsets), l.dims[i]
		b.Columns = append(b.Columns, FloatArray{Feature: c.Feature, Times: t, Dim: dim, Values: make([]float32, n*t*dim), Pad: make([]bool, n*t)})
	}
	return b
}
