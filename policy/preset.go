package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pinch-robotics/pinch/internal/feature"
	"github.com/pinch-robotics/pinch/internal/imaging"
)

// Names of the features of the two-hand layout. The first four, and a prompt, are the UMI Arena observation.
const (
	LeftImage   = feature.ImageLeft
	RightImage  = feature.ImageRight
	HandsPose   = feature.HandToHand
	JointStates = feature.JointStates

	LeftHandPose  = feature.LeftHand // recorded poses that the actions are made of
	RightHandPose = feature.RightHand
)

// Names of the Spec presets.
const (
	PresetUMI    = "umi"
	PresetJoint  = "joint"
	PresetAuto   = "auto"
	PresetCustom = "custom"
)

// Feature is what a Spec needs to know of a dataset feature.
type Feature struct {
	Name  string
	DType string // LeRobot's name; "video" and "image" are pictures
	Shape []int  // {n} for a vector, {height, width, 3} for a picture
}

func (f Feature) picture() bool { return f.DType == "video" || f.DType == "image" }

func (f Feature) dim() int {
	n := 1
	for _, s := range f.Shape {
		n *= s
	}
	return n
}

// PresetOptions are the choices a preset leaves open. Zero values take the preset's own.
type PresetOptions struct {
	ImageSize int          // side of the square network image in pixels; default 64
	ImageMode imaging.Mode // default squash
	Horizon   int          // steps; default 16
	Stride    int          // rows between steps; default fps/10 for umi (10 Hz steps), 1 for joint
	MaxTokens int          // default 64

	Form                ActionForm // of poses; default chunk
	Frames, FrameStride int        // moments of an observation and rows between them; default 1
}

func (o PresetOptions) filled(stride int) PresetOptions {
	if o.ImageSize == 0 {
		o.ImageSize = 64
	}
	if o.ImageMode == "" {
		o.ImageMode = imaging.Squash
	}
	if o.Horizon == 0 {
		o.Horizon = 16
	}
	if o.Stride == 0 {
		o.Stride = max(stride, 1)
	}
	if o.MaxTokens == 0 {
		o.MaxTokens = 64
	}
	return o
}

func (o PresetOptions) camera(feature string) Camera {
	return Camera{Feature: feature, Geometry: imaging.Geometry{Mode: o.ImageMode, Width: o.ImageSize, Height: o.ImageSize}}
}

// Preset makes the Spec called name for a dataset of the given features and row rate. PresetAuto takes umi when the
// dataset has its features and joint otherwise. The error lists what the dataset lacks and has.
func Preset(name string, features []Feature, fps int, o PresetOptions) (Spec, error) {
	s, err := preset(name, features, fps, o)
	if err != nil {
		return Spec{}, err
	}
	if o.Frames > 1 {
		s.Frames, s.FrameStride = o.Frames, max(o.FrameStride, 1)
	}
	if s, err = s.WithForm(o.Form); err != nil {
		return Spec{}, err
	}
	return s, s.Check()
}

func preset(name string, features []Feature, fps int, o PresetOptions) (Spec, error) {
	switch name {
	case PresetUMI:
		return umi(features, fps, o)
	case PresetJoint:
		return joint(features, fps, o)
	case PresetAuto:
		s, err := umi(features, fps, o)
		if !errors.Is(err, errLacking) { // it has the layout: what is wrong is not the dataset
			return s, err
		}
		if s, err = joint(features, fps, o); errors.Is(err, errLacking) {
			return Spec{}, fmt.Errorf("no preset fits: %w", err)
		}
		return s, err
	}
	return Spec{}, fmt.Errorf("policy preset %q is unknown: use %s, %s or %s", name, PresetUMI, PresetJoint, PresetAuto)
}

