package importer

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/pinch-robotics/pinch/policy"
)

// Kind names where an encoder comes from.
type Kind string

// The kinds.
const (
	CLIP   Kind = "clip"
	SigLIP Kind = "siglip"
	DINOv2 Kind = "dinov2"
	Timm   Kind = "timm"
)

// Encoder is a vision transformer read from a file.
type Encoder struct {
	Kind Kind

	Dim, Depth, Heads, Hidden, Patch int
	Tokens                           int // class and register tokens
	PreNorm                          bool
	Act                              string
	Eps                              float64
	Mean, Std                        [3]float64 // of the pictures it was trained on, red green blue in 0..1

	tensors map[string]tensor
	names   names
}

// names are a kind's tensor names; %d is the block.
type names struct {
	prefix                                     string
	class, registers, position, patch, prenorm string
	norm1, norm2, q, k, v, qkv, o, up, down    string
	scale1, scale2                             string // layer scale
	norm                                       string
}

var layouts = map[Kind]names{
	CLIP: {class: "embeddings.class_embedding", position: "embeddings.position_embedding.weight", patch: "embeddings.patch_embedding",
		prenorm: "pre_layrnorm", norm1: "encoder.layers.%d.layer_norm1", norm2: "encoder.layers.%d.layer_norm2", q: "encoder.layers.%d.self_attn.q_proj",
		k: "encoder.layers.%d.self_attn.k_proj", v: "encoder.layers.%d.self_attn.v_proj", o: "encoder.layers.%d.self_attn.out_proj",
		up: "encoder.layers.%d.mlp.fc1", down: "encoder.layers.%d.mlp.fc2", norm: "post_layernorm"},
	DINOv2: {class: "embeddings.cls_token", registers: "embeddings.register_tokens", position: "embeddings.position_embeddings",
		patch: "embeddings.patch_embeddings.projection", norm1: "encoder.layer.%d.norm1", norm2: "encoder.layer.%d.norm2",
		q: "encoder.layer.%d.attention.attention.query", k: "encoder.layer.%d.attention.attention.key", v: "encoder.layer.%d.attention.attention.value",
		o: "encoder.layer.%d.attention.output.dense", up: "encoder.layer.%d.mlp.fc1", down: "encoder.layer.%d.mlp.fc2",
		scale1: "encoder.layer.%d.layer_scale1.lambda1", scale2: "encoder.layer.%d.layer_scale2.lambda1", norm: "layernorm"},
	Timm: {class: "cls_token", registers: "reg_token", position: "pos_embed", patch: "patch_embed.proj", prenorm: "norm_pre",
		norm1: "blocks.%d.norm1", norm2: "blocks.%d.norm2", qkv: "blocks.%d.attn.qkv", o: "blocks.%d.attn.proj", up: "blocks.%d.mlp.fc1",
		down: "blocks.%d.mlp.fc2", scale1: "blocks.%d.ls1.gamma", scale2: "blocks.%d.ls2.gamma", norm: "norm"},
}

// Channel means and deviations: of CLIP's pictures, of ImageNet's, and the plain half.
var (
	clipMean, clipStd         = [3]float64{0.48145466, 0.4578275, 0.40821073}, [3]float64{0.26862954, 0.26130258, 0.27577711}
	imageNetMean, imageNetStd = [3]float64{0.485, 0.456, 0.406}, [3]float64{0.229, 0.224, 0.225}
	half3                     = [3]float64{0.5, 0.5, 0.5}
)

// ErrUnknown marks a file that holds none of the encoders that are read.
var ErrUnknown = errors.New("no CLIP, SigLIP, DINOv2 or timm vision transformer")

