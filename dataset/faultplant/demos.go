package faultplant

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"

	"gonum.org/v1/gonum/spatial/r3"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/dataset/video"
	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/feature"
)

// DemoOptions describe simulated demonstrations.
type DemoOptions struct {
	// Episodes to make, at least one.
	Episodes int
	// FPS of the rows in Hz; default 30.
	FPS int
	// Width and Height of the pictures in pixels; default 64x48.
	Width, Height int
	// Seed of everything random.
	Seed uint64
}

// Demos writes a clean dataset of simulated two-handed demonstrations to the new folder root: in each episode both hands reach for a
// thing, close, carry it and open, in strokes of least jerk with pauses and the tremor of a hand (0.3 mm); the wrist cameras look at a
// textured table from where the hands are. Rows have the features of a rig without pedal and centre camera; half of the episodes
// have the other of two tasks. Two calls with the same options write the same rows.
func Demos(ctx context.Context, root string, o DemoOptions) error {
	if o.FPS == 0 {
		o.FPS = 30
	}
	if o.Width == 0 {
		o.Width, o.Height = 64, 48
	}
	layout := feature.Layout{Origin: feature.QuestOrigin, Tracking: true,
		Cameras: []feature.Camera{{Name: "left", Height: o.Height, Width: o.Width}, {Name: "right", Height: o.Height, Width: o.Width}}}
	var features []dataset.Feature
	for _, f := range layout.Features() {
		features = append(features, dataset.Feature{Name: f.Name, DType: dataset.DType(f.DType), Shape: f.Shape, Names: f.Names})
	}
	w, err := dataset.Create(root, dataset.Options{FPS: o.FPS, RobotType: "yubi_portable", Features: features})
	if err != nil {
		return err
	}
	for e := range o.Episodes {
		d := newDemo(o, e)
		ep := dataset.Episode{Length: len(d.left), Tasks: []string{[]string{"pick up the block", "put the block on the tray"}[e%2]},
			Columns: map[string]any{}, Videos: map[string]string{}}
		for _, f := range layout.Features() {
			if f.Kind == feature.Video {
				path := filepath.Join(w.Scratch(), fmt.Sprintf("%s-%d.mp4", f.Stream, e))
				if err := d.film(ctx, path, f.Stream, o); err != nil {
					return err
				}
				ep.Videos[f.Name] = path
				continue
			}
			if ep.Columns[f.Name], err = d.column(f, o.FPS); err != nil {
				return err
			}
		}
		if _, err := w.AddEpisode(ctx, ep); err != nil {
			return fmt.Errorf("episode %d: %w", e, err)
		}
	}
	return w.Close()
}

// demo is the course of one demonstration: a pose of each hand and both finger angles for every row.
type demo struct {
	left, right []frames.Pose
	angle       [2][]float64
	start       int64 // ns
	rng         *rand.Rand
}

func newDemo(o DemoOptions, episode int) *demo {
	d := &demo{rng: rand.New(rand.NewPCG(o.Seed, uint64(episode))), start: 1_760_000_000_000_000_000 + int64(episode)*20_000_000_000}
	seconds := 4 + 3*d.rng.Float64()
	n := int(seconds * float64(o.FPS))
	d.left = d.strokes(n, o.FPS, r3.Vec{X: 0.35, Y: 0.25, Z: 0.2})
	d.right = d.strokes(n, o.FPS, r3.Vec{X: 0.35, Y: -0.25, Z: 0.2})
	for k := range 2 {
		d.angle[k] = d.grasp(n)
	}
	return d
}

// strokes moves a hand through four places about home, each reached by a movement of least jerk (Flash and Hogan 1985) after a pause.
func (d *demo) strokes(n, fps int, home r3.Vec) []frames.Pose {
	draw := func(s float64) float64 { return s * d.rng.NormFloat64() }
	place := func() frames.Pose {
		return frames.Pose{Pos: r3.Add(home, r3.Vec{X: draw(0.08), Y: draw(0.06), Z: draw(0.05)}), Rot: frames.QuatFromRPY(draw(0.15), 0.9+draw(0.15), draw(0.3))}
	}
	at := place()
	var out []frames.Pose
	tremor, phase := 0.0003, d.rng.Float64()*2*math.Pi
	for len(out) < n {
		to := place()
		pause, stroke := int((0.1+0.3*d.rng.Float64())*float64(fps)), int((0.7+0.6*d.rng.Float64())*float64(fps))
		for k := range pause + stroke {
			t := max(0, float64(k-pause)/float64(stroke))
			s := t * t * t * (10 - 15*t + 6*t*t)
			p := frames.Interpolate(at, to, s)
			w := 2 * math.Pi * 9 * float64(len(out)) / float64(fps) // physiological tremor, 8 to 12 Hz
			p.Pos = r3.Add(p.Pos, r3.Scale(tremor, r3.Vec{X: math.Sin(w + phase), Y: math.Sin(1.1*w + 2*phase), Z: math.Cos(0.9*w + phase)}))
			out = append(out, p)
		}
		at = to
	}
	return out[:n]
}

