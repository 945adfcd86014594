package cellserve

import (
	"fmt"
	"log/slog"

	"github.com/pinch-robotics/pinch/internal/sim"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
)

// Options say where and how to serve. Zero fields take the defaults.
type Options struct {
	Listen   string        // "tcp:host:port" or "unix:/path"; default tcp:127.0.0.1:0
	RTSP     string        // host:port of the cameras' server; default 127.0.0.1:0
	Clock    armlink.Clock // default armlink.LockStep
	WristHz  float64       // wrist cameras, default 10, the rate policies are asked at; must divide 1000
	SceneHz  float64       // scene camera, default 0: off; must divide 1000
	Cell     sim.Config    // Mode is set by Serve
	Clients  int           // Serve returns after that many clients have left; 0: serve until ctx ends
	Ready    func(Ready)   // called once, when clients can connect; may be nil
	Logger   *slog.Logger  // nil: silent
	PeriodMS int           // distance of State messages, default 10
}

// Ready says where the cell can be reached. As one line of JSON it announces the cell to the program that started it.
type Ready struct {
	Ready   bool   `json:"ready"`
	ArmLink string `json:"armlink"` // as armlink.Dial takes it
	RTSP    string `json:"rtsp"`    // host:port
}

func (o Options) withDefaults() (Options, error) {
	if o.Listen == "" {
		o.Listen = "tcp:127.0.0.1:0"
	}
	if o.RTSP == "" {
		o.RTSP = "127.0.0.1:0"
	}
	if o.Clock == "" {
		o.Clock = armlink.LockStep
	}
	if o.Clock != armlink.LockStep && o.Clock != armlink.RealTime {
		return o, fmt.Errorf("simulated arms: clock %q, want %s or %s", o.Clock, armlink.LockStep, armlink.RealTime)
	}
	if o.WristHz == 0 {
		o.WristHz = 10
	}
	if o.PeriodMS == 0 {
		o.PeriodMS = 10
	}
	if o.PeriodMS < 1 || o.PeriodMS > 1000 {
		return o, fmt.Errorf("simulated arms: state period %d ms, want 1 to 1000", o.PeriodMS)
	}
	for name, hz := range map[string]float64{"wrist": o.WristHz, "scene": o.SceneHz} {
		if hz == 0 && name == "scene" {
			continue
		}
		if ms := 1000 / hz; hz <= 0 || ms != float64(int(ms)) {
			return o, fmt.Errorf("simulated arms: %s camera rate %v Hz, want one with a whole number of milliseconds between frames", name, hz)
		}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Cell.Mode = sim.ModeRobot
	return o, nil
}
