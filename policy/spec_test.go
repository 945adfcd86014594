package policy

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pinch-robotics/pinch/internal/imaging"
)

// umiFeatures are the columns of a two-hand dataset that the umi preset reads, among others.
var umiFeatures = []Feature{
	{Name: LeftImage, DType: "video", Shape: []int{480, 640, 3}},
	{Name: RightImage, DType: "video", Shape: []int{480, 640, 3}},
	{Name: "observation.image.center", DType: "video", Shape: []int{480, 640, 3}},
	{Name: HandsPose, DType: "float64", Shape: []int{7}},
	{Name: LeftHandPose, DType: "float64", Shape: []int{7}},
	{Name: RightHandPose, DType: "float64", Shape: []int{7}},
	{Name: JointStates, DType: "float64", Shape: []int{2}},
	{Name: "timestamp", DType: "float32", Shape: []int{1}},
}

func mustPreset(t *testing.T, name string, features []Feature, fps int, o PresetOptions) Spec {
	t.Helper()
	s, err := Preset(name, features, fps, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestPresetUMI(t *testing.T) {
	s := mustPreset(t, PresetAuto, umiFeatures, 30, PresetOptions{})
	if s.Preset != PresetUMI || s.StateDim() != 11 || s.ActionDim() != 20 || s.Horizon != 16 {
		t.Fatalf("preset %s: state %d, action %d, horizon %d; want umi, 9+2, 9+9+2, 16", s.Preset, s.StateDim(), s.ActionDim(), s.Horizon)
	}
	if s.RateHz() != 10 || s.Row(0) != 3 || s.LastRow() != 48 {
		t.Errorf("rate %v Hz, first row %d, last row %d; want 10, 3, 48", s.RateHz(), s.Row(0), s.LastRow())
	}
	if m := s.meaning(); m != (ActionMeaning{Dim: 16, RateHz: 10, PoseReference: "body", PoseTiming: "next"}) {
		t.Errorf("answers mean %+v", m)
	}
}

func TestPresetJointFollowsTheDataset(t *testing.T) {
	features := []Feature{
		{Name: "observation.state", DType: "float32", Shape: []int{26}},
		{Name: "action", DType: "float32", Shape: []int{26}},
		{Name: "observation.images.cam_high", DType: "video", Shape: []int{480, 640, 3}},
	}
	s := mustPreset(t, PresetAuto, features, 30, PresetOptions{})
	if s.Preset != PresetJoint || s.StateDim() != 26 || s.ActionDim() != 26 || len(s.Cameras) != 1 || s.Row(0) != 0 || s.Stride != 1 {
		t.Fatalf("got %+v", s)
	}
	if s.Action[0].Representation != DeltaToState {
		t.Errorf("equal lengths: action is %q, want differences to the state", s.Action[0].Representation)
	}
	features[1].Shape = []int{7}
	if s = mustPreset(t, PresetAuto, features, 30, PresetOptions{}); s.Action[0].Representation != Absolute {
		t.Errorf("unequal lengths: action is %q, want absolute", s.Action[0].Representation)
	}
}

func TestPresetNamesWhatIsMissing(t *testing.T) {
	_, err := Preset(PresetUMI, umiFeatures[1:], 30, PresetOptions{})
	if err == nil || !strings.Contains(err.Error(), LeftImage) {
		t.Errorf("error %v does not name %s", err, LeftImage)
	}
	bent := append([]Feature{}, umiFeatures...)
	bent[3].Shape = []int{6}
	if _, err := Preset(PresetUMI, bent, 30, PresetOptions{}); err == nil || !strings.Contains(err.Error(), HandsPose) {
		t.Errorf("a pose of 6 numbers: error %v does not name %s", err, HandsPose)
	}
	bent = append([]Feature{}, umiFeatures...)
	bent[0].DType = "float32"
	if _, err := Preset(PresetUMI, bent, 30, PresetOptions{}); err == nil || !strings.Contains(err.Error(), LeftImage) {
		t.Errorf("a camera that is no video: error %v does not name it", err)
	}
	if _, err := Preset("umy", umiFeatures, 30, PresetOptions{}); err == nil {
		t.Error("unknown preset accepted")
	}
}

func TestSpecSurvivesJSON(t *testing.T) {
	for _, s := range []Spec{
		mustPreset(t, PresetUMI, umiFeatures, 30, PresetOptions{}),
		{Preset: PresetCustom, State: []Input{{Feature: "s", Representation: Absolute, SourceDim: 2}},
			Action: []Output{{Name: "a", Feature: "s", Representation: DeltaToState, SourceDim: 2, StateFeature: "s", Unit: Radian}}, Horizon: 2, Stride: 1, FPS: 10, Prompt: Prompt{MaxTokens: 8}},
	} {
		text, err := json.Marshal(s.canonical())
		if err != nil {
			t.Fatal(err)
		}
		var back Spec
		if err := json.Unmarshal(text, &back); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(s.canonical(), back); d != "" {
			t.Error(d)
		}
		if s.Hash() != back.Hash() {
			t.Error("the hash changed on the way through JSON")
		}
	}
}

func TestHashChangesWithEveryPartOfTheTransform(t *testing.T) {
	base := mustPreset(t, PresetUMI, umiFeatures, 30, PresetOptions{})
	seen := map[string]string{base.Hash(): "base"}
	for name, change := range map[string]func(*Spec){
		"horizon":        func(s *Spec) { s.Horizon = 17 },
		"stride":         func(s *Spec) { s.Stride = 2 },
		"first":          func(s *Spec) { s.First = 0 },
		"fps":            func(s *Spec) { s.FPS = 60 },
		"camera order":   func(s *Spec) { s.Cameras[0], s.Cameras[1] = s.Cameras[1], s.Cameras[0] },
		"geometry":       func(s *Spec) { s.Cameras[0].Geometry.Mode = imaging.CentreCrop },
		"representation": func(s *Spec) { s.Action[2].Representation = DeltaToState },
		"state":          func(s *Spec) { s.State = s.State[:1] },
		"unit":           func(s *Spec) { s.State[1].Unit = None },
		"prompt":         func(s *Spec) { s.Prompt.MaxTokens = 32 },
	} {
		s := base.canonical()
		change(&s)
		if other, dup := seen[s.Hash()]; dup {
			t.Errorf("%s and %s have one hash", name, other)
		}
		seen[s.Hash()] = name
	}
}

func TestSpecChecks(t *testing.T) {
	base := mustPreset(t, PresetUMI, umiFeatures, 30, PresetOptions{})
	for name, change := range map[string]func(*Spec){
		"camera listed twice":       func(s *Spec) { s.Cameras[1] = s.Cameras[0] },
		"two image sizes":           func(s *Spec) { s.Cameras[1].Geometry.Width = 32 },
		"no actions":                func(s *Spec) { s.Action = nil },
		"nothing observed":          func(s *Spec) { s.Cameras, s.State = nil, nil },
		"horizon 0":                 func(s *Spec) { s.Horizon = 0 },
		"pose of 6 numbers":         func(s *Spec) { s.State[0].SourceDim = 6 },
		"delta without its state":   func(s *Spec) { s.Action[2].Representation = DeltaToState },
		"representation misspelled": func(s *Spec) { s.Action[0].Representation = "chunk_pose" },
		"prompt of one token":       func(s *Spec) { s.Prompt.MaxTokens = 1 },
	} {
		s := base.canonical()
		change(&s)
		if s.Check() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// A dataset that has the layout is not blamed for a wrong setting, and a long list of features is cut.
func TestAutoPresetNamesTheSetting(t *testing.T) {
	_, err := Preset(PresetAuto, umiFeatures, 30, PresetOptions{ImageSize: 100_000})
	if err == nil || strings.Contains(err.Error(), "preset") || !strings.Contains(err.Error(), "100000") {
		t.Errorf("too large a picture: %v", err)
	}
	var many []Feature
	for i := range 100 {
		many = append(many, Feature{Name: fmt.Sprintf("feature.%d", i), DType: "float32", Shape: []int{1}})
	}
	_, err = Preset(PresetAuto, many, 30, PresetOptions{})
	if err == nil || !strings.Contains(err.Error(), "and 88 more") || !strings.Contains(err.Error(), "lacks observation.state") {
		t.Errorf("no layout: %v", err)
	}
}
