package train

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pinch-robotics/pinch/internal/atomicfile"
	"github.com/pinch-robotics/pinch/policy"
)

// parent is the checkpoint that a post-training run begins with.
//
// Whose choice wins: inputs, outputs, tokenizer, architecture and horizon are the checkpoint's, since its weights were made for them, except
// that horizon, stride and cameras may be changed with the keys of their names; normalisation is whose the key statistics says.
type parent struct {
	dir      string
	manifest policy.Manifest
	words    policy.Words
}

func (t *trainer) readParent() (*parent, error) {
	dir, err := policy.Resolve(t.cfg.From)
	if err != nil {
		return nil, fmt.Errorf("from: %w", err)
	}
	m, err := policy.ReadManifest(dir)
	if err != nil {
		return nil, fmt.Errorf("from: %w", err)
	}
	words, err := m.ReadWords(dir)
	if err != nil {
		return nil, fmt.Errorf("from: %w", err)
	}
	return &parent{dir, m, words}, nil
}

// spec is the parent's, with horizon and stride of the configuration where those differ from the built-in values.
func (p *parent) spec(c Config) *policy.Spec {
	if c.Spec != nil {
		s := *c.Spec
		s.Prompt = p.manifest.Spec.Prompt
		return &s
	}
	s := p.manifest.Spec
	return &s
}

// Adoption is post.json of a run folder: what was taken over from the checkpoint.
type Adoption struct {
	From       string   `json:"from"`       // folder
	Checkpoint string   `json:"checkpoint"` // identity
	Weights    string   `json:"weights"`    // ema or raw
	Statistics string   `json:"statistics"` // checkpoint or data
	Loaded     []string `json:"loaded"`     // parameters with the checkpoint's values
	Partly     []string `json:"partly"`     // parameters of which some rows have the checkpoint's values, and why
	Fresh      []string `json:"fresh"`      // parameters drawn anew, and why
	Unused     []string `json:"unused"`     // the checkpoint's parameters that have no place
}

// adopt begins with the parent's weights.
func (t *trainer) adopt(ctx context.Context) error {
	m := t.parent.manifest
	t.arch, t.words = m.Architecture, t.parent.words
	switch {
	case t.cfg.Statistics == fromData:
		stats, err := t.fit(ctx, t.spec, t.cfg.Rot6D)
		if err != nil {
			return err
		}
		t.stats = stats
	case t.spec.Hash() != m.SpecHash:
		return fmt.Errorf("statistics=%s: the spec of this run (hash %s) is not the checkpoint's (%s), so its normalisation does not apply; use statistics=%s",
			fromCheckpoint, t.spec.Hash(), m.SpecHash, fromData)
	default:
		t.stats = m.Normalisation
	}
	file := policy.EMAFile
	if t.cfg.FromWeights == fromRaw {
		file = policy.RawFile
	}
	old, err := m.ReadParams(t.parent.dir, file)
	if err != nil {
		return err
	}
	params, err := policy.NewParams(t.spec, t.arch, t.cfg.Seed)
	if err != nil {
		return err
	}
	a := Adoption{From: t.parent.dir, Checkpoint: m.Checkpoint, Weights: t.cfg.FromWeights, Statistics: t.cfg.Statistics}
	a.take(params, old, t.spec, m.Spec)
	t.optimiser = newOptimiser(t.cfg, params)
	t.provenance.Parent = &policy.Parent{Checkpoint: m.Checkpoint, Step: m.Step, Statistics: t.cfg.Statistics}
	t.Logger.Info("begin with a checkpoint", "from", a.From, "id", a.Checkpoint, "statistics", a.Statistics, "tokenizer", m.Tokenizer.Name,
		"horizon", t.spec.Horizon, "loaded", len(a.Loaded), "partly", len(a.Partly), "fresh", len(a.Fresh), "unused", len(a.Unused))
	for _, what := range append(append(slices.Clone(a.Partly), a.Fresh...), a.Unused...) {
		t.Logger.Warn("not taken over whole", "parameter", what)
	}
	text, err := json.MarshalIndent(a, "", " ")
	if err != nil {
		return err
	}
	return atomicfile.WriteFile(filepath.Join(t.cfg.Out, "post.json"), append(text, '\n'), 0o644)
}

// take copies what fits from old to p: parameters of equal name and shape, camera rows by the camera's name, and rows of position tables
// that both have.
func (a *Adoption) take(p, old *policy.Params, now, before policy.Spec) {
	a.Loaded, a.Partly, a.Fresh, a.Unused = []string{}, []string{}, []string{}, []string{}
	for _, info := range p.Info {
		i := old.Index(info.Name)
		if i < 0 {
			a.Fresh = append(a.Fresh, info.Name+" (the checkpoint has none)")
			continue
		}
		was := old.Info[i]
		dst, src := p.View(info.Name), old.View(info.Name)
		switch {
		case info.Name == "vision.camera":
			a.takeCameras(dst, src, now, before)
		case slices.Equal(info.Shape, was.Shape):
			copy(dst, src)
			a.Loaded = append(a.Loaded, info.Name)
		case strings.HasSuffix(info.Name, ".position") && len(info.Shape) == 2 && len(was.Shape) == 2 && info.Shape[1] == was.Shape[1] && info.Name != "vision.position":
			copy(dst, src)
			a.Partly = append(a.Partly, fmt.Sprintf("%s (the first %d of %d positions)", info.Name, min(info.Shape[0], was.Shape[0]), info.Shape[0]))
		default:
			a.Fresh = append(a.Fresh, fmt.Sprintf("%s (shape %v, the checkpoint's %v)", info.Name, info.Shape, was.Shape))
		}
	}
	for _, info := range old.Info {
		if p.Index(info.Name) < 0 {
			a.Unused = append(a.Unused, info.Name)
		}
	}
}

// takeCameras copies the rows of cameras that both know, by name: order alone would give one camera's row to another.
func (a *Adoption) takeCameras(dst, src []float32, now, before policy.Spec) {
	width := len(dst) / len(now.Cameras)
	known := 0
	var missing []string
	for i, c := range now.Cameras {
		k := slices.IndexFunc(before.Cameras, func(b policy.Camera) bool { return b.Feature == c.Feature })
		if k < 0 {
			missing = append(missing, c.Feature)
			continue
		}
		copy(dst[i*width:(i+1)*width], src[k*width:])
		known++
	}
	switch {
	case known == len(now.Cameras):
		a.Loaded = append(a.Loaded, "vision.camera")
	default:
		a.Partly = append(a.Partly, fmt.Sprintf("vision.camera (the checkpoint does not know %s)", strings.Join(missing, ", ")))
	}
}
