package policy

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"sync"

	"github.com/pinch-robotics/pinch/internal/imaging"
	"github.com/pinch-robotics/pinch/policy/engine"
)

// Noise says which noise the sampler starts from.
type Noise string

const (
	// NoiseNone starts every chunk from the middle of the noise, zero, and so ends near the most typical motion for the observation: what
	// the network leaves of a drawn noise does not shake the hands, and chunks that follow each other agree.
	NoiseNone Noise = "none"
	// NoiseFixed starts every chunk from one noise drawn from the seed. The policy is a function of the observation alone, too, but one
	// draw leans its own way.
	NoiseFixed Noise = "fixed"
	// NoiseFresh draws new noise for each call, from the seed and the number of the call since Load or Reset.
	NoiseFresh Noise = "fresh"
)

// Options of Load.
type Options struct {
	Seed       uint64 // of the sampling noise
	Noise      Noise  // default NoiseNone
	RawWeights bool   // use the last weights instead of their running average
	BlankImage bool   // show mid grey instead of the cameras: the baseline that must do worse
	Threads    int    // of the engine; default one per processor
	// Engine chooses where the network runs; the zero value is the processor. Its Threads is taken from above.
	Engine engine.Options
	Words  Words  // the tokenizer, for New; Load takes the checkpoint's
	Answer Answer // form of the poses in an answer; default body deltas
}

// Answer is the form of the poses in the rows of an answer.
type Answer string

// The forms.
const (
	AnswerSteps    Answer = "body_deltas"    // motion from the step before, in the body: UMI Arena
	AnswerChunk    Answer = "chunk_poses"    // pose seen from the observation
	AnswerAbsolute Answer = "absolute_poses" // pose in the dataset's frame; needs the present pose in the observation
)

// Observation is what a policy sees at one moment, keyed by the feature names of its Spec. For the umi preset these are
// the five UMI Arena keys, the prompt apart.
type Observation struct {
	Images map[string]imaging.RGB // camera images of any size; the Spec's geometry is applied here
	Values map[string][]float64   // metres, radians; poses x y z qx qy qz qw
	Prompt string
	// Past holds earlier moments, the newest first, for policies that see several frames: Past[f-1] is -Spec.FrameRow(f) rows old. Where it is
	// shorter the oldest moment stands for those before it, as in training at the start of an episode.
	Past []Observation
	// Prefix holds first steps that the robot will make whatever the answer is, ActionDim numbers each as Spec.EncodeTargets writes them
	// (see Spec.PrefixOfSteps); at most the architecture's max_prefix.
	Prefix []float64
}

// Chunk is a policy's answer: Steps rows of Dim numbers at RateHz. Row k is due (k+1)/RateHz after the observation for the
// umi preset and k/RateHz for joint space.
type Chunk struct {
	Steps, Dim int
	Values     []float32 // Steps*Dim, row after row
	RateHz     float64
}

// Policy is a checkpoint ready for inference. Safe for concurrent use: calls wait for each other.
type Policy struct {
	manifest Manifest
	options  Options

	mu      sync.Mutex // guards the sampler's buffers and the call counter
	sampler *sampler
	calls   uint64
}

// Load reads a checkpoint folder (or a run folder, whose latest checkpoint it takes), compiles its graphs and runs them once,
// so that the first answer is as fast as the others.
func Load(dir string, o Options) (*Policy, error) {
	dir, err := Resolve(dir)
	if err != nil {
		return nil, err
	}
	m, err := ReadManifest(dir)
	if err != nil {
		return nil, err
	}
	file := EMAFile
	if o.RawWeights {
		file = RawFile
	}
	params, err := m.ReadParams(dir, file)
	if err != nil {
		return nil, err
	}
	if o.Words, err = m.ReadWords(dir); err != nil {
		return nil, err
	}
	p, err := New(m, params, o)
	if err != nil {
		return nil, fmt.Errorf("load checkpoint %s: %w", filepath.Clean(dir), err)
	}
	return p, nil
}

