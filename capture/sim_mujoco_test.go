//go:build mujoco

package capture

import (
	"path/filepath"
	"testing"

	"github.com/pinch-robotics/pinch/internal/meta"
	"github.com/pinch-robotics/pinch/internal/sim"
	"github.com/pinch-robotics/pinch/internal/sim/rigserve"
)

// One demonstration of the simulated cell, through the real protocols, with small pictures: every frame arrives, and the recording is
// judged a success as the demonstrator's pedal said.
func TestSimulatedCellIsRecorded(t *testing.T) {
	ready, done := make(chan rigserve.Ready, 1), make(chan error, 1)
	var sent rigserve.Result
	opts := rigserve.Options{
		OutRig: filepath.Join(t.TempDir(), "rig.yaml"), Wrist: sim.Size{Width: 160, Height: 120}, Center: sim.Size{Width: 160, Height: 120},
		Ready: func(r rigserve.Ready) { ready <- r },
	}
	go func() {
		var err error
		sent, err = rigserve.Serve(t.Context(), opts)
		done <- err
	}()
	select {
	case <-ready:
	case err := <-done:
		t.Fatal(err)
	}
	res, err := Record(t.Context(), Options{RigFile: opts.OutRig, Out: filepath.Join(t.TempDir(), "out"), MinFreeBytes: -1})
	if err != nil || len(res.Saved) != 1 {
		t.Fatalf("%+v, %v", res, err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for _, c := range res.Cameras {
		if want := sent.Frames[sim.Camera(c.Name)]; c.Frames != want || want == 0 || c.Bad != 0 {
			t.Errorf("%s camera: %d frames sent, %d received, %d bad", c.Name, want, c.Frames, c.Bad)
		}
	}
	m, err := meta.Read(res.Saved[0])
	if err != nil || !m.Episode.Success || m.Environment.Type != meta.Simulation || len(m.Segments) != 2 {
		t.Errorf("%+v, %v", m, err)
	}
	load(t, res.Saved[0])
}
