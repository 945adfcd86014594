package calibrate

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/pinch-robotics/pinch/deploy"
	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
)

// Robot is what a measurement needs of deploy.Session, which implements it.
type Robot interface {
	Hello() armlink.Hello
	Run(ctx context.Context, opts deploy.RunOptions) (deploy.Result, error)
	HandAt(hand int, q armlink.Joints) frames.Pose
	HandPose(hand int) frames.Pose
	Settle(ctx context.Context) error
}

var _ Robot = (*deploy.Session)(nil)

// motion is a policy that shows one motion of both hands: offset is where a hand is at policy time t, seen from where it began; finger the wanted angle.
type motion struct {
	offset func(hand int, t float64) frames.Pose
	finger func(hand int, t float64) float64
}

const (
	motionRateHz = 30.0
	motionRows   = 32
)

// Metadata implements deploy.Policy.
func (m motion) Metadata() map[string]any {
	return deploy.Contract{RateHz: motionRateHz, Horizon: motionRows, PoseReference: deploy.ReferenceBody, PoseTiming: deploy.TimingNext, Checkpoint: "calibration"}.Map()
}

// Infer implements deploy.Policy.
func (m motion) Infer(_ context.Context, o deploy.Observation) (deploy.Chunk, error) {
	c := deploy.Chunk{Rows: motionRows, Cols: deploy.ActionColumns}
	for k := 0; k < motionRows; k++ {
		t := o.Consumed.Seconds() + float64(k)/motionRateHz
		for h := range deploy.Hands {
			for _, v := range m.offset(h, t).Inv().Mul(m.offset(h, t+1/motionRateHz)).ArrayXYZXYZW() {
				c.Data = append(c.Data, float32(v))
			}
		}
		for h := range deploy.Hands {
			c.Data = append(c.Data, float32(m.finger(h, t+1/motionRateHz)))
		}
	}
	return c, nil
}

// show lets the arms make a motion for a while and calls look at every step. A motion that a gate stopped measures nothing.
func show(ctx context.Context, r Robot, m motion, length time.Duration, look func(deploy.Step) error) error {
	res, err := r.Run(ctx, deploy.RunOptions{Policy: m, Prompt: "calibrate", MaxDuration: length, Step: func(_ context.Context, s deploy.Step) (deploy.Directive, error) {
		return deploy.Directive{}, look(s)
	}})
	switch {
	case err != nil:
		return err
	case res.Stopped():
		return fmt.Errorf("the arms were stopped: %s", res.Reason)
	case res.Rejected > 0:
		return fmt.Errorf("the motion does not fit where the arms stand (%d parts were refused); move them to the middle of their room, for instance by `pinch home`", res.Rejected)
	}
	return nil
}

// A chirp excites every lag differently, so that only one fits.
const (
	chirpFromHz = 0.3
	chirpToHz   = 1.3
	chirpLength = 10 * time.Second
)

// chirp is a sine of rising frequency, -1 to 1, that begins gently.
func chirp(t float64) float64 {
	rate := (chirpToHz - chirpFromHz) / chirpLength.Seconds()
	ease := 1 - math.Exp(-t*t)
	return ease * math.Sin(2*math.Pi*(chirpFromHz*t+rate*t*t/2))
}

// arms finds the hands in a state.
func arms(h armlink.Hello) (index [2]int, err error) {
	for hand, name := range deploy.Hands {
		index[hand] = -1
		for i, a := range h.Arms {
			if a.Name == name {
				index[hand] = i
			}
		}
		if index[hand] < 0 {
			return index, fmt.Errorf("the cell has no %s arm", name)
		}
	}
	return index, nil
}
