package deploy

import (
	"fmt"
	"math"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/robotmodel"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
)

// arm is one arm with its gripper, placed in the cell.
type arm struct {
	name           string
	model          robotmodel.Arm
	limits         robotmodel.Limits // what the executor uses of the model's limits
	gripper        robotmodel.Gripper
	cellFromBase   robotmodel.Transform
	flangeFromHand robotmodel.Transform
	capsules       []robotmodel.Capsule
}

// pair is the two arms, left first, with the clearances between everything.
type pair struct {
	arms   [2]arm
	safety SafetyConfig
}

// newPair builds the arms of a Hello; it wants exactly a left and a right one, in any order; index maps hand to Hello.Arms.
func newPair(h *armlink.Hello, s SafetyConfig) (p pair, index [2]int, err error) {
	p.safety = s
	found := [2]bool{}
	for i, info := range h.Arms {
		for hand, name := range Hands {
			if info.Name != name {
				continue
			}
			if p.arms[hand], err = newArm(info, s); err != nil {
				return p, index, err
			}
			index[hand], found[hand] = i, true
		}
	}
	for hand, name := range Hands {
		if !found[hand] {
			return p, index, fmt.Errorf("the arm process has no %s arm; it must name a left and a right one", name)
		}
	}
	return p, index, nil
}

func newArm(info armlink.ArmInfo, s SafetyConfig) (arm, error) {
	model, err := robotmodel.ByName(info.Model)
	if err != nil {
		return arm{}, fmt.Errorf("%s arm: %w", info.Name, err)
	}
	base, err := wirePose(info.WorldFromBase)
	if err != nil {
		return arm{}, fmt.Errorf("%s arm: world_from_base: %w", info.Name, err)
	}
	hand, err := wirePose(info.FlangeFromHand)
	if err != nil {
		return arm{}, fmt.Errorf("%s arm: flange_from_hand: %w", info.Name, err)
	}
	g := robotmodel.YUBI()
	if info.GripperRad[1] > info.GripperRad[0] {
		g.ClosedRad, g.OpenRad = info.GripperRad[0], info.GripperRad[1]
	}
	return arm{
		name: info.Name, model: model, gripper: g, cellFromBase: base, flangeFromHand: hand, capsules: model.Capsules(),
		// Pulled in by 0.02 rad, so that the arm runtime (2 mrad) never has to hold a command back at an end.
		limits: model.Limits.Scaled(s.VelocityFraction, 0.8, 0.8, 0.02),
	}, nil
}

func wirePose(p armlink.Pose) (robotmodel.Transform, error) {
	pose, err := frames.PoseFromXYZXYZW(p)
	if err != nil {
		return robotmodel.Transform{}, err
	}
	return robotmodel.FromPose(pose), nil
}

// posed is an arm at one joint vector: every link frame in the cell.
type posed struct {
	chain robotmodel.Chain     // in the cell frame
	hand  robotmodel.Transform // cellFromHandRoot
}

func (a *arm) at(q armlink.Joints) posed {
	c := a.model.Forward(q)
	for i := range c {
		c[i] = a.cellFromBase.Mul(c[i])
	}
	return posed{chain: c, hand: c.Flange().Mul(a.flangeFromHand)}
}

func (a *arm) handPose(q armlink.Joints) frames.Pose {
	p := a.at(q)
	return p.hand.Pose()
}

// solid is a capsule in the cell frame.
type solid struct {
	a, b   robotmodel.Vec
	radius float64
	link   int
	finger bool
	mid    robotmodel.Vec // of a sphere around it
	reach  float64        // that sphere's radius
}

func newSolid(a, b robotmodel.Vec, c robotmodel.Capsule) solid {
	s := solid{a: a, b: b, radius: c.Radius, link: c.Link, finger: c.Finger}
	for k := range s.mid {
		s.mid[k] = (a[k] + b[k]) / 2
	}
	s.reach = robotmodel.Norm(robotmodel.Sub(b, a))/2 + c.Radius
	return s
}

// outside tells whether the surfaces of two solids are more than limit from each other, from their spheres alone; false when those do not tell.
func outside(a, b *solid, limit float64) bool {
	least := limit + a.reach + b.reach + 1e-9
	d := robotmodel.Sub(a.mid, b.mid)
	return least < 0 || robotmodel.Dot(d, d) > least*least
}

// surfaces is the distance between the surfaces of two solids (negative: inside), that of their axes, and the nearest points on these.
func surfaces(a, b *solid) (surface, axes float64, pa, pb robotmodel.Vec) {
	axes, pa, pb = robotmodel.SegmentDistance(a.a, a.b, b.a, b.b)
	return axes - a.radius - b.radius, axes, pa, pb
}

