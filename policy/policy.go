package policy

import (
	"errors"

	"github.com/pinch-robotics/pinch/internal/imaging"
)

// Options of Load.
type Options struct {
	// Seed of the sampling noise. The noise of a call depends on Seed and the number of the call since Load or Reset.
	Seed uint64
	// RawWeights serves the last weights instead of their running average.
	RawWeights bool
	// Threads of the engine; default all processors.
	Threads int
}

// Observation is what a policy sees at one moment, keyed by the feature names of its Spec. For the umi preset these are
// the five UMI Arena keys, the prompt apart.
type Observation struct {
	Images map[string]imaging.RGB // camera images of any size; the Spec's geometry is applied here
	Values map[string][]float64   // metres, radians; poses x y z qx qy qz qw
	Prompt string
}

// Chunk is a policy's answer: Steps rows of Dim numbers at RateHz; row k is due (k+1)/RateHz after the observation for the
// umi preset and k/RateHz for joint space.
type Chunk struct {
	Steps, Dim int
	Values     []float32 // Steps*Dim, row after row
	RateHz     float64
}

// Policy is a checkpoint ready for inference. Not safe for concurrent use.
type Policy struct {
	manifest Manifest
}

// ErrNotBuilt marks bodies that follow.
var errNotBuilt = errors.New("not available yet")

// Load reads a checkpoint folder (or a run folder, whose latest checkpoint it takes), compiles it and warms it up.
func Load(dir string, o Options) (*Policy, error) { return nil, errNotBuilt }

// Manifest tells what was trained, on what, and how to use it. The caller must not change it.
func (p *Policy) Manifest() Manifest { return p.manifest }

// Infer samples one chunk. For a Spec with poses the columns are those of Spec.StepDeltas (UMI Arena's 16 for the umi preset),
// otherwise those of Spec.DecodeAbsolute. A missing or misshapen entry of the observation is an error that names it.
func (p *Policy) Infer(o Observation) (Chunk, error) { return Chunk{}, errNotBuilt }

// Reset makes the next call the first again, so that a repeated trial sees the same noise.
func (p *Policy) Reset() {}
