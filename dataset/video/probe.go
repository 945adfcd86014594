package video

// Info is what the container of a video says.
type Info struct {
	Codec         Codec
	Width, Height int
	// PixFmt by ffmpeg's name, such as yuv420p; empty when the container does not tell.
	PixFmt string
	// Timescale is ticks per second of PTS.
	Timescale int
	// PTS of each frame in presentation order, in ticks, edit list applied.
	PTS []int64
	// Key marks the frames that decode on their own.
	Key []bool
	// MaxGOP is the greatest distance between key frames.
	MaxGOP int
	// Duration of the track in seconds.
	Duration float64
	// HasAudio reports an audio track; HasBFrames that decode order differs from presentation order.
	HasAudio, HasBFrames bool
	// Size of the file in bytes.
	Size int64
}

// Frames is the number of frames.
func (i Info) Frames() int { return len(i.PTS) }

// Time of frame k in seconds.
func (i Info) Time(k int) float64 { return float64(i.PTS[k]) / float64(i.Timescale) }

// Rate is the average frame rate in Hz, 0 when unknown.
func (i Info) Rate() float64 { return 0 }

// Probe reads the sample tables of the mp4 at path. Pure Go; decodes nothing.
func Probe(path string) (Info, error) { return Info{}, errNotBuilt }
