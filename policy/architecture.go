package policy

import (
	"fmt"
	"strings"
)

// Architecture holds the widths and depths of the network. One vision transformer is shared by all cameras; its tokens, a
// state token and a text token form the context of an action transformer with adaLN-zero.
type Architecture struct {
	Patch       int  `json:"patch" yaml:"patch"`               // side of an image patch in pixels; divides the image size
	Window      int  `json:"window" yaml:"window"`             // side of what a patch token sees, >= patch; larger windows overlap
	VisionDim   int  `json:"vision_dim" yaml:"vision_dim"`     // width of image tokens
	VisionDepth int  `json:"vision_depth" yaml:"vision_depth"` // blocks
	VisionHeads int  `json:"vision_heads" yaml:"vision_heads"`
	VisionMLP   int  `json:"vision_mlp" yaml:"vision_mlp"` // hidden width as a multiple of vision_dim
	Merge       int  `json:"merge" yaml:"merge"`           // side of the square of image tokens joined into one context token; 1 keeps all
	TextDim     int  `json:"text_dim" yaml:"text_dim"`
	TextDepth   int  `json:"text_depth" yaml:"text_depth"`
	TextHeads   int  `json:"text_heads" yaml:"text_heads"`
	Dim         int  `json:"dim" yaml:"dim"` // width of context and action tokens
	Depth       int  `json:"depth" yaml:"depth"`
	Heads       int  `json:"heads" yaml:"heads"`
	MLP         int  `json:"mlp" yaml:"mlp"`                   // hidden width as a multiple of dim
	TimeDim     int  `json:"time_dim" yaml:"time_dim"`         // sines and cosines of flow time, even
	TokenTime   bool `json:"token_time" yaml:"token_time"`     // each action token has a flow time of its own, as clamped prefixes need; costs speed
	SampleSteps int  `json:"sample_steps" yaml:"sample_steps"` // Euler steps at inference
}

// Architectures are the named sizes.
var Architectures = map[string]Architecture{
	"nano": {Patch: 8, Window: 8, VisionDim: 32, VisionDepth: 1, VisionHeads: 2, VisionMLP: 2, Merge: 1,
		TextDim: 16, TextDepth: 1, TextHeads: 1, Dim: 32, Depth: 1, Heads: 2, MLP: 2, TimeDim: 16, SampleSteps: 10},
	"tiny": {Patch: 16, Window: 16, VisionDim: 96, VisionDepth: 3, VisionHeads: 4, VisionMLP: 3, Merge: 1,
		TextDim: 32, TextDepth: 1, TextHeads: 2, Dim: 64, Depth: 2, Heads: 4, MLP: 3, TimeDim: 32, SampleSteps: 10},
}

// ArchitectureNames lists the named sizes for messages.
func ArchitectureNames() string { return strings.Join([]string{"nano", "tiny"}, ", ") }

// Check reports widths and depths that do not fit each other or the Spec.
func (a Architecture) Check(s Spec) error {
	for _, f := range []struct {
		name string
		v    int
	}{{"patch", a.Patch}, {"window", a.Window}, {"vision_dim", a.VisionDim}, {"vision_heads", a.VisionHeads},
		{"vision_mlp", a.VisionMLP}, {"merge", a.Merge}, {"text_dim", a.TextDim}, {"text_heads", a.TextHeads}, {"dim", a.Dim},
		{"depth", a.Depth}, {"heads", a.Heads}, {"mlp", a.MLP}, {"time_dim", a.TimeDim}, {"sample_steps", a.SampleSteps}} {
		if f.v < 1 {
			return fmt.Errorf("architecture: field %s is %d, want at least 1", f.name, f.v)
		}
	}
	switch {
	case a.VisionDepth < 0 || a.TextDepth < 0:
		return fmt.Errorf("architecture: vision_depth %d and text_depth %d must not be negative", a.VisionDepth, a.TextDepth)
	case a.VisionDim%a.VisionHeads != 0 || a.TextDim%a.TextHeads != 0 || a.Dim%a.Heads != 0:
		return fmt.Errorf("architecture: each width must be a multiple of its heads (vision %d/%d, text %d/%d, action %d/%d)",
			a.VisionDim, a.VisionHeads, a.TextDim, a.TextHeads, a.Dim, a.Heads)
	case a.TimeDim%2 != 0:
		return fmt.Errorf("architecture: time_dim %d must be even", a.TimeDim)
	case a.Window < a.Patch || (a.Window-a.Patch)%2 != 0:
		return fmt.Errorf("architecture: window %d must be patch %d plus an even number", a.Window, a.Patch)
	}
	for _, c := range s.Cameras {
		if c.Geometry.Width%(a.Patch*a.Merge) != 0 || c.Geometry.Height%(a.Patch*a.Merge) != 0 {
			return fmt.Errorf("architecture: image of %d x %d pixels (%s) is not a whole number of %d-pixel patches merged %d x %d",
				c.Geometry.Width, c.Geometry.Height, c.Feature, a.Patch, a.Merge, a.Merge)
		}
	}
	return nil
}

// grid is the number of patch columns and rows of one image.
func (a Architecture) grid(s Spec) (cols, rows int) {
	if len(s.Cameras) == 0 {
		return 0, 0
	}
	g := s.Cameras[0].Geometry
	return g.Width / a.Patch, g.Height / a.Patch
}

// patchDim is how many numbers one patch token is made of.
func (a Architecture) patchDim() int { return a.Window * a.Window * 3 }

// times is the number of flow times of one chunk.
func (a Architecture) times(s Spec) int {
	if a.TokenTime {
		return s.Horizon
	}
	return 1
}
