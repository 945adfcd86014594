package policy

import (
	"math"
	"math/rand/v2"
)

// TimeConvention names the direction of flow time in manifests: t = 1 is noise, t = 0 is data.
const TimeConvention = "noise_at_one"

// Periods of the flow-time features, geometric from shortest to longest, as in openpi's models/pi0.py.
const (
	shortestPeriod = 4e-3
	longestPeriod  = 4.0
)

// TimeFeatures writes sines, then cosines, of flow time t to dst (even length).
func TimeFeatures(dst []float32, t float64) {
	half := len(dst) / 2
	for i := range half {
		f := 0.0
		if half > 1 {
			f = float64(i) / float64(half-1)
		}
		period := shortestPeriod * math.Pow(longestPeriod/shortestPeriod, f)
		sin, cos := math.Sincos(2 * math.Pi * t / period)
		dst[i], dst[half+i] = float32(sin), float32(cos)
	}
}

// flowTime maps u, uniform in [0, 1), to t = 0.999 b + 0.001 with b from Beta(1.5, 1), which leans toward noise (t = 1). The
// distribution function of Beta(1.5, 1) is b^1.5, so b = u^(2/3). Source: openpi, models/pi0.py.
func flowTime(u float64) float64 { return 0.999*math.Pow(u, 2.0/3) + 0.001 }

// noisyChunk draws noise and writes x(t) = t*noise + (1-t)*action and the target noise - action.
func noisyChunk(noisy, target, action []float32, t float64, rng *rand.Rand) {
	for i, a := range action {
		e := float32(rng.NormFloat64())
		noisy[i] = float32(t)*e + float32(1-t)*a
		target[i] = e - a
	}
}

// integrate runs Euler steps from x at t = 1 to t = 0 in place; velocity writes dx/dt at (x, t).
func integrate(x []float32, steps int, velocity func(dst, x []float32, t float64) error) error {
	v := make([]float32, len(x))
	dt := 1 / float64(steps)
	for k := range steps {
		if err := velocity(v, x, 1-float64(k)*dt); err != nil {
			return err
		}
		for i := range x {
			x[i] -= float32(dt) * v[i]
		}
	}
	return nil
}
