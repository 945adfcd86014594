package policy

import (
	"fmt"
	"math/rand/v2"
)

// Batch holds the host side of a training graph's inputs: B samples with K noise draws each. Samples may be filled from
// several goroutines, each its own.
type Batch struct {
	Samples, Draws int
	// DropoutKey is seed and step of the dropout's draws.
	DropoutKey [2]int32

	patches, state, pool   []float32
	tokens                 []int32
	mask                   []bool
	noisy, time, target    []float32
	weight                 []float32
	attend                 []bool
	context                []bool
	words                  Words
	spec                   Spec
	arch                   Architecture
	patchLen, chunk, time1 int
}

// NewBatch makes room for a batch.
func NewBatch(s Spec, a Architecture, samples, draws int) *Batch {
	b := &Batch{Samples: samples, Draws: draws, spec: s, arch: a}
	cols, rows := a.grid(s)
	b.patchLen = cols * rows * a.patchDim()
	b.chunk = s.Horizon * s.ActionDim()
	b.time1 = a.times(s) * a.TimeDim
	b.patches = make([]float32, samples*len(s.Cameras)*s.frames()*b.patchLen)
	b.state = make([]float32, samples*s.frames()*s.StateDim())
	b.tokens = make([]int32, samples*s.Prompt.MaxTokens)
	b.mask = make([]bool, samples*s.Prompt.MaxTokens)
	b.pool = make([]float32, samples*s.Prompt.MaxTokens)
	n := samples * draws
	b.noisy, b.target = make([]float32, n*b.chunk), make([]float32, n*b.chunk)
	b.time, b.weight = make([]float32, n*b.time1), make([]float32, n*s.Horizon)
	b.attend = make([]bool, n*s.Horizon)
	if a.TextTokens {
		b.context = make([]bool, samples*a.contextTokens(s))
		for i := range b.context {
			b.context[i] = true
		}
	}
	b.words = Bytes{}
	return b
}

// SetWords makes another tokenizer than the bytes write the prompts.
func (b *Batch) SetWords(w Words) { b.words = w }

// SetImage fills a camera (place in Spec.Cameras) of sample i with an image in the Spec's geometry.
func (b *Batch) SetImage(i, camera int, pix []byte) error { return b.SetFrame(i, camera, 0, pix) }

// SetFrame is SetImage for moment f of the observation (see Spec.FrameRow).
func (b *Batch) SetFrame(i, camera, f int, pix []byte) error {
	g := b.spec.Cameras[camera].Geometry
	if len(pix) != g.Width*g.Height*3 {
		return fmt.Errorf("image %q has %d bytes, want %d x %d x 3", b.spec.Cameras[camera].Feature, len(pix), g.Width, g.Height)
	}
	at := ((i*len(b.spec.Cameras)+camera)*b.spec.frames() + f) * b.patchLen
	b.arch.Patches(b.patches[at:at+b.patchLen], pix, g.Width, g.Height)
	return nil
}

// BlankImages makes all pictures of sample i mid grey: what a policy sees that is denied its cameras.
func (b *Batch) BlankImages(i int) {
	n := len(b.spec.Cameras) * b.spec.frames() * b.patchLen
	clear(b.patches[i*n : (i+1)*n])
}

// State gives the window of sample i's normalised state, to be written.
func (b *Batch) State(i int) []float32 { return b.StateFrame(i, 0) }

// StateFrame is State for moment f of the observation.
func (b *Batch) StateFrame(i, f int) []float32 {
	n := b.spec.StateDim()
	at := (i*b.spec.frames() + f) * n
	return b.state[at : at+n]
}

// SetPrompt tokenises the instruction of sample i.
func (b *Batch) SetPrompt(i int, text string) error {
	t := b.spec.Prompt.MaxTokens
	n, err := b.words.Tokenize(b.tokens[i*t:(i+1)*t], text)
	if err != nil {
		return err
	}
	if b.context != nil { // the text is the context's end
		all := len(b.context) / b.Samples
		for j := range t {
			b.context[(i+1)*all-t+j] = j < n
		}
	}
	for j := range t {
		on := j < n
		b.mask[i*t+j], b.pool[i*t+j] = on, 0
		if on {
			b.pool[i*t+j] = 1 / float32(n)
		}
	}
	return nil
}

