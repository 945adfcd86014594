package capture

import (
	"os/exec"
	"testing"
	"time"
)

func TestBenchLosesNothing(t *testing.T) {
	if _, err := exec.LookPath("ffmpeg"); err != nil {
		t.Skip("ffmpeg is not installed")
	}
	res, err := Bench(t.Context(), BenchOptions{Dir: t.TempDir(), Duration: 2 * time.Second, RateHz: 60, Width: 320, Height: 240})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range res.Cameras {
		if c.Lost != 0 || c.Sent == 0 || c.Logged < c.Sent {
			t.Errorf("%s camera: %d sent, %d logged, %d lost", c.Name, c.Sent, c.Logged, c.Lost)
		}
	}
	if len(res.Cameras) != 3 || res.CPUSeconds <= 0 || res.Bytes == 0 {
		t.Errorf("result %+v", res)
	}
}
