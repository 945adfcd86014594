package train

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pinch-robotics/pinch/policy"
)

// A batch in parts teaches what the batch teaches at once, whatever the padding of the parts: the loss is divided by all valid scalars.
func TestAccumulationIsALargerBatch(t *testing.T) {
	c := small(spots(t, 3, 10), filepath.Join(t.TempDir(), "whole"))
	c.Horizon, c.Steps, c.SaveEvery, c.ReportRows = 6, 3, 0, 0 // chunks leave the episodes of ten rows
	whole := mustRun(t, c)
	c.Out, c.Accumulate = filepath.Join(t.TempDir(), "parts"), 4
	parts := mustRun(t, c)
	if math.Abs(whole.Loss-parts.Loss) > 1e-5*whole.Loss {
		t.Errorf("loss %v at once, %v in four parts", whole.Loss, parts.Loss)
	}
	a, err := whole.Manifest.ReadParams(whole.Checkpoint, policy.RawFile)
	if err != nil {
		t.Fatal(err)
	}
	b, err := parts.Manifest.ReadParams(parts.Checkpoint, policy.RawFile)
	if err != nil {
		t.Fatal(err)
	}
	worst := 0.0
	for i := range a.Slab {
		worst = math.Max(worst, math.Abs(float64(a.Slab[i]-b.Slab[i])))
	}
	if worst > 2e-4 { // AdamW turns rounding of tiny gradients into a share of the rate of 2e-3
		t.Errorf("weights differ by %v", worst)
	}
}

// orthogonalize keeps the singular vectors and brings the singular values near one: on a diagonal matrix they can be read off.
func TestOrthogonalizeBringsSingularValuesToOne(t *testing.T) {
	for _, shape := range [][2]int{{6, 6}, {4, 9}, {9, 4}} {
		rows, cols := shape[0], shape[1]
		x := make([]float32, rows*cols)
		for i := range min(rows, cols) {
			x[i*cols+i] = float32(0.2 + 0.3*float64(i))
		}
		orthogonalize(x, rows, cols)
		for i, v := range x {
			if i/cols == i%cols {
				if v < 0.6 || v > 1.3 {
					t.Errorf("%v: singular value %d became %v", shape, i/cols, v)
				}
			} else if math.Abs(float64(v)) > 1e-5 {
				t.Errorf("%v: element %d beside the diagonal became %v", shape, i, v)
			}
		}
	}
}

func TestMuonLearns(t *testing.T) {
	c := small(spots(t, 4, 10), filepath.Join(t.TempDir(), "run"))
	c.Optimiser, c.Steps, c.SaveEvery, c.ReportRows, c.LogEvery = muon, 40, 0, 0, 20
	c.EMAMax = 0.9
	r := mustRun(t, c)
	adam := c
	adam.Optimiser, adam.Out = adamW, filepath.Join(t.TempDir(), "adam")
	if a := mustRun(t, adam); !(r.Loss < 1.1*a.Loss) || r.Loss == a.Loss {
		t.Errorf("loss %v with Muon, %v with AdamW", r.Loss, a.Loss)
	}
}

func TestFrozenParametersStayToTheBit(t *testing.T) {
	c := small(spots(t, 4, 10), filepath.Join(t.TempDir(), "run"))
	c.Freeze, c.Steps, c.SaveEvery, c.ReportRows = []string{"vision.", "text."}, 3, 0, 0
	r := mustRun(t, c)
	start, err := policy.NewParams(r.Manifest.Spec, r.Manifest.Architecture, c.Seed)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{policy.RawFile, policy.EMAFile} {
		end, err := r.Manifest.ReadParams(r.Checkpoint, file)
		if err != nil {
			t.Fatal(err)
		}
		moved := 0
		for _, info := range start.Info {
			same := true
			for i, v := range start.View(info.Name) {
				same = same && v == end.View(info.Name)[i]
			}
			frozen := strings.HasPrefix(info.Name, "vision.") || strings.HasPrefix(info.Name, "text.")
			if frozen && !same {
				t.Errorf("%s: frozen %s changed", file, info.Name)
			}
			if !frozen && !same {
				moved++
			}
		}
		if moved == 0 {
			t.Errorf("%s: nothing moved", file)
		}
	}
}

