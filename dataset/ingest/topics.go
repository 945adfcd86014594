package ingest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pinch-robotics/pinch/internal/config"
	"github.com/pinch-robotics/pinch/internal/feature"
)

// Map says which topics and frames of a log hold what. It is also the form of a rig map file (YAML).
type Map struct {
	// Name of the map in reports.
	Name string `yaml:"name"`
	// Origin is the frame that both hand_root frames move in.
	Origin string `yaml:"origin"`
	// Cameras become observation.image.<name>, in this order.
	Cameras []CameraTopics `yaml:"cameras"`
	// JointStates is the topic with both finger angles; JointNames are the left and the right joint's name there.
	JointStates string   `yaml:"joint_states"`
	JointNames  []string `yaml:"joint_names"`
	// TF and TFStatic are the transform topics.
	TF       string `yaml:"tf"`
	TFStatic string `yaml:"tf_static"`
	// Pedal is the topic of the foot pedal; empty: the rig has none.
	Pedal string `yaml:"pedal"`
	// Tracked are Bool topics by side (left, right); all of a side's must be true for the hand to count as tracked.
	Tracked map[string][]string `yaml:"tracked"`
	// TrackerState are the topics on which the tracker's bridge tells the device time of each of its frames (QuestHmd and
	// QuestController of airoa_quest_msgs). Transforms with the header stamp of such a message get a stamp from the device's clock.
	TrackerState []string `yaml:"tracker_state"`
	// HeaderTime are the topics whose header stamps are capture times on the host's clock (as of drivers that take the kernel's time
	// of a frame); their messages count at these instead of their receive times.
	HeaderTime []string `yaml:"header_time"`
	// Head is the frame of the headset; empty: there is none. It is left out of datasets when the log has no such frame.
	Head string `yaml:"head"`
	// Controllers: the tracker's controllers are fixed to the hands.
	Controllers bool `yaml:"controllers"`
	// Hands: the rig has YUBI's two hands and all their features. Without them the rows hold the cameras and Features only, and origin,
	// joint_states, pedal, tracked, head and controllers play no part.
	Hands bool `yaml:"hands"`
	// Features are further columns, from the fields of any message or from transforms.
	Features []FieldFeature `yaml:"features"`
}

// CameraTopics is one camera: the first of Topics that the log has. Optional cameras may be absent.
type CameraTopics struct {
	Name     string   `yaml:"name"`
	Topics   []string `yaml:"topics"`
	Optional bool     `yaml:"optional"`
}

// Stationary is the map of YUBI's desk rig, and of our rigs with a pedal.
func Stationary() Map {
	m := Portable()
	m.Name = "stationary"
	m.Pedal = "/footpedal_states"
	return m
}

// Portable is the map of YUBI's chest rig: no pedal.
func Portable() Map {
	m := base("portable", feature.QuestOrigin)
	m.Cameras = append(m.Cameras, CameraTopics{Name: "center", Optional: true, Topics: []string{
		"/center_camera/video", "/center_camera/image_raw/compressed", "/camera/camera/color/image_raw/compressed"}})
	m.Head, m.Controllers = "quest_hmd", true
	m.TrackerState = []string{"/quest/hmd/state", "/quest/controller/left/state", "/quest/controller/right/state"}
	m.Tracked = map[string][]string{}
	for _, side := range []string{"left", "right"} {
		m.Tracked[side] = []string{"/quest/controller/" + side + "/tracked", "/quest/controller/" + side + "/valid"}
	}
	return m
}

// Trial is the map of a trial on arms.
func Trial() Map { return base("trial", feature.Cell) }

func base(name, origin string) Map {
	m := Map{Name: name, Hands: true, Origin: origin, JointStates: "/joint_states", JointNames: slices.Clone(feature.JointNames),
		TF: "/tf", TFStatic: "/tf_static"}
	for _, side := range []string{"left", "right"} {
		m.Cameras = append(m.Cameras, CameraTopics{Name: side, Topics: []string{
			"/" + side + "_camera/image_raw/compressed", "/" + side + "_camera/video"}})
	}
	return m
}

// MapFor chooses the built-in map for a recording: by the robot type of its meta.json where that is one of YUBI's, else by the frames
// and topics of the log (origin frame cell: a trial; a pedal topic: stationary).
func MapFor(robotType string, hasTopic, hasFrame func(string) bool) Map {
	switch robotType {
	case "yubi", "yubi-stationary":
		return Stationary()
	case "yubi_portable", "yubi-portable":
		return Portable()
	}
	switch {
	case hasFrame(feature.Cell) && !hasFrame(feature.QuestOrigin):
		return Trial()
	case hasTopic("/footpedal_states"):
		return Stationary()
	}
	return Portable()
}

// LoadMap reads a rig map file. What the file leaves out is as in the portable map.
func LoadMap(path string) (*Map, error) {
	m := Portable()
	if err := config.Load(path, &m); err != nil {
		return nil, err
	}
	return &m, nil
}

// Validate checks a map: config.Load calls it.
func (m *Map) Validate() error {
	if err := m.checkFeatures(); err != nil {
		return err
	}
	if m.Hands && (m.Origin == "" || m.JointStates == "" || m.TF == "") {
		return fmt.Errorf("origin, joint_states and tf must not be empty")
	}
	if m.Hands && len(m.JointNames) != 2 {
		return fmt.Errorf("joint_names: want the left and the right joint, got %d names", len(m.JointNames))
	}
	seen := map[string]bool{}
	for i, c := range m.Cameras {
		switch {
		case c.Name == "" || strings.ContainsAny(c.Name, "/. "):
			return fmt.Errorf("cameras[%d].name: %q must be a word such as left", i, c.Name)
		case seen[c.Name]:
			return fmt.Errorf("cameras[%d].name: %q is there twice", i, c.Name)
		case len(c.Topics) == 0:
			return fmt.Errorf("cameras[%d].topics: camera %q has no topic", i, c.Name)
		}
		seen[c.Name] = true
	}
	for side := range m.Tracked {
		if side != "left" && side != "right" {
			return fmt.Errorf("tracked: side %q is neither left nor right", side)
		}
	}
	return nil
}

// checkFeatures checks the further columns, and that there is any column at all.
func (m *Map) checkFeatures() error {
	names := map[string]bool{}
	for i := range m.Features {
		f := &m.Features[i]
		if err := f.check(); err != nil {
			return fmt.Errorf("features[%d]: %w", i, err)
		}
		if names[f.Name] {
			return fmt.Errorf("features[%d].name: %q is there twice", i, f.Name)
		}
		names[f.Name] = true
		if f.Parent != "" && m.TF == "" {
			return fmt.Errorf("features[%d]: feature %s needs transforms, but tf is empty", i, f.Name)
		}
	}
	if !m.Hands && len(m.Features) == 0 {
		return fmt.Errorf("features: a rig without hands needs some")
	}
	return nil
}

// needsTransforms: rows hold poses.
func (m *Map) needsTransforms() bool {
	return m.Hands || slices.ContainsFunc(m.Features, func(f FieldFeature) bool { return f.Parent != "" })
}
