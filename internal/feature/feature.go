// Package feature names what a row of a pinch dataset holds: one table of features with type, shape, element names, units,
// frames, reference and timing. Ingest computes the columns from it, policies declare their inputs and outputs by it,
// and docs/dataset.md is printed from it.
//
// Names, values and timing of the YUBI set are YUBI's (rebake's config/robot_model/yubi.yaml); what pinch adds has names of
// its own. Beware the timing: YUBI's action.pose.*.relative of row t is the motion that led to row t (previous), while its
// action.joint_states of row t is the angle of row t+1 (next). The action.next.* features are all "next".
//
//	for _, f := range feature.Stationary().Features() {
//		fmt.Println(f.Name, f.DType, f.Shape)
//	}
package feature

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pinch-robotics/pinch/frames"
)

// Element types by LeRobot's names.
const (
	Float64 = "float64"
	Int32   = "int32"
	Int64   = "int64"
	Bool    = "bool"
	VideoT  = "video"
)

// Kind says how the values of a feature come about.
type Kind uint8

// The kinds of features. Timing and Reference complete them.
const (
	Video       Kind = iota + 1 // frames of camera Stream
	VideoFresh                  // the frame is another one than in the row before
	Pose                        // parent-from-child
	PoseFresh                   // an edge between Parent and Child took a new sample since the row before
	Motion                      // relative motion of Child seen from Parent
	Joints                      // finger joint angles; Timing Next takes the row after
	JointsFresh                 // the joint sample is another one than in the row before
	Buttons                     // pedal buttons
	Tracked                     // the tracker saw the hand of side Stream
	CaptureTime                 // device and host time of the sample of Stream
	RowTime                     // the row's tick
	Success                     // the episode's segment succeeded
	Done                        // last row of the episode
	Field                       // values of the messages of topic Stream, as a rig map names them
)

// Feature is one named column of a row.
type Feature struct {
	Name  string
	DType string
	// Shape of one row: {1} scalar, {n} vector, {height, width, channels} video.
	Shape []int
	// Names of the elements; nil for a scalar.
	Names []string
	// Units of the elements in the order of Names; one entry holds for all; nil for flags and pictures.
	Units []string
	Kind  Kind
	// Parent and Child frames of poses and motions.
	Parent, Child string
	// Reference of motions.
	Reference frames.Reference
	// Timing of motions and joint actions; 0 where the value is of the row itself.
	Timing frames.Timing
	// Stream is the camera, side or device that the values come from, where Kind needs one.
	Stream string
	// Doc is one sentence for the table in docs/dataset.md.
	Doc string
	// Ours marks a feature that the YUBI set does not have.
	Ours bool
}

// Dim is the number of elements of one row.
func (f Feature) Dim() int {
	n := 1
	for _, s := range f.Shape {
		n *= s
	}
	return n
}

// Camera is one camera of a rig: its feature is observation.image.<Name>.
type Camera struct {
	Name          string // left, right, center
	Height, Width int    // pixels
}

// Layout says what a rig records, and so which features its datasets have.
type Layout struct {
	// Origin is the frame that the hands move in: quest_origin for a handheld rig, cell for arms.
	Origin  string
	Cameras []Camera
	// Head: the headset's pose is there. Controllers: the tracker's controllers are. Pedal: a foot pedal is.
	// Tracking: the tracker says whether it sees each hand.
	Head, Controllers, Pedal, Tracking bool
}

// Origin frames.
const (
	QuestOrigin = "quest_origin"
	Cell        = "cell"
)

func cameras(names ...string) (out []Camera) {
	for _, n := range names {
		out = append(out, Camera{n, 480, 640})
	}
	return out
}

// Stationary is YUBI's desk rig: two wrist cameras, a centre camera and a pedal.
func Stationary() Layout {
	return Layout{QuestOrigin, cameras("left", "right", "center"), true, true, true, true}
}

// Portable is YUBI's chest rig: two wrist cameras, a centre camera, no pedal.
func Portable() Layout {
	return Layout{QuestOrigin, cameras("left", "right", "center"), true, true, false, true}
}

// Trial is a pair of arms: two wrist cameras and measured poses in the cell.
func Trial() Layout { return Layout{Origin: Cell, Cameras: cameras("left", "right")} }

