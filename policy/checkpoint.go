package policy

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/pinch-robotics/pinch/internal/atomicfile"
	"github.com/pinch-robotics/pinch/policy/text"
)

// Names inside a checkpoint folder.
const (
	ManifestFile = "manifest.json"
	RawFile      = "model.safetensors"     // last weights
	EMAFile      = "model_ema.safetensors" // running average, served by default
	CompleteFile = "COMPLETE"              // written last; holds the manifest's SHA-256
	WordsFile    = "tokenizer.json"        // joins of the tokenizer, where it has a vocabulary
)

// Format is the version of the checkpoint folder. v1: manifest, two weight files, complete marker.
const Format = "pinch-policy-v1"

// ErrBadCheckpoint marks a checkpoint that must not be used. The message names the file and the field.
var ErrBadCheckpoint = errors.New("unusable checkpoint, copy its whole folder again or use an older one")

// ErrIncomplete marks, together with ErrBadCheckpoint, a folder whose writer did not finish.
var ErrIncomplete = errors.New("checkpoint was not finished")

// Checkpoint is a policy at rest.
type Checkpoint struct {
	Manifest Manifest
	Raw, EMA *Params
	Words    Words               // nil: bytes
	Tensors  map[string][]Tensor // more files of tensors, by name, such as the optimiser's moments
}

// NewManifest fills everything that follows from the parts; step, data and files are set by the writer.
func NewManifest(s Spec, a Architecture, st Stats) Manifest {
	m := Manifest{
		Format: Format, Architecture: a, Spec: s.canonical(), SpecHash: s.Hash(), CameraOrder: []string{}, GeometryHash: s.GeometryHash(),
		Normalisation: st, Tokenizer: Tokenizer{TokenizerName, TokenizerHash()}, TimeConvention: TimeConvention,
		Action: s.meaning(), Data: Provenance{TrainEpisodes: []int{}, ValEpisodes: []int{}, Prompts: []string{}},
	}
	for _, c := range s.Cameras {
		m.CameraOrder = append(m.CameraOrder, c.Feature)
	}
	return m
}

// meaning describes the rows of an answer.
func (s Spec) meaning() ActionMeaning {
	m := ActionMeaning{RateHz: s.RateHz()}
	for _, o := range s.Action {
		if o.Pose() {
			m.PoseReference, m.PoseTiming = "body", "next"
			m.Dim += poseDim
		} else {
			m.Dim += o.Dim()
		}
	}
	return m
}

// Save writes a checkpoint to the new folder dir: files, manifest with their sizes and hashes, then the complete marker, all in a
// folder beside it that is renamed at the end. extra files (name to content, such as the trainer's state) are listed in the
// manifest too. A crash leaves at most a folder with the suffix .partial, which the next Save of the same name removes.
func (c Checkpoint) Save(dir string, extra map[string][]byte) (Manifest, error) {
	m, err := c.save(dir, extra)
	if err != nil {
		return Manifest{}, fmt.Errorf("save checkpoint %s: %w", dir, err)
	}
	return m, nil
}

func (c Checkpoint) save(dir string, extra map[string][]byte) (Manifest, error) {
	if _, err := os.Stat(dir); err == nil {
		return Manifest{}, fmt.Errorf("folder exists: %w", fs.ErrExist)
	}
	partial := dir + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		return Manifest{}, err
	}
	if err := os.MkdirAll(partial, 0o755); err != nil {
		return Manifest{}, err
	}
	fill := map[string]func(io.Writer) error{}
	for name, data := range extra {
		fill[name] = func(w io.Writer) error { _, err := w.Write(data); return err }
	}
	tensors := func(name string, list []Tensor) {
		fill[name] = func(w io.Writer) error { return WriteTensors(w, list) }
	}
	for name, list := range c.Tensors {
		tensors(name, list)
	}
	tensors(RawFile, c.Raw.Tensors())
	tensors(EMAFile, c.EMA.Tensors())
	m := c.Manifest
	if c.Words != nil {
		m.Tokenizer = c.Words.Identity()
	}
	if p, ok := c.Words.(Pairs); ok {
		fill[WordsFile] = func(w io.Writer) error { _, err := w.Write(p.Marshal()); return err }
	}
	m.Files = map[string]File{}
	for name, f := range fill {
		var err error
		if m.Files[name], err = writeHashed(filepath.Join(partial, name), f); err != nil {
			return Manifest{}, err
		}
	}
	m.Checkpoint = m.identity()
	manifest, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return Manifest{}, err
	}
	manifest = append(manifest, '\n')
	if err := atomicfile.WriteFile(filepath.Join(partial, ManifestFile), manifest, 0o644); err != nil {
		return Manifest{}, err
	}
	if err := atomicfile.WriteFile(filepath.Join(partial, CompleteFile), []byte(hash(manifest)+"\n"), 0o644); err != nil {
		return Manifest{}, err
	}
	return m, atomicfile.Rename(atomicfile.OS, partial, dir)
}

