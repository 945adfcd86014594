package deploy

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"gonum.org/v1/gonum/spatial/r3"

	"github.com/pinch-robotics/pinch/frames"
)

// Chunks of exact deltas integrate back to the motion they were made of, whatever the signs and lengths of their quaternions.
func TestAbsoluteInvertsDeltas(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	c := referenceChunk(0.7, 30)
	for k := 0; k < 16; k++ {
		for _, o := range []int{3, 10} {
			f := float32(0.3+rng.Float64()) * float32(1-2*rng.IntN(2)) // antipodal, not normalised
			for i := o; i < o+4; i++ {
				c.Data[16*k+i] *= f
			}
		}
	}
	base := [2]frames.Pose{reference(0, 0.7), reference(1, 0.7)}
	rows, err := absolute(c, base, ReferenceBody)
	if err != nil {
		t.Fatal(err)
	}
	for k := range rows {
		for h := range base {
			m, rad := rows[k].pose[h].Distance(reference(h, 0.7+float64(k+1)/30))
			if m > 1e-6 || rad > 1e-6 {
				t.Errorf("row %d %s: off by %.2e m %.2e rad", k, Hands[h], m, rad)
			}
		}
	}
}

// Body and world deltas differ exactly by the rotation of the hand: a hand turned by 90 degrees about z moving along its own x moves along y.
func TestBodyAndWorldReference(t *testing.T) {
	c := Chunk{Rows: 16, Cols: 16, Data: make([]float32, 256)}
	for k := 0; k < 16; k++ {
		setRow(c.Data[16*k:], [7]float64{0.01, 0, 0, 0, 0, 0, 1}, [7]float64{6: 1}, [2]float64{})
	}
	turned := frames.Pose{Rot: frames.QuatFromRPY(0, 0, math.Pi/2)}
	for ref, want := range map[Reference]r3.Vec{ReferenceBody: {Y: 0.16}, ReferenceWorld: {X: 0.16}} {
		rows, err := absolute(c, [2]frames.Pose{turned, frames.Identity}, ref)
		if err != nil {
			t.Fatal(err)
		}
		if got := rows[15].pose[0].Pos; r3.Norm(r3.Sub(got, want)) > 1e-7 {
			t.Errorf("%s: ends at %v, want %v", ref, got, want)
		}
	}
}

// The curve passes through its knots, and velocity and acceleration (by finite differences) have no jump at them.
func TestCurveIsSmooth(t *testing.T) {
	base := [2]frames.Pose{reference(0, 1), reference(1, 1)}
	rows, err := absolute(referenceChunk(1, 30), base, ReferenceBody)
	if err != nil {
		t.Fatal(err)
	}
	const step = 1.0 / 30
	c := newCurve(base, 1, rows, 1+step, 1+step, step)
	for k, r := range rows {
		got := c.at(1 + float64(k+1)*step)
		for h := range r.pose {
			if m, rad := got.pose[h].Distance(r.pose[h]); m > 1e-12 || rad > 1e-7 {
				t.Errorf("row %d %s: curve is %.2e m %.2e rad off", k, Hands[h], m, rad)
			}
		}
	}
	const e = 1e-4
	velocity := func(at float64) (lin, ang r3.Vec) {
		a, b := c.at(at - e/2).pose[0], c.at(at + e/2).pose[0]
		return r3.Scale(1/e, r3.Sub(b.Pos, a.Pos)), r3.Scale(1/e, a.Rot.Inv().Mul(b.Rot).Log())
	}
	for k := 1; k < 15; k++ {
		at := 1 + float64(k)*step
		l0, w0 := velocity(at - e)
		l1, w1 := velocity(at + e)
		if j := r3.Norm(r3.Sub(l1, l0)); j > 2*e*1.0 {
			t.Errorf("knot %d: velocity jumps by %.2e m/s", k, j)
		}
		if j := r3.Norm(r3.Sub(w1, w0)); j > 2*e*3.0 {
			t.Errorf("knot %d: angular velocity jumps by %.2e rad/s", k, j)
		}
		// Between the knots it stays with the motion it was sampled from.
		mid := at + step/2
		if m, rad := c.at(mid).pose[0].Distance(reference(0, mid)); m > 1e-4 || rad > 1e-3 {
			t.Errorf("between knots %d and %d: %.2e m %.2e rad from the reference", k, k+1, m, rad)
		}
	}
}

