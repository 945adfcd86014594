package calibrate

import (
	"context"
	"fmt"
	"math"
	"time"

	"gonum.org/v1/gonum/spatial/r3"

	"github.com/pinch-robotics/pinch/deploy"
	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/imaging"
)

// Latency is what Latencies measures, in ms.
type Latency struct {
	Action [2]Estimate // of each arm
	Camera [2]Estimate // offset of each wrist camera's stamps
	Blind  [2]error    // why a camera gave none: what it sees does not change with the motion
}

// Measurements of lags look that far.
const (
	mostLag   = 400 * time.Millisecond
	leastLook = -150 * time.Millisecond // of cameras: stamps may be early too
)

// handAmplitudeM is how far the hands swing up and down.
const handAmplitudeM = 0.015

// Latencies lets both hands swing along their cameras' axes and compares commanded with measured hands, and measured hands with how much the wrist pictures change.
func Latencies(ctx context.Context, r Robot) (l Latency, err error) {
	index, err := arms(r.Hello())
	if err != nil {
		return l, err
	}
	still := [2]float64{0.3, 0.3}
	m := motion{
		offset: func(_ int, t float64) frames.Pose {
			return frames.Pose{Pos: r3.Vec{Z: handAmplitudeM * chirp(t)}, Rot: frames.Identity.Rot}
		},
		finger: func(hand int, _ float64) float64 { return still[hand] },
	}
	var told, been [2]series
	var way [2]track
	var eyes [2]eye
	first := true
	var axis, from [2]r3.Vec
	err = show(ctx, r, m, chirpLength, func(s deploy.Step) error {
		for h, i := range index {
			a := &s.State.Arms[i]
			if first {
				at := r.HandAt(h, a.QCmd)
				axis[h], from[h] = at.Rot.Rotate(r3.Vec{Z: 1}), at.Pos
				still[h] = a.GripperCmdRad
			}
			told[h].add(s.TNS, r3.Dot(axis[h], r3.Sub(r.HandAt(h, a.QCmd).Pos, from[h])))
			p := r.HandAt(h, a.Q).Pos
			been[h].add(s.TNS, r3.Dot(axis[h], r3.Sub(p, from[h])))
			way[h].add(s.TNS, p)
			if err := eyes[h].look(s.Frames[h]); err != nil {
				return fmt.Errorf("%s wrist camera: %w", deploy.Hands[h], err)
			}
		}
		first = false
		return nil
	})
	if err != nil {
		return l, err
	}
	for h, name := range deploy.Hands {
		if l.Action[h], err = follows(&told[h], &been[h], mostLag); err != nil {
			return l, fmt.Errorf("lag of the %s arm: %w", name, err)
		}
		l.Camera[h], l.Blind[h] = eyes[h].offset(&way[h])
	}
	return l, nil
}

// track is a path in space.
type track struct{ x, y, z series }

func (w *track) add(t int64, p r3.Vec) {
	w.x.add(t, p.X)
	w.y.add(t, p.Y)
	w.z.add(t, p.Z)
}

// between is how far apart the path is at two times.
func (w *track) between(a, b float64) float64 {
	return math.Sqrt(sq(w.x.at(a)-w.x.at(b)) + sq(w.y.at(a)-w.y.at(b)) + sq(w.z.at(a)-w.z.at(b)))
}

func sq(v float64) float64 { return v * v }

// eye keeps how much a camera's picture changes from one to the next.
type eye struct {
	t      []int64 // of pictures
	change []float64
	before []float64
}

// thumb is the size at which pictures are compared: noise averages out, motion of a millimetre does not.
const thumb = 40

// look takes the newest picture if it is new.
func (e *eye) look(f deploy.Frame) error {
	if f.JPEG == nil || len(e.t) > 0 && f.CaptureNS <= e.t[len(e.t)-1] {
		return nil
	}
	im, err := imaging.DecodeJPEG(f.JPEG)
	if err != nil {
		return err
	}
	small := grey(im)
	if e.before != nil {
		d := 0.0
		for i, v := range small {
			d += math.Abs(v-e.before[i]) / float64(len(small))
		}
		e.change = append(e.change, d)
	}
	e.t, e.before = append(e.t, f.CaptureNS), small
	return nil
}

