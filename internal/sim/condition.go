package sim

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/spatial/r3"

	"github.com/pinch-robotics/pinch/frames"
)

// Planar is a pose on the table: x and y of the body's centre in the cell frame (m) and the turn about +Z (rad).
type Planar struct {
	X   float64 `json:"x_m"`
	Y   float64 `json:"y_m"`
	Yaw float64 `json:"yaw_rad"`
}

// HandStart is where a hand begins: hand_root in the cell frame, with the fingers down. Zero angles mean +X of hand_root
// straight down and +Z (the camera) toward +X of the cell.
type HandStart struct {
	X     float64 `json:"x_m"`
	Y     float64 `json:"y_m"`
	Z     float64 `json:"z_m"`
	Roll  float64 `json:"roll_rad"`  // about the cell's +X
	Pitch float64 `json:"pitch_rad"` // about the cell's +Y
	Yaw   float64 `json:"yaw_rad"`   // about the cell's +Z, applied last
	Angle float64 `json:"angle_rad"` // finger angle, 0 closed
}

// Pose is the start as cellFromHandRoot.
func (h HandStart) Pose() frames.Pose {
	rot := frames.QuatFromRPY(h.Roll, h.Pitch, h.Yaw).Mul(fingersDown).Canonical()
	return frames.Pose{Pos: r3.Vec{X: h.X, Y: h.Y, Z: h.Z}, Rot: rot}
}

// fingersDown turns hand_root so that +X points down and +Z toward +X of the cell: the columns of the matrix are the images
// of X, Y and Z, (0 0 -1), (0 1 0) and (1 0 0).
var fingersDown = frames.QuatFromAxisAngle(r3.Vec{Y: 1}, math.Pi/2)

// Condition is the start of one episode. Equal conditions give equal episodes, byte for byte.
type Condition struct {
	Name  string    `json:"name"` // "train-12": split and index, for logs
	Seed  uint64    `json:"seed"` // of everything random inside the episode
	Block Planar    `json:"block"`
	Tray  Planar    `json:"tray"`
	Left  HandStart `json:"left_hand"`
	Right HandStart `json:"right_hand"`
}

// Hand is the start of one hand.
func (c Condition) Hand(s Side) HandStart { return [2]HandStart{c.Left, c.Right}[s] }

// Encode is the condition as JSON, the form that travels over armlink and stands in task files.
func (c Condition) Encode() ([]byte, error) { return json.Marshal(c) }

// DecodeCondition reads what Encode wrote and checks that block, tray and hands stand where the cell has room for them.
func DecodeCondition(b []byte) (Condition, error) {
	var c Condition
	if err := json.Unmarshal(b, &c); err != nil {
		return Condition{}, fmt.Errorf("decode condition: %w", err)
	}
	if err := c.Validate(); err != nil {
		return Condition{}, fmt.Errorf("decode condition %q: %w", c.Name, err)
	}
	return c, nil
}

// Validate refuses numbers that are not finite and bodies off the table or inside it.
func (c Condition) Validate() error {
	for _, p := range []struct {
		name string
		at   Planar
	}{{"block", c.Block}, {"tray", c.Tray}} {
		if !(math.Abs(p.at.X) <= tableHalfX && math.Abs(p.at.Y) <= tableHalfY && !math.IsNaN(p.at.Yaw) && !math.IsInf(p.at.Yaw, 0)) {
			return fmt.Errorf("%s at x %v y %v yaw %v is not on the table (|x| <= %v, |y| <= %v m)", p.name, p.at.X, p.at.Y, p.at.Yaw, tableHalfX, tableHalfY)
		}
	}
	for _, s := range Sides {
		h := c.Hand(s)
		if !(math.Abs(h.X) <= tableHalfX && math.Abs(h.Y) <= tableHalfY && h.Z >= minHandZ && h.Z <= maxHandZ) || !h.Pose().Finite() {
			return fmt.Errorf("%s hand at x %v y %v z %v is outside the cell (z %v to %v m)", s, h.X, h.Y, h.Z, minHandZ, maxHandZ)
		}
		if !(h.Angle >= 0 && h.Angle <= FingerMaxRad) {
			return fmt.Errorf("%s finger angle %v is outside 0 to %v rad", s, h.Angle, FingerMaxRad)
		}
	}
	return nil
}

// Split names a stream of conditions. No condition of one split has the seed of another.
type Split string

const (
	// Train is for demonstrations.
	Train Split = "train"
	// Eval is for trials.
	Eval Split = "eval"
)

// NewCondition is condition number index of a split: block anywhere in the pick area at any yaw, tray and left hand moved
// together and apart, right hand somewhere above the pick area. The same arguments give the same condition for ever.
func NewCondition(split Split, index int) Condition {
	c := Condition{Name: fmt.Sprintf("%s-%d", split, index), Seed: conditionSeed(split, index)}
	rng := rand.New(rand.NewPCG(c.Seed, 0))
	around := func(centre, half float64) float64 { return centre + half*(2*rng.Float64()-1) }
	c.Block = Planar{around(PickCentreX, PickHalf), around(PickCentreY, PickHalf), around(0, math.Pi)}
	c.Tray = Planar{around(trayCentreX, trayHalfVaryX), around(trayCentreY, trayHalfVaryY), around(0, trayYawVary)}
	c.Left = HandStart{
		// The left hand goes with the tray, as a person holds it beside the place, and misses that place by a little.
		X: around(c.Tray.X+leftBehindTray, leftVary), Y: around(c.Tray.Y+leftBesideTray, leftVary), Z: around(leftZ, leftVary),
		Roll: around(0, handTiltVary), Pitch: around(0, handTiltVary), Yaw: around(0, handYawVary), Angle: around(startAngle, startAngleVary),
	}
	c.Right = HandStart{
		X: around(PickCentreX-rightBehind, rightVary), Y: around(PickCentreY, rightVary), Z: around(rightZ, rightVaryZ),
		Roll: around(0, handTiltVary), Pitch: around(0, handTiltVary), Yaw: around(0, handYawVary), Angle: around(startAngle, startAngleVary),
	}
	return c
}

// conditionSeed keeps the splits apart by parity, so they cannot meet whatever the index: train even, eval odd.
func conditionSeed(split Split, index int) uint64 {
	seed := uint64(uint32(index))<<1 + 0x5eed<<33
	if split != Train {
		seed |= 1
	}
	return seed
}