// Element names.
var (
	poseNames   = []string{"x", "y", "z", "qx", "qy", "qz", "qw"}
	motionNames = []string{"dx", "dy", "dz", "dqx", "dqy", "dqz", "dqw"}
	poseUnits   = []string{"m", "m", "m", "1", "1", "1", "1"}
	// JointNames are the finger joints in the order of every joint feature.
	JointNames = []string{"left_right_finger_joint", "right_right_finger_joint"}
	// ButtonNames are the pedal's buttons in the order of observation.state.
	ButtonNames = []string{"footpedal_button_0", "footpedal_button_1", "footpedal_button_2"}
	timeNames   = []string{"device_ns", "host_ns"}
)

// Names of features that other packages ask for.
const (
	ImageLeft        = "observation.image.left"
	ImageRight       = "observation.image.right"
	ImageCenter      = "observation.image.center"
	JointStates      = "observation.joint_states"
	HandToHand       = "observation.pose.left_hand_root_to_right_hand_root.absolute"
	LeftHand         = "observation.pose.left_hand_root.absolute"
	RightHand        = "observation.pose.right_hand_root.absolute"
	LeftHandNext     = "action.next.pose.left_hand_root.relative"
	RightHandNext    = "action.next.pose.right_hand_root.relative"
	JointStatesNext  = "action.next.joint_states"
	SuccessPrimitive = "success_primitive_action"
	NextDone         = "next.done"
	RowStamp         = "observation.capture_time.row"
)

// Features is the layout's table in the order of info.json: YUBI's features first, in YUBI's order, then ours.
func (l Layout) Features() []Feature {
	var t table
	if l.Pedal {
		t.buttons("observation.state", "Pedal buttons at the row. This is not robot state.")
	}
	l.poses(&t)
	t.joints("observation.joint_states", 0, "Finger angles; 0 is closed.")
	t.flag("observation.joint_states.is_fresh", JointsFresh, "", "Another joint sample than in the row before.")
	for _, c := range l.Cameras {
		t.flag("observation.image."+c.Name+".is_fresh", VideoFresh, c.Name, "Another frame than in the row before.")
	}
	for _, c := range l.Cameras {
		t.add(Feature{Name: "observation.image." + c.Name, DType: VideoT, Shape: []int{c.Height, c.Width, 3}, Kind: Video,
			Names: []string{"height", "width", "channels"}, Stream: c.Name, Doc: "Camera picture held at the row, RGB, uncropped."})
	}
	l.actions(&t)
	l.ours(&t)
	return t
}

// Find is the feature called name; the error lists the names there are.
func (l Layout) Find(name string) (Feature, error) {
	all := l.Features()
	if i := slices.IndexFunc(all, func(f Feature) bool { return f.Name == name }); i >= 0 {
		return all[i], nil
	}
	names := make([]string, len(all))
	for i, f := range all {
		names[i] = f.Name
	}
	return Feature{}, fmt.Errorf("no feature %q; the layout has %s", name, strings.Join(names, ", "))
}

// tracked lists the frames whose pose in the origin is a feature: feature name and frame name.
func (l Layout) tracked() (out [][2]string) {
	if l.Head {
		out = append(out, [2]string{"hmd", "quest_hmd"})
	}
	if l.Controllers {
		out = append(out, [2]string{"left_controller", "quest_left_controller"}, [2]string{"right_controller", "quest_right_controller"})
	}
	for _, part := range []string{"hand_root/hand_root", "hand_cam/hand_cam_link"} {
		name, frame, _ := strings.Cut(part, "/")
		for _, side := range []string{"left_", "right_"} {
			out = append(out, [2]string{side + name, side + frame})
		}
	}
	for _, side := range []string{"left_", "right_"} {
		for _, finger := range []string{"left_", "right_"} {
			out = append(out, [2]string{side + finger + "finger_tip", side + finger + "finger_tip_link"})
		}
	}
	return out
}

func (l Layout) poses(t *table) {
	for _, p := range l.tracked() {
		name := "observation.pose." + p[0]
		t.pose(name+".absolute", l.Origin, p[1])
		t.motion(name+".relative", l.Origin, p[1], frames.Previous)
		t.poseFresh(name+".absolute.is_fresh", l.Origin, p[1])
	}
	t.pose(HandToHand, "left_hand_root", "right_hand_root")
	// YUBI's name drops "_root" twice here.
	t.motion("observation.pose.left_hand_to_right_hand.relative", "left_hand_root", "right_hand_root", frames.Previous)
	t.poseFresh(HandToHand+".is_fresh", "left_hand_root", "right_hand_root")
}