// A seam between two chunks that disagree by 2 cm: the commanded path has no step, and ends on the new chunk.
func TestSeamFadesTheOffset(t *testing.T) {
	still := func(x float64) *curve {
		p := [2]frames.Pose{frames.Translation(r3.Vec{X: x}), frames.Identity}
		rows := make([]hands, 16)
		for k := range rows {
			rows[k] = hands{pose: p, finger: [2]float64{x, 0}}
		}
		return newCurve(p, 0, rows, 1.0/30, 1.0/30, 1.0/30)
	}
	old := standing(hands{pose: [2]frames.Pose{frames.Identity, frames.Identity}}, 0, 0.01).blend(still(0), 0, 0.15, 16, 0, 1.0/30)
	now := old.blend(still(0.02), 0.1, 0.15, 16, 0, 1.0/30)
	last, worstV, worstA, v := 0.0, 0.0, 0.0, 0.0
	for i := range now.sample {
		x := now.sample[i].pose[0].Pos.X
		nv := (x - last) / 0.01
		worstV = math.Max(worstV, math.Abs(nv))
		worstA = math.Max(worstA, math.Abs(nv-v)/0.01)
		last, v = x, nv
	}
	// The quintic's peaks: 15/8 d/T and 10/sqrt(3) d/T².
	if wantV, wantA := 15.0/8*0.02/0.15, 10/math.Sqrt(3)*0.02/0.15/0.15; worstV > wantV*1.01 || worstA > wantA*1.05 {
		t.Errorf("seam reaches %.3f m/s and %.2f m/s², the quintic's peaks are %.3f and %.2f", worstV, worstA, wantV, wantA)
	}
	if last != 0.02 {
		t.Errorf("seam ends at %v, want the new chunk's 0.02", last)
	}
}

func TestImpliedSpeed(t *testing.T) {
	c, _ := Hold{RateHz: 30}.Infer(context.Background(), Observation{})
	c.Data[16*7+9] = -0.02 // right hand z in row 7: 2 cm in 1/30 s
	half := 0.05           // left hand turns by 0.1 rad in row 3
	c.Data[16*3+3], c.Data[16*3+6] = float32(math.Sin(half)), float32(math.Cos(half))
	speed, rate, at := impliedSpeed(c, 30)
	if math.Abs(speed-0.6) > 1e-6 || math.Abs(rate-3) > 1e-5 || at != 7 && at != 3 {
		t.Errorf("%v m/s %v rad/s at row %d, want 0.6, 3", speed, rate, at)
	}
}

// The latency to plan for leaves the warm-up out and forgets an old peak.
func TestLatencyEstimate(t *testing.T) {
	l := latencies{initial: 100 * time.Millisecond}
	if l.expect() != l.initial {
		t.Error("before any answer the configured value counts")
	}
	l.add(12*time.Second, true)
	if l.expect() != l.initial {
		t.Errorf("warm-up counts: %v", l.expect())
	}
	for i := 0; i < 40; i++ {
		d := 50 * time.Millisecond
		if i < 5 {
			d = time.Second
		}
		l.add(d, true)
		if i == 4 && l.expect() != time.Second {
			t.Errorf("while slow: %v", l.expect())
		}
	}
	if l.expect() != 50*time.Millisecond {
		t.Errorf("an old peak sticks: %v", l.expect())
	}
	if s := l.summary(); s.N != 40 || s.P50 != 50*time.Millisecond || s.Max != time.Second {
		t.Errorf("summary %+v", s)
	}
}

func TestBaselines(t *testing.T) {
	ctx := context.Background()
	obs := testObservation("x")
	c, err := Hold{RateHz: 30}.Infer(ctx, obs)
	if err != nil || c.Check() != nil {
		t.Fatal(err, c.Check())
	}
	base := [2]frames.Pose{reference(0, 1), reference(1, 1)}
	rows, _ := absolute(c, base, ReferenceBody)
	for h := range base {
		if m, rad := rows[15].pose[h].Distance(base[h]); m > 1e-15 || rad > 1e-7 || rows[15].finger != obs.FingerRad {
			t.Errorf("hold moves the %s hand by %v m %v rad, fingers to %v", Hands[h], m, rad, rows[15].finger)
		}
	}
	var d Demonstration
	d.RateHz = 30
	for i := 0; i < 40; i++ {
		d.Hands = append(d.Hands, [2]frames.Pose{reference(0, float64(i)/30), reference(1, float64(i)/30)})
		d.FingerRad = append(d.FingerRad, [2]float64{float64(i), -float64(i)})
	}
	r, err := NewReplay(d)
	if err != nil {
		t.Fatal(err)
	}
	obs.Consumed = time.Second
	if c, err = r.Infer(ctx, obs); err != nil {
		t.Fatal(err)
	}
	rows, _ = absolute(c, d.Hands[30], ReferenceBody)
	for k, want := range map[int]int{0: 31, 8: 39, 15: 39} { // holds at the end
		if m, _ := rows[k].pose[1].Distance(d.Hands[want][1]); m > 1e-6 || rows[k].finger[0] != float64(want) {
			t.Errorf("row %d is not demonstration row %d (%.2e m, finger %v)", k, want, m, rows[k].finger[0])
		}
	}
	if _, err := NewReplay(Demonstration{RateHz: 30}); err == nil {
		t.Error("an empty demonstration was taken")
	}
	probe := &echo{}
	if c, err = (Blank{probe}).Infer(ctx, obs); err != nil || c.Data[16] != 0 || c.Data[17] != 0 {
		t.Errorf("blank shows pixels %v %v", c.Data[16], c.Data[17])
	}
	if obs.Left.Pix[(2*640+3)*3] != 77 {
		t.Error("blank blackened the caller's picture")
	}
}
