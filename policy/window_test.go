package policy

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/spatial/r3"

	"github.com/pinch-robotics/pinch/frames"
)

// walk is an episode of two hands that wander and turn, with random signs of the stored quaternions.
func walk(seed uint64, length int) Episode {
	rng := rand.New(rand.NewPCG(seed, 7))
	e := Episode{Length: length, Columns: map[string][]float64{}}
	hands := [2]frames.Pose{}
	for i := range hands {
		hands[i] = frames.Pose{Pos: r3.Vec{X: rng.NormFloat64(), Y: rng.NormFloat64(), Z: rng.NormFloat64()}, Rot: frames.ExpSO3(randomVec(rng, 1))}
	}
	for range length {
		for i, name := range []string{LeftHandPose, RightHandPose} {
			step := frames.Pose{Pos: randomVec(rng, 0.01), Rot: frames.ExpSO3(randomVec(rng, 0.05))}
			hands[i] = hands[i].Mul(step)
			v := hands[i].ArrayXYZXYZW()
			if rng.IntN(2) == 0 { // q and -q are one rotation
				for j := 3; j < 7; j++ {
					v[j] = -v[j]
				}
			}
			e.Columns[name] = append(e.Columns[name], v[:]...)
		}
		rel := hands[0].Inv().Mul(hands[1]).ArrayXYZXYZW()
		e.Columns[HandsPose] = append(e.Columns[HandsPose], rel[:]...)
		e.Columns[JointStates] = append(e.Columns[JointStates], rng.Float64(), rng.Float64())
	}
	return e
}

func randomVec(rng *rand.Rand, size float64) r3.Vec {
	return r3.Vec{X: size * rng.NormFloat64(), Y: size * rng.NormFloat64(), Z: size * rng.NormFloat64()}
}

