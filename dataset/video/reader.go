package video

// ReaderOptions choose what a Reader returns.
type ReaderOptions struct {
	// Width and Height of the returned frames in pixels; 0 keeps the stored size.
	Width, Height int
}

// Reader decodes frames of one mp4 by number. Not safe for concurrent use: open one per worker.
type Reader struct{}

// Open opens the video at path. Without build tag libav the first Frame call decodes the whole file with the ffmpeg
// program and keeps it in memory.
func Open(path string, o ReaderOptions) (*Reader, error) { return nil, errNotBuilt }

// Frames is the number of frames.
func (r *Reader) Frames() int { return 0 }

// Size of the returned frames in pixels.
func (r *Reader) Size() (width, height int) { return 0, 0 }

// Frame decodes frame i into dst, which must hold width*height*3 bytes: RGB24, rows from the top.
func (r *Reader) Frame(i int, dst []byte) error { return errNotBuilt }

// Close releases the decoder.
func (r *Reader) Close() error { return nil }

// Each decodes the frames first..first+count-1 in order; rgb is reused between calls.
func Each(path string, o ReaderOptions, first, count int, f func(i int, rgb []byte) error) error {
	return errNotBuilt
}