// New makes a policy of parts in memory; params are read, not copied, and must not change while the policy is used.
func New(m Manifest, params *Params, o Options) (*Policy, error) {
	if o.Noise == "" {
		o.Noise = NoiseNone
	}
	if !slices.Contains([]Noise{NoiseNone, NoiseFixed, NoiseFresh}, o.Noise) {
		return nil, fmt.Errorf("noise %q: want %q, %q or %q", o.Noise, NoiseNone, NoiseFixed, NoiseFresh)
	}
	if o.Threads <= 0 {
		o.Threads = runtime.NumCPU()
	}
	if o.Words == nil {
		o.Words = Bytes{}
	}
	switch o.Answer {
	case "":
		o.Answer = AnswerSteps
	case AnswerSteps, AnswerChunk, AnswerAbsolute:
	default:
		return nil, fmt.Errorf("answer %q: want %s, %s or %s", o.Answer, AnswerSteps, AnswerChunk, AnswerAbsolute)
	}
	o.Engine.Threads = o.Threads
	eng, err := engine.Open(o.Engine)
	if err != nil {
		return nil, err
	}
	s, err := newSampler(m.Spec, m.Architecture, o.Words, params, eng)
	if err != nil {
		return nil, err
	}
	p := &Policy{manifest: m, options: o, sampler: s}
	if _, err := p.sample(1); err != nil {
		return nil, fmt.Errorf("first run: %w", err)
	}
	return p, nil
}

// Manifest tells what was trained, on what, and how to use it. The caller must not change it.
func (p *Policy) Manifest() Manifest { return p.manifest }

// Answer is the form of the poses in an answer.
func (p *Policy) Answer() Answer { return p.options.Answer }

// Reset makes the next call the first again, so that a repeated trial sees the same noise.
func (p *Policy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = 0
}

// Refresh makes changes of the parameters that New was given known to the engine.
func (p *Policy) Refresh() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sampler.refresh()
}

// Infer samples one chunk. For a Spec with poses the columns are those of Spec.StepDeltas (UMI Arena's 16 for the umi preset),
// otherwise those of Spec.DecodeAbsolute. A missing or misshapen entry of the observation is an error that names it; an
// image that the Spec does not know is refused too, since it means another layout.
func (p *Policy) Infer(o Observation) (Chunk, error) {
	raw, err := p.InferChunk(o)
	if err != nil {
		return Chunk{}, err
	}
	s := p.manifest.Spec
	c := Chunk{Steps: s.Horizon, Dim: p.manifest.Action.Dim, RateHz: s.RateHz()}
	if p.manifest.Action.PoseReference == "" {
		values, err := s.DecodeAbsolute(raw, o.Values)
		if err != nil {
			return Chunk{}, fmt.Errorf("infer: %w", err)
		}
		for _, v := range values {
			c.Values = append(c.Values, float32(v))
		}
		return c, nil
	}
	rows, err := p.answer(raw, o)
	if err != nil {
		return Chunk{}, fmt.Errorf("infer: %w", err)
	}
	for _, r := range rows {
		for _, v := range r {
			c.Values = append(c.Values, float32(v))
		}
	}
	return c, nil
}

// answer writes a chunk in chunk form as rows of the form that was asked for.
func (p *Policy) answer(chunk []float64, o Observation) ([][]float64, error) {
	switch p.options.Answer {
	case AnswerChunk:
		return p.manifest.Spec.ChunkPoses(chunk)
	case AnswerAbsolute:
		return p.manifest.Spec.AbsolutePoses(chunk, o.Values)
	}
	return p.manifest.Spec.StepDeltas(chunk)
}

// InferChunk is Infer in chunk form (see Spec.ChunkForm): Horizon*ActionDim numbers, not normalised, with the sampler's noise taken out of
// the poses.
func (p *Policy) InferChunk(o Observation) ([]float64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	out, err := p.inferChunk(o)
	if err != nil {
		return nil, fmt.Errorf("infer: %w", err)
	}
	return out, nil
}

