// Package armtest is what every driver of an arm or a hand has to pass. A driver's own test says how its device is reached and how faults are
// caused; the suites say what has to happen then.
package armtest

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/pinch-robotics/pinch/deploy/arm"
)

// HandCase is one hand with its device. Angles in rad.
type HandCase struct {
	New    func(t *testing.T) arm.Hand // a fresh driver for the device
	Angle  func() float64              // where the fingers truly are
	Object func(rad float64)           // puts something hard between the fingers; NaN takes it away
	Cut    func(cut bool)              // pulls the cable, or plugs it in again
	Alarm  func()                      // makes the device raise an alarm; nil: it has none
	// Refused lists what the device refused so far; a good driver causes none.
	Refused func() []string
	// MovesAtStart is true for hands that have to move to find their range.
	MovesAtStart bool
	// Coast is how long the fingers may go on when the process dies; 0: to the last goal, which the suite then expects.
	Coast     time.Duration
	Tolerance float64 // of following and measuring, rad
	Lag       float64 // how far the fingers may be behind a goal that moves with 0.5 rad/s, rad
}

// Hand runs the suite.
func Hand(t *testing.T, c HandCase) {
	h := c.New(t)
	before := c.Angle()
	st := start(t, h)
	if moved := math.Abs(c.Angle() - before); !c.MovesAtStart && moved > c.Tolerance {
		t.Errorf("Start moved the fingers by %.3f rad", moved)
	}
	if d := math.Abs(st.Rad - c.Angle()); d > c.Tolerance {
		t.Errorf("Start states %.3f rad, the fingers are at %.3f", st.Rad, c.Angle())
	}
	t.Run("follows", func(t *testing.T) { follows(t, c, h) })
	t.Run("holds an object and lets go", func(t *testing.T) { holds(t, c, h) })
	t.Run("silence of the bus is an error, then it goes on without a jump", func(t *testing.T) { silence(t, c, h) })
	t.Run("stops when the process dies", func(t *testing.T) { dies(t, c, h) })
	if c.Alarm != nil {
		t.Run("an alarm says so", func(t *testing.T) { alarm(t, c, h) })
	}
	if err := h.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if _, err := h.Exchange(context.Background(), 0); err == nil {
		t.Error("Exchange after Close has no error")
	}
	if r := c.Refused(); len(r) > 0 {
		t.Errorf("the device refused: %q", r)
	}
}

func start(t *testing.T, h arm.Hand) arm.HandState {
	t.Helper()
	st, err := h.Start(context.Background())
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	return st
}

// drive sends goals for a time and calls see after each exchange.
func drive(t *testing.T, h arm.Hand, d time.Duration, goal func(s float64) float64, see func(s float64, st arm.HandState)) {
	t.Helper()
	tick := time.NewTicker(h.Period())
	defer tick.Stop()
	for begin := time.Now(); time.Since(begin) < d; <-tick.C {
		s := time.Since(begin).Seconds()
		st, err := h.Exchange(context.Background(), goal(s))
		if err != nil {
			t.Fatalf("after %.2f s: %v", s, err)
		}
		if see != nil {
			see(s, st)
		}
	}
}

func middle(h arm.Hand) (mid, half float64) {
	closed, open := h.Range()
	return (closed + open) / 2, (open - closed) / 2
}

func follows(t *testing.T, c HandCase, h arm.Hand) {
	mid, half := middle(h)
	drive(t, h, 700*time.Millisecond, func(float64) float64 { return mid }, nil)
	amp := 0.5 * half
	omega := 0.5 / amp
	worst := 0.0
	goal := func(s float64) float64 { return mid + amp*math.Sin(omega*s) }
	drive(t, h, 1500*time.Millisecond, goal, func(s float64, st arm.HandState) { worst = math.Max(worst, math.Abs(goal(s)-st.Rad)) })
	if worst > c.Lag {
		t.Errorf("the fingers are up to %.3f rad behind a goal of 0.5 rad/s, allowed %.3f", worst, c.Lag)
	}
	drive(t, h, 500*time.Millisecond, func(float64) float64 { return mid }, nil)
	if d := math.Abs(c.Angle() - mid); d > c.Tolerance {
		t.Errorf("at rest the fingers are %.3f rad from their goal", d)
	}
}

