//go:build mujoco

package sim

import "testing"

// BenchmarkWristPair renders both wrist cameras to JPEG, the load of one camera period of the rig.
func BenchmarkWristPair(b *testing.B) {
	for _, threads := range []int{1, 2} {
		b.Run(map[int]string{1: "threads=1", 2: "threads=2"}[threads], func(b *testing.B) {
			c, err := New(Config{Mode: ModeHandheld, RenderThreads: threads})
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			for b.Loop() {
				if _, err := c.Render(Shot{Camera: LeftWrist, JPEG: true}, Shot{Camera: RightWrist, JPEG: true}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(2*float64(b.N)/b.Elapsed().Seconds(), "frames/s")
		})
	}
}

// BenchmarkPhysics advances one second of the robot cell at rest.
func BenchmarkPhysics(b *testing.B) {
	for _, mode := range []Mode{ModeHandheld, ModeRobot} {
		b.Run(string(mode), func(b *testing.B) {
			c, err := New(Config{Mode: mode})
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			for b.Loop() {
				if err := c.Advance(c.Now() + 1e9); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "x_real_time")
		})
	}
}
