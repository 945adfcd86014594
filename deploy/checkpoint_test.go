package deploy

import (
	"context"
	"strings"
	"testing"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/policy"
)

// untrained makes a small policy with weights that are not zero.
func untrained(t *testing.T, horizon int) *policy.Policy {
	t.Helper()
	return untrainedAs(t, policy.PresetOptions{ImageSize: 16, Horizon: horizon, MaxTokens: 12}, policy.Architectures["nano"], policy.Options{Threads: 1})
}

func untrainedAs(t *testing.T, preset policy.PresetOptions, arch policy.Architecture, o policy.Options) *policy.Policy {
	t.Helper()
	features := []policy.Feature{
		{Name: KeyImageLeft, DType: "video", Shape: []int{480, 640, 3}},
		{Name: KeyImageRight, DType: "video", Shape: []int{480, 640, 3}},
		{Name: KeyRelative, DType: "float64", Shape: []int{7}},
		{Name: KeyJointStates, DType: "float64", Shape: []int{2}},
	}
	e := policy.Episode{Length: 80, Columns: map[string][]float64{}}
	for i := 0; i < e.Length; i++ {
		var hands [2]frames.Pose
		for h, name := range Hands {
			hands[h] = reference(h, float64(i)/30)
			v := hands[h].ArrayXYZXYZW()
			column := "observation.pose." + name + "_hand_root.absolute"
			e.Columns[column] = append(e.Columns[column], v[:]...)
			if i == 0 {
				features = append(features, policy.Feature{Name: column, DType: "float64", Shape: []int{7}})
			}
		}
		rel := relative(hands).ArrayXYZXYZW()
		e.Columns[KeyRelative] = append(e.Columns[KeyRelative], rel[:]...)
		e.Columns[KeyJointStates] = append(e.Columns[KeyJointStates], 0.01*float64(i), 0.3)
	}
	spec, err := policy.Preset(policy.PresetUMI, features, 30, preset)
	if err != nil {
		t.Fatal(err)
	}
	stats, err := policy.FitStats(spec, "", []policy.Episode{e})
	if err != nil {
		t.Fatal(err)
	}
	params, err := policy.NewParams(spec, arch, 3)
	if err != nil {
		t.Fatal(err)
	}
	for i := range params.Slab {
		params.Slab[i] += 0.02 * float32(i%7-3)
	}
	m := policy.NewManifest(spec, arch, stats)
	m.Checkpoint = "cafe"
	m.Data.Prompts = []string{"go"}
	p, err := policy.New(m, params, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A checkpoint behind the server answers the same as in process, states its contract, and sees each picture in its own place.
func TestCheckpointIsServed(t *testing.T) {
	c, err := NewCheckpoint(untrained(t, 16))
	if err != nil {
		t.Fatal(err)
	}
	contract, err := ReadContract(c.Metadata(), nil)
	if err != nil || contract.Checkpoint != "cafe" || contract.Prompts[0] != "go" || contract.PoseTiming != TimingNext {
		t.Fatalf("contract %+v, %v", contract, err)
	}
	ctx := context.Background()
	obs := testObservation("go")
	for i := range obs.Left.Pix {
		obs.Left.Pix[i] = byte(i >> 8)
	}
	direct, err := c.Infer(ctx, obs)
	if err != nil {
		t.Fatal(err)
	}
	if err := direct.Check(); err != nil {
		t.Fatal(err)
	}
	client, err := Dial(ctx, "ws://"+startServer(t, c, ServeOptions{}), ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	served, err := client.Infer(ctx, obs)
	if err != nil {
		t.Fatal(err)
	}
	for i := range direct.Data {
		// The state travels as float32.
		if d := direct.Data[i] - served.Data[i]; d > 1e-5 || d < -1e-5 {
			t.Fatalf("number %d is %v in process and %v served", i, direct.Data[i], served.Data[i])
		}
	}
	swapped := obs
	swapped.Left, swapped.Right = obs.Right, obs.Left
	other, err := c.Infer(ctx, swapped)
	if err != nil {
		t.Fatal(err)
	}
	same := true
	for i := range other.Data {
		same = same && other.Data[i] == direct.Data[i]
	}
	if same {
		t.Error("left and right picture exchanged make no difference")
	}
}

func TestCheckpointOfAShortHorizonIsRefused(t *testing.T) {
	if _, err := NewCheckpoint(untrained(t, 4)); err == nil || !strings.Contains(err.Error(), "4 rows") {
		t.Errorf("error %v", err)
	}
}