// grasp opens, closes on a thing and opens again.
func (d *demo) grasp(n int) []float64 {
	out := make([]float64, n)
	open, closed := 0.6+0.25*d.rng.Float64(), 0.2+0.1*d.rng.Float64()
	shut, let := 0.25+0.15*d.rng.Float64(), 0.65+0.15*d.rng.Float64()
	for r := range out {
		t := float64(r) / float64(n)
		ramp := func(at float64) float64 { x := min(1, max(0, (t-at)/0.12)); return x * x * (3 - 2*x) }
		q := open + (closed-open)*ramp(shut) + (open-closed)*ramp(let) + 0.01*math.Sin(7*t)
		out[r] = math.Round(q*4096/(2*math.Pi)) * 2 * math.Pi / 4096 // steps of the encoder
	}
	return out
}

// pose is where a frame stands in the tracking space at a row.
func (d *demo) pose(frame string, r int) frames.Pose {
	if frame == feature.QuestOrigin {
		return frames.Identity
	}
	side, part, _ := strings.Cut(frame, "_")
	hand, q := d.left[r], d.angle[0][r]
	if side == "right" {
		hand, q = d.right[r], d.angle[1][r]
	}
	switch part {
	case "hand_cam_link":
		return hand.Mul(frames.Translation(r3.Vec{Z: 0.0426}))
	case "left_finger_tip_link":
		return hand.Mul(tip("left", q))
	case "right_finger_tip_link":
		return hand.Mul(tip("right", q))
	}
	return hand
}

// column computes a column of the rows.
func (d *demo) column(f feature.Feature, fps int) (any, error) {
	n := len(d.left)
	flags := make([]bool, n)
	tick := func(r int) int64 { return d.start + int64(r)*1_000_000_000/int64(fps) }
	numbers := make([]float64, n*f.Dim())
	switch f.Kind {
	case feature.Pose:
		for r := range n {
			a := d.pose(f.Parent, r).Inv().Mul(d.pose(f.Child, r)).ArrayXYZXYZW()
			copy(numbers[7*r:], a[:])
		}
		return numbers, nil
	case feature.Motion:
		for r := range n {
			from, to := max(0, r-1), r
			if f.Timing == frames.Next {
				from, to = r, min(r+1, n-1)
			}
			p := func(r int) frames.Pose { return d.pose(f.Parent, r).Inv().Mul(d.pose(f.Child, r)) }
			a := p(from).Inv().Mul(p(to)).ArrayXYZXYZW()
			copy(numbers[7*r:], a[:])
		}
		return numbers, nil
	case feature.Joints:
		for r := range n {
			at := r
			if f.Timing == frames.Next {
				at = min(r+1, n-1)
			}
			numbers[2*r], numbers[2*r+1] = d.angle[0][at], d.angle[1][at]
		}
		return numbers, nil
	case feature.VideoFresh, feature.PoseFresh, feature.JointsFresh, feature.Tracked, feature.Success:
		for r := range flags {
			flags[r] = true
		}
		return flags, nil
	case feature.Done:
		flags[n-1] = true
		return flags, nil
	case feature.RowTime:
		times := make([]int64, n)
		for r := range times {
			times[r] = tick(r)
		}
		return times, nil
	case feature.CaptureTime:
		times := make([]int64, 2*n)
		early := int64(len(f.Stream)) * 311_000 // each stream's samples are some milliseconds older than the row
		for r := range n {
			times[2*r], times[2*r+1] = tick(r)-early-1_000_000_000_000, tick(r)-early
		}
		return times, nil
	}
	return nil, fmt.Errorf("feature %q: a simulated demonstration has none", f.Name)
}

// film shows the table as the wrist camera sees it: a texture that moves with the hand, fingers at the edges, and sensor noise.
func (d *demo) film(ctx context.Context, path, side string, o DemoOptions) error {
	e, err := video.NewEncoder(ctx, path, video.EncodeOptions{FPS: o.FPS, Width: o.Width, Height: o.Height})
	if err != nil {
		return err
	}
	poses, q := d.left, d.angle[0]
	if side == "right" {
		poses, q = d.right, d.angle[1]
	}
	rgb := make([]byte, o.Width*o.Height*3)
	for r, p := range poses {
		look := p.Apply(r3.Vec{X: 0.2})
		metres := 0.5 * (0.5 + p.Pos.Z) / float64(o.Width) // of table for each pixel
		finger := int(q[r] * float64(o.Width) / 6)
		for y := range o.Height {
			for x := range o.Width {
				u := look.X + metres*float64(x-o.Width/2)
				v := look.Y + metres*float64(y-o.Height/2)
				light := 110 + 40*math.Sin(60*u)*math.Cos(45*v) + 25*math.Sin(23*u+31*v)
				if x < o.Width/6-finger+4 || x > o.Width*5/6+finger-4 {
					light = 50
				}
				i := 3 * (y*o.Width + x)
				for c := range 3 {
					rgb[i+c] = byte(max(0, min(255, light*(1-0.2*float64(c))+2*d.rng.NormFloat64())))
				}
			}
		}
		if err := e.WriteRGB(rgb); err != nil {
			e.Abort()
			return err
		}
	}
	_, err = e.Close()
	return err
}
