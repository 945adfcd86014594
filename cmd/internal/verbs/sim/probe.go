// Package sim holds the verbs of pinch-sim: the simulated cell as a handheld rig or as two arms.
package sim

import (
	"fmt"

	"github.com/pinch-robotics/pinch/internal/doctor"
	"github.com/pinch-robotics/pinch/internal/sim"
)

// Probe builds a small cell, steps it and renders one picture.
func Probe() []doctor.Part {
	const fix = "run `make build`, which installs libmujoco-dev, libosmesa6-dev and libturbojpeg0-dev and builds with the tag mujoco"
	var cell *sim.Cell
	physics := doctor.Try("MuJoCo", fix, func() (string, error) {
		small := sim.Size{Width: 64, Height: 48}
		c, err := sim.New(sim.Config{Mode: sim.ModeHandheld, Wrist: small, Center: small, Scene: small, RenderThreads: 1})
		if err != nil {
			return "", err
		}
		cell = c
		if err := c.Advance(c.Now().Add(5_000_000)); err != nil {
			return "", err
		}
		return "builds and steps the cell", nil
	})
	gl := doctor.Try("offscreen GL", fix, func() (string, error) {
		if cell == nil {
			return "", fmt.Errorf("not tried, because the cell was not built")
		}
		shots, err := cell.Render(sim.Shot{Camera: sim.SceneView, RGB: true})
		if err != nil {
			return "", err
		}
		for _, b := range shots[0].RGB {
			if b != 0 {
				return "renders the cell", nil
			}
		}
		return "", fmt.Errorf("the rendered picture is black")
	})
	if cell != nil {
		_ = cell.Close()
	}
	return []doctor.Part{physics, gl}
}