func TestRateFactors(t *testing.T) {
	c := DefaultConfig()
	c.EncoderRate, c.TextRate, c.LayerDecay, c.Freeze = 0.1, 0.5, 0.5, []string{"state."}
	for name, want := range map[string]float64{"vision.2.q.w": 0.1, "vision.0.q.w": 0.025, "vision.patch.w": 0.0125, "vision.norm.gain": 0.1, "vision.out.w": 1,
		"vision.camera": 1, "text.0.q.w": 0.5, "action.0.up.w": 1, "state.in.w": 0} {
		if got := c.factor(name, 3); math.Abs(got-want) > 1e-12 {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

func TestEMAKinds(t *testing.T) {
	c := DefaultConfig()
	c.EMA, c.EMAMax = emaPower, 0.9999
	if got := c.emaAt(0); got != 0 {
		t.Errorf("power at 0: %v", got)
	}
	if got, want := c.emaAt(15), 1-math.Pow(16, -0.75); got != want {
		t.Errorf("power at 15: %v, want %v", got, want)
	}
	c.EMA = emaConstant
	if c.emaAt(0) != 0.9999 {
		t.Error("constant is not constant")
	}
}

// A vocabulary, several frames, a prefix, dropout and everything else of the large sizes, through a run, its checkpoint and an answer.
func TestExpertArchitectureThroughARun(t *testing.T) {
	c := small(spots(t, 4, 10), filepath.Join(t.TempDir(), "run"))
	c.Frames, c.FrameStride, c.Vocabulary, c.Horizon, c.ImageSize = 2, 2, 270, 4, 32
	c.Arch = policy.Architecture{Merge: 2, TokenTime: true, TextTokens: true, OwnModulation: true, HeadNorm: true, Rotary: true, Dropout: 0.2, MaxPrefix: 2}
	c.Steps, c.SaveEvery, c.ReportRows = 3, 0, 4
	r := mustRun(t, c)
	if r.Manifest.Tokenizer.Name != policy.PairsName || r.Manifest.Architecture.MaxPrefix != 2 || r.Manifest.Spec.Frames != 2 {
		t.Fatalf("manifest %+v", r.Manifest)
	}
	p, err := policy.Load(c.Out, policy.Options{})
	if err != nil {
		t.Fatal(err)
	}
	now := spotObservation(20, 30)
	still, err := p.Infer(now)
	if err != nil {
		t.Fatal(err)
	}
	now.Past = []policy.Observation{spotObservation(50, 10)}
	moved, err := p.Infer(now)
	if err != nil {
		t.Fatal(err)
	}
	if len(still.Values) != 8 || len(moved.Values) != 8 {
		t.Fatalf("%d and %d numbers, want 4 steps of 2", len(still.Values), len(moved.Values))
	}
	now.Prefix = make([]float64, 2*3)
	if _, err := p.Infer(now); err == nil {
		t.Error("a longer prefix than was trained gave no error")
	}
	// The same run again gives the same bytes: dropout and prefixes are functions of seed and step.
	again := c
	again.Out = filepath.Join(t.TempDir(), "again")
	if r2 := mustRun(t, again); r2.Manifest.Files[policy.RawFile] != r.Manifest.Files[policy.RawFile] {
		t.Error("two runs of one seed differ")
	}
}

const killedRun = "PINCH_TEST_KILLED_RUN"

// TestKilledRunChild is the process that TestKilledAtRandomMoments kills.
func TestKilledRunChild(t *testing.T) {
	where := os.Getenv(killedRun)
	if where == "" {
		t.Skip("runs as a child")
	}
	data, out, _ := strings.Cut(where, "|")
	c := killable(data, out)
	_, err := os.Stat(filepath.Join(out, "checkpoints", policy.LatestLink))
	c.Resume = err == nil
	if !c.Resume {
		_ = os.RemoveAll(out) // killed before its first checkpoint
	}
	if _, err := Run(context.Background(), c, Options{}); err != nil {
		t.Fatal(err)
	}
}

func killable(data, out string) Config {
	c := small(data, out)
	c.Steps, c.SaveEvery, c.Keep, c.ReportRows = 30, 3, 2, 0
	return c
}

// A run killed at random moments and resumed each time ends with the bytes of a run in one go.
func TestKilledAtRandomMoments(t *testing.T) {
	data := spots(t, 4, 10)
	whole := killable(data, filepath.Join(t.TempDir(), "whole"))
	start := time.Now()
	mustRun(t, whole)
	took := time.Since(start)
	kills := 3
	if n, err := strconv.Atoi(os.Getenv("PINCH_SOAK_KILLS")); err == nil {
		kills = n
	} else if os.Getenv("PINCH_SOAK") != "" {
		kills = 60
	}
	rng := rand.New(rand.NewPCG(uint64(kills), 1))
	out := filepath.Join(t.TempDir(), "killed")
	for range kills {
		cmd := exec.Command(os.Args[0], "-test.run", "^TestKilledRunChild$")
		cmd.Env = append(os.Environ(), killedRun+"="+data+"|"+out)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(time.Duration((0.1+rng.Float64())*float64(took)), func() { _ = cmd.Process.Signal(syscall.SIGKILL) })
		_ = cmd.Wait()
		timer.Stop()
	}
	cmd := exec.Command(os.Args[0], "-test.run", "^TestKilledRunChild$")
	cmd.Env = append(os.Environ(), killedRun+"="+data+"|"+out)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for _, f := range weightFiles {
		if !bytes.Equal(read(t, whole.Out, "checkpoints", "latest", f), read(t, out, "checkpoints", "latest", f)) {
			t.Errorf("%s differs from the run in one go", f)
		}
	}
}

// An interrupted run saves the step it is at.
func TestInterruptSaves(t *testing.T) {
	c := small(spots(t, 4, 10), filepath.Join(t.TempDir(), "run"))
	c.Steps, c.SaveEvery, c.Warmup = 50, 0, 1
	ctx, cancel := context.WithCancel(context.Background())
	_, err := Run(ctx, c, Options{OnStep: func(step int, _ float64) {
		if step == 3 {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v", err)
	}
	dir, err := policy.Resolve(c.Out)
	if err != nil {
		t.Fatal(err)
	}
	if m, err := policy.ReadManifest(dir); err != nil || m.Step != 3 {
		t.Errorf("saved step %d, %v; want 3", m.Step, err)
	}
}

func TestKeepEvery(t *testing.T) {
	c := small(spots(t, 4, 10), filepath.Join(t.TempDir(), "run"))
	c.Steps, c.SaveEvery, c.Keep, c.KeepEvery, c.ReportRows = 8, 1, 2, 3, 0
	mustRun(t, c)
	dirs, _ := filepath.Glob(filepath.Join(c.Out, "checkpoints", "step-*"))
	var names []string
	for _, d := range dirs {
		names = append(names, strings.TrimLeft(strings.TrimPrefix(filepath.Base(d), "step-"), "0"))
	}
	if got := strings.Join(names, " "); got != "3 6 7 8" {
		t.Errorf("steps %s are kept, want 3 6 7 8", got)
	}
}

func TestPostTrainingSaysWhatItTakesOver(t *testing.T) {
	data := spots(t, 4, 10)
	base := small(data, filepath.Join(t.TempDir(), "base"))
	base.ReportRows = 0
	r := mustRun(t, base)
	post := base
	post.Out, post.From = filepath.Join(t.TempDir(), "post"), base.Out
	if err := post.Validate(); err == nil || !strings.Contains(err.Error(), "statistics") {
		t.Fatalf("post-training without a choice of statistics gave %v", err)
	}
	post.Statistics, post.Size, post.Horizon = fromCheckpoint, "tiny", 7 // size and horizon are the checkpoint's
	p := mustRun(t, post)
	if p.Manifest.Data.Parent == nil || p.Manifest.Data.Parent.Checkpoint != r.Manifest.Checkpoint || p.Manifest.Architecture != r.Manifest.Architecture {
		t.Fatalf("manifest %+v", p.Manifest)
	}
	var a Adoption
	if err := json.Unmarshal(read(t, post.Out, "post.json"), &a); err != nil {
		t.Fatal(err)
	}
	if len(a.Loaded) != len(mustParams(t, r).Info) || len(a.Fresh)+len(a.Partly)+len(a.Unused) != 0 {
		t.Errorf("%d loaded, fresh %v, partly %v, unused %v", len(a.Loaded), a.Fresh, a.Partly, a.Unused)
	}
	// Another horizon is another transform: the checkpoint's statistics do not apply, and positions are taken over as far as they go.
	longer := r.Manifest.Spec
	longer.Horizon = 3
	post.Out, post.Spec = filepath.Join(t.TempDir(), "longer"), &longer
	if _, err := Run(context.Background(), post, Options{}); err == nil || !strings.Contains(err.Error(), "statistics=data") {
		t.Fatalf("statistics of another horizon gave %v", err)
	}
	post.Out, post.Statistics = filepath.Join(t.TempDir(), "longer2"), fromData
	mustRun(t, post)
	if err := json.Unmarshal(read(t, post.Out, "post.json"), &a); err != nil {
		t.Fatal(err)
	}
	if len(a.Partly) != 1 || !strings.Contains(a.Partly[0], "action.position") {
		t.Errorf("partly taken over: %v", a.Partly)
	}
	// Resumed without from: the stored run goes on.
	post.Resume, post.From, post.Statistics, post.Spec = true, "", "", nil
	if again := mustRun(t, post); again.Manifest.Data.Parent == nil {
		t.Error("a resumed run forgot what it began with")
	}
}

func mustParams(t *testing.T, r Result) *policy.Params {
	t.Helper()
	p, err := r.Manifest.ReadParams(r.Checkpoint, policy.RawFile)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestMixtureRuns(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "mix.yaml")
	text := "version: 1\nsets:\n- path: " + spots(t, 4, 10) + "\n  weight: 3\n- path: " + spots(t, 3, 10) + "\nsplit: {share: 0.4, seed: 3}\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	c := small("", filepath.Join(dir, "run"))
	c.Mixture, c.CacheDir, c.Horizon = file, filepath.Join(dir, "cache"), 3
	r := mustRun(t, c)
	sets := r.Manifest.Data.Sets
	if len(sets) != 2 || sets[0].Samples+sets[1].Samples != r.Manifest.Data.Rows || sets[0].Samples <= 2*sets[1].Samples {
		t.Fatalf("sets %+v of %d rows", sets, r.Manifest.Data.Rows)
	}
	if !r.Report.HeldOut || math.IsNaN(r.ValLoss) {
		t.Errorf("nothing was held out: %+v, validation %v", r.Report, r.ValLoss)
	}
	// Stopped and resumed: the same bytes.
	parts := c
	parts.Out = filepath.Join(dir, "parts")
	ctx, cancel := context.WithCancel(context.Background())
	if _, err := Run(ctx, parts, Options{OnStep: func(step int, _ float64) {
		if step == 3 {
			cancel()
		}
	}}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	parts.Resume = true
	mustRun(t, parts)
	for _, f := range weightFiles {
		if !bytes.Equal(read(t, c.Out, "checkpoints", "latest", f), read(t, parts.Out, "checkpoints", "latest", f)) {
			t.Errorf("%s differs between one run and two", f)
		}
	}
}

// The CRC of RFC 3720, B.4, and a record that a reader of the format takes apart.
func TestEventFile(t *testing.T) {
	if got := maskedCRC([]byte("123456789")); got != (0xe3069283>>15|0xe3069283<<17&0xffffffff)+0xa282ead8&0xffffffff {
		t.Errorf("masked CRC %x", got)
	}
	e, err := newEvents(t.TempDir(), time.Unix(1000, 0), 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.scalars(time.Unix(1001, 0), 7, []scalar{{"loss/train", 0.25}}); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(e.file.Name())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(filepath.Base(e.file.Name()), "tfevents") {
		t.Errorf("name %s", e.file.Name())
	}
	var records [][]byte
	for len(data) > 0 {
		n := binary.LittleEndian.Uint64(data)
		body := data[12 : 12+n]
		if binary.LittleEndian.Uint32(data[8:]) != maskedCRC(data[:8]) || binary.LittleEndian.Uint32(data[12+n:]) != maskedCRC(body) {
			t.Fatal("a checksum is wrong")
		}
		records, data = append(records, body), data[16+n:]
	}
	if len(records) != 2 || !bytes.Contains(records[0], []byte("brain.Event:2")) {
		t.Fatalf("%d records", len(records))
	}
	want := append([]byte{0x09}, binary.LittleEndian.AppendUint64(nil, math.Float64bits(1001))...)
	want = append(want, 0x10, 7, 0x2a, 19, 0x0a, 17, 0x0a, 10)
	want = append(want, "loss/train"...)
	want = append(want, 0x15, 0, 0, 0x80, 0x3e)
	if !bytes.Equal(records[1], want) {
		t.Errorf("record %x, want %x", records[1], want)
	}
}

// Plans against sums by hand: 20 bytes of state for each parameter, and three times the forward operations.
func TestPlan(t *testing.T) {
	for size, flops := range map[string]float64{"small": 62, "base": 249, "large": 967} { // GFLOP of a sample with two cameras
		c := PretrainConfig(size)
		s, err := PlanSpec(c)
		if err != nil {
			t.Fatal(err)
		}
		p, err := NewPlan(c, PlanOptions{GPU: GPUs["h200"], Count: 8, MFU: 0.4, Spec: s})
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(p.TrainGFLOPs-flops) > 0.1*flops {
			t.Errorf("%s: %.1f GFLOP of a sample, want about %.0f", size, p.TrainGFLOPs, flops)
		}
		if math.Abs(p.StateGB-20*p.Parameters/1e9) > 1e-9 || !strings.Contains(p.String(), size) {
			t.Errorf("%s: %+v", size, p)
		}
		compute := p.TrainGFLOPs * 1e9 * float64(c.Batch) / (8 * 790e12 * 0.4)
		if p.StepSeconds < compute || p.StepSeconds > 1.3*compute {
			t.Errorf("%s: step of %v s, computing alone takes %v", size, p.StepSeconds, compute)
		}
	}
	if _, err := NewPlan(PretrainConfig("base"), PlanOptions{GPU: GPUs["h200"], Count: 7, MFU: 0.4}); err == nil {
		t.Error("a batch that does not divide over the devices gave no error")
	}
}

func TestRecipesFollowTheSize(t *testing.T) {
	c, err := LoadRecipe(PretrainConfig, "", "size=large", "steps=5000")
	if err != nil {
		t.Fatal(err)
	}
	if c.Horizon != 50 || c.Vocabulary != 32768 || c.Rate != 1e-4 || c.Steps != 5000 {
		t.Errorf("large: horizon %d, vocabulary %d, rate %v", c.Horizon, c.Vocabulary, c.Rate)
	}
	if _, err := LoadRecipe(PretrainConfig, "", "optimizer=muon"); err == nil || !strings.Contains(err.Error(), "optimiser") {
		t.Errorf("a key with a typing error gave %v", err)
	}
	for override, want := range map[string]string{"accumulate=3": "accumulate", "optimiser=sgd": "optimiser", "ema=slow": "ema", "from=x": "statistics",
		"action_form=euler": "action_form", "layer_decay=0": "layer_decay", "encoder_rate=-1": "encoder_rate"} {
		if _, err := LoadRecipe(PretrainConfig, "", override); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v does not say %s", override, err, want)
		}
	}
}