func (p *Policy) inferChunk(o Observation) ([]float64, error) {
	s := p.manifest.Spec
	for f := range s.frames() {
		moment := o
		if f > 0 && len(o.Past) > 0 {
			moment = o.Past[min(f, len(o.Past))-1]
		}
		if err := p.see(moment, f); err != nil {
			return nil, err
		}
	}
	if p.options.BlankImage {
		p.sampler.batch.BlankImages(0)
	}
	if err := p.sampler.batch.SetPrompt(0, o.Prompt); err != nil {
		return nil, err
	}
	if err := p.commit(o.Prefix); err != nil {
		return nil, err
	}
	call := uint64(0)
	if p.options.Noise == NoiseFresh {
		p.calls++
		call = p.calls
	}
	x, err := p.sample(call)
	if err != nil {
		return nil, err
	}
	out := make([]float64, len(x))
	p.manifest.Normalisation.UnnormalizeAction(out, x)
	copy(out, o.Prefix)
	if err := checkFinite(out); err != nil {
		return nil, err
	}
	if out, err = s.ChunkForm(out, o.Values); err != nil {
		return nil, err
	}
	committed := slices.Clone(out[:len(o.Prefix)])
	err = s.smoothChunk(out)
	copy(out, committed) // they will be done as they are
	return out, err
}

// see shows the sampler one moment: f is 0 for the present one.
func (p *Policy) see(o Observation, f int) error {
	s, b := p.manifest.Spec, p.sampler.batch
	state := make([]float64, s.StateDim())
	if err := s.EncodeStateValues(state, o.Values); err != nil {
		return err
	}
	if err := s.checkKnown(o); err != nil {
		return err
	}
	for i, c := range s.Cameras {
		img, ok := o.Images[c.Feature]
		if !ok {
			return fmt.Errorf("observation lacks image %q", c.Feature)
		}
		small, err := c.Geometry.Apply(img)
		if err != nil {
			return fmt.Errorf("image %q: %w", c.Feature, err)
		}
		if err := b.SetFrame(0, i, f, small.Pix); err != nil {
			return err
		}
	}
	p.manifest.Normalisation.NormalizeState(b.StateFrame(0, f), state, nil)
	return nil
}

// commit gives the sampler the steps that are already decided, normalised.
func (p *Policy) commit(prefix []float64) error {
	s, most := p.manifest.Spec, p.manifest.Architecture.MaxPrefix
	if len(prefix)%s.ActionDim() != 0 || len(prefix)/s.ActionDim() > most {
		return fmt.Errorf("prefix of %d numbers: the policy was trained with at most %d committed steps of %d", len(prefix), most, s.ActionDim())
	}
	chunk, normal := make([]float64, s.Horizon*s.ActionDim()), make([]float32, s.Horizon*s.ActionDim())
	copy(chunk, prefix)
	p.manifest.Normalisation.NormalizeAction(normal, chunk, nil)
	p.sampler.prefix = append(p.sampler.prefix[:0], normal[:len(prefix)]...)
	return nil
}

// checkKnown refuses images that the Spec does not read.
func (s Spec) checkKnown(o Observation) error {
	for name := range o.Images {
		known := false
		for _, c := range s.Cameras {
			known = known || c.Feature == name
		}
		if !known {
			return fmt.Errorf("observation has image %q, the policy was trained with %v", name, s.cameraNames())
		}
	}
	return nil
}

func (s Spec) cameraNames() []string {
	names := []string{}
	for _, c := range s.Cameras {
		names = append(names, c.Feature)
	}
	return names
}

// sample integrates one chunk from noise for the observation in the sampler's batch. The caller holds mu or is the constructor.
func (p *Policy) sample(call uint64) ([]float32, error) {
	if p.options.Noise == NoiseNone {
		return p.sampler.run(nil)
	}
	return p.sampler.run(rand.New(rand.NewPCG(p.options.Seed, call)))
}
