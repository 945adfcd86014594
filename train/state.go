package train

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	"github.com/pinch-robotics/pinch/internal/atomicfile"
	"github.com/pinch-robotics/pinch/internal/config"
	"github.com/pinch-robotics/pinch/policy"
)

// Names of the trainer's files in a checkpoint folder.
const (
	optimizerFile = "optimizer.safetensors" // both moments: m/<parameter> and v/<parameter>
	trainerFile   = "trainer.json"
)

// trainerState is trainer.json. Random numbers, the place in the shuffled sequence and the learning rate are functions of the
// seed and of Steps, so these two are the whole state beside the tensors.
type trainerState struct {
	Steps      int    `json:"steps"`       // updates made; also the counter of the running average
	EMAUpdates int    `json:"ema_updates"` // equal to steps; kept so that a reader need not know that
	Samples    int    `json:"samples"`     // position in the shuffled sequence
	Config     string `json:"config"`      // the resolved configuration as YAML
}

// stored is a checkpoint to go on from.
type stored struct {
	dir      string
	manifest policy.Manifest
	state    trainerState
}

// saver writes one checkpoint at a time beside the training.
type saver struct {
	running chan saved // nil when idle
	step    int        // of the newest that was begun, 0 before the first
}

// saved is what came of a checkpoint.
type saved struct {
	dir      string
	manifest policy.Manifest
	err      error
}

// snapshot is everything a checkpoint holds, copied so that training may go on.
type snapshot struct {
	dir     string
	policy  policy.Checkpoint
	trainer []byte
}

// save begins a checkpoint of the present step: it waits for the one before, copies weights and moments, and writes them in the background.
// The folder appears whole, then latest points at it, then older ones go.
func (t *trainer) save() error {
	if err := t.saver.wait(t); err != nil {
		return err
	}
	if t.saver.step == t.steps && t.steps > 0 {
		return nil
	}
	shot, err := t.snapshot()
	if err != nil {
		return fmt.Errorf("save checkpoint: %w", err)
	}
	t.saver.step, t.saver.running = t.steps, make(chan saved, 1)
	go func(out chan saved, keep, every int) {
		m, err := shot.write(keep, every)
		out <- saved{shot.dir, m, err}
	}(t.saver.running, t.cfg.Keep, t.cfg.KeepEvery)
	return nil
}

// wait ends the checkpoint in work and notes it in the trainer's result.
func (s *saver) wait(t *trainer) error {
	if s.running == nil {
		return nil
	}
	done := <-s.running
	s.running = nil
	if done.err != nil {
		s.step = 0
		return done.err
	}
	t.result.Checkpoint, t.result.Manifest = done.dir, done.manifest
	t.Logger.Info("checkpoint", "step", done.manifest.Step, "path", done.dir, "id", done.manifest.Checkpoint)
	return nil
}

func (t *trainer) snapshot() (snapshot, error) {
	text, err := config.Marshal(t.cfg)
	if err != nil {
		return snapshot{}, err
	}
	state, err := json.MarshalIndent(trainerState{t.steps, t.steps, t.steps * t.cfg.Batch, string(text)}, "", " ")
	if err != nil {
		return snapshot{}, err
	}
	m := policy.NewManifest(t.spec, t.arch, t.stats)
	m.Step, m.Data = t.steps, t.provenance
	return snapshot{
		dir: filepath.Join(t.cfg.Out, "checkpoints", fmt.Sprintf("step-%06d", t.steps)),
		policy: policy.Checkpoint{Manifest: m, Raw: t.params.Clone(), EMA: t.ema.Clone(), Words: t.words,
			Tensors: map[string][]policy.Tensor{optimizerFile: append(prefixed("m/", t.m.Clone()), prefixed("v/", t.v.Clone())...)}},
		trainer: state,
	}, nil
}

// write makes the folder and tidies up beside it. A folder of that step that is whole already, of a resumed run that had nothing left to do,
// stays.
func (s snapshot) write(keep, every int) (policy.Manifest, error) {
	root, name := filepath.Split(s.dir)
	root = filepath.Clean(root)
	if m, err := policy.ReadManifest(s.dir); err == nil {
		return m, pointLatest(root, name)
	}
	m, err := s.policy.Save(s.dir, map[string][]byte{trainerFile: s.trainer})
	if err != nil {
		return m, err
	}
	if err := pointLatest(root, name); err != nil {
		return m, err
	}
	return m, prune(root, keep, every)
}

// pointLatest replaces the link in one rename, so a reader sees the old or the new checkpoint, both complete.
func pointLatest(root, name string) error {
	link, temp := filepath.Join(root, policy.LatestLink), filepath.Join(root, policy.LatestLink+".new")
	if err := os.Remove(temp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("point %s at %s: %w", link, name, err)
	}
	if err := os.Symlink(name, temp); err != nil {
		return fmt.Errorf("point %s at %s: %w", link, name, err)
	}
	return atomicfile.Rename(atomicfile.OS, temp, link)
}

