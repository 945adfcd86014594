package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/pinch-robotics/pinch/internal/imaging"
)

// Representation says how the numbers of a feature become inputs or outputs of the network.
type Representation string

const (
	// Absolute takes the numbers as stored.
	Absolute Representation = "absolute"
	// PoseRot6D takes a pose x y z qx qy qz qw as x y z and the first two rows of its rotation matrix (9 numbers), in the frame it is stored in.
	PoseRot6D Representation = "pose_rot6d"
	// ChunkPoseRot6D is for actions: the pose of a later row, seen from the pose of the same feature at the observation
	// (inverse(T[t]) T[row]; reference body at the observation), as x y z and the first two rows of its rotation matrix.
	ChunkPoseRot6D Representation = "chunk_pose_rot6d"
	// StepPoseRot6D is for actions: the pose of a step seen from the pose of the step before it (reference body previous, timing next); step 0
	// is seen from the observation.
	StepPoseRot6D Representation = "step_pose_rot6d"
	// DeltaToState is for actions: the numbers minus those of StateFeature at the observation.
	DeltaToState Representation = "delta_to_state"
)

// Camera is one image input.
type Camera struct {
	Feature  string           `json:"feature" yaml:"feature"`   // dataset feature and observation key
	Geometry imaging.Geometry `json:"geometry" yaml:"geometry"` // from camera image to network
}

// Input is one state feature.
type Input struct {
	Feature        string         `json:"feature" yaml:"feature"`
	Representation Representation `json:"representation" yaml:"representation"`
	SourceDim      int            `json:"source_dim" yaml:"source_dim"` // numbers of one dataset row
	Unit           Unit           `json:"unit" yaml:"unit"`             // of the numbers; poses are metres and need none
}

// Output is one action feature.
type Output struct {
	Name           string         `json:"name" yaml:"name"` // in reports: left, right, gripper
	Feature        string         `json:"feature" yaml:"feature"`
	Representation Representation `json:"representation" yaml:"representation"`
	SourceDim      int            `json:"source_dim" yaml:"source_dim"`
	StateFeature   string         `json:"state_feature,omitempty" yaml:"state_feature"` // for delta_to_state
	Unit           Unit           `json:"unit" yaml:"unit"`
}

// Unit of a number; it chooses the floor below which a range counts as no motion.
type Unit string

// The units that have a floor. An empty unit has only the relative floor.
const (
	Metre  Unit = "m"
	Radian Unit = "rad"
	None   Unit = ""
)

// Spec declares what a policy reads and writes in terms of dataset features. Order matters and is kept: of cameras in the
// context, of inputs in the state vector, of outputs in an action row.
type Spec struct {
	Preset  string   `json:"preset" yaml:"preset"` // umi, joint or custom
	Cameras []Camera `json:"cameras" yaml:"cameras"`
	State   []Input  `json:"state" yaml:"state"`
	Action  []Output `json:"action" yaml:"action"`
	Horizon int      `json:"horizon" yaml:"horizon"` // steps of a chunk
	Stride  int      `json:"stride" yaml:"stride"`   // dataset rows between steps
	First   int      `json:"first" yaml:"first"`     // dataset rows from the observation to step 0
	FPS     int      `json:"fps" yaml:"fps"`         // dataset rows per second
	Prompt  Prompt   `json:"prompt" yaml:"prompt"`

	Frames      int `json:"frames,omitempty" yaml:"frames"`             // moments an observation shows, the present one first; 0 is 1
	FrameStride int `json:"frame_stride,omitempty" yaml:"frame_stride"` // dataset rows between them
}

// Prompt declares the instruction input.
type Prompt struct {
	MaxTokens  int `json:"max_tokens" yaml:"max_tokens"`           // with the begin token; longer prompts are an error
	Vocabulary int `json:"vocabulary,omitempty" yaml:"vocabulary"` // tokens that the network knows; 0: the bytes
}

// vocabulary is the number of rows of the token table.
func (p Prompt) vocabulary() int {
	if p.Vocabulary > 0 {
		return p.Vocabulary
	}
	return VocabSize
}

// frames is the number of moments an observation shows.
func (s Spec) frames() int { return max(s.Frames, 1) }

// FrameRow is the dataset row of moment f of an observation, counted from its own row: 0, -FrameStride, ...
func (s Spec) FrameRow(f int) int { return -f * s.FrameStride }

// poseDim is the length of a pose column, rot6dPoseDim of its form in the network.
const (
	poseDim      = 7
	rot6dPoseDim = 9
)

// Dim is the number of state inputs that the feature becomes.
func (in Input) Dim() int {
	if in.Representation == PoseRot6D {
		return rot6dPoseDim
	}
	return in.SourceDim
}

// Dim is the number of columns of an action row that the feature becomes.
func (out Output) Dim() int {
	if out.Pose() {
		return rot6dPoseDim
	}
	return out.SourceDim
}

// Pose tells whether the output is the pose of something, in any of the three forms.
func (out Output) Pose() bool {
	return out.Representation == ChunkPoseRot6D || out.Representation == StepPoseRot6D || out.Representation == PoseRot6D
}

// StateDim is the length of the state vector.
func (s Spec) StateDim() int {
	n := 0
	for _, in := range s.State {
		n += in.Dim()
	}
	return n
}

