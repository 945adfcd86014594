package calibrate

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/spatial/r3"

	"github.com/pinch-robotics/pinch/deploy"
	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/armrt"
	"github.com/pinch-robotics/pinch/internal/robotmodel"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
)

// camera shows stripes that move with the hand; its stamps are late.
type camera struct {
	frames chan deploy.Frame
	once   sync.Once
	closed chan struct{}
}

func newCamera() *camera {
	return &camera{frames: make(chan deploy.Frame, 1000), closed: make(chan struct{})}
}

// shoot takes a picture of stripes 40 pixels wide, shifted by the hand's way: 3 pixels for a millimetre.
func (c *camera) shoot(at int64, way float64) {
	im := image.NewGray(image.Rect(0, 0, 160, 120))
	for x := range 160 {
		v := uint8(128 + 100*math.Sin(2*math.Pi*(float64(x)+3000*way)/80))
		for y := range 120 {
			im.SetGray(x, y, color.Gray{Y: v})
		}
	}
	var b bytes.Buffer
	if err := jpeg.Encode(&b, im, nil); err != nil {
		panic(err)
	}
	c.frames <- deploy.Frame{CaptureNS: at, JPEG: b.Bytes()}
}

// Next implements deploy.FrameSource.
func (c *camera) Next(ctx context.Context) (deploy.Frame, error) {
	select {
	case f := <-c.frames:
		return f, nil
	case <-c.closed:
		return deploy.Frame{}, io.EOF
	case <-ctx.Done():
		return deploy.Frame{}, ctx.Err()
	}
}

// Close implements deploy.FrameSource.
func (c *camera) Close() error {
	c.once.Do(func() { close(c.closed) })
	return nil
}

func connect(t *testing.T, cell deploy.Cell, o deploy.FakeOptions, cameras map[string]*camera) *deploy.Session {
	t.Helper()
	o.FingerRad = [2]float64{0.4, 0.4}
	f, err := deploy.NewFake(o)
	if err != nil {
		t.Fatal(err)
	}
	open := f.OpenCamera
	if cameras != nil {
		open = func(_ context.Context, info armlink.CameraInfo) (deploy.FrameSource, error) {
			return cameras[info.Name], nil
		}
	}
	s, err := deploy.Connect(context.Background(), cell, deploy.ConnectOptions{Conn: f.Conn(), OpenCamera: open})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		f.Wait()
	})
	return s
}