func (a *arm) solids(p *posed, fingerRad float64, into []solid) []solid {
	into = into[:0]
	add := func(cs []robotmodel.Capsule) {
		for _, c := range cs {
			t := a.cellFromBase
			switch {
			case c.Link == robotmodel.LinkHand:
				t = p.hand
			case c.Link > 0:
				t = p.chain[c.Link-1]
			}
			into = append(into, newSolid(t.Apply(c.A), t.Apply(c.B), c))
		}
	}
	add(a.capsules)
	add(a.gripper.Capsules(fingerRad))
	return into
}

// gap is a pair of surfaces that are near: distance beyond the clearance, the direction in which the first moves away from the second, and
// the points that move with each arm's link. hand2 < 0 stands for the table.
type gap struct {
	room   float64 // distance minus clearance, m
	normal robotmodel.Vec
	hand1  int
	p1     robotmodel.Vec
	link1  int
	hand2  int
	p2     robotmodel.Vec
	link2  int
}

// scene holds the solids of both arms at one moment.
type scene struct {
	posed  [2]posed
	solids [2][]solid
}

func (p *pair) scene(q [2]armlink.Joints, finger [2]float64, s *scene) {
	for h := range p.arms {
		s.posed[h] = p.arms[h].at(q[h])
		s.solids[h] = p.arms[h].solids(&s.posed[h], finger[h], s.solids[h])
	}
}

// gaps lists all pairs closer than detect beyond their clearance, and the smallest distance between the two arms' surfaces.
func (p *pair) gaps(s *scene, detect float64, into []gap) ([]gap, float64) {
	into = into[:0]
	near := detect + p.safety.ArmClearanceM
	// The hands come last and are mostly the nearest: with their distance first, few other pairs have to be looked at.
	nearest, _, _, _ := surfaces(&s.solids[0][len(s.solids[0])-1], &s.solids[1][len(s.solids[1])-1])
	for i := range s.solids[0] {
		for j := range s.solids[1] {
			a, b := &s.solids[0][i], &s.solids[1][j]
			if a.link <= 1 && b.link <= 1 || outside(a, b, math.Max(near, nearest)) {
				continue // two bases do not move
			}
			surface, d, pa, pb := surfaces(a, b)
			nearest = math.Min(nearest, surface)
			if room := surface - p.safety.ArmClearanceM; room < detect {
				n := robotmodel.Vec{0, 1, 0}
				if d > 1e-6 {
					n = robotmodel.Sub(pa, pb)
					for k := range n {
						n[k] /= d
					}
				}
				into = append(into, gap{room, n, 0, pa, a.link, 1, pb, b.link})
			}
		}
	}
	for h := range s.solids {
		for _, c := range s.solids[h] {
			if c.link <= 2 {
				continue // stands on the table
			}
			end, z := c.a, c.a[2]
			if c.b[2] < z {
				end, z = c.b, c.b[2]
			}
			room := z - p.safety.TableHeightM
			if c.finger {
				room -= p.safety.FingerClearanceM
			} else {
				room -= c.radius + p.safety.TableClearanceM
			}
			if room < detect {
				into = append(into, gap{room, robotmodel.Vec{0, 0, 1}, h, end, c.link, -1, robotmodel.Vec{}, 0})
			}
		}
	}
	return into, nearest
}

// along gives the velocity of a gap's point along n per joint velocity of its arm.
func (s *scene) along(hand int, link int, p, n robotmodel.Vec) (row [7]float64) {
	if link <= 0 {
		return row
	}
	j := s.posed[hand].chain.JacobianAt(p, min(link, 7))
	for i := range row {
		row[i] = n[0]*j[0][i] + n[1]*j[1][i] + n[2]*j[2][i]
	}
	return row
}

// maxTableRise is how far below the clearance over the table a row may put fingers and still be raised onto it. What lies deeper is no
// error of the last centimetres; it stays, and is rejected as out of reach.
const maxTableRise = 0.06

// tableRise is how far (m, along +Z of the cell) a hand must be raised so that its fingers keep their clearance over the table, 0 when they do.
// A policy that judges the height of the table a little wrong then slides over it, where it sees its error, instead of being refused.
func (p *pair) tableRise(hand int, pose frames.Pose, fingerRad float64) float64 {
	lowest := math.Inf(1)
	t := robotmodel.FromPose(pose)
	for _, c := range p.arms[hand].gripper.Capsules(fingerRad) {
		if c.Finger {
			a, b := t.Apply(c.A), t.Apply(c.B)
			lowest = math.Min(lowest, math.Min(a[2], b[2]))
		}
	}
	const air = 0.001 // m, so that the distance constraint does not fight the target
	rise := p.safety.TableHeightM + p.safety.FingerClearanceM + air - lowest
	if rise <= 0 || rise > maxTableRise {
		return 0
	}
	return rise
}
