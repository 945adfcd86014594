package sim

import (
	"testing"

	"github.com/pinch-robotics/pinch/frames"
)

// restOnTray is a truth in which all is done: the block rests on the tray, nobody touches it.
func restOnTray() Truth {
	tray := Planar{0.03, 0.11, 0.1}.pose(0)
	return Truth{Tray: tray, Block: tray.Mul(frames.Translation(vec(0.02, -0.03, trayFloor+BlockHalfHeight))), OnTray: true}
}

func TestMilestoneFacts(t *testing.T) {
	table := frames.Translation(vec(0, -0.2, BlockHalfHeight))
	for _, c := range []struct {
		name string
		edit func(*Truth)
		want Milestones
	}{
		{"placed", func(*Truth) {}, Milestones{Placed: true}},
		{"still held", func(t *Truth) { t.Touched[Right], t.Held[Right] = true, true }, Milestones{}},
		{"touched by the other hand", func(t *Truth) { t.Touched[Left] = true }, Milestones{}},
		{"still sliding", func(t *Truth) { t.BlockSpeed = 0.03 }, Milestones{}},
		{"in the air over the tray", func(t *Truth) { t.OnTray = false }, Milestones{}},
		{"lying on its side", func(t *Truth) {
			t.Block.Rot = frames.QuatFromAxisAngle(vec(1, 0, 0), 1.57)
		}, Milestones{}},
		{"leaning on the rim, 12 degrees", func(t *Truth) {
			t.Block.Rot = frames.QuatFromAxisAngle(vec(1, 0, 0), 12.0/180*3.14159)
		}, Milestones{}},
		{"beside the tray", func(t *Truth) { t.Block.Pos.X += 0.1 }, Milestones{}},
		{"fingertips 24 mm off", func(t *Truth) {
			*t = Truth{Block: table, Tray: t.Tray}
			t.Tips[Right] = add(table.Pos, vec(0, 0.024, 0))
		}, Milestones{Reached: true}},
		{"fingertips 26 mm off", func(t *Truth) {
			*t = Truth{Block: table, Tray: t.Tray}
			t.Tips[Right] = add(table.Pos, vec(0, 0, 0.026))
		}, Milestones{}},
		{"left fingertips at the block", func(t *Truth) {
			*t = Truth{Block: table, Tray: t.Tray}
			t.Tips[Left] = table.Pos
		}, Milestones{}},
		{"held 41 mm up", func(t *Truth) {
			*t = Truth{Block: table, Tray: t.Tray}
			t.Block.Pos.Z += 0.041
			t.Held[Right] = true
		}, Milestones{Lifted: true}},
		{"held 39 mm up", func(t *Truth) {
			*t = Truth{Block: table, Tray: t.Tray}
			t.Block.Pos.Z += 0.039
			t.Held[Right] = true
		}, Milestones{}},
		{"thrown 41 mm up", func(t *Truth) {
			*t = Truth{Block: table, Tray: t.Tray}
			t.Block.Pos.Z += 0.041
		}, Milestones{}},
		{"held over the tray", func(t *Truth) {
			t.Block.Pos.Z += 0.06
			t.OnTray, t.Held[Right], t.Touched[Right] = false, true, true
		}, Milestones{Lifted: true, Carried: true}},
	} {
		truth := restOnTray()
		truth.Tips = [2]r3Vec{vec(0, 0.5, 0.2), vec(0, -0.5, 0.2)}
		tips := truth.Tips
		c.edit(&truth)
		for s := range truth.Tips {
			if truth.Tips[s] == (r3Vec{}) {
				truth.Tips[s] = tips[s]
			}
		}
		if got := truth.Milestones(); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// Milestones count in order: a block pushed onto the tray without a lift is no success.
func TestProgressInOrder(t *testing.T) {
	var p Progress
	placed := restOnTray()
	placed.Tips[Right] = vec(1, 1, 1)
	placed.Time = 1
	if p.Update(placed); p.Done != 0 {
		t.Fatalf("placed first: %d milestones, want 0", p.Done)
	}
	near := Truth{Time: 2, Block: frames.Translation(vec(0, -0.2, BlockHalfHeight)), Tray: placed.Tray}
	near.Tips[Right] = near.Block.Pos
	p.Update(near)
	up := near
	up.Time = 3
	up.Block.Pos.Z += 0.1
	up.Held[Right] = true
	p.Update(up)
	over := up
	over.Time = 4
	over.Block.Pos = add(placed.Tray.Pos, vec(0, 0, 0.1))
	p.Update(over)
	p.Update(over)
	if p.Done != 3 {
		t.Fatalf("after the carry: %d milestones, want 3", p.Done)
	}
	placed.Time = 5
	p.Update(placed)
	want := [4]frames.DeviceTime{2, 3, 4, 5}
	if p.Done != 4 || p.Times != want {
		t.Fatalf("progress %+v, want 4 done at %v", p, want)
	}
}