// actions are YUBI's: poses of timing previous, joints of timing next.
func (l Layout) actions(t *table) {
	if l.Pedal {
		t.buttons("action.footpedal", "The same values as observation.state.")
	}
	if l.Controllers {
		for _, side := range []string{"left", "right"} {
			name := "action." + side + "_controller.relative"
			t.motion(name, l.Origin, "quest_"+side+"_controller", frames.Previous)
			t.poseFresh(name+".is_fresh", l.Origin, "quest_"+side+"_controller")
		}
	}
	for _, side := range []string{"left", "right"} {
		name := "action.pose." + side + "_hand_root.relative"
		t.motion(name, l.Origin, side+"_hand_root", frames.Previous)
		t.poseFresh(name+".is_fresh", l.Origin, side+"_hand_root")
	}
	t.joints("action.joint_states", frames.Next, "Finger angles of the next row; the last row repeats its own.")
	t.flag("action.joint_states.is_fresh", JointsFresh, "", "As observation.joint_states.is_fresh of the same row: not shifted.")
}

func (l Layout) ours(t *table) {
	n := len(*t)
	for _, side := range []string{"left", "right"} {
		t.motion("action.next.pose."+side+"_hand_root.relative", l.Origin, side+"_hand_root", frames.Next)
	}
	t.joints(JointStatesNext, frames.Next, "Finger angles of the next row; the last row repeats its own.")
	if l.Tracking {
		for _, side := range []string{"left", "right"} {
			t.flag("observation.pose."+side+"_hand_root.is_tracked", Tracked, side,
				"The tracker saw this hand and calls its pose valid.")
		}
	}
	t.add(Feature{Name: RowStamp, DType: Int64, Shape: []int{1}, Units: []string{"ns"}, Kind: RowTime,
		Doc: "The row's tick on the clock that the recording is aligned on."})
	var streams []string
	for _, c := range l.Cameras {
		streams = append(streams, c.Name)
	}
	for _, s := range append(streams, "joint_states", "left_hand_root", "right_hand_root") {
		t.add(Feature{Name: "observation.capture_time." + s, DType: Int64, Shape: []int{2}, Names: timeNames, Units: []string{"ns"},
			Kind: CaptureTime, Stream: s, Doc: "When the sample of this row was taken: device clock (0 if it has none), host clock."})
	}
	t.flag(SuccessPrimitive, Success, "", "The segment succeeded; failed segments are kept and have false in every row.")
	t.flag(NextDone, Done, "", "True in the last row of the episode.")
	for i := n; i < len(*t); i++ {
		(*t)[i].Ours = true
	}
}

// table grows row by row.
type table []Feature

func (t *table) add(f Feature) { *t = append(*t, f) }

func (t *table) pose(name, parent, child string) {
	t.add(Feature{Name: name, DType: Float64, Shape: []int{7}, Names: poseNames, Units: poseUnits, Kind: Pose,
		Parent: parent, Child: child, Doc: "Pose of " + child + " in " + parent + "."})
}

func (t *table) motion(name, parent, child string, timing frames.Timing) {
	doc := "Motion of " + child + " from the row before to this row; identity in the first row."
	if timing == frames.Next {
		doc = "Motion of " + child + " from this row to the next row; identity in the last row."
	}
	t.add(Feature{Name: name, DType: Float64, Shape: []int{7}, Names: motionNames, Units: poseUnits, Kind: Motion,
		Parent: parent, Child: child, Reference: frames.BodyPrevious, Timing: timing, Doc: doc})
}

func (t *table) poseFresh(name, parent, child string) {
	t.add(Feature{Name: name, DType: Bool, Shape: []int{1}, Kind: PoseFresh, Parent: parent, Child: child,
		Doc: "A transform between " + parent + " and " + child + " is new since the row before."})
}

func (t *table) joints(name string, timing frames.Timing, doc string) {
	t.add(Feature{Name: name, DType: Float64, Shape: []int{2}, Names: JointNames, Units: []string{"rad"}, Kind: Joints, Timing: timing, Doc: doc})
}

func (t *table) buttons(name, doc string) {
	t.add(Feature{Name: name, DType: Int32, Shape: []int{3}, Names: ButtonNames, Units: []string{"0/1"}, Kind: Buttons, Doc: doc})
}

func (t *table) flag(name string, kind Kind, stream, doc string) {
	t.add(Feature{Name: name, DType: Bool, Shape: []int{1}, Kind: kind, Stream: stream, Doc: doc})
}
