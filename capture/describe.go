package capture

import (
	"fmt"
	"runtime/debug"

	"github.com/google/uuid"

	"github.com/pinch-robotics/pinch/internal/meta"
)

// describe is what is known of a recording when it begins.
func (e *engine) describe(at instant) meta.Recording {
	m := meta.New()
	m.UUID = e.uuid(at).String()
	m.Robot = meta.Robot{Type: e.rig.Robot.Type, ID: e.rig.Robot.ID}
	m.Environment = meta.Environment{Type: e.rig.environment(), Site: e.rig.Site}
	m.Runner = meta.Runner{Type: meta.Operator, Name: e.rig.Operator}
	for _, c := range e.rig.Cameras {
		m.Devices = append(m.Devices, meta.Device{Role: c.Name + "_camera", Type: "rtsp", ID: c.URL})
	}
	for _, c := range e.rig.Encoders {
		m.Devices = append(m.Devices, meta.Device{Role: c.Side + "_encoder", Type: "serial", ID: c.Port})
	}
	if e.rig.Tracker.Address != "" {
		m.Devices = append(m.Devices, meta.Device{Role: "tracker", Type: "quest", ID: e.rig.Tracker.Address})
	}
	m.Devices = append(m.Devices, meta.Device{Role: "pedal", Type: "input_event", ID: e.rig.Pedal.Path})
	for _, role := range []string{"interface", "data_collection"} {
		m.Programs = append(m.Programs, meta.Program{Role: role, Name: "pinch", Source: programSource()})
	}
	m.Episode.Label = e.rig.Task.Name
	return m
}

// uuid is random, apart from simulated rigs: there it follows from the rig and the device time of the start, so that the same
// simulation gives the same recording.
func (e *engine) uuid(at instant) uuid.UUID {
	if e.rig.Robot.Simulation && e.axis.clock != "" {
		return uuid.NewSHA1(uuid.NameSpaceURL, fmt.Appendf(nil, "pinch:%s:%s:%d", e.rig.Robot.ID, e.axis.clock, at.device))
	}
	return uuid.New()
}

// programSource is the commit this program was built from, as far as the build knows it.
func programSource() *meta.Source {
	g := meta.Git{URI: "https://github.com/pinch-robotics/pinch", Hash: "unknown", Branch: "main"}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				g.Hash = s.Value
			}
		}
	}
	return &meta.Source{Git: g}
}
