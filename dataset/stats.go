package dataset

// Stats summarise a feature: one number per element of a vector, or per channel (0..1) of a picture.
// Std is the population value; quantiles interpolate linearly between order statistics.
type Stats struct {
	Min, Max, Mean, Std     []float64
	Q01, Q10, Q50, Q90, Q99 []float64
	// Count is the number of rows (of sampled frames for pictures). Quantiles are nil where a file has none.
	Count int64
}

// ImageAccumulator gathers statistics of RGB frames.
type ImageAccumulator struct{}

// Add counts every step-th pixel of an RGB24 frame of width x height.
func (a *ImageAccumulator) Add(rgb []byte, width, height int) {}

// Stats returns the statistics so far, per channel, divided by 255.
func (a *ImageAccumulator) Stats() Stats { return Stats{} }

// SampleFrames lists the frames that image statistics use: LeRobot's number of evenly spaced frames of n.
func SampleFrames(n int) []int { return nil }
