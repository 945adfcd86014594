package arm_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/pinch-robotics/pinch/deploy"
	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/armrt"
	"github.com/pinch-robotics/pinch/internal/robotmodel"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
)

// recorded answers with a fixed motion, row by row of policy time: what a policy said once, said again to any arm.
type recorded struct{ rateHz float64 }

// at is the motion of both hands since the start: a loop of 8 cm with 17 degrees of turning.
func (recorded) at(hand int, t float64) robotmodel.Transform {
	ramp := math.Min(1, t*t/(t*t+0.3))
	a := 2 * math.Pi * t / 5
	side := 1 - 2*float64(hand)
	p := robotmodel.Vec{0.04 * ramp * math.Sin(a), 0.03 * ramp * side * math.Sin(2*a), 0.04 * ramp * (1 - math.Cos(a))}
	half := 0.15 * ramp * math.Sin(a) / 2
	return robotmodel.FromQuat(p, [4]float64{0, math.Sin(half), 0, math.Cos(half)})
}

func (r recorded) Metadata() map[string]any {
	return deploy.Contract{RateHz: r.rateHz, Horizon: 32, PoseReference: deploy.ReferenceBody, PoseTiming: deploy.TimingNext, Checkpoint: "recorded"}.Map()
}

func (r recorded) Infer(_ context.Context, o deploy.Observation) (deploy.Chunk, error) {
	c := deploy.Chunk{Rows: 32, Cols: deploy.ActionColumns, Data: make([]float32, 32*deploy.ActionColumns)}
	for row := 0; row < c.Rows; row++ {
		t0 := o.Consumed.Seconds() + float64(row)/r.rateHz
		for hand := 0; hand < 2; hand++ {
			d := r.at(hand, t0).Inverse().Mul(r.at(hand, t0+1/r.rateHz))
			v := d.Pose().ArrayXYZXYZW()
			for k := range v {
				c.Data[row*c.Cols+7*hand+k] = float32(v[k])
			}
		}
		c.Data[row*c.Cols+14], c.Data[row*c.Cols+15] = 0.4, 0.4
	}
	return c, nil
}

// cellOf describes two arms of a model, side by side. The hands' mount is the one constant that differs besides the arm.
func cellOf(t *testing.T, model string) (armlink.Hello, [2]robotmodel.Arm) {
	t.Helper()
	h := deploy.FakeHello()
	var arms [2]robotmodel.Arm
	franka := robotmodel.FR3()
	rest := franka.Forward(franka.Rest)
	want := rest.Flange().Mul(robotmodel.FlangeFromHand())
	for i := range h.Arms {
		m, err := robotmodel.ByName(model)
		if err != nil {
			t.Fatal(err)
		}
		arms[i] = m
		h.Arms[i].Model = model
		if model == "fr3" {
			continue
		}
		h.Arms[i].WorldFromBase[0] = -0.55
		c := m.Forward(m.Rest)
		mount := robotmodel.Transform{R: c.Flange().R}.Inverse().Mul(robotmodel.Transform{R: want.R})
		mount.P = robotmodel.Vec{0, 0, 0.1}
		q := mount.Quat()
		h.Arms[i].FlangeFromHand = armlink.Pose{mount.P[0], mount.P[1], mount.P[2], q[0], q[1], q[2], q[3]}
	}
	return h, arms
}

// drive runs the recorded chunks on arms of a model and returns the commanded device poses, one a millisecond from the first motion on.
func drive(t *testing.T, model string, starts [2]deploy.HandStart) [2][]frames.Pose {
	t.Helper()
	hello, arms := cellOf(t, model)
	var out [2][]frames.Pose
	record := false
	fake, err := deploy.NewFake(deploy.FakeOptions{Hello: hello, Observe: func(_ int64, cmd [2]armrt.Command) {
		if !record {
			return
		}
		for i := range cmd {
			base, _ := frames.PoseFromXYZXYZW(hello.Arms[i].WorldFromBase)
			mount, _ := frames.PoseFromXYZXYZW(hello.Arms[i].FlangeFromHand)
			c := arms[i].Forward(cmd[i].Q)
			out[i] = append(out[i], robotmodel.FromPose(base).Mul(c.Flange()).Mul(robotmodel.FromPose(mount)).Pose())
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	s, err := deploy.Connect(ctx, deploy.DefaultCell(), deploy.ConnectOptions{Conn: fake.Conn(), OpenCamera: fake.OpenCamera})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Home(ctx, starts); err != nil {
		t.Fatalf("%s: %v", model, err)
	}
	record = true
	r, err := s.Run(ctx, deploy.RunOptions{Policy: recorded{30}, Prompt: "loop", MaxDuration: 6 * time.Second})
	if err != nil || r.Stopped() {
		t.Fatalf("%s: %+v, %v", model, r, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	fake.Wait()
	return out
}

// aligned cuts two paths so that they begin at the same moment of the motion: homing takes the arms different times, so that the first
// picture finds them at different phases of the cameras' clock, and one whole path is that much later.
func aligned(a, b []frames.Pose) (x, y []frames.Pose) {
	best, at := math.Inf(1), 0
	for shift := -300; shift <= 300; shift++ {
		sum := 0.0
		for k := 300; k+300 < min(len(a), len(b)); k += 50 {
			d, _ := a[k].Distance(b[k+shift])
			sum += d
		}
		if sum < best {
			best, at = sum, shift
		}
	}
	if at < 0 {
		return a[-at:], b
	}
	return a, b[at:]
}

// The same recorded chunks on Franka and on Universal Robots arms: only the cell differs, and the devices go the same way, less than 2 mm and one
// degree apart at every millisecond.
func TestSameChunksOnFrankaAndUR(t *testing.T) {
	var starts [2]deploy.HandStart
	franka := robotmodel.FR3()
	c := franka.Forward(franka.Rest)
	hand := c.Flange().Mul(robotmodel.FlangeFromHand())
	for i := range starts {
		at := robotmodel.Translation(-0.42, 0.3-0.6*float64(i), -0.12).Mul(hand)
		starts[i] = deploy.HandStart{Pose: at.Pose(), FingerRad: 0.4}
	}
	fr, ur := drive(t, "fr3", starts), drive(t, "ur5e", starts)
	for i, name := range deploy.Hands {
		fr[i], ur[i] = aligned(fr[i], ur[i])
		n := min(len(fr[i]), len(ur[i])) - 500 // the run ends by its length, at different phases of the motion
		if n < 5000 {
			t.Fatalf("%s: %d and %d milliseconds were driven", name, len(fr[i]), len(ur[i]))
		}
		way, far, turned := 0.0, 0.0, 0.0
		for k := 0; k < n; k++ {
			d, rad := fr[i][k].Distance(ur[i][k])
			far, turned = math.Max(far, d), math.Max(turned, rad)
			m, _ := fr[i][k].Distance(fr[i][0])
			way = math.Max(way, m)
		}
		t.Logf("%s hand: up to %.3f mm and %.4f degrees apart over %d ms, going out %.0f mm", name, far*1e3, turned*180/math.Pi, n, way*1e3)
		if far > 0.002 || turned > math.Pi/180 {
			t.Errorf("%s: the devices are %.2f mm and %.2f degrees apart", name, far*1e3, turned*180/math.Pi)
		}
		if way < 0.05 {
			t.Errorf("%s: the hand went out only %.0f mm", name, way*1e3)
		}
	}
}