// grey is the picture's brightness, averaged over thumb x thumb fields.
func grey(im imaging.RGB) []float64 {
	sum, n := make([]float64, thumb*thumb), make([]float64, thumb*thumb)
	for y := 0; y < im.Height; y++ {
		for x := 0; x < im.Width; x++ {
			p := im.Pix[3*(y*im.Width+x):]
			k := y*thumb/im.Height*thumb + x*thumb/im.Width
			sum[k] += float64(p[0]) + float64(p[1]) + float64(p[2])
			n[k]++
		}
	}
	for k := range sum {
		sum[k] /= math.Max(n[k], 1)
	}
	return sum
}

// offset is how late the camera's stamps are (ms): the shift at which its pictures change as the hand moves.
func (e *eye) offset(way *track) (Estimate, error) {
	return halves(func(from, to float64) (float64, error) {
		n := float64(len(e.change))
		a, b := int(from*n), int(to*n)
		if b-a < 20 {
			return 0, fmt.Errorf("%d pictures: %w", b-a, ErrNoMatch)
		}
		moved := make([]float64, b-a)
		lag, _, err := bestLag(leastLook, mostLag, func(lag float64) float64 {
			for i := range moved {
				moved[i] = way.between(float64(e.t[a+i])-lag, float64(e.t[a+i+1])-lag)
			}
			return correlation(moved, e.change[a:b])
		})
		return lag, err
	})
}

// Gripper is what Grippers measures of one hand.
type Gripper struct {
	Latency Estimate // ms
	Offset  float64  // rad: measured minus commanded, mean over still angles
	Worst   float64  // rad: the largest such difference
}

// fingerAmplitude is how far fingers swing around the middle of their range, as a share of it.
const fingerAmplitude = 0.25

// Grippers lets the fingers of both hands swing and stand, and compares commanded with measured angles. Nothing may be between them.
func Grippers(ctx context.Context, r Robot) (out [2]Gripper, err error) {
	index, err := arms(r.Hello())
	if err != nil {
		return out, err
	}
	var middle, swing [2]float64
	for h, i := range index {
		rad := r.Hello().Arms[i].GripperRad
		middle[h], swing[h] = (rad[0]+rad[1])/2, fingerAmplitude*(rad[1]-rad[0])
	}
	// After the swing come four still angles of two seconds each.
	stairs := []float64{-1, 0.5, 1, -0.5}
	const stair = 2.0
	begin := chirpLength.Seconds()
	m := motion{
		offset: func(int, float64) frames.Pose { return frames.Identity },
		finger: func(h int, t float64) float64 {
			if t < begin {
				return middle[h] + swing[h]*chirp(t)
			}
			return middle[h] + swing[h]*stairs[min(int((t-begin)/stair), len(stairs)-1)]
		},
	}
	var told, been [2]series
	var sum, n [2]float64
	err = show(ctx, r, m, chirpLength+time.Duration(stair*float64(len(stairs))*1e9), func(s deploy.Step) error {
		for h, i := range index {
			a := &s.State.Arms[i]
			if t := s.Elapsed.Seconds(); t < begin-0.5 {
				told[h].add(s.TNS, a.GripperCmdRad)
				been[h].add(s.TNS, a.GripperRad)
			} else if into := math.Mod(t-begin, stair); t > begin && into > 1.3 && into < 1.7 { // it has come to rest
				d := a.GripperRad - a.GripperCmdRad
				sum[h], n[h] = sum[h]+d, n[h]+1
				out[h].Worst = math.Max(out[h].Worst, math.Abs(d))
			}
		}
		return nil
	})
	if err != nil {
		return out, err
	}
	for h, name := range deploy.Hands {
		if out[h].Latency, err = follows(&told[h], &been[h], mostLag); err != nil {
			return out, fmt.Errorf("lag of the %s gripper: %w", name, err)
		}
		out[h].Offset = sum[h] / math.Max(n[h], 1)
	}
	return out, nil
}
