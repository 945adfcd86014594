package sim

import (
	"encoding/xml"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/robotmodel"
)

// element is any XML element.
type element struct {
	XMLName  xml.Name
	Attrs    []xml.Attr `xml:",any,attr"`
	Children []element  `xml:",any"`
}

func (e element) attr(name string) string {
	for _, a := range e.Attrs {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// find is the first element of a kind with a name, depth first, and the pose that its ancestors give its frame.
func (e element) find(kind, name string, at frames.Pose) (element, frames.Pose, bool) {
	for _, c := range e.Children {
		here := at
		if c.XMLName.Local == "body" {
			here = at.Mul(bodyPose(c))
		}
		if c.XMLName.Local == kind && c.attr("name") == name {
			return c, here, true
		}
		if found, pose, ok := c.find(kind, name, here); ok {
			return found, pose, true
		}
	}
	return element{}, frames.Pose{}, false
}

func bodyPose(e element) frames.Pose {
	p := frames.Identity
	if s := e.attr("pos"); s != "" {
		fmt.Sscan(s, &p.Pos.X, &p.Pos.Y, &p.Pos.Z)
	}
	if s := e.attr("quat"); s != "" {
		fmt.Sscan(s, &p.Rot.W, &p.Rot.X, &p.Rot.Y, &p.Rot.Z)
	}
	return p
}

func model(t *testing.T, mode Mode) element {
	t.Helper()
	text, err := MJCF(Config{Mode: mode})
	if err != nil {
		t.Fatal(err)
	}
	var root element
	if err := xml.Unmarshal([]byte(text), &root); err != nil {
		t.Fatal(err)
	}
	return root
}

// With all joints at zero the nested bodies compose to the published flange pose of q = 0 (0.088 0 0.926, diag(1 -1 -1)), seen here
// at hand_root: the text itself holds the arm, whatever reads it.
func TestMJCFArmAtZero(t *testing.T) {
	root := model(t, ModeRobot)
	for _, s := range Sides {
		_, at, ok := root.find("body", s.String()+"_hand_root", frames.Identity)
		if !ok {
			t.Fatalf("no body %s_hand_root", s)
		}
		flange := frames.Pose{Pos: vec(0.088, 0, 0.926), Rot: frames.QuatFromAxisAngle(vec(1, 0, 0), math.Pi)}
		want := CellFromBase(s).Mul(flange).Mul(poseOf(robotmodel.FlangeFromHand()))
		if d, a := at.Distance(want); d > 1e-12 || a > 1e-7 {
			t.Errorf("%s hand_root at zero is %v m, %v rad off", s, d, a)
		}
		arm := robotmodel.FR3()
		for i := range 7 {
			j, _, _ := root.find("joint", fmt.Sprintf("%s_joint%d", s, i+1), frames.Identity)
			if want := fmt.Sprintf("%v %v", arm.Limits.QMin[i], arm.Limits.QMax[i]); j.attr("range") != want {
				t.Errorf("%s joint %d has range %q, want %q", s, i+1, j.attr("range"), want)
			}
			g, _, _ := root.find("geom", fmt.Sprintf("%s_link%d", s, i+1), frames.Identity)
			if g.attr("mass") != fmt.Sprint(arm.LinkMassKG[i]) {
				t.Errorf("%s link %d weighs %q, want %v", s, i+1, g.attr("mass"), arm.LinkMassKG[i])
			}
		}
	}
}

// The camera stands where the rig's URDF has hand_cam_link, in both modes.
func TestMJCFWristCamera(t *testing.T) {
	for _, mode := range []Mode{ModeHandheld, ModeRobot} {
		root := model(t, mode)
		for _, s := range Sides {
			cam, _, ok := root.find("camera", s.String(), frames.Identity)
			if !ok || cam.attr("pos") != "0 0 0.0426" || cam.attr("xyaxes") != "0 -1 0 0 0 1" {
				t.Errorf("%s %s camera: %+v", mode, s, cam.Attrs)
			}
		}
	}
}

// Which kinds of things may touch: each other kind, never their own; the table, tray and block are there for all.
func TestMJCFCollisions(t *testing.T) {
	root := model(t, ModeRobot)
	bits := func(geom string) (contype, affinity int) {
		g, _, ok := root.find("geom", geom, frames.Identity)
		if !ok {
			t.Fatalf("no geom %q", geom)
		}
		fmt.Sscan(g.attr("contype"), &contype)
		fmt.Sscan(g.attr("conaffinity"), &affinity)
		return contype, affinity
	}
	meet := func(a, b string) bool {
		ta, fa := bits(a)
		tb, fb := bits(b)
		return ta&fb != 0 || tb&fa != 0
	}
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"block", "table", true}, {"block", "tray", true}, {"block", "tray_rim2", true}, {"block", "right_left_pad", true}, {"block", "left_palm", true},
		{"table", "right_right_pad", true}, {"left_link6", "right_link6", true}, {"left_link5", "table", true}, {"right_palm", "left_left_finger", true},
		{"table", "tray", false}, {"right_left_pad", "right_right_pad", false}, {"left_link3", "left_palm", false}, {"floor", "left_link1", false},
	} {
		if got := meet(c.a, c.b); got != c.want {
			t.Errorf("%s and %s touch: %v, want %v", c.a, c.b, got, c.want)
		}
	}
}

// The model is numbers only: nothing is read from files.
func TestMJCFNeedsNoFiles(t *testing.T) {
	for _, mode := range []Mode{ModeHandheld, ModeRobot} {
		text, err := MJCF(Config{Mode: mode})
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range []string{"<mesh", "file=", "<include", "hfield"} {
			if strings.Contains(text, word) {
				t.Errorf("%s: the model has %q", mode, word)
			}
		}
	}
	if _, err := MJCF(Config{Mode: "flying"}); err == nil || !strings.Contains(err.Error(), `mode "flying"`) {
		t.Errorf("error %v, want one about the mode", err)
	}
}
