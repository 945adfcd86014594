package sim

import (
	"fmt"
	"math"
	"strings"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/robotmodel"
)

// MJCF is the model of a mode as MuJoCo XML. It is text of numbers only: no mesh, no texture file.
func MJCF(cfg Config) (string, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return "", err
	}
	w := &writer{}
	w.open("mujoco", `model="pinch-cell"`)
	w.line(`<compiler angle="radian" autolimits="true" inertiafromgeom="auto"/>`)
	// Elliptic cones and a high impratio keep the held block from creeping; 1 ms Euler is also the arms' control period.
	w.line(`<option timestep="%v" integrator="Euler" cone="elliptic" impratio="50" iterations="60" tolerance="1e-10"/>`, TickNS*1e-9)
	w.line(`<size njmax="1200" nconmax="240"/>`)
	w.visual(cfg)
	w.assets()
	w.open("worldbody")
	w.room()
	w.block()
	w.tray()
	for _, s := range Sides {
		if cfg.Mode == ModeHandheld {
			w.line(`<body name="%s_mocap" mocap="true" pos="0 %v 0.4"/>`, s, 0.3-0.6*float64(s))
			w.hand(s, frames.Pose{Pos: vec(0, 0.3-0.6*float64(s), 0.4), Rot: fingersDown}, true)
		} else {
			w.arm(s)
		}
	}
	w.close("worldbody")
	w.constraints(cfg.Mode)
	w.actuators(cfg.Mode)
	w.close("mujoco")
	return w.String(), nil
}

// writer collects indented XML.
type writer struct {
	strings.Builder
	depth int
}

func (w *writer) line(format string, args ...any) {
	fmt.Fprintf(&w.Builder, "%s%s\n", strings.Repeat(" ", w.depth), fmt.Sprintf(format, args...))
}

func (w *writer) open(name string, attrs ...string) {
	w.line("<%s>", strings.Join(append([]string{name}, attrs...), " "))
	w.depth++
}

func (w *writer) close(name string) {
	w.depth--
	w.line("</%s>", name)
}

// Collision bits. Two geoms meet when one's contype is in the other's conaffinity; nothing meets its own kind, so fingers pass
// each other and an arm ignores itself (armrt and the inverse kinematics keep it apart).
const (
	bitFixed = 1
	bitBlock = 2
	bitLeft  = 4
	bitRight = 8
)

const noContact = `contype="0" conaffinity="0"`

// handContact are the collision attributes of everything that belongs to a side.
func handContact(s Side) string {
	if s == Left {
		return fmt.Sprintf(`contype="%d" conaffinity="%d"`, bitLeft, bitFixed|bitRight)
	}
	return fmt.Sprintf(`contype="%d" conaffinity="%d"`, bitRight, bitFixed|bitLeft)
}

func (w *writer) visual(cfg Config) {
	width, height := 0, 0
	for _, cam := range Cameras {
		width, height = max(width, cfg.size(cam).Width), max(height, cfg.size(cam).Height)
	}
	w.open("visual")
	// No shadows and no multisampling: 6 ms instead of 100 ms a frame in software.
	w.line(`<quality shadowsize="0" offsamples="0" numslices="12" numstacks="6" numquads="1"/>`)
	w.line(`<global offwidth="%d" offheight="%d"/>`, width, height)
	w.line(`<headlight ambient="0.30 0.30 0.30" diffuse="0.25 0.25 0.25" specular="0 0 0"/>`)
	w.line(`<map znear="0.006" zfar="6"/>`)
	w.close("visual")
	w.line(`<statistic center="0 0 0.2" extent="1"/>`)
}

func (w *writer) assets() {
	w.open("asset")
	// The table's texels are filled with seeded noise after compilation, see fillTexture.
	w.line(`<texture name="table" type="2d" builtin="flat" rgb1="0.72 0.70 0.66" width="%d" height="%d"/>`, textureSize, textureSize)
	w.line(`<material name="table" texture="table" texrepeat="1 1" specular="0" shininess="0"/>`)
	for _, m := range []struct{ name, rgba string }{
		{"block", "0.90 0.08 0.06 1"}, {"tray", "0.08 0.32 0.85 1"}, {"rim", "0.05 0.20 0.60 1"},
		{"finger", "0.16 0.16 0.17 1"}, {"pad", "0.95 0.80 0.10 1"}, {"palm", "0.30 0.30 0.32 1"}, {"arm", "0.92 0.92 0.90 1"},
	} {
		w.line(`<material name="%s" rgba="%s" specular="0.1" shininess="0.1"/>`, m.name, m.rgba)
	}
	w.close("asset")
}