// Arms that lag by 30 ms, cameras whose stamps are 40 and 15 ms late: each is found within 2 ms, and the stated error says so.
func TestLatencies(t *testing.T) {
	planted := map[string]int64{"left": 40e6, "right": 15e6}
	cameras := map[string]*camera{"left": newCamera(), "right": newCamera()}
	hello := deploy.FakeHello()
	for i := range hello.Cameras {
		hello.Cameras[i].PeriodNS = 40e6
	}
	lag := 30.0 // ms
	fr3, flange := robotmodel.FR3(), robotmodel.FlangeFromHand()
	var q [2]armlink.Joints
	var base [2]robotmodel.Vec
	seen := false
	opts := deploy.FakeOptions{Hello: hello, Lag: 30 * time.Millisecond, Observe: func(tNS int64, cmd [2]armrt.Command) {
		for h, name := range deploy.Hands {
			if !seen {
				q[h] = cmd[h].Q
			}
			for j := range q[h] { // the arm's own lag
				q[h][j] += (cmd[h].Q[j] - q[h][j]) / (lag + 1)
			}
			c := fr3.Forward(q[h])
			p := c.Flange().Mul(flange).P
			if !seen {
				base[h] = p
			}
			if ms := tNS / 1e6; ms%40 == 10 {
				cameras[name].shoot(tNS+planted[name], p[0]-base[h][0]+p[1]-base[h][1]+p[2]-base[h][2])
			}
		}
		seen = true
	}}
	s := connect(t, deploy.DefaultCell(), opts, cameras)
	l, err := Latencies(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	for h, name := range deploy.Hands {
		if l.Blind[h] != nil {
			t.Fatal(l.Blind[h])
		}
		for what, v := range map[string]struct {
			e    Estimate
			want float64
		}{"arm": {l.Action[h], lag}, "camera": {l.Camera[h], float64(planted[name]) / 1e6}} {
			t.Logf("%s %s: %.2f ms ± %.2f, truth %.0f", name, what, v.e.Value, v.e.Error, v.want)
			if off := math.Abs(v.e.Value - v.want); off > 2 || v.e.Error > 3 || v.e.Error < 0.5 {
				t.Errorf("%s %s: %.2f ms ± %.2f, truth %.0f", name, what, v.e.Value, v.e.Error, v.want)
			}
		}
	}
}

// Cameras that show nothing say so; the arms are measured all the same.
func TestBlindCameras(t *testing.T) {
	s := connect(t, deploy.DefaultCell(), deploy.FakeOptions{Lag: 15 * time.Millisecond}, nil)
	l, err := Latencies(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	if l.Blind[0] == nil || l.Blind[1] == nil || math.Abs(l.Action[0].Value-15) > 1 {
		t.Errorf("%+v", l)
	}
}

// Fingers that lag by 40 ms are found within 2 ms, and that they go where they are told.
func TestGrippers(t *testing.T) {
	s := connect(t, deploy.DefaultCell(), deploy.FakeOptions{FingerLag: 40 * time.Millisecond}, nil)
	g, err := Grippers(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	for h, name := range deploy.Hands {
		t.Logf("%s: %.2f ms ± %.2f, truth 40", name, g[h].Latency.Value, g[h].Latency.Error)
		if math.Abs(g[h].Latency.Value-40) > 2 || g[h].Worst > 1e-3 {
			t.Errorf("%s: %+v", name, g[h])
		}
	}
}

// guided is a fake cell whose arms a person moves: joints are wherever at says.
type guided struct {
	mu sync.Mutex
	q  [2]armlink.Joints
}

func (g *guided) hold(_ int64, hand int, _ armlink.Joints) armlink.Joints {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.q[hand]
}

// put brings the tips of a hand, whose flange carries them at flangeFromTip, to a point of the arm's base, turned by random angles around straight down.
func (g *guided) put(t *testing.T, rng *rand.Rand, hand int, base frames.Pose, tip r3.Vec, mount frames.Pose, point r3.Vec, turn float64) {
	t.Helper()
	fr3 := robotmodel.FR3()
	down := frames.QuatFromAxisAngle(r3.Vec{Y: 1}, math.Pi/2)
	rot := frames.QuatFromRPY(turn*(2*rng.Float64()-1), turn*(2*rng.Float64()-1), turn*(2*rng.Float64()-1)).Mul(down)
	want := frames.Pose{Pos: r3.Sub(point, rot.Rotate(tip)), Rot: rot}
	flange := robotmodel.FromPose(base.Inv().Mul(want).Mul(mount.Inv()))
	q := fr3.Rest
	for range 300 { // damped least squares
		c := fr3.Forward(q)
		at := c.Flange()
		jac := c.JacobianAt(at.P, 7)
		w := robotmodel.RotationError(at, flange)
		e, jj := mat.NewVecDense(6, nil), mat.NewDense(6, 7, nil)
		for k := range 3 {
			e.SetVec(k, flange.P[k]-at.P[k])
			e.SetVec(k+3, w[k])
		}
		for k := range jac {
			jj.SetRow(k, jac[k][:])
		}
		var a mat.Dense
		a.Mul(jj, jj.T())
		for k := range 6 {
			a.Set(k, k, a.At(k, k)+1e-4)
		}
		var x, step mat.VecDense
		if err := x.SolveVec(&a, e); err != nil {
			t.Fatal(err)
		}
		step.MulVec(jj.T(), &x)
		for j := range q {
			q[j] += 0.5 * step.AtVec(j)
		}
	}
	c := fr3.Forward(q)
	if d := r3.Norm(r3.Sub(c.Flange().Pose().Pos, flange.Pose().Pos)); d > 2e-4 {
		t.Fatalf("the arm does not reach the posture: %.4f m", d)
	}
	g.mu.Lock()
	g.q[hand] = q
	g.mu.Unlock()
}

// exact is where the tips of a posture really are.
func (g *guided) exact(hand int, base, mount frames.Pose, tip r3.Vec) r3.Vec {
	fr3 := robotmodel.FR3()
	c := fr3.Forward(g.q[hand])
	return base.Mul(c.Flange().Pose()).Mul(mount).Apply(tip)
}

func pose(t *testing.T, p armlink.Pose) frames.Pose {
	t.Helper()
	out, err := frames.PoseFromXYZXYZW(p)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A mount that is 6 mm off is found within 0.3 mm; with the correction in the cell file nothing is left. Postures that are all alike are refused.
func TestTCP(t *testing.T) {
	h := deploy.FakeHello()
	base, mount := pose(t, h.Arms[1].WorldFromBase), pose(t, h.Arms[1].FlangeFromHand)
	planted := r3.Vec{X: 0.004, Y: -0.003, Z: 0.0035}
	g := &guided{q: [2]armlink.Joints{robotmodel.FR3().Rest, robotmodel.FR3().Rest}}
	rng := rand.New(rand.NewPCG(1, 2))
	dimple := r3.Vec{X: 0.05, Y: -0.25, Z: 0.1}
	measure := func(cell deploy.Cell, turn float64) (Point, error) {
		s := connect(t, cell, deploy.FakeOptions{Hold: g.hold}, nil)
		return TCP(context.Background(), s, 1, func(string) error {
			g.put(t, rng, 1, base, r3.Add(tipOf(), planted), mount, dimple, turn)
			return nil
		})
	}
	p, err := measure(deploy.DefaultCell(), 0.5)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("offset (%.2f, %.2f, %.2f) mm ± %.2f, truth (4, -3, 3.5)", 1e3*p.Value.X, 1e3*p.Value.Y, 1e3*p.Value.Z, 1e3*p.Error)
	if off := r3.Norm(r3.Sub(p.Value, planted)); off > 3e-4 || p.Rest > 3e-4 {
		t.Errorf("%+v is %.2f mm from the truth", p, 1e3*off)
	}
	cell := deploy.DefaultCell()
	cell.Calibration.RightTipM = []float64{p.Value.X, p.Value.Y, p.Value.Z}
	if again, err := measure(cell, 0.5); err != nil || r3.Norm(again.Value) > 3e-4 {
		t.Errorf("with the correction %+v, %v", again, err)
	}
	if _, err := measure(deploy.DefaultCell(), 0.03); err == nil || !strings.Contains(err.Error(), "too much alike") {
		t.Errorf("postures alike: error %v", err)
	}
}

// A right arm that stands 25 mm and 1.5 degrees from where the cell says is found within 0.5 mm; with the correction the hands agree.
func TestBases(t *testing.T) {
	h := deploy.FakeHello()
	var base, mount [2]frames.Pose
	for i, a := range h.Arms {
		base[i], mount[i] = pose(t, a.WorldFromBase), pose(t, a.FlangeFromHand)
	}
	planted := frames.Pose{Pos: r3.Vec{X: 0.02, Y: -0.015, Z: 0.004}, Rot: frames.QuatFromRPY(0.004, -0.006, 0.026)}
	base[1] = planted.Mul(base[1])
	g := &guided{q: [2]armlink.Joints{robotmodel.FR3().Rest, robotmodel.FR3().Rest}}
	rng := rand.New(rand.NewPCG(3, 4))
	points := []r3.Vec{{X: -0.05, Y: -0.1, Z: 0.05}, {X: 0.12, Y: -0.1, Z: 0.05}, {X: -0.05, Y: 0.1, Z: 0.08}, {X: 0.12, Y: 0.1, Z: 0.05}, {X: 0.03, Y: 0, Z: 0.2}}
	measure := func(cell deploy.Cell) Base {
		n := 0
		s := connect(t, cell, deploy.FakeOptions{Hold: g.hold}, nil)
		b, err := Bases(context.Background(), s, func(string) error {
			g.put(t, rng, n%2, base[n%2], tipOf(), mount[n%2], points[n/2], 0.2)
			n++
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	b := measure(deploy.DefaultCell())
	work := r3.Vec{X: 0.05, Y: 0, Z: 0.1} // where it matters
	off := r3.Norm(r3.Sub(b.Correction.Apply(work), planted.Apply(work)))
	_, rad := b.Correction.Distance(planted)
	t.Logf("the hands are %.2f mm and %.4f rad from the truth, %.2f mm are left", 1e3*off, rad, 1e3*b.Rest)
	if off > 5e-4 || rad > 3e-3 || b.Rest > 5e-4 {
		t.Errorf("%+v, truth %+v", b, planted)
	}
	cell := deploy.DefaultCell()
	v := b.Correction.Rot.Log()
	cell.Calibration.RightBaseMRad = []float64{b.Correction.Pos.X, b.Correction.Pos.Y, b.Correction.Pos.Z, v.X, v.Y, v.Z}
	if again := measure(cell); r3.Norm(r3.Sub(again.Correction.Apply(work), work)) > 5e-4 {
		t.Errorf("with the correction %+v", again)
	}
}

// The frame check moves six times and asks; a no names hand and axis.
func TestFrames(t *testing.T) {
	s := connect(t, deploy.DefaultCell(), deploy.FakeOptions{Lag: 10 * time.Millisecond}, nil)
	start := [2]frames.Pose{s.HandPose(0), s.HandPose(1)}
	var asked []string
	if err := Frames(context.Background(), s, func(q string) (bool, error) { asked = append(asked, q); return true, nil }); err != nil {
		t.Fatal(err)
	}
	if len(asked) != 6 || !strings.Contains(asked[0], "left hand") || !strings.Contains(asked[5], "+z") {
		t.Errorf("asked %q", asked)
	}
	for h := range start {
		if m, _ := start[h].Distance(s.HandPose(h)); m > 0.002 {
			t.Errorf("the %s hand ended %.4f m from where it began", deploy.Hands[h], m)
		}
	}
	n := 0
	err := Frames(context.Background(), s, func(string) (bool, error) { n++; return n < 5, nil })
	if err == nil || !strings.Contains(err.Error(), "right hand: +y") {
		t.Errorf("error %v", err)
	}
}

// A value replaces its line and keeps the comment, a new one is added to its section, a missing file begins; a value that makes no cell file is refused.
func TestSave(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cell.yaml")
	text := "# ours\ncontrol:\n    lead_ms: 300   # long\n    action_latency_ms: 5   # by hand\nsafety: {}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Save(path, []Setting{{"control.action_latency_ms", "31.5"}, {"calibration.left_tip_m", "[0.001, 0, 0]"}, {"safety.stall_ms", "6000"}}); err != nil {
		t.Fatal(err)
	}
	got, _ := os.ReadFile(path)
	want := "# ours\ncontrol:\n    lead_ms: 300   # long\n    action_latency_ms: 31.5  # by hand\nsafety:\n  stall_ms: 6000\ncalibration:\n  left_tip_m: [0.001, 0, 0]\n"
	if string(got) != want {
		t.Errorf("wrote\n%s", got)
	}
	c, err := deploy.LoadCell(path)
	if err != nil || c.Control.ActionLatencyMS != 31.5 || c.Control.LeadMS != 300 || c.Calibration.LeftTipM[0] != 0.001 || c.Safety.StallMS != 6000 {
		t.Errorf("%+v, %v", c, err)
	}
	if err := Save(path, []Setting{{"control.action_latency_ms", "soon"}}); err == nil {
		t.Error("a word was saved for a number")
	}
	if after, _ := os.ReadFile(path); !bytes.Equal(after, got) {
		t.Error("a refused value changed the file")
	}
	fresh := filepath.Join(t.TempDir(), "new.yaml")
	if err := Save(fresh, []Setting{{"control.gripper_latency_ms", fmt.Sprint(44)}}); err != nil {
		t.Fatal(err)
	}
	if c, err := deploy.LoadCell(fresh); err != nil || c.Control.GripperLatencyMS != 44 {
		t.Errorf("%+v, %v", c.Control, err)
	}
}