// Public report: a gripper stuck on an object ignored the order to open (facebookresearch/fairo 1398, 1418).
func holds(t *testing.T, c HandCase, h arm.Hand) {
	mid, half := middle(h)
	closed, _ := h.Range()
	block := mid - 0.3*half
	c.Object(block)
	var last arm.HandState
	drive(t, h, 900*time.Millisecond, func(float64) float64 { return closed }, func(_ float64, st arm.HandState) { last = st })
	if d := math.Abs(last.Rad - block); d > 2*c.Tolerance {
		t.Errorf("the fingers stand at %.3f rad, the object is at %.3f", last.Rad, block)
	}
	if !last.Holding {
		t.Errorf("pressing on an object is not reported: %+v", last)
	}
	drive(t, h, 900*time.Millisecond, func(float64) float64 { return mid }, func(_ float64, st arm.HandState) { last = st })
	if d := math.Abs(last.Rad - mid); d > 2*c.Tolerance {
		t.Errorf("the fingers do not open again: %.3f rad, want %.3f", last.Rad, mid)
	}
	if last.Holding {
		t.Errorf("open fingers are reported as holding: %+v", last)
	}
	c.Object(math.NaN())
}

func silence(t *testing.T, c HandCase, h arm.Hand) {
	mid, half := middle(h)
	c.Cut(true)
	var err error
	for begin := time.Now(); err == nil && time.Since(begin) < 2*time.Second; {
		_, err = h.Exchange(context.Background(), mid)
	}
	if err == nil {
		t.Fatal("a pulled cable gives no error")
	}
	time.Sleep(300 * time.Millisecond)
	c.Cut(false)
	var st arm.HandState
	if st, err = h.Exchange(context.Background(), c.Angle()); err != nil {
		if err = h.Recover(context.Background()); err != nil {
			t.Fatalf("recover with the cable back: %v", err)
		}
		if st, err = h.Exchange(context.Background(), c.Angle()); err != nil {
			t.Fatalf("after recover: %v", err)
		}
	}
	at := c.Angle()
	drive(t, h, 200*time.Millisecond, func(float64) float64 { return st.Rad }, nil)
	if d := math.Abs(c.Angle() - at); d > 2*c.Tolerance {
		t.Errorf("the fingers jumped by %.3f rad after the cable came back", d)
	}
	drive(t, h, 500*time.Millisecond, func(float64) float64 { return mid + 0.3*half }, nil)
	if d := math.Abs(c.Angle() - (mid + 0.3*half)); d > c.Tolerance {
		t.Errorf("after the cable came back the fingers do not follow: %.3f from the goal", d)
	}
}

func dies(t *testing.T, c HandCase, h arm.Hand) {
	closed, open := h.Range()
	drive(t, h, 900*time.Millisecond, func(float64) float64 { return closed }, nil)
	drive(t, h, 60*time.Millisecond, func(float64) float64 { return open }, nil) // then nothing more
	if c.Coast == 0 {
		time.Sleep(1500 * time.Millisecond)
		if d := math.Abs(c.Angle() - open); d > c.Tolerance {
			t.Errorf("the fingers are %.3f rad from the last goal", d)
		}
		return
	}
	time.Sleep(c.Coast)
	at := c.Angle()
	time.Sleep(300 * time.Millisecond)
	if d := math.Abs(c.Angle() - at); d > c.Tolerance {
		t.Errorf("the fingers went on by %.3f rad, %v after the process fell silent", d, c.Coast)
	}
	if err := h.Recover(context.Background()); err != nil {
		t.Fatalf("recover: %v", err)
	}
	drive(t, h, 900*time.Millisecond, func(float64) float64 { return open }, nil)
	if d := math.Abs(c.Angle() - open); d > c.Tolerance {
		t.Errorf("after Recover the fingers do not follow: %.3f from the goal", d)
	}
}

func alarm(t *testing.T, c HandCase, h arm.Hand) {
	mid, _ := middle(h)
	c.Alarm()
	_, err := h.Exchange(context.Background(), mid)
	if err == nil || !errors.Is(err, arm.ErrHandAlarm) {
		t.Errorf("error %v, want one that wraps ErrHandAlarm", err)
	}
	at := c.Angle()
	for i := 0; i < 10; i++ {
		_, _ = h.Exchange(context.Background(), mid)
	}
	if d := math.Abs(c.Angle() - at); d > c.Tolerance {
		t.Errorf("the fingers moved by %.3f rad during an alarm", d)
	}
}
