package frames

import (
	"fmt"

	"gonum.org/v1/gonum/spatial/r3"
)

// Reference says in whose axes, and from which pose, a relative motion is measured.
type Reference uint8

const (
	// BodyPrevious: from the body's own pose one row before, in its axes: inverse(T[a]) T[b]. A chunk of such motions is
	// composed, each onto the result of the one before. YUBI's and UMI Arena's "body".
	BodyPrevious Reference = iota + 1
	// BodyObservation: from the body's pose at the observation, in its axes, for every row of a chunk alike:
	// inverse(T[obs]) T[b]. UMI's "relative".
	BodyObservation
	// World: the translation is p[b] - p[a] in parent axes; the rotation is inverse(R[a]) R[b], on the right, as in the
	// other two. UMI Arena's "world" and rebake's "source_frame".
	World
)

var referenceNames = map[Reference]string{BodyPrevious: "body", BodyObservation: "body_observation", World: "world"}

// String is the reference's name in manifests and dataset documents: body, body_observation, world.
func (r Reference) String() string {
	if s, ok := referenceNames[r]; ok {
		return s
	}
	return fmt.Sprintf("Reference(%d)", uint8(r))
}

// ParseReference reads a name that String gives.
func ParseReference(s string) (Reference, error) {
	for r, name := range referenceNames {
		if s == name {
			return r, nil
		}
	}
	return 0, fmt.Errorf("pose reference %q is none of body, body_observation, world", s)
}

// Timing says which rows the motion of a row lies between.
type Timing uint8

const (
	// Previous: row t holds the motion from row t-1 to row t, which led here. Row 0 holds the identity.
	Previous Timing = iota + 1
	// Next: row t holds the motion from row t to row t+1, which is still to be made. The last row holds the identity.
	Next
)

// String is the timing's name in manifests and dataset documents: previous, next.
func (t Timing) String() string {
	switch t {
	case Previous:
		return "previous"
	case Next:
		return "next"
	}
	return fmt.Sprintf("Timing(%d)", uint8(t))
}

// ParseTiming reads a name that String gives.
func ParseTiming(s string) (Timing, error) {
	switch s {
	case "previous":
		return Previous, nil
	case "next":
		return Next, nil
	}
	return 0, fmt.Errorf("pose timing %q is neither previous nor next", s)
}

// Delta is a relative motion: Trans (m) and Rot, measured as Ref says, standing in a row as Timing says.
// It is no Pose: it composes only through Integrate and From.
type Delta struct {
	Trans  r3.Vec
	Rot    Quat
	Ref    Reference
	Timing Timing
}

// Between is the motion from pose a to pose b of one body in one parent. For BodyObservation a is the pose at the
// observation. The rotation takes the shorter way round and the canonical sign.
func Between(a, b Pose, ref Reference, timing Timing) Delta {
	inv := a.Rot.Inv()
	d := Delta{Trans: r3.Sub(b.Pos, a.Pos), Rot: inv.Mul(b.Rot).unit(), Ref: ref, Timing: timing}
	if ref != World {
		d.Trans = inv.Rotate(d.Trans)
	}
	return d
}

// From is the pose reached from a by d: the inverse of Between.
func (d Delta) From(a Pose) Pose {
	step := d.Trans
	if d.Ref != World {
		step = a.Rot.Rotate(step)
	}
	return Pose{r3.Add(a.Pos, step), a.Rot.Mul(d.Rot).unit()}
}

// ArrayXYZXYZW is the motion as seven numbers dx dy dz (m) dqx dqy dqz dqw.
func (d Delta) ArrayXYZXYZW() [7]float64 { return Pose{d.Trans, d.Rot}.ArrayXYZXYZW() }

// DeltaFromXYZXYZW reads seven numbers dx dy dz (m) dqx dqy dqz dqw (any length but zero); errors as for Pose.
func DeltaFromXYZXYZW(a [7]float64, ref Reference, timing Timing) (Delta, error) {
	p, err := PoseFromXYZXYZW(a)
	if err != nil {
		return Delta{}, fmt.Errorf("relative motion: %w", err)
	}
	return Delta{p.Pos, p.Rot, ref, timing}, nil
}

// RowDeltas gives each row of one uncut run of poses its motion. The first row (Previous) or the last row (Next) has no
// neighbour and holds the identity. ref is BodyPrevious or World; it panics for BodyObservation, which depends on a row
// chosen by the caller (use Between).
func RowDeltas(poses []Pose, ref Reference, timing Timing) []Delta {
	if ref == BodyObservation {
		panic("frames: RowDeltas has no observation row; use Between")
	}
	out := make([]Delta, len(poses))
	for i, p := range poses {
		switch {
		case timing == Previous && i > 0:
			out[i] = Between(poses[i-1], p, ref, timing)
		case timing == Next && i+1 < len(poses):
			out[i] = Between(p, poses[i+1], ref, timing)
		default:
			out[i] = Delta{Rot: IdentityQuat, Ref: ref, Timing: timing}
		}
	}
	return out
}

// Integrate turns a chunk of motions into poses, one per motion. start is the pose that the first motion begins at: the
// pose at the observation for Next and BodyObservation, the pose of the row before the first for Previous. BodyPrevious
// and World motions are composed one after another; BodyObservation motions all begin at start.
func Integrate(start Pose, chunk []Delta) []Pose {
	out := make([]Pose, len(chunk))
	at := start
	for i, d := range chunk {
		if d.Ref == BodyObservation {
			out[i] = d.From(start)
			continue
		}
		at = d.From(at)
		out[i] = at
	}
	return out
}