// ActionDim is the number of columns of an action row inside the network.
func (s Spec) ActionDim() int {
	n := 0
	for _, out := range s.Action {
		n += out.Dim()
	}
	return n
}

// RateHz is the rate of the steps of a chunk: FPS / Stride.
func (s Spec) RateHz() float64 { return float64(s.FPS) / float64(s.Stride) }

// Row gives the dataset row of step k, counted from the observation's row.
func (s Spec) Row(k int) int { return s.First + k*s.Stride }

// LastRow is the row of the last step, counted from the observation's row.
func (s Spec) LastRow() int { return s.Row(s.Horizon - 1) }

// Hash identifies the transform from dataset rows to network values: everything in the Spec. Statistics carry it, so that
// numbers measured for another horizon, stride, frame or representation are refused.
func (s Spec) Hash() string {
	text, err := json.Marshal(s.canonical())
	if err != nil {
		panic(err) // strings and integers always marshal
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// canonical has empty lists instead of nil ones, which JSON would tell apart.
func (s Spec) canonical() Spec {
	s.Cameras = append([]Camera{}, s.Cameras...)
	s.State = append([]Input{}, s.State...)
	s.Action = append([]Output{}, s.Action...)
	return s
}

// GeometryHash identifies the image geometry of all cameras in their order.
func (s Spec) GeometryHash() string {
	var b strings.Builder
	for _, c := range s.Cameras {
		fmt.Fprintf(&b, "%s=%s\n", c.Feature, c.Geometry.Hash())
	}
	sum := sha256.Sum256([]byte(b.String()))
	return hex.EncodeToString(sum[:16])
}

// Check reports the first thing that can not work, naming the feature and the field.
func (s Spec) Check() error {
	switch {
	case s.Horizon < 1 || s.Stride < 1 || s.First < 0 || s.FPS < 1:
		return fmt.Errorf("policy spec: horizon %d, stride %d and fps %d must be at least 1, first %d at least 0", s.Horizon, s.Stride, s.FPS, s.First)
	case len(s.Cameras) == 0 && len(s.State) == 0:
		return fmt.Errorf("policy spec: no cameras and no state: nothing to observe")
	case len(s.Action) == 0:
		return fmt.Errorf("policy spec: no action features")
	case s.Frames < 0 || s.FrameStride < 0 || s.Frames > 1 && s.FrameStride < 1:
		return fmt.Errorf("policy spec: frames is %d with frame_stride %d, want frames of at least 1 and a stride of at least 1", s.Frames, s.FrameStride)
	case s.Prompt.Vocabulary != 0 && s.Prompt.Vocabulary < VocabSize:
		return fmt.Errorf("policy spec: prompt.vocabulary is %d, want at least the %d bytes and marks", s.Prompt.Vocabulary, VocabSize)
	case s.Prompt.MaxTokens < 2:
		return fmt.Errorf("policy spec: prompt.max_tokens is %d, want at least 2", s.Prompt.MaxTokens)
	}
	var seen []string
	for _, c := range s.Cameras {
		if slices.Contains(seen, c.Feature) {
			return fmt.Errorf("policy spec: camera %q is listed twice", c.Feature)
		}
		seen = append(seen, c.Feature)
		if err := c.Geometry.Check(); err != nil {
			return fmt.Errorf("policy spec: camera %q: %w", c.Feature, err)
		}
		if c.Geometry.Width != s.Cameras[0].Geometry.Width || c.Geometry.Height != s.Cameras[0].Geometry.Height {
			return fmt.Errorf("policy spec: camera %q is %d x %d, %q is %d x %d: one image encoder needs one size", c.Feature,
				c.Geometry.Width, c.Geometry.Height, s.Cameras[0].Feature, s.Cameras[0].Geometry.Width, s.Cameras[0].Geometry.Height)
		}
	}
	for _, in := range s.State {
		if err := in.check(); err != nil {
			return fmt.Errorf("policy spec: state %q: %w", in.Feature, err)
		}
	}
	for _, out := range s.Action {
		if err := out.check(); err != nil {
			return fmt.Errorf("policy spec: action %q: %w", out.Feature, err)
		}
	}
	return nil
}

func (in Input) check() error {
	switch {
	case in.Representation != Absolute && in.Representation != PoseRot6D:
		return fmt.Errorf("representation %q: want %q or %q", in.Representation, Absolute, PoseRot6D)
	case in.Representation == PoseRot6D && in.SourceDim != poseDim:
		return fmt.Errorf("a pose has %d numbers, not %d", poseDim, in.SourceDim)
	case in.SourceDim < 1:
		return fmt.Errorf("source_dim is %d", in.SourceDim)
	}
	return nil
}

func (out Output) check() error {
	switch out.Representation {
	case Absolute:
	case ChunkPoseRot6D, StepPoseRot6D, PoseRot6D:
		if out.SourceDim != poseDim {
			return fmt.Errorf("a pose has %d numbers, not %d", poseDim, out.SourceDim)
		}
	case DeltaToState:
		if out.StateFeature == "" {
			return fmt.Errorf("representation %q needs state_feature", DeltaToState)
		}
	default:
		return fmt.Errorf("representation %q: want %q, %q, %q, %q or %q", out.Representation, Absolute, ChunkPoseRot6D, StepPoseRot6D, PoseRot6D, DeltaToState)
	}
	if out.SourceDim < 1 {
		return fmt.Errorf("source_dim is %d", out.SourceDim)
	}
	return nil
}
