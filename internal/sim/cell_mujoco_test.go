//go:build mujoco && cgo

package sim

import (
	"bytes"
	"image/jpeg"
	"math"
	"strings"
	"testing"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/robotmodel"
)

func newCell(t *testing.T, cfg Config) *Cell {
	t.Helper()
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// The compiled arm is the DH table's arm: flange poses at the vectors published for these parameters, and everywhere else that of
// robotmodel, which computes it another way.
func TestArmKinematics(t *testing.T) {
	c := newCell(t, Config{Mode: ModeRobot})
	flangeFromHand := poseOf(robotmodel.FlangeFromHand())
	flange := func(s Side, q [7]float64) frames.Pose {
		for i, j := range c.hands[s].joints {
			c.eng.setJoint(j, q[i])
		}
		c.eng.forward()
		return CellFromBase(s).Inv().Mul(c.HandPose(s)).Mul(flangeFromHand.Inv())
	}
	for _, v := range []struct {
		q, p [7]float64 // p: 3 used
		r    [3][3]float64
	}{
		{[7]float64{0, -math.Pi / 4, 0, -3 * math.Pi / 4, 0, math.Pi / 2, math.Pi / 4}, [7]float64{0.306891, 0, 0.590282},
			[3][3]float64{{.70711, -.70711, 0}, {-.70711, -.70711, 0}, {0, 0, -1}}},
		{[7]float64{}, [7]float64{0.088, 0, 0.926}, [3][3]float64{{1, 0, 0}, {0, -1, 0}, {0, 0, -1}}},
		{[7]float64{.1, .2, .3, -1.4, .5, 1.6, .7}, [7]float64{0.555626, 0.267810, 0.611174},
			[3][3]float64{{.91429, -.35599, -.19325}, {-.22300, -.84064, .49356}, {-.33816, -.40816, -.84797}}},
	} {
		for _, s := range Sides {
			got := flange(s, v.q)
			if d := norm(sub(got.Pos, vec(v.p[0], v.p[1], v.p[2]))); d > 1e-6 {
				t.Errorf("%s arm at %v: flange %v is %v m off", s, v.q, got.Pos, d)
			}
			m := got.Rot.Matrix()
			for i := range m {
				for j := range m[i] {
					if math.Abs(m[i][j]-v.r[i][j]) > 1e-5 {
						t.Errorf("%s arm at %v: R[%d][%d] %v, want %v", s, v.q, i, j, m[i][j], v.r[i][j])
					}
				}
			}
		}
	}
	arm := robotmodel.FR3()
	for i := range 20 {
		q := arm.Rest
		for j := range q {
			q[j] = arm.Limits.QMin[j] + math.Mod(0.618*float64(i*7+j+1), 1)*(arm.Limits.QMax[j]-arm.Limits.QMin[j])
		}
		chain := arm.Forward(q)
		if d, a := flange(Left, q).Distance(poseOf(chain.Flange())); d > 1e-9 || a > 1e-7 {
			t.Errorf("at %v the flange is %v m, %v rad from the table's", q, d, a)
		}
	}
}

// The fingers turn about the rig's pivots; closed, the pads meet in the middle plane; at the contact angle they lie flat on a block.
func TestGripperGeometry(t *testing.T) {
	c := newCell(t, Config{Mode: ModeHandheld})
	g := robotmodel.YUBI()
	for _, s := range Sides {
		hand := c.HandPose(s)
		for _, q := range []float64{0, 0.2, 0.94} {
			c.placeFingers(s, q)
			c.eng.forward()
			for finger, mirror := range map[string]float64{"right": 1, "left": -1} {
				link := hand.Inv().Mul(c.eng.pose(c.eng.body(s.String() + "_" + finger + "_finger_link")))
				tip := link.Apply(vec(g.TipFromPivot[0], mirror*g.TipFromPivot[1], g.TipFromPivot[2]))
				right, left := g.Tips(q)
				want := right
				if finger == "left" {
					want = left
				}
				if d := norm(sub(tip, vec(want[0], want[1], want[2]))); d > 1e-9 {
					t.Errorf("%s hand at %v rad: %s tip %v is %v m off", s, q, finger, tip, d)
				}
				pad := hand.Inv().Mul(c.eng.pose(c.eng.body(s.String() + "_" + finger + "_pad"))).Apply(vec(padHalfLength, mirror*padHalfThickness, 0))
				right, left = g.Pads(q)
				if want = right; finger == "left" {
					want = left
				}
				if d := norm(sub(pad, vec(want[0], want[1], want[2]))); d > 1e-9 {
					t.Errorf("%s hand at %v rad: %s pad ends at %v, %v m off", s, q, finger, pad, d)
				}
			}
		}
		inner := func(finger string, along, side float64) r3Vec { // a point on a pad's face, in hand_root
			return hand.Inv().Mul(c.eng.pose(c.eng.body(s.String() + "_" + finger + "_pad"))).Apply(vec(along, side*padHalfThickness, 0))
		}
		c.placeFingers(s, 0)
		c.eng.forward()
		if gap := inner("left", padHalfLength, -1).Y - inner("right", padHalfLength, 1).Y; math.Abs(gap-0.001) > 1e-9 {
			t.Errorf("%s hand closed: pads are %v m apart at the tips, want %v", s, gap, 0.001)
		}
		c.placeFingers(s, ContactAngle(BlockHalfWidth))
		c.eng.forward()
		for _, along := range []float64{-padHalfLength, 0, padHalfLength} {
			if gap := inner("left", along, -1).Y - inner("right", along, 1).Y; math.Abs(gap-2*BlockHalfWidth) > 1e-9 {
				t.Errorf("%s hand at the contact angle: pads %v m apart %v m from their middle, want the block's %v", s, gap, along, 2*BlockHalfWidth)
			}
		}
	}
}

// The wrist camera sits at hand_cam_link and looks along +X with +Z up: the block's middle must appear where a pinhole camera
// there shows it.
func TestWristCameraGeometry(t *testing.T) {
	c := newCell(t, Config{Mode: ModeRobot, RenderThreads: 1})
	size := c.cfg.Wrist
	focal := float64(size.Height) / 2 / math.Tan(wristFovyDeg*math.Pi/360)
	cam := robotmodel.YUBI().HandFromCamera.P
	for i := range 4 {
		if err := c.Reset(NewCondition(Eval, i)); err != nil {
			t.Fatal(err)
		}
		f, err := c.Render(Shot{Camera: RightWrist, RGB: true})
		if err != nil {
			t.Fatal(err)
		}
		// Middle of the red area, against the middle of the projected upper face.
		var n, sx, sy float64
		for k := range size.Width * size.Height {
			if p := f[0].RGB[3*k:]; p[0] > 200 && p[1] < 60 && p[2] < 60 { // the lit upper face
				n, sx, sy = n+1, sx+float64(k%size.Width)+0.5, sy+float64(k/size.Width)+0.5
			}
		}
		top := c.Truth().Block.Apply(vec(0, 0, BlockHalfHeight))
		p := sub(c.HandPose(Right).Inv().Apply(top), vec(cam[0], cam[1], cam[2]))
		wantX, wantY := float64(size.Width)/2-focal*p.Y/p.X, float64(size.Height)/2-focal*p.Z/p.X
		if n < 200 || math.Hypot(sx/n-wantX, sy/n-wantY) > 1.5 {
			t.Errorf("condition %d: %v red pixels around (%.1f, %.1f), want (%.1f, %.1f)", i, n, sx/n, sy/n, wantX, wantY)
		}
	}
}

// The JPEG decodes, with another decoder, to the picture it was made of; and its headers are what RTP's JPEG payload can carry:
// baseline, 4:2:0, the standard Huffman tables.
func TestJPEG(t *testing.T) {
	c := newCell(t, Config{Mode: ModeHandheld, RenderThreads: 1})
	f, err := c.Render(Shot{Camera: RightWrist, RGB: true, JPEG: true})
	if err != nil {
		t.Fatal(err)
	}
	img, err := jpeg.Decode(bytes.NewReader(f[0].JPEG))
	if err != nil {
		t.Fatal(err)
	}
	var sum float64
	for k := range len(f[0].RGB) / 3 {
		r, g, b, _ := img.At(k%f[0].Size.Width, k/f[0].Size.Width).RGBA()
		for ch, v := range [3]uint32{r, g, b} {
			d := float64(v>>8) - float64(f[0].RGB[3*k+ch])
			sum += d * d
		}
	}
	if psnr := 10 * math.Log10(255*255*float64(len(f[0].RGB))/sum); psnr < 30 {
		t.Errorf("decoded picture has a PSNR of %.1f dB against the rendered one, want 30", psnr)
	}
	var plain bytes.Buffer // Go's encoder writes baseline 4:2:0 with the standard tables of annex K
	if err := jpeg.Encode(&plain, img, nil); err != nil {
		t.Fatal(err)
	}
	want, got := huffman(plain.Bytes()), huffman(f[0].JPEG)
	if len(got) != 4 {
		t.Errorf("%d Huffman tables, want 4", len(got))
	}
	for id, table := range want {
		if !bytes.Equal(got[id], table) {
			t.Errorf("Huffman table %#x is not the standard one", id)
		}
	}
	sof := bytes.Index(f[0].JPEG, []byte{0xff, 0xc0})
	if sof < 0 || f[0].JPEG[sof+11] != 0x22 || f[0].JPEG[sof+14] != 0x11 {
		t.Errorf("no baseline 4:2:0 frame header")
	}
}

// huffman collects the Huffman tables of a JPEG by class and id.
func huffman(b []byte) map[byte][]byte {
	out := map[byte][]byte{}
	for i := 2; i+4 < len(b) && b[i] == 0xff && b[i+1] != 0xda; {
		n := int(b[i+2])<<8 | int(b[i+3])
		if b[i+1] == 0xc4 {
			for t := b[i+4 : i+2+n]; len(t) > 17; {
				k := 17
				for _, c := range t[1:17] {
					k += int(c)
				}
				out[t[0]], t = t[1:k], t[k:]
			}
		}
		i += 2 + n
	}
	return out
}

// Left alone, weightless arms and hands stay where they are, and the block rests.
func TestStandsStill(t *testing.T) {
	for _, mode := range []Mode{ModeHandheld, ModeRobot} {
		c := newCell(t, Config{Mode: mode, RenderThreads: 1})
		before := c.Truth()
		if err := c.Advance(c.Now() + 3e9); err != nil {
			t.Fatal(err)
		}
		after := c.Truth()
		for _, s := range Sides {
			if d, a := after.Hands[s].Distance(before.Hands[s]); d > 1e-6 || a > 1e-6 {
				t.Errorf("%s: the %s hand drifted by %v m, %v rad in 3 s", mode, s, d, a)
			}
		}
		if d, a := after.Block.Distance(before.Block); d > 1e-3 || a > 1e-3 {
			t.Errorf("%s: the block moved by %v m, %v rad", mode, d, a)
		}
		if m := after.Milestones(); m != (Milestones{}) {
			t.Errorf("%s: without motion there are milestones %+v", mode, m)
		}
		if after.Time != StartTime+3e9 || c.Now() != after.Time {
			t.Errorf("%s: the clock shows %d", mode, after.Time)
		}
	}
}

// A dropped block falls as Galileo says until it lands.
func TestBlockFalls(t *testing.T) {
	c := newCell(t, Config{Mode: ModeHandheld, RenderThreads: 1})
	start := 0.5
	c.eng.setBody(c.block, Planar{-0.3, -0.5, 0}.pose(start))
	for _, ms := range []float64{50, 100, 200} {
		if err := c.Advance(StartTime + frames.DeviceTime(ms*1e6)); err != nil {
			t.Fatal(err)
		}
		s := ms / 1000
		// Half-implicit Euler steps fall ahead of the parabola by g t dt / 2.
		want := start - 9.81*s*s/2 - 9.81*s*0.001/2
		if z := c.Truth().Block.Pos.Z; math.Abs(z-want) > 1e-5 {
			t.Errorf("after %v ms the block is at %v m, want %v", ms, z, want)
		}
	}
}

func TestConfigErrors(t *testing.T) {
	for want, cfg := range map[string]Config{
		"mode \"\"":         {},
		"image size 8x480":  {Mode: ModeRobot, Wrist: Size{8, 480}},
		"JPEG quality 101":  {Mode: ModeRobot, JPEGQuality: 101},
		"-1 render threads": {Mode: ModeRobot, RenderThreads: -1},
	} {
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	robot := newCell(t, Config{Mode: ModeRobot, RenderThreads: 1})
	if _, err := NewHandheld(robot, HandheldConfig{}); err == nil {
		t.Error("a handheld rig was made of the robots' cell")
	}
	far := NewCondition(Train, 0)
	far.Left.X, far.Left.Y = 0.69, -0.7
	before := robot.Truth()
	if err := robot.Reset(far); err == nil || !strings.Contains(err.Error(), "out of the arm's reach") {
		t.Errorf("error %v, want one about reach", err)
	}
	if after := robot.Truth(); after != before {
		t.Error("a refused reset changed the scene")
	}
	if err := robot.SetArm(Left, [7]float64{}, 0); err == nil || !strings.Contains(err.Error(), "joint 4") {
		t.Errorf("error %v, want one about joint 4, which cannot be 0", err)
	}
}