// SetChunk draws K times and noises for sample i's normalised chunk (Horizon*ActionDim). Steps that are not valid get weight 0
// and are hidden from attention, so nothing they hold reaches the loss or a gradient. The K times are spread: draw k
// lies in the k-th of K equal parts of the time distribution.
func (b *Batch) SetChunk(i int, action []float32, valid []bool, rng *rand.Rand) {
	h := b.spec.Horizon
	for k := range b.Draws {
		j := i*b.Draws + k
		t := flowTime((float64(k) + rng.Float64()) / float64(b.Draws))
		noisyChunk(b.noisy[j*b.chunk:(j+1)*b.chunk], b.target[j*b.chunk:(j+1)*b.chunk], action, t, rng)
		features := b.time[j*b.time1 : (j+1)*b.time1]
		TimeFeatures(features[:b.arch.TimeDim], t)
		for s := b.arch.TimeDim; s < len(features); s += b.arch.TimeDim {
			copy(features[s:], features[:b.arch.TimeDim])
		}
		for s, ok := range valid {
			b.attend[j*h+s], b.weight[j*h+s] = ok, 0
			if ok {
				b.weight[j*h+s] = 1
			}
		}
		if b.arch.MaxPrefix > 0 {
			b.commit(j, rng.IntN(b.arch.MaxPrefix+1), action)
		}
	}
}

// commit shows the first n steps of draw j as committed: clean, at flow time 0 (data), and without a part in the loss. Training then
// meets what sampling does when a robot already makes these steps (Black et al. 2025, training-time real-time chunking).
func (b *Batch) commit(j, n int, action []float32) {
	h, dim := b.spec.Horizon, b.spec.ActionDim()
	copy(b.noisy[j*b.chunk:][:n*dim], action[:n*dim])
	for s := range n {
		TimeFeatures(b.time[j*b.time1+s*b.arch.TimeDim:][:b.arch.TimeDim], 0)
		b.weight[j*h+s] = 0
	}
}

// Valid is the number of valid scalars of the chunks: what the loss is divided by.
func (b *Batch) Valid() float64 {
	n := 0.0
	for _, w := range b.weight {
		n += float64(w)
	}
	return n * float64(b.spec.ActionDim())
}

// Picture walks over the pixels of a camera of sample i as the network sees them, patch by patch, back in 0..255.
func (b *Batch) Picture(i, camera int, set func(x, y int, red, green, blue byte)) {
	cols, rows := b.arch.grid(b.spec)
	reach := (b.arch.Window - b.arch.Patch) / 2
	at := (i*len(b.spec.Cameras) + camera) * b.spec.frames() * b.patchLen
	byteOf := func(v float32) byte { return byte(min(max((v+1)*127.5+0.5, 0), 255)) }
	for p := range cols * rows {
		patch := b.patches[at+p*b.arch.patchDim():][:b.arch.patchDim()]
		for y := range b.arch.Patch {
			for x := range b.arch.Patch {
				v := patch[((y+reach)*b.arch.Window+x+reach)*3:][:3]
				set(p%cols*b.arch.Patch+x, p/cols*b.arch.Patch+y, byteOf(v[0]), byteOf(v[1]), byteOf(v[2]))
			}
		}
	}
}

// Tensors names the batch's numbers, for a file that shows what a step was made of.
func (b *Batch) Tensors() []Tensor {
	n := b.Samples * b.Draws
	list := []Tensor{
		{"noisy", []int{n, b.spec.Horizon, b.spec.ActionDim()}, b.noisy}, {"target", []int{n, b.spec.Horizon, b.spec.ActionDim()}, b.target},
		{"time", []int{n, b.arch.times(b.spec), b.arch.TimeDim}, b.time}, {"weight", []int{n, b.spec.Horizon}, b.weight},
		{"state", []int{b.Samples, b.spec.frames(), b.spec.StateDim()}, b.state},
		{"patches", []int{b.Samples, len(b.spec.Cameras) * b.spec.frames(), len(b.patches) / max(b.Samples*len(b.spec.Cameras)*b.spec.frames(), 1)}, b.patches},
	}
	tokens := make([]float32, len(b.tokens))
	for i, id := range b.tokens {
		tokens[i] = float32(id)
	}
	return append(list, Tensor{"tokens", []int{b.Samples, b.spec.Prompt.MaxTokens}, tokens})
}
