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

	// What the sizes above tiny add. A zero is left out of manifests.
	VisionHidden  int     `json:"vision_hidden,omitempty" yaml:"vision_hidden"`   // hidden width of vision blocks in place of vision_mlp * vision_dim
	VisionTokens  int     `json:"vision_tokens,omitempty" yaml:"vision_tokens"`   // class and register tokens before the patches; they end with the blocks
	VisionPreNorm bool    `json:"vision_prenorm,omitempty" yaml:"vision_prenorm"` // a norm before the first block, as CLIP has
	VisionAct     string  `json:"vision_act,omitempty" yaml:"vision_act"`         // gelu (tanh form, default), gelu_erf or quick_gelu
	VisionEps     float64 `json:"vision_eps,omitempty" yaml:"vision_eps"`         // of the vision norms; default 1e-5
	TextTokens    bool    `json:"text_tokens,omitempty" yaml:"text_tokens"`       // each text token is context, not only their mean
	OwnModulation bool    `json:"own_modulation,omitempty" yaml:"own_modulation"` // adaLN network of its own in each action block, not one for all
	HeadNorm      bool    `json:"head_norm,omitempty" yaml:"head_norm"`           // RMS norm over each head of queries and keys (QK-norm)
	Rotary        bool    `json:"rotary,omitempty" yaml:"rotary"`                 // rotary positions of the steps in place of a table
	Dropout       float64 `json:"dropout,omitempty" yaml:"dropout"`               // after attention and MLP of action blocks, in training
	MaxPrefix     int     `json:"max_prefix,omitempty" yaml:"max_prefix"`         // committed first steps that training shows, up to this many; needs token_time
}

// Architectures are the named sizes.
var Architectures = map[string]Architecture{
	"nano": {Patch: 8, Window: 8, VisionDim: 32, VisionDepth: 1, VisionHeads: 2, VisionMLP: 2, Merge: 1,
		TextDim: 16, TextDepth: 1, TextHeads: 1, Dim: 32, Depth: 1, Heads: 2, MLP: 2, TimeDim: 16, SampleSteps: 10},
	"tiny": {Patch: 16, Window: 16, VisionDim: 96, VisionDepth: 3, VisionHeads: 4, VisionMLP: 3, Merge: 1,
		TextDim: 32, TextDepth: 1, TextHeads: 2, Dim: 64, Depth: 2, Heads: 4, MLP: 3, TimeDim: 32, SampleSteps: 10},
	// ViT-S/16, ViT-B/16 and ViT-L/16 (Dosovitskiy et al. 2021, table 1; S from Touvron et al. 2021).
	"small": expert(Architecture{Patch: 16, Window: 16, VisionDim: 384, VisionDepth: 12, VisionHeads: 6, VisionMLP: 4,
		TextDim: 384, TextDepth: 4, TextHeads: 6, Dim: 384, Depth: 8, Heads: 6}),
	"base": expert(Architecture{Patch: 16, Window: 16, VisionDim: 768, VisionDepth: 12, VisionHeads: 12, VisionMLP: 4,
		TextDim: 512, TextDepth: 6, TextHeads: 8, Dim: 768, Depth: 12, Heads: 12}),
	"large": expert(Architecture{Patch: 16, Window: 16, VisionDim: 1024, VisionDepth: 24, VisionHeads: 16, VisionMLP: 4,
		TextDim: 768, TextDepth: 8, TextHeads: 12, Dim: 1280, Depth: 20, Heads: 20}),
	// So400m/14 (Alabdulmohsin et al. 2023); one modulation network for all blocks saves a third of the action transformer.
	"xl": shared(expert(Architecture{Patch: 14, Window: 14, VisionDim: 1152, VisionDepth: 27, VisionHeads: 16, VisionMLP: 4, VisionHidden: 4304,
		TextDim: 1024, TextDepth: 12, TextHeads: 16, Dim: 2048, Depth: 32, Heads: 16})),
}

// expert adds what all sizes from small on share.
func expert(a Architecture) Architecture {
	a.Merge, a.MLP, a.TimeDim, a.SampleSteps = 2, 4, 256, 10
	a.TokenTime, a.TextTokens, a.OwnModulation, a.HeadNorm, a.Rotary = true, true, true, true, true
	a.Dropout = 0.1
	return a
}

func shared(a Architecture) Architecture {
	a.OwnModulation = false
	return a
}

// ArchitectureNames lists the named sizes for messages, from small to large.
func ArchitectureNames() string {
	return strings.Join([]string{"nano", "tiny", "small", "base", "large", "xl"}, ", ")
}

// Activations of vision blocks.
const (
	ActGELU      = "gelu"       // tanh form
	ActGELUErf   = "gelu_erf"   // x Phi(x) by the error function
	ActQuickGELU = "quick_gelu" // x sigmoid(1.702 x)
)

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
	case a.VisionHidden < 0 || a.VisionTokens < 0 || !(a.VisionEps >= 0 && a.VisionEps < 1):
		return fmt.Errorf("architecture: vision_hidden %d, vision_tokens %d and vision_eps %v must not be negative", a.VisionHidden, a.VisionTokens, a.VisionEps)
	case a.VisionAct != "" && a.VisionAct != ActGELU && a.VisionAct != ActGELUErf && a.VisionAct != ActQuickGELU:
		return fmt.Errorf("architecture: vision_act is %q, want %s, %s or %s", a.VisionAct, ActGELU, ActGELUErf, ActQuickGELU)
	case !(a.Dropout >= 0 && a.Dropout < 1):
		return fmt.Errorf("architecture: dropout is %v, want 0 to below 1", a.Dropout)
	case a.Rotary && a.Dim/a.Heads%2 != 0:
		return fmt.Errorf("architecture: rotary positions need heads of an even width, not %d/%d", a.Dim, a.Heads)
	case a.MaxPrefix != 0 && !a.TokenTime:
		return fmt.Errorf("architecture: max_prefix %d needs token_time", a.MaxPrefix)
	case a.MaxPrefix < 0 || a.MaxPrefix >= s.Horizon && a.MaxPrefix > 0:
		return fmt.Errorf("architecture: max_prefix is %d, want 0 to below the horizon of %d", a.MaxPrefix, s.Horizon)
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

// visionHidden is the hidden width of a vision block.
func (a Architecture) visionHidden() int {
	if a.VisionHidden > 0 {
		return a.VisionHidden
	}
	return a.VisionMLP * a.VisionDim
}

func (a Architecture) visionEps() float64 {
	if a.VisionEps > 0 {
		return a.VisionEps
	}
	return normEps
}

// times is the number of flow times of one chunk.
func (a Architecture) times(s Spec) int {
	if a.TokenTime {
		return s.Horizon
	}
	return 1
}