// writeHashed writes a file and tells its size and hash without holding it in memory.
func writeHashed(path string, fill func(io.Writer) error) (File, error) {
	sum, size := sha256.New(), int64(0)
	err := atomicfile.Write(atomicfile.OS, path, 0o644, func(w io.Writer) error {
		sum.Reset()
		counted := &counter{w: bufio.NewWriterSize(w, 1<<20), sum: sum}
		if err := fill(counted); err != nil {
			return err
		}
		size = counted.n
		return counted.w.Flush()
	})
	return File{size, hex.EncodeToString(sum.Sum(nil))}, err
}

// counter passes bytes on, counts and hashes them.
type counter struct {
	w   *bufio.Writer
	sum io.Writer
	n   int64
}

func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	_, _ = c.sum.Write(p) // a hash takes everything
	return c.w.Write(p)
}

// identity is the hash of the manifest with the identity left out, and so of the weights too.
func (m Manifest) identity() string {
	m.Checkpoint = ""
	text, err := json.Marshal(m)
	if err != nil {
		panic(err) // finite numbers and strings always marshal; Stats.Check refuses others
	}
	return hash(text)[:32]
}

func hash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// ReadManifest reads and checks manifest.json of a checkpoint folder, but no weights.
func ReadManifest(dir string) (Manifest, error) {
	text, err := os.ReadFile(filepath.Join(dir, ManifestFile))
	if err != nil {
		return Manifest{}, fmt.Errorf("read checkpoint: %w", err)
	}
	bad := func(err error) (Manifest, error) {
		return Manifest{}, fmt.Errorf("checkpoint %s: %w: %w", filepath.Join(dir, ManifestFile), err, ErrBadCheckpoint)
	}
	mark, err := os.ReadFile(filepath.Join(dir, CompleteFile))
	if err != nil {
		return bad(fmt.Errorf("no %s file: %w; use an older checkpoint", CompleteFile, ErrIncomplete))
	}
	if err := requireFields(text, reflect.TypeFor[Manifest](), ""); err != nil {
		return bad(err)
	}
	var m Manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return bad(err)
	}
	if err := m.check(); err != nil {
		return bad(err)
	}
	if got := hash(text); got != strings.TrimSpace(string(mark)) {
		return bad(fmt.Errorf("its hash %s is not the one in %s: the manifest was changed after training", got, CompleteFile))
	}
	return m, nil
}

// check compares the manifest's parts with each other and with this program.
func (m Manifest) check() error {
	want := func(field, got, want string) error {
		if got != want {
			return fmt.Errorf("field %s is %q, want %q", field, got, want)
		}
		return nil
	}
	if err := m.Spec.Check(); err != nil {
		return fmt.Errorf("field spec: %w", err)
	}
	if err := m.Architecture.Check(m.Spec); err != nil {
		return fmt.Errorf("field architecture: %w", err)
	}
	if err := m.Normalisation.Check(m.Spec); err != nil {
		return fmt.Errorf("field normalisation: %w", err)
	}
	if m.Step < 0 {
		return fmt.Errorf("field step is %d", m.Step)
	}
	if m.Data.Identity == "" {
		return fmt.Errorf("field data.identity is empty: the checkpoint does not say what it was trained on")
	}
	order := []string{}
	for _, c := range m.Spec.Cameras {
		order = append(order, c.Feature)
	}
	if !slices.Equal(order, m.CameraOrder) {
		return fmt.Errorf("field camera_order is %v, the spec has %v", m.CameraOrder, order)
	}
	if m.Action != m.Spec.meaning() {
		return fmt.Errorf("field action is %+v, the spec means %+v", m.Action, m.Spec.meaning())
	}
	return errors.Join(
		want("format", m.Format, Format),
		want("spec_hash", m.SpecHash, m.Spec.Hash()),
		want("geometry_hash", m.GeometryHash, m.Spec.GeometryHash()),
		m.checkTokenizer(),
		want("time_convention", m.TimeConvention, TimeConvention),
		want("checkpoint", m.Checkpoint, m.identity()),
	)
}

// checkTokenizer wants the bytes, or a table that the manifest lists.
func (m Manifest) checkTokenizer() error {
	switch bytes := (Bytes{}).Identity(); {
	case m.Tokenizer == bytes:
		return nil
	case m.Tokenizer.Name == bytes.Name:
		return fmt.Errorf("field tokenizer.hash is %q, want %q", m.Tokenizer.Hash, bytes.Hash)
	case m.Tokenizer.Name != PairsName:
		return fmt.Errorf("field tokenizer.name is %q, want %q or %q", m.Tokenizer.Name, TokenizerName, PairsName)
	case m.Files[WordsFile] == File{}:
		return fmt.Errorf("field files does not list %s, the table of tokenizer %s", WordsFile, PairsName)
	}
	return nil
}