func poseAt(t *testing.T, e Episode, feature string, row int) frames.Pose {
	t.Helper()
	p, err := frames.PoseFromXYZXYZW([7]float64(e.Columns[feature][row*7:]))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// The deltas that a server sends, integrated from the observed pose, must come out at the poses of the demonstration.
func TestStepDeltasIntegrateBackToTheDemonstration(t *testing.T) {
	s := mustPreset(t, PresetUMI, umiFeatures, 30, PresetOptions{})
	e := walk(1, 80)
	chunk, valid := make([]float64, s.Horizon*s.ActionDim()), make([]bool, s.Horizon)
	for _, at := range []int{0, 7, 31} {
		if err := s.EncodeTargets(chunk, valid, e, at); err != nil {
			t.Fatal(err)
		}
		rows, err := s.StepDeltas(chunk)
		if err != nil || len(rows) != s.Horizon {
			t.Fatalf("%d rows for %d steps, %v", len(rows), s.Horizon, err)
		}
		for hand, name := range []string{LeftHandPose, RightHandPose} {
			var deltas []frames.Delta
			for _, r := range rows {
				d, err := frames.DeltaFromXYZXYZW([7]float64(r[7*hand:]), frames.BodyPrevious, frames.Next)
				if err != nil {
					t.Fatal(err)
				}
				deltas = append(deltas, d)
			}
			for k, p := range frames.Integrate(poseAt(t, e, name, at), deltas) {
				m, r := p.Distance(poseAt(t, e, name, at+s.Row(k)))
				if !valid[k] || m > 1e-6 || r > 1e-6 {
					t.Errorf("row %d step %d hand %d: %g m and %g rad off (valid %v)", at, k, hand, m, r, valid[k])
				}
			}
		}
		for k, r := range rows {
			row := at + s.Row(k)
			if len(r) != 16 || r[14] != e.Columns[JointStates][2*row] || r[15] != e.Columns[JointStates][2*row+1] {
				t.Errorf("row %d step %d: %d columns, fingers %v, want those of row %d", at, k, len(r), r[14:], row)
			}
		}
	}
}

// A rotation that is only nearly one (as a network gives it) still yields unit quaternions.
func TestStepDeltasOfANoisyChunkAreRotations(t *testing.T) {
	s := mustPreset(t, PresetUMI, umiFeatures, 30, PresetOptions{})
	e := walk(2, 80)
	chunk, valid := make([]float64, s.Horizon*s.ActionDim()), make([]bool, s.Horizon)
	if err := s.EncodeTargets(chunk, valid, e, 3); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range chunk {
		chunk[i] += 0.05 * rng.NormFloat64()
	}
	rows, err := s.StepDeltas(chunk)
	if err != nil || len(rows) != s.Horizon {
		t.Fatalf("%d rows for %d steps, %v", len(rows), s.Horizon, err)
	}
	for k, r := range rows {
		for hand := range 2 {
			n := 0.0
			for _, q := range r[7*hand+3 : 7*hand+7] {
				n += q * q
			}
			if math.Abs(n-1) > 1e-9 || r[7*hand+6] < 0 {
				t.Errorf("step %d: quaternion %v of square length %v", k, r[7*hand+3:7*hand+7], n)
			}
		}
	}
	for i := 3; i < 9; i++ {
		chunk[i] = 0
	}
	if _, err := s.StepDeltas(chunk); err == nil {
		t.Error("a zero rotation was taken for one")
	}
}

func TestStepsBeyondTheEpisodeAreInvalidAndEmpty(t *testing.T) {
	s := mustPreset(t, PresetUMI, umiFeatures, 30, PresetOptions{})
	e := walk(3, 20)
	chunk, valid := make([]float64, s.Horizon*s.ActionDim()), make([]bool, s.Horizon)
	if err := s.EncodeTargets(chunk, valid, e, 10); err != nil {
		t.Fatal(err)
	}
	for k := range s.Horizon {
		inside := 10+3*(k+1) <= 19
		if valid[k] != inside {
			t.Errorf("step %d (row %d of 20) valid: %v", k, 10+3*(k+1), valid[k])
		}
		for _, v := range chunk[k*20 : (k+1)*20] {
			if !inside && v != 0 {
				t.Fatalf("step %d beyond the end holds %v", k, v)
			}
		}
	}
}

func TestStateIsTheRelativePoseAndTheAngles(t *testing.T) {
	s := mustPreset(t, PresetUMI, umiFeatures, 30, PresetOptions{})
	e := walk(4, 5)
	got := make([]float64, s.StateDim())
	if err := s.EncodeState(got, e, 3); err != nil {
		t.Fatal(err)
	}
	m := poseAt(t, e, LeftHandPose, 3).Inv().Mul(poseAt(t, e, RightHandPose, 3)).Mat4()
	want := []float64{m[0][3], m[1][3], m[2][3], m[0][0], m[0][1], m[0][2], m[1][0], m[1][1], m[1][2], e.Columns[JointStates][6], e.Columns[JointStates][7]}
	for i := range want {
		if math.Abs(got[i]-want[i]) > 1e-12 {
			t.Errorf("number %d is %v, want %v", i, got[i], want[i])
		}
	}
	// Neither hand's place in the room may matter.
	moved := walk(4, 5)
	room := frames.Pose{Pos: r3.Vec{X: 3}, Rot: frames.ExpSO3(r3.Vec{Z: 1})}
	for _, name := range []string{LeftHandPose, RightHandPose} {
		for r := range 5 {
			v := room.Mul(poseAt(t, moved, name, r)).ArrayXYZXYZW()
			copy(moved.Columns[name][7*r:], v[:])
		}
	}
	a, b, valid := make([]float64, 320), make([]float64, 320), make([]bool, 16)
	if err := s.EncodeTargets(a, valid, e, 0); err != nil {
		t.Fatal(err)
	}
	if err := s.EncodeTargets(b, valid, moved, 0); err != nil {
		t.Fatal(err)
	}
	for i := range a {
		if math.Abs(a[i]-b[i]) > 1e-12 {
			t.Fatalf("target %d depends on the room: %v and %v", i, a[i], b[i])
		}
	}
}

func TestDeltaToStateIsInvertedByDecodeAbsolute(t *testing.T) {
	s := Spec{Preset: PresetCustom, State: []Input{{Feature: "q", Representation: Absolute, SourceDim: 2}},
		Action:  []Output{{Name: "a", Feature: "u", Representation: DeltaToState, SourceDim: 2, StateFeature: "q"}, {Name: "g", Feature: "g", Representation: Absolute, SourceDim: 1}},
		Horizon: 3, Stride: 2, FPS: 10, Prompt: Prompt{MaxTokens: 8}}
	e := Episode{Length: 6, Columns: map[string][]float64{"q": seq(12, 0.5), "u": seq(12, 2), "g": seq(6, 9)}}
	chunk, valid := make([]float64, 9), make([]bool, 3)
	if err := s.EncodeTargets(chunk, valid, e, 1); err != nil {
		t.Fatal(err)
	}
	abs, err := s.DecodeAbsolute(chunk, map[string][]float64{"q": e.Columns["q"][2:4]})
	if err != nil {
		t.Fatal(err)
	}
	for k := range 3 {
		row := 1 + 2*k
		want := []float64{e.Columns["u"][2*row], e.Columns["u"][2*row+1], e.Columns["g"][row]}
		for i := range want {
			if math.Abs(abs[3*k+i]-want[i]) > 1e-12 {
				t.Errorf("step %d number %d is %v, want %v", k, i, abs[3*k+i], want[i])
			}
		}
	}
}

func seq(n int, scale float64) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = scale * math.Sin(float64(i*i))
	}
	return out
}

