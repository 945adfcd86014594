package deploy

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/pinch-robotics/pinch/internal/armrt"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
)

// A policy that goes on pushing against something does not press ever harder: the command stays within a little more than the contact angle
// of where the arm is held, however long it pushes, the run goes on, and once the way is free the hand moves on.
func TestHandsGiveWayToWhatHoldsThem(t *testing.T) {
	const from, until = int64(3e9), int64(8e9)
	var wall [2]armlink.Joints
	var held [2]armlink.Joints // measured
	worst := 0.0
	push := &scripted{rateHz: 10, mangle: func(_ int, c *Chunk) {
		clear(c.Data)
		for k := 0; k < c.Rows; k++ {
			for h := 0; h < 2; h++ {
				c.Data[k*c.Cols+7*h+6] = 1
				c.Data[k*c.Cols+14+h] = 0.4
			}
			c.Data[k*c.Cols+7] = 0.006 // right hand, toward the fingers: 6 cm/s
		}
	}}
	fake := FakeOptions{FingerRad: [2]float64{0.4, 0.4},
		Hold: func(at int64, h int, q armlink.Joints) armlink.Joints {
			if h == 1 && at >= from && at < until {
				if at == from {
					wall[h] = q
				}
				q = wall[h]
			}
			held[h] = q
			return q
		},
		Observe: func(at int64, cmd [2]armrt.Command) {
			for j := range cmd[1].Q {
				if d := math.Abs(cmd[1].Q[j] - held[1][j]); at >= from && at < until {
					worst = math.Max(worst, d)
				}
			}
		}}
	s, _ := fakeSession(t, DefaultCell(), fake)
	before := s.HandPose(1)
	res, err := s.Run(context.Background(), RunOptions{Policy: push, MaxDuration: 9 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if res.Outcome != OutcomeTime {
		t.Fatalf("outcome %s (%s), want the time limit", res.Outcome, res.Reason)
	}
	if worst > 0.08 { // 5 s of pushing would be more than 0.5
		t.Errorf("the command ran %.3f rad ahead of an arm that was held", worst)
	}
	if res.Contacts < 3 {
		t.Errorf("gave way %d times in 5 s of pushing", res.Contacts)
	}
	if down := before.Pos.Z - s.HandPose(1).Pos.Z; down < 0.10 {
		t.Errorf("the hand went down %.3f m, want more than 0.10: it must move on when the way is free", down)
	}
}

// Free motion with a lag that the arm states is no contact.
func TestLagIsNoContact(t *testing.T) {
	s, _ := fakeSession(t, DefaultCell(), FakeOptions{Lag: 20 * time.Millisecond, FingerRad: [2]float64{0.4, 0.4}})
	res, err := s.Run(context.Background(), RunOptions{Policy: &scripted{rateHz: 30}, MaxDuration: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if res.Contacts != 0 || res.MaxFollowing < 0.002 {
		t.Errorf("%d contacts with a following error up to %.4f rad", res.Contacts, res.MaxFollowing)
	}
}

// A chunk that leaves the arms' reach after some rows is followed that far; the hand comes to rest there within reach, and the run goes on.
func TestChunksAreFollowedAsFarAsTheyReach(t *testing.T) {
	away := &scripted{rateHz: 10, mangle: func(_ int, c *Chunk) {
		clear(c.Data)
		for k := 0; k < c.Rows; k++ {
			for h := 0; h < 2; h++ {
				c.Data[k*c.Cols+7*h+6] = 1
				c.Data[k*c.Cols+14+h] = 0.4
			}
			c.Data[k*c.Cols+7+2] = 0.02 // right hand, toward its camera: away from the base at 20 cm/s
		}
	}}
	s, _ := fakeSession(t, DefaultCell(), FakeOptions{FingerRad: [2]float64{0.4, 0.4}})
	res, err := s.Run(context.Background(), RunOptions{Policy: away, MaxDuration: 6 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if res.Shortened == 0 {
		t.Errorf("no chunk was shortened: %+v", res)
	}
	if m := s.HandPose(1).Pos; m.X < 0.2 {
		t.Errorf("the hand reached x = %.3f m only", m.X)
	}
	if res.MaxFollowing > 0.01 {
		t.Errorf("following error %.3f rad", res.MaxFollowing)
	}
}
