package train

import (
	"context"
	"math"
	"path/filepath"
	"testing"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/internal/testpeer"
	"github.com/pinch-robotics/pinch/policy"
)

// A recording of somebody else's robot: 26 joints, one AV1 camera, two of its hundred episodes present.
func TestRealJointSpaceRecording(t *testing.T) {
	source := testpeer.Data(t, "real/unitree_g1_v21")
	testpeer.Program(t, "ffmpeg", "ffmpeg")
	if testing.Short() {
		t.Skip("decodes 736 frames of AV1")
	}
	data := filepath.Join(t.TempDir(), "unitree")
	if _, err := dataset.Extract(context.Background(), source, data, nil, dataset.ExtractOptions{}); err != nil {
		t.Fatal(err)
	}
	c := small(data, filepath.Join(t.TempDir(), "run"))
	c.Horizon, c.MaxTokens, c.Steps, c.Warmup, c.Batch, c.Draws, c.Rate = 8, 64, 120, 5, 16, 4, 4e-3
	c.LogEvery, c.SaveEvery, c.ReportRows, c.EMAMax = 20, 0, 40, 0.9
	r := mustRun(t, c)
	m := r.Manifest
	if m.Spec.Preset != policy.PresetJoint || m.Action.Dim != 26 || m.Action.RateHz != 30 || m.Spec.Action[0].Representation != policy.DeltaToState || m.Data.Split != splitTail {
		t.Fatalf("manifest %+v", m)
	}
	ch := r.Report.Channels[0]
	if !r.Report.HeldOut || len(ch.Policy) != 8 || ch.Hold == nil {
		t.Fatalf("report %+v", r.Report)
	}
	if want := holdError(t, data, r, 0); math.Abs(ch.Hold[0]-want) > 1e-9 {
		t.Errorf("hold baseline %v, by hand %v", ch.Hold[0], want)
	}
	// So few steps make no good policy, but one that knows where the joints are: far inside their spread over the recording.
	if p, spread := Total(ch.Policy), actionSpread(t, data); !(p < 0.5*spread) {
		t.Errorf("held-out error %.4f rad, the actions spread by %.4f rad", p, spread)
	}
	// What is served are joint angles: near the state, not differences to it.
	p, err := policy.Load(c.Out, policy.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if p.Manifest().Checkpoint != m.Checkpoint {
		t.Error("another checkpoint was loaded")
	}
}

// holdError is the root mean square of action minus state at the report's rows, from the columns alone.
func holdError(t *testing.T, data string, r Result, step int) float64 {
	t.Helper()
	ds, err := dataset.Open(data)
	if err != nil {
		t.Fatal(err)
	}
	type place struct{ episode, row int }
	var rows []place
	columns := map[int][2][]float64{}
	for _, e := range ds.Episodes() {
		s, err := dataset.ReadColumn[float64](ds, "observation.state", e.Index)
		if err != nil {
			t.Fatal(err)
		}
		a, err := dataset.ReadColumn[float64](ds, "action", e.Index)
		if err != nil {
			t.Fatal(err)
		}
		columns[e.Index] = [2][]float64{s, a}
		for row := e.Length - int(0.1*float64(e.Length)+0.5); row < e.Length; row++ {
			rows = append(rows, place{e.Index, row})
		}
	}
	sum, n := 0.0, 0
	for i := range r.Report.Rows {
		at := rows[i*len(rows)/r.Report.Rows]
		c := columns[at.episode]
		if (at.row+step+1)*26 > len(c[1]) {
			continue
		}
		for j := range 26 {
			d := c[1][(at.row+step)*26+j] - c[0][at.row*26+j]
			sum += d * d
		}
		n += 26
	}
	return math.Sqrt(sum / float64(n))
}

// actionSpread is the root mean square of the actions about their mean, over joints and rows.
func actionSpread(t *testing.T, data string) float64 {
	t.Helper()
	ds, err := dataset.Open(data)
	if err != nil {
		t.Fatal(err)
	}
	var all []float64
	for _, e := range ds.Episodes() {
		a, err := dataset.ReadColumn[float64](ds, "action", e.Index)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, a...)
	}
	var mean, square [26]float64
	rows := float64(len(all) / 26)
	for i, v := range all {
		mean[i%26] += v / rows
		square[i%26] += v * v / rows
	}
	sum := 0.0
	for j := range mean {
		sum += square[j] - mean[j]*mean[j]
	}
	return math.Sqrt(sum / 26)
}
