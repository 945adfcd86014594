package deploy

import (
	"fmt"
	"math"
	"time"

	"github.com/pinch-robotics/pinch/internal/wire/armlink"
)

// viewSteps is the distance of views, in control steps.
const viewSteps = 20

// View is what a person at the robot wants to see while a policy drives. Counts are since the run began; whoever shows it makes rates of them.
type View struct {
	Elapsed time.Duration // cell's clock
	Prompt  string
	Modes   [2]armlink.Mode

	Steps  int    // control steps
	Frames [2]int // of each wrist camera

	Chunks, Rejected, Starved int
	PolicyP50, PolicyMax      time.Duration
	ChunkAge                  time.Duration // since the observation that the newest chunk answers; 0: there is none
	RowsLeft                  float64       // of it
	Rate                      float64       // of policy time: 1 at full speed, 0 standing

	FollowingRad  float64 // commanded minus measured, worst joint
	JointRoomRad  float64 // to the nearest end of a joint
	JointName     string  // which
	SpeedShare    float64 // of a joint's speed limit, the fastest joint
	ArmDistanceM  float64 // between the surfaces of the two arms
	TableRoomM    float64 // beyond the clearance, the lowest part; infinite when nothing is near
	LastEvent     string  // newest of stop, rejected, starved, stall, contact, fault, prompt
	LastEventTime time.Duration
}

// look makes the view of this step; scenes are made anew, since it is rare.
func (r *run) look(now int64) View {
	sum := r.inq.latency.summary()
	v := View{Elapsed: time.Duration(now - r.begun), Prompt: r.prompt, Steps: r.steps, Frames: r.frames, Chunks: r.res.Chunks, Rejected: r.res.Rejected, Starved: r.res.Starved,
		PolicyP50: sum.P50, PolicyMax: sum.Max, LastEvent: r.lastEvent, LastEventTime: time.Duration(r.lastEventNS - r.begun), JointRoomRad: math.Inf(1), TableRoomM: math.Inf(1)}
	if r.res.Chunks > 0 {
		v.ChunkAge = time.Duration(now - r.newest)
		v.RowsLeft = math.Max(0, (r.exec.path.end()-r.exec.policyTime(now))*r.contract.RateHz)
	}
	v.Rate = r.exec.commits[r.exec.commitAt(now)].rate
	v.FollowingRad, _, _ = followingError(r.s)
	var q [2]armlink.Joints
	var finger [2]float64
	for h := range Hands {
		a := r.s.arm(h)
		q[h], finger[h], v.Modes[h] = a.Q, a.GripperRad, a.Mode
		l := &r.s.pair.arms[h].model.Limits
		for j := range a.Q {
			if l.QMax[j] <= l.QMin[j] {
				continue // this arm has no such joint
			}
			if room := math.Min(a.Q[j]-l.QMin[j], l.QMax[j]-a.Q[j]); room < v.JointRoomRad {
				v.JointRoomRad, v.JointName = room, fmt.Sprintf("%s joint %d", Hands[h], j+1)
			}
			top := l.VelocityUp(j, a.Q[j])
			if a.DQ[j] < 0 {
				top = -l.VelocityLow(j, a.Q[j])
			}
			if top > 0.05 { // at an end of a joint the limit vanishes, and so does the share's meaning
				v.SpeedShare = math.Max(v.SpeedShare, math.Abs(a.DQ[j])/top)
			}
		}
	}
	var sc scene
	r.s.pair.scene(q, finger, &sc)
	gaps, d := r.s.pair.gaps(&sc, 10, nil)
	v.ArmDistanceM = d
	for _, g := range gaps {
		if g.hand2 < 0 {
			v.TableRoomM = math.Min(v.TableRoomM, g.room)
		}
	}
	return v
}
