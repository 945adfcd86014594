package robotmodel

// Capsule is a segment with a radius that encloses a part of an arm or hand, in the frame of its link.
type Capsule struct {
	Link   int // 1..7: link frame of Chain; LinkBase; LinkHand: hand_root
	A, B   Vec // ends of the segment, m
	Radius float64
	Finger bool // a finger may go near the table where an arm may not
}

// Link numbers beyond the seven moving links.
const (
	LinkBase = 0
	LinkHand = 8
)

// Capsules encloses the arm without tool. Source: our own, drawn around the vendor's dimension sheet with 5 to 15 mm to spare.
func (a *Arm) Capsules() []Capsule {
	if a.solids != nil {
		return a.solids
	}
	return []Capsule{
		{Link: LinkBase, A: Vec{-0.08, 0, 0.06}, B: Vec{0, 0, 0.15}, Radius: 0.09},
		{Link: 1, A: Vec{0, 0, -0.16}, B: Vec{0, 0, -0.05}, Radius: 0.075},
		{Link: 2, A: Vec{0, 0, -0.06}, B: Vec{0, 0, 0.06}, Radius: 0.075},
		{Link: 3, A: Vec{0, 0, -0.15}, B: Vec{0, 0, -0.04}, Radius: 0.075},
		{Link: 4, A: Vec{0, 0, -0.06}, B: Vec{0, 0, 0.06}, Radius: 0.07},
		{Link: 5, A: Vec{0, 0, -0.26}, B: Vec{0, 0.06, -0.05}, Radius: 0.065},
		{Link: 6, A: Vec{0, 0, -0.03}, B: Vec{0.06, 0, 0.01}, Radius: 0.06},
		{Link: 7, A: Vec{0, 0, -0.02}, B: Vec{0, 0, 0.08}, Radius: 0.055},
	}
}

// Capsules encloses the gripper with the fingers at an angle (rad), in hand_root.
func (g *Gripper) Capsules(angle float64) []Capsule {
	c := g.PalmCenter
	right, left := g.Tips(angle)
	padRight, padLeft := g.Pads(angle)
	return []Capsule{
		{Link: LinkHand, A: Vec{c[0] - g.PalmLen, c[1], c[2]}, B: Vec{c[0] + g.PalmLen, c[1], c[2]}, Radius: g.PalmRadius},
		{Link: LinkHand, A: g.RightPivot, B: right, Radius: g.FingerRadius, Finger: true},
		{Link: LinkHand, A: Vec{g.RightPivot[0], -g.RightPivot[1], g.RightPivot[2]}, B: left, Radius: g.FingerRadius, Finger: true},
		{Link: LinkHand, A: right, B: padRight, Radius: g.FingerRadius, Finger: true},
		{Link: LinkHand, A: left, B: padLeft, Radius: g.FingerRadius, Finger: true},
	}
}

// SegmentDistance gives the distance between segments ab and cd and the nearest points on each.
// Source: Ericson, Real-Time Collision Detection, section 5.1.9.
func SegmentDistance(a, b, c, d Vec) (dist float64, p, q Vec) {
	d1, d2, r := Sub(b, a), Sub(d, c), Sub(a, c)
	aa, ee, f := Dot(d1, d1), Dot(d2, d2), Dot(d2, r)
	const eps = 1e-12
	var s, t float64
	switch {
	case aa <= eps && ee <= eps:
	case aa <= eps:
		t = clamp01(f / ee)
	default:
		cc := Dot(d1, r)
		if ee <= eps {
			s = clamp01(-cc / aa)
			break
		}
		bb := Dot(d1, d2)
		if den := aa*ee - bb*bb; den > eps {
			s = clamp01((bb*f - cc*ee) / den)
		}
		t = (bb*s + f) / ee
		if t < 0 {
			t, s = 0, clamp01(-cc/aa)
		} else if t > 1 {
			t, s = 1, clamp01((bb-cc)/aa)
		}
	}
	for k := 0; k < 3; k++ {
		p[k] = a[k] + d1[k]*s
		q[k] = c[k] + d2[k]*t
	}
	return Norm(Sub(p, q)), p, q
}

func clamp01(v float64) float64 { return min(1, max(0, v)) }