// prune removes the oldest checkpoints beyond the newest keep, but none of a step that every divides.
func prune(root string, keep, every int) error {
	dirs, err := filepath.Glob(filepath.Join(root, "step-*"))
	if err != nil {
		return err
	}
	var whole []string
	for _, d := range dirs {
		if !strings.HasSuffix(d, ".partial") {
			whole = append(whole, d)
		}
	}
	sort.Slice(whole, func(i, j int) bool {
		return len(whole[i]) < len(whole[j]) || len(whole[i]) == len(whole[j]) && whole[i] < whole[j]
	})
	for _, d := range whole[:max(len(whole)-keep, 0)] {
		step, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(d), "step-"))
		if err == nil && every > 0 && step%every == 0 {
			continue
		}
		if err := os.RemoveAll(d); err != nil {
			return fmt.Errorf("remove old checkpoint: %w", err)
		}
	}
	return nil
}

func prefixed(prefix string, p *policy.Params) []policy.Tensor {
	out := p.Tensors()
	for i := range out {
		out[i].Name = prefix + out[i].Name
	}
	return out
}

// readCheckpoint finds the newest checkpoint of the run and merges the configurations: the stored one wins wherever the weights
// depend on it.
func (t *trainer) readCheckpoint() error {
	dir := filepath.Join(t.cfg.Out, "checkpoints", policy.LatestLink)
	if _, err := os.Stat(dir); err != nil {
		return fmt.Errorf("resume %s: no checkpoint yet (%w); it ended before it saved one: delete the folder and start without resume", t.cfg.Out, err)
	}
	s := &stored{dir: dir}
	var err error
	if s.manifest, err = policy.ReadManifest(dir); err != nil {
		return fmt.Errorf("resume: %w", err)
	}
	text, err := s.manifest.ReadFile(dir, trainerFile)
	if err != nil {
		return fmt.Errorf("resume: %w", err)
	}
	if err := json.Unmarshal(text, &s.state); err != nil {
		return fmt.Errorf("resume: %s: %w", filepath.Join(dir, trainerFile), err)
	}
	old := DefaultConfig()
	if err := config.Decode(filepath.Join(dir, trainerFile), []byte(s.state.Config), &old); err != nil {
		return fmt.Errorf("resume: %w", err)
	}
	merged, diff := resumed(old, t.cfg)
	for _, d := range diff {
		t.Logger.Warn("resume keeps the stored setting", "key", d)
	}
	t.cfg, t.stored = merged, s
	return nil
}

// restore loads weights, average and moments and checks that the data are those of the stored run. Statistics, Spec and
// architecture come from the checkpoint, never from the data at hand.
func (t *trainer) restore() error {
	s := t.stored
	if t.provenance.Identity != s.manifest.Data.Identity {
		return fmt.Errorf("resume %s: it was trained on dataset %s (identity %s), %s has identity %s", s.dir,
			s.manifest.Data.Name, s.manifest.Data.Identity, t.cfg.Data, t.provenance.Identity)
	}
	t.arch, t.stats, t.spec = s.manifest.Architecture, s.manifest.Normalisation, s.manifest.Spec
	t.provenance.Parent = s.manifest.Data.Parent
	words, err := s.manifest.ReadWords(s.dir)
	if err != nil {
		return err
	}
	t.words = words
	raw, err := s.manifest.ReadParams(s.dir, policy.RawFile)
	if err != nil {
		return err
	}
	o := newOptimiser(t.cfg, raw)
	if o.ema, err = s.manifest.ReadParams(s.dir, policy.EMAFile); err != nil {
		return err
	}
	data, err := s.manifest.ReadFile(s.dir, optimizerFile)
	if err != nil {
		return err
	}
	tensors, err := policy.ReadTensors(data)
	if err != nil {
		return fmt.Errorf("resume %s: %w", filepath.Join(s.dir, optimizerFile), err)
	}
	var m, v []policy.Tensor
	for _, x := range tensors {
		if name, ok := strings.CutPrefix(x.Name, "m/"); ok {
			m = append(m, policy.Tensor{Name: name, Shape: x.Shape, Data: x.Data})
		} else if name, ok := strings.CutPrefix(x.Name, "v/"); ok {
			v = append(v, policy.Tensor{Name: name, Shape: x.Shape, Data: x.Data})
		}
	}
	if err := errors.Join(o.m.SetTensors(m), o.v.SetTensors(v)); err != nil {
		return fmt.Errorf("resume %s: %w", filepath.Join(s.dir, optimizerFile), err)
	}
	o.steps = s.state.Steps
	t.optimiser = o
	t.result = Result{Steps: o.steps, Checkpoint: s.dir, Manifest: s.manifest}
	t.Logger.Info("resume", "checkpoint", s.dir, "step", o.steps)
	return nil
}
