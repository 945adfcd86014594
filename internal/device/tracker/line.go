package tracker

import (
	"encoding/json"
	"fmt"

	"github.com/pinch-robotics/pinch/frames"
)

// Side indexes the two controllers.
const (
	Left  = 0
	Right = 1
)

// Controller is the state of one hand controller in a frame of the tracker.
type Controller struct {
	Pose    frames.Pose // quest_origin from controller (quest_{side}_controller), ROS axes, m
	HasPose bool        // the line held a usable pose
	Tracked bool        // the headset says that it sees the controller
	Valid   bool        // the headset says that the pose is valid
}

// Reading is one frame of the headset.
type Reading struct {
	HMD         frames.Pose // quest_origin from headset
	HasHMD      bool
	Controllers [2]Controller     // Left, Right
	Device      frames.DeviceTime // ovrTimeNs
	Timed       bool              // Device is set
	Received    frames.HostTime
	// Jump marks a controller whose pose moved faster than a hand can since the frame before, whatever Tracked and Valid say.
	Jump [2]bool
}

// wireFrame is one JSON line of the headset application. Keys that we do not need are left out; unknown ones are ignored.
type wireFrame struct {
	HMDPosition             *xyz     `json:"hmdPosition"`
	HMDRotation             *xyzw    `json:"hmdRotation"`
	LeftControllerPosition  *xyz     `json:"leftControllerPosition"`
	LeftControllerRotation  *xyzw    `json:"leftControllerRotation"`
	LeftTracked             bool     `json:"leftTracked"`
	LeftValid               bool     `json:"leftValid"`
	RightControllerPosition *xyz     `json:"rightControllerPosition"`
	RightControllerRotation *xyzw    `json:"rightControllerRotation"`
	RightTracked            bool     `json:"rightTracked"`
	RightValid              bool     `json:"rightValid"`
	OVRTimeNS               *int64   `json:"ovrTimeNs"`
	DeltaTime               *float64 `json:"deltaTime"`
}

// parseLine reads one line. A line without any pose, or one that is no JSON object, is an error; a missing pose of one device is not.
func parseLine(b []byte, received frames.HostTime) (Reading, error) {
	var w wireFrame
	if err := json.Unmarshal(b, &w); err != nil {
		return Reading{}, fmt.Errorf("tracker line: %w", err)
	}
	r := Reading{Received: received}
	r.HMD, r.HasHMD = rosFromUnity(w.HMDPosition, w.HMDRotation)
	l, rt := &r.Controllers[Left], &r.Controllers[Right]
	l.Pose, l.HasPose = rosFromUnity(w.LeftControllerPosition, w.LeftControllerRotation)
	rt.Pose, rt.HasPose = rosFromUnity(w.RightControllerPosition, w.RightControllerRotation)
	l.Tracked, l.Valid = w.LeftTracked, w.LeftValid
	rt.Tracked, rt.Valid = w.RightTracked, w.RightValid
	if !r.HasHMD && !l.HasPose && !rt.HasPose {
		return Reading{}, fmt.Errorf("tracker line: no usable pose in %.80q", b)
	}
	if w.OVRTimeNS != nil && *w.OVRTimeNS > 0 {
		r.Device, r.Timed = frames.DeviceTime(*w.OVRTimeNS), true
	}
	return r, nil
}

// AppendLine appends r as one JSON line with its line end, in the application's form and axes; numbers keep all their digits.
func AppendLine(dst []byte, r Reading, deltaTimeS float64) []byte {
	w := wireFrame{DeltaTime: &deltaTimeS}
	set := func(p frames.Pose, pos **xyz, rot **xyzw) {
		a, b := unityFromROS(p)
		*pos, *rot = &a, &b
	}
	if r.HasHMD {
		set(r.HMD, &w.HMDPosition, &w.HMDRotation)
	}
	if c := r.Controllers[Left]; c.HasPose {
		set(c.Pose, &w.LeftControllerPosition, &w.LeftControllerRotation)
	}
	if c := r.Controllers[Right]; c.HasPose {
		set(c.Pose, &w.RightControllerPosition, &w.RightControllerRotation)
	}
	w.LeftTracked, w.LeftValid = r.Controllers[Left].Tracked, r.Controllers[Left].Valid
	w.RightTracked, w.RightValid = r.Controllers[Right].Tracked, r.Controllers[Right].Valid
	if r.Timed {
		ns := int64(r.Device)
		w.OVRTimeNS = &ns
	}
	b, err := json.Marshal(w)
	if err != nil { // only numbers that are not finite, which no caller has
		return dst
	}
	return append(append(dst, b...), '\n')
}