func (w *writer) room() {
	w.line(`<light directional="true" castshadow="false" pos="0.4 0.3 2" dir="-0.25 -0.2 -1" diffuse="0.55 0.55 0.55" specular="0.1 0.1 0.1"/>`)
	w.line(`<geom name="table" type="box" pos="0 0 -0.02" size="%v %v 0.02" material="table" friction="0.7 0.005 0.0001" contype="%d" conaffinity="0"/>`,
		tableHalfX, tableHalfY, bitFixed)
	w.line(`<geom name="floor" type="plane" pos="0 0 -0.75" size="6 6 0.1" rgba="0.35 0.36 0.38 1" %s/>`, noContact)
	// Walls behind the robots stand for a sky: a sky box would cost every wrist frame a quarter of its time, unseen.
	w.line(`<geom name="wall_back" type="plane" pos="-2 0 0" xyaxes="0 1 0 0 0 1" size="12 8 0.1" rgba="0.60 0.64 0.68 1" %s/>`, noContact)
	w.line(`<geom name="wall_left" type="plane" pos="0 2.5 0" xyaxes="-1 0 0 0 0 1" size="12 8 0.1" rgba="0.55 0.59 0.63 1" %s/>`, noContact)
	w.camera(string(Center), vec(0.80, -0.02, 0.62), vec(0, -0.04, 0.05), 42)
	w.camera(string(SceneView), vec(1.15, -0.95, 0.95), vec(-0.15, 0, 0.22), 45)
}

func (w *writer) block() {
	w.open("body", `name="block"`, fmt.Sprintf(`pos="%v %v %v"`, PickCentreX, PickCentreY, BlockHalfHeight))
	w.line(`<freejoint name="block"/>`)
	w.line(`<geom name="block" type="box" size="%v %v %v" mass="%v" material="block" friction="0.7 0.005 0.0001" condim="4" contype="%d" conaffinity="%d"/>`,
		BlockHalfWidth, BlockHalfWidth, BlockHalfHeight, blockMass, bitBlock, bitFixed|bitLeft|bitRight)
	w.close("body")
}

func (w *writer) tray() {
	w.open("body", `name="tray"`, `mocap="true"`, fmt.Sprintf(`pos="%v %v 0"`, trayCentreX, trayCentreY))
	contact := fmt.Sprintf(`friction="0.7 0.005 0.0001" contype="%d" conaffinity="0"`, bitFixed)
	w.line(`<geom name="tray" type="box" pos="0 0 %v" size="%v %v %v" material="tray" %s/>`, trayFloor/2, TrayHalf, TrayHalf, trayFloor/2, contact)
	mid := TrayHalf - trayRimHalf
	for i, r := range [4][4]float64{{mid, 0, trayRimHalf, TrayHalf}, {-mid, 0, trayRimHalf, TrayHalf}, {0, mid, TrayHalf, trayRimHalf}, {0, -mid, TrayHalf, trayRimHalf}} {
		w.line(`<geom name="tray_rim%d" type="box" pos="%v %v %v" size="%v %v %v" material="rim" %s/>`,
			i, r[0], r[1], trayRimHeight/2, r[2], r[3], trayRimHeight/2, contact)
	}
	w.close("body")
}

// camera looks from a point to a point, its image upright.
func (w *writer) camera(name string, from, to r3Vec, fovyDeg float64) {
	ahead := unit(sub(to, from))
	right := unit(cross(ahead, vec(0, 0, 1)))
	up := cross(right, ahead)
	w.line(`<camera name="%s" pos="%s" xyaxes="%s %s" fovy="%v"/>`, name, text(from), text(right), text(up), fovyDeg)
}