// umi is the two-hand layout: both wrist images, the right hand's pose in the left hand and the finger angles in; each
// hand's motion from its pose at the observation and absolute finger angles out. Step 0 is one stride after the observation.
func umi(features []Feature, fps int, o PresetOptions) (Spec, error) {
	o = o.filled(fps / 10)
	s := Spec{
		Preset:  PresetUMI,
		Cameras: []Camera{o.camera(LeftImage), o.camera(RightImage)},
		State: []Input{
			{Feature: HandsPose, Representation: PoseRot6D, SourceDim: poseDim, Unit: Metre},
			{Feature: JointStates, Representation: Absolute, SourceDim: 2, Unit: Radian},
		},
		Action: []Output{
			{Name: "left", Feature: LeftHandPose, Representation: ChunkPoseRot6D, SourceDim: poseDim, Unit: Metre},
			{Name: "right", Feature: RightHandPose, Representation: ChunkPoseRot6D, SourceDim: poseDim, Unit: Metre},
			{Name: "gripper", Feature: JointStates, Representation: Absolute, SourceDim: 2, Unit: Radian},
		},
		Horizon: o.Horizon, Stride: o.Stride, First: o.Stride, FPS: fps,
		Prompt: Prompt{MaxTokens: o.MaxTokens},
	}
	return s, s.CheckFeatures(features)
}

// joint is the layout of a LeRobot dataset with observation.state and action of one length each and any cameras. Step 0 is
// the action of the observation's own row. Where state and action have one length, actions are learnt as differences to the
// observed state: to stay is then the zero of the network, and a new place costs nothing to learn.
func joint(features []Feature, fps int, o PresetOptions) (Spec, error) {
	o = o.filled(1)
	s := Spec{
		Preset:  PresetJoint,
		Horizon: o.Horizon, Stride: o.Stride, FPS: fps,
		Prompt: Prompt{MaxTokens: o.MaxTokens},
	}
	for _, f := range features {
		switch {
		case f.picture():
			s.Cameras = append(s.Cameras, o.camera(f.Name))
		case f.Name == "observation.state":
			s.State = []Input{{Feature: f.Name, Representation: Absolute, SourceDim: f.dim()}}
		case f.Name == "action":
			s.Action = []Output{{Name: "action", Feature: f.Name, Representation: Absolute, SourceDim: f.dim()}}
		}
	}
	if len(s.State) == 1 && len(s.Action) == 1 && s.State[0].SourceDim == s.Action[0].SourceDim {
		s.Action[0].Representation, s.Action[0].StateFeature = DeltaToState, s.State[0].Feature
	}
	for _, want := range []string{"observation.state", "action"} {
		if err := (Spec{State: []Input{{Feature: want}}}).lacking(features); err != nil {
			return Spec{}, fmt.Errorf("preset %s: %w", PresetJoint, err)
		}
	}
	return s, s.CheckFeatures(features)
}

// CheckFeatures compares the Spec with a dataset: every named feature must exist with the declared kind and length.
func (s Spec) CheckFeatures(features []Feature) error {
	if err := s.Check(); err != nil {
		return err
	}
	if err := s.lacking(features); err != nil {
		return fmt.Errorf("preset %s: %w", s.Preset, err)
	}
	for _, c := range s.Columns() {
		f := features[slices.IndexFunc(features, func(f Feature) bool { return f.Name == c.Feature })]
		if f.picture() || f.dim() != c.Dim {
			return fmt.Errorf("preset %s: feature %q has type %s and shape %v, want %d numbers", s.Preset, f.Name, f.DType, f.Shape, c.Dim)
		}
	}
	for _, c := range s.Cameras {
		f := features[slices.IndexFunc(features, func(f Feature) bool { return f.Name == c.Feature })]
		if !f.picture() {
			return fmt.Errorf("preset %s: feature %q has type %s, want a video", s.Preset, f.Name, f.DType)
		}
	}
	return nil
}

// errLacking marks a dataset without the features of a layout.
var errLacking = errors.New("the dataset lacks")

// lacking lists the features that the Spec names and the dataset does not have.
func (s Spec) lacking(features []Feature) error {
	has := make([]string, len(features))
	for i, f := range features {
		has[i] = f.Name
	}
	var missing []string
	want := func(name string) {
		if !slices.Contains(has, name) && !slices.Contains(missing, name) {
			missing = append(missing, name)
		}
	}
	for _, c := range s.Cameras {
		want(c.Feature)
	}
	for _, c := range s.Columns() {
		want(c.Feature)
	}
	if len(missing) == 0 {
		return nil
	}
	const most = 12
	if more := len(has) - most; more > 0 {
		has = append(has[:most], fmt.Sprintf("and %d more", more))
	}
	return fmt.Errorf("%w %s; it has %s", errLacking, strings.Join(missing, ", "), strings.Join(has, ", "))
}