// Read reads the vision encoder of a safetensors file. config.json and preprocessor_config.json beside it, where they are, decide heads,
// activation, epsilon, mean and deviation; otherwise the kind's usual ones are taken: heads of 64.
func Read(path string) (*Encoder, error) {
	e := &Encoder{}
	var err error
	if e.tensors, err = readTensors(path, isVision); err != nil {
		return nil, err
	}
	if err := e.recognise(); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if err := e.measure(); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if err := e.configure(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return e, nil
}

// isVision leaves out the text halves of CLIP and SigLIP.
func isVision(name string) bool {
	return !strings.HasPrefix(name, "text_model.") && !strings.HasPrefix(name, "text_projection") && !strings.HasPrefix(name, "logit_")
}

// recognise finds kind and prefix from the names.
func (e *Encoder) recognise() error {
	for _, prefix := range []string{"", "vision_model.", "model.vision_model.", "dinov2.", "dinov2_with_registers."} {
		has := func(name string) bool { _, ok := e.tensors[prefix+name]; return ok }
		switch {
		case has("patch_embed.proj.weight"):
			e.Kind = Timm
		case has("embeddings.patch_embeddings.projection.weight") && has("encoder.layer.0.layer_scale1.lambda1"):
			e.Kind = DINOv2
		case has("embeddings.patch_embedding.weight") && has("embeddings.class_embedding"):
			e.Kind = CLIP
		case has("embeddings.patch_embedding.weight"):
			e.Kind = SigLIP
		default:
			continue
		}
		e.names = layouts[e.Kind]
		if e.Kind == SigLIP { // CLIP's names without a class token and a first norm
			e.names = layouts[CLIP]
			e.names.class, e.names.prenorm = "", ""
		}
		e.names.prefix = prefix
		return nil
	}
	return ErrUnknown
}

// measure finds widths and depth from the shapes.
func (e *Encoder) measure() error {
	patch, err := e.get(e.names.patch+".weight", -1, 3, -1, -1)
	if err != nil {
		return err
	}
	e.Dim, e.Patch = patch.shape[0], patch.shape[2]
	if patch.shape[3] != e.Patch {
		return fmt.Errorf("patches of %v pixels are not square", patch.shape[2:])
	}
	for e.has(fmt.Sprintf(e.names.norm1, e.Depth) + ".weight") {
		e.Depth++
	}
	up, err := e.get(fmt.Sprintf(e.names.up, 0)+".weight", -1, e.Dim)
	if err != nil {
		return fmt.Errorf("%w (gated MLPs, as of the giant DINOv2, are not supported)", err)
	}
	e.Hidden = up.shape[0]
	if e.has(e.names.class) {
		e.Tokens = 1
	}
	if e.has(e.names.registers) {
		r, err := e.get(e.names.registers, 1, -1, e.Dim)
		if err != nil {
			return err
		}
		e.Tokens += r.shape[1]
	}
	e.PreNorm = e.names.prenorm != "" && e.has(e.names.prenorm+".weight")
	return nil
}

// configure takes what shapes do not tell.
func (e *Encoder) configure(dir string) error {
	e.Heads, e.Eps, e.Act, e.Mean, e.Std = max(e.Dim/64, 1), 1e-6, policy.ActGELUErf, imageNetMean, imageNetStd
	switch {
	case e.Kind == CLIP || e.Kind == Timm && e.PreNorm:
		e.Eps, e.Act, e.Mean, e.Std = 1e-5, policy.ActQuickGELU, clipMean, clipStd
	case e.Kind == SigLIP:
		e.Act, e.Mean, e.Std = policy.ActGELU, half3, half3
	case e.Kind == Timm: // timm's own ViTs are trained on pictures in -1..1
		e.Mean, e.Std = half3, half3
	}
	var c struct {
		sizes
		Vision     *sizes `json:"vision_config"`
		Pretrained *struct {
			Mean []float64 `json:"mean"`
			Std  []float64 `json:"std"`
		} `json:"pretrained_cfg"`
		Args *struct {
			Heads int    `json:"num_heads"`
			Act   string `json:"act_layer"`
		} `json:"model_args"`
	}
	if err := readJSON(filepath.Join(dir, "config.json"), &c); err != nil {
		return err
	}
	if c.Vision != nil {
		c.sizes = *c.Vision
	}
	if c.Args != nil {
		c.sizes = sizes{Heads: c.Args.Heads, Act: c.Args.Act}
	}
	if err := e.override(c.sizes); err != nil {
		return err
	}
	var p struct {
		Mean []float64 `json:"image_mean"`
		Std  []float64 `json:"image_std"`
	}
	if c.Pretrained != nil {
		p.Mean, p.Std = c.Pretrained.Mean, c.Pretrained.Std
	}
	if err := readJSON(filepath.Join(dir, "preprocessor_config.json"), &p); err != nil {
		return err
	}
	if len(p.Mean) == 3 && len(p.Std) == 3 {
		e.Mean, e.Std = [3]float64(p.Mean), [3]float64(p.Std)
	}
	if e.Dim%e.Heads != 0 {
		return fmt.Errorf("width %d does not divide into %d heads; put the model's config.json beside the file", e.Dim, e.Heads)
	}
	return nil
}

// sizes are the fields of config.json that matter.
type sizes struct {
	Heads int     `json:"num_attention_heads"`
	Act   string  `json:"hidden_act"`
	Eps   float64 `json:"layer_norm_eps"`
}

func (e *Encoder) override(s sizes) error {
	if s.Heads > 0 {
		e.Heads = s.Heads
	}
	if s.Eps > 0 {
		e.Eps = s.Eps
	}
	if s.Act != "" {
		act, ok := map[string]string{"gelu": policy.ActGELUErf, "quick_gelu": policy.ActQuickGELU, "quickgelu": policy.ActQuickGELU,
			"gelu_pytorch_tanh": policy.ActGELU, "gelu_new": policy.ActGELU, "gelu_tanh": policy.ActGELU}[s.Act]
		if !ok {
			return fmt.Errorf("config.json: activation %q is not supported", s.Act)
		}
		e.Act = act
	}
	return nil
}

// readJSON reads a file that may be absent.
func readJSON(path string, v any) error {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func (e *Encoder) has(name string) bool {
	_, ok := e.tensors[e.names.prefix+name]
	return ok && name != ""
}

// get gives a tensor and checks its shape; −1 takes any size.
func (e *Encoder) get(name string, shape ...int) (tensor, error) {
	t, ok := e.tensors[e.names.prefix+name]
	if !ok {
		return tensor{}, fmt.Errorf("tensor %q is missing", e.names.prefix+name)
	}
	fits := len(t.shape) == len(shape)
	for i := 0; fits && i < len(shape); i++ {
		fits = shape[i] == -1 || shape[i] == t.shape[i]
	}
	if !fits {
		return tensor{}, fmt.Errorf("tensor %q has shape %v, want %v", e.names.prefix+name, t.shape, shape)
	}
	return t, nil
}

// Fit makes the architecture's vision encoder that of the file; action transformer and text encoder stay.
func (e *Encoder) Fit(a *policy.Architecture) {
	a.Patch, a.Window = e.Patch, e.Patch
	a.VisionDim, a.VisionDepth, a.VisionHeads, a.VisionMLP, a.VisionHidden = e.Dim, e.Depth, e.Heads, max(e.Hidden/e.Dim, 1), e.Hidden
	a.VisionTokens, a.VisionPreNorm, a.VisionAct, a.VisionEps = e.Tokens, e.PreNorm, e.Act, e.Eps
}

// gridSide is the side of a square of n positions.
func gridSide(n int) (int, bool) {
	side := int(math.Sqrt(float64(n)) + 0.5)
	return side, side*side == n
}