// arm writes one FR3 from its modified DH table: each body is Rx(alpha) Tx(a) Tz(d) in its parent, its joint turns about Z.
func (w *writer) arm(s Side) {
	arm := robotmodel.FR3()
	base := CellFromBase(s)
	w.open("body", fmt.Sprintf(`name="%s_base"`, s), poseAttrs(base))
	w.line(`<geom type="cylinder" fromto="0 0 0 0 0 0.14" size="0.07" material="arm" mass="3" %s/>`, noContact)
	for i, d := range arm.Table {
		sa, ca := math.Sincos(d.Alpha)
		w.open("body", fmt.Sprintf(`name="%s_link%d"`, s, i+1), fmt.Sprintf(`pos="%s"`, text(vec(d.A, -d.D*sa, d.D*ca))),
			fmt.Sprintf(`quat="%.17g %.17g 0 0"`, math.Cos(d.Alpha/2), math.Sin(d.Alpha/2)))
		// Armature stands for rotor and gear inertia; friction is left to the actuator's damping.
		w.line(`<joint name="%s_joint%d" axis="0 0 1" range="%v %v" armature="0.1"/>`, s, i+1, arm.Limits.QMin[i], arm.Limits.QMax[i])
		c := linkShapes[i]
		w.line(`<geom name="%s_link%d" type="capsule" fromto="%s %s" size="%v" mass="%v" material="arm" %s/>`,
			s, i+1, text(c.from), text(c.to), c.radius, arm.LinkMassKG[i], handContact(s))
	}
	mount := robotmodel.FlangeFromHand()
	mount.P[2] += arm.FlangeD
	w.hand(s, poseOf(mount), false)
	for range arm.Table {
		w.close("body")
	}
	w.close("body")
}

// linkShapes are capsules in the link frames, thick enough to look like the arm and to feel contacts.
var linkShapes = [7]struct {
	from, to r3Vec
	radius   float64
}{
	{vec(0, 0, -0.19), vec(0, 0, 0), 0.062},
	{vec(0, -0.02, 0), vec(0, -0.17, 0), 0.062},
	{vec(0, 0, -0.12), vec(0.06, 0, 0), 0.060},
	{vec(0, 0, 0), vec(-0.0825, 0.10, 0), 0.058},
	{vec(0, 0.02, -0.24), vec(0, 0.05, -0.06), 0.050},
	{vec(0, 0, 0), vec(0.088, 0, 0), 0.050},
	{vec(0, 0, 0.02), vec(0, 0, 0.062), 0.045},
}

// CellFromBase is where an arm stands: both look along the cell's X from behind the table's middle.
func CellFromBase(s Side) frames.Pose {
	return frames.Translation(vec(robotBaseX, robotBaseHalfY*(1-2*float64(s)), 0))
}

// constraints are the mimic joints, in handheld mode also the welds that pull the hands after their mocap bodies.
func (w *writer) constraints(mode Mode) {
	w.open("equality")
	for _, s := range Sides {
		if mode == ModeHandheld {
			w.line(`<weld body1="%s_mocap" body2="%s_hand_root" relpose="0 0 0 1 0 0 0" solref="0.01 1" solimp="0.95 0.99 0.001"/>`, s, s)
		}
		w.line(`<joint joint1="%s_left_finger_joint" joint2="%s_right_finger_joint" polycoef="0 -1 0 0 0" solref="0.004 1" solimp="0.99 0.999 0.001"/>`, s, s)
	}
	w.close("equality")
}

// actuators are position servos. The facts of the arm: stiffness as measured on simulated FR3 arms; damping is lower than there
// because SetJoints feeds the wanted velocity forward, so damping costs no lag and the torque limits hold for motion alone.
func (w *writer) actuators(mode Mode) {
	w.open("actuator")
	tau := robotmodel.FR3().TauMax
	for _, s := range Sides {
		w.line(`<general name="%s_finger" joint="%s_right_finger_joint" gainprm="%v" biastype="affine" biasprm="0 -%v -%v" forcerange="-%v %v"/>`,
			s, s, fingerKP, fingerKP, fingerKV, fingerTorque, fingerTorque)
		if mode != ModeRobot {
			continue
		}
		for i := range armKP {
			w.line(`<general name="%s_joint%d" joint="%s_joint%d" gainprm="%v" biastype="affine" biasprm="0 -%v -%v" forcerange="-%v %v"/>`,
				s, i+1, s, i+1, armKP[i], armKP[i], armKV[i], tau[i], tau[i])
		}
	}
	w.close("actuator")
}

// Gains of the position servos: Nm/rad, Nm s/rad, Nm.
var (
	armKP = [7]float64{4500, 4500, 3500, 3500, 2000, 2000, 2000}
	armKV = [7]float64{220, 220, 160, 160, 45, 45, 45}
)

const (
	fingerKP     = 100.0
	fingerKV     = 1.4
	fingerTorque = 2.0
)