// ReadWords reads the tokenizer of a checkpoint.
func (m Manifest) ReadWords(dir string) (Words, error) {
	if m.Tokenizer.Name == TokenizerName {
		return Bytes{}, nil
	}
	data, err := m.ReadFile(dir, WordsFile)
	if err != nil {
		return nil, err
	}
	table, err := text.Unmarshal(data)
	if err != nil {
		return nil, fmt.Errorf("checkpoint %s: %w: %w", filepath.Join(dir, WordsFile), err, ErrBadCheckpoint)
	}
	w := Pairs{table}
	if w.Identity() != m.Tokenizer || w.Size() > m.Spec.Prompt.vocabulary() {
		return nil, fmt.Errorf("checkpoint %s: a table of %d tokens and hash %s, the manifest says %s and the network knows %d: %w",
			filepath.Join(dir, WordsFile), w.Size(), w.Hash(), m.Tokenizer.Hash, m.Spec.Prompt.vocabulary(), ErrBadCheckpoint)
	}
	return w, nil
}

// requireFields wants every field of the struct type to be present in the JSON object, through nested structs and lists of
// structs. encoding/json would fill a missing one with zero, and a zero can be a valid number.
func requireFields(text []byte, t reflect.Type, at string) error {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(text, &object); err != nil {
		if at == "" {
			return fmt.Errorf("no JSON object: %w", err)
		}
		return fmt.Errorf("field %s: %w", strings.TrimPrefix(at, "."), err)
	}
	for i := range t.NumField() {
		name, options, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		path := at + "." + name
		raw, ok := object[name]
		if !ok || string(raw) == "null" {
			if options == "omitempty" {
				continue
			}
			return fmt.Errorf("field %s is missing", strings.TrimPrefix(path, "."))
		}
		ft := t.Field(i).Type
		if ft.Kind() == reflect.Pointer {
			ft = ft.Elem()
		}
		switch {
		case ft.Kind() == reflect.Struct:
			if err := requireFields(raw, ft, path); err != nil {
				return err
			}
		case ft.Kind() == reflect.Slice && ft.Elem().Kind() == reflect.Struct:
			var items []json.RawMessage
			if err := json.Unmarshal(raw, &items); err != nil {
				return fmt.Errorf("field %s: %w", strings.TrimPrefix(path, "."), err)
			}
			for k, item := range items {
				if err := requireFields(item, ft.Elem(), fmt.Sprintf("%s[%d]", path, k)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// ReadFile reads one file that the manifest lists and verifies its size and hash.
func (m Manifest) ReadFile(dir, name string) ([]byte, error) {
	bad := func(err error) ([]byte, error) {
		return nil, fmt.Errorf("checkpoint %s: %w: %w", filepath.Join(dir, name), err, ErrBadCheckpoint)
	}
	f, ok := m.Files[name]
	if !ok {
		return bad(fmt.Errorf("field files of %s does not list it", ManifestFile))
	}
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return bad(err)
	}
	if int64(len(data)) != f.Size {
		return bad(fmt.Errorf("file has %d bytes, %s says %d", len(data), ManifestFile, f.Size))
	}
	if got := hash(data); got != f.SHA256 {
		return bad(fmt.Errorf("file's SHA-256 is %s, %s says %s", got, ManifestFile, f.SHA256))
	}
	return data, nil
}

// ReadParams reads a weight file of the checkpoint into a fresh parameter set.
func (m Manifest) ReadParams(dir, name string) (*Params, error) {
	data, err := m.ReadFile(dir, name)
	if err != nil {
		return nil, err
	}
	info, err := layout(m.Spec, m.Architecture)
	if err != nil {
		return nil, err
	}
	p := newParams(info)
	tensors, err := ReadTensors(data)
	if err == nil {
		err = p.SetTensors(tensors)
	}
	if err != nil {
		return nil, fmt.Errorf("checkpoint %s: %w: %w", filepath.Join(dir, name), err, ErrBadCheckpoint)
	}
	return p, nil
}

// LatestLink is the name, in a run's checkpoints folder, of the link to its newest complete checkpoint.
const LatestLink = "latest"

// Resolve finds the checkpoint folder: dir itself, or the latest checkpoint of the run folder dir.
func Resolve(dir string) (string, error) {
	for _, try := range []string{dir, filepath.Join(dir, LatestLink), filepath.Join(dir, "checkpoints", LatestLink)} {
		if _, err := os.Stat(filepath.Join(try, ManifestFile)); err == nil {
			return try, nil
		}
	}
	return "", fmt.Errorf("no checkpoint at %s: want a folder with %s, or a run folder with checkpoints/%s", dir, ManifestFile, LatestLink)
}