func TestNaNInARowIsNamed(t *testing.T) {
	s := mustPreset(t, PresetUMI, umiFeatures, 30, PresetOptions{})
	e := walk(5, 60)
	e.Columns[JointStates][2*9] = math.NaN()
	if err := s.EncodeTargets(make([]float64, 320), make([]bool, 16), e, 6); err == nil {
		t.Error("a NaN finger angle became a target")
	}
	e = walk(5, 60)
	e.Columns[RightHandPose][7*9+3] = math.Inf(1)
	if err := s.EncodeTargets(make([]float64, 320), make([]bool, 16), e, 6); err == nil {
		t.Error("an infinite quaternion became a target")
	}
}

// Holding means: each hand at its own pose of the observation (no motion, no turn), fingers as observed, a difference of zero; and no
// answer where nothing tells the present value.
func TestHoldChunkStaysWhereItIs(t *testing.T) {
	s := mustPreset(t, PresetUMI, umiFeatures, 30, PresetOptions{})
	still := []float64{0, 0, 0, 1, 0, 0, 0, 1, 0}
	row := append(append(append([]float64{}, still...), still...), 0.3, 0.4)
	chunk, ok := s.HoldChunk(map[string][]float64{JointStates: {0.3, 0.4}})
	if !ok || !slices.Equal(chunk, slices.Repeat(row, s.Horizon)) {
		t.Errorf("hold %v %v, want %d rows of %v", ok, chunk, s.Horizon, row)
	}
	if _, ok := s.HoldChunk(nil); ok {
		t.Error("holds at finger angles that were not observed")
	}
	joint := Spec{Horizon: 2, State: []Input{{Feature: "q", Representation: Absolute, SourceDim: 2}}, Action: []Output{
		{Name: "arm", Feature: "a", Representation: Absolute, SourceDim: 2},
		{Name: "delta", Feature: "d", Representation: DeltaToState, StateFeature: "q", SourceDim: 1}}}
	if chunk, ok := joint.HoldChunk(map[string][]float64{"q": {5, 6}}); !ok || !slices.Equal(chunk, []float64{5, 6, 0, 5, 6, 0}) {
		t.Errorf("joint space holds %v %v, want the only state of that length, and no difference", ok, chunk)
	}
	joint.Action[0].SourceDim = 3
	if _, ok := joint.HoldChunk(map[string][]float64{"q": {5, 6}}); ok {
		t.Error("holds three numbers at a state of two")
	}
}
