package check

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"gonum.org/v1/gonum/spatial/r3"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/dataset/video"
	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/feature"
)

// maker makes datasets shaped like YUBI's: smooth two-handed motions, with every derived feature computed from them.
type maker struct {
	fps, height, width int
	ours               bool // also pinch's own features
	features           []feature.Feature
	rng                *rand.Rand
}

func newMaker(fps, height, width int, ours bool) *maker {
	m := &maker{fps: fps, height: height, width: width, ours: ours, rng: rand.New(rand.NewPCG(1, 2))}
	for _, f := range feature.Stationary().Features() {
		if !f.Ours || ours {
			m.features = append(m.features, f)
		}
	}
	return m
}

func (m *maker) datasetFeatures() []dataset.Feature {
	var out []dataset.Feature
	for _, f := range m.features {
		d := dataset.Feature{Name: f.Name, DType: dataset.DType(f.DType), Shape: f.Shape, Names: f.Names}
		if d.DType == dataset.Video {
			d.Shape = []int{m.height, m.width, 3}
		}
		out = append(out, d)
	}
	return out
}

// wave is a smooth function of time: a few sinusoids and a little tremor.
type wave struct{ a, w, p []float64 }

func (m *maker) wave(scale, seconds float64) wave {
	var v wave
	for i := range 4 {
		v.a = append(v.a, scale*(0.5+m.rng.Float64())/float64(i+1))
		v.w = append(v.w, 2*math.Pi*(0.3+0.5*float64(i)+0.2*m.rng.Float64()))
		v.p = append(v.p, 2*math.Pi*m.rng.Float64())
	}
	return v
}

func (v wave) at(t float64) float64 {
	s := 0.0
	for i := range v.a {
		s += v.a[i] * math.Sin(v.w[i]*t+v.p[i])
	}
	return s
}

// take is one demonstration: the poses of all frames in quest_origin and the finger angles, row by row.
type take struct {
	poses  map[string][]frames.Pose
	joints [2][]float64
	rows   int
}

func (m *maker) take(rows int) *take {
	k := &take{poses: map[string][]frames.Pose{}, rows: rows}
	fixed := func(x, y, z, roll, pitch float64) frames.Pose {
		return frames.Pose{Pos: r3.Vec{X: x, Y: y, Z: z}, Rot: frames.QuatFromRPY(roll, pitch, 0)}
	}
	for i, side := range []string{"left", "right"} {
		var w [7]wave
		for d := range w {
			w[d] = m.wave(map[bool]float64{true: 0.08, false: 0.25}[d < 3], 0)
		}
		for r := range rows {
			t := float64(r) / float64(m.fps)
			tremor := func() float64 { return 2e-5 * m.rng.NormFloat64() }
			hand := frames.Pose{Pos: r3.Vec{X: 0.4 + w[0].at(t) + tremor(), Y: 0.2*float64(1-2*i) + w[1].at(t) + tremor(), Z: 1 + w[2].at(t) + tremor()},
				Rot: frames.QuatFromRPY(w[3].at(t)+tremor(), w[4].at(t)+tremor(), w[5].at(t)+tremor())}
			angle := 0.45 + w[6].at(t) + 1e-4*m.rng.NormFloat64()
			k.joints[i] = append(k.joints[i], angle)
			add := func(name string, p frames.Pose) { k.poses[name] = append(k.poses[name], p) }
			add(side+"_hand_root", hand)
			add(side+"_hand_cam_link", hand.Mul(fixed(0, 0, 0.0426, 0, 0)))
			add("quest_"+side+"_controller", hand.Mul(fixed(-0.063, 0.016, 0.0525, 0, 0.7)))
			for f, finger := range []string{"left", "right"} {
				turn := frames.Pose{Rot: frames.QuatFromAxisAngle(r3.Vec{Z: 1}, angle*float64(1-2*f))}
				add(side+"_"+finger+"_finger_tip_link", hand.Mul(turn).Mul(fixed(0.1, 0.014, 0, 0, 0)))
			}
		}
	}
	h := m.wave(0.02, 0)
	for r := range rows {
		t := float64(r) / float64(m.fps)
		k.poses["quest_hmd"] = append(k.poses["quest_hmd"], frames.Pose{Pos: r3.Vec{X: h.at(t), Y: h.at(t + 9), Z: 1.5 + h.at(t+5)}, Rot: frames.QuatFromRPY(h.at(t+3), h.at(t+7), h.at(t+11))})
	}
	return k
}

// pose of a child in a parent, row r.
func (k *take) pose(parent, child string, r int) frames.Pose {
	p := k.poses[child][r]
	if base, ok := k.poses[parent]; ok {
		return base[r].Inv().Mul(p)
	}
	return p
}

// columns computes every feature of a take.
func (m *maker) columns(k *take, start int64) map[string]any {
	out := map[string]any{}
	for _, f := range m.features {
		if f.Kind == feature.Video {
			continue
		}
		out[f.Name] = m.column(f, k, start)
	}
	return out
}

func (m *maker) column(f feature.Feature, k *take, start int64) any {
	n := k.rows
	switch f.Kind {
	case feature.Pose, feature.Motion:
		var v []float64
		for r := range n {
			p := frames.Identity
			switch {
			case f.Kind == feature.Pose:
				p = k.pose(f.Parent, f.Child, r)
			case f.Timing == frames.Next && r+1 < n:
				p = k.pose(f.Parent, f.Child, r).Inv().Mul(k.pose(f.Parent, f.Child, r+1))
			case f.Timing != frames.Next && r > 0:
				p = k.pose(f.Parent, f.Child, r-1).Inv().Mul(k.pose(f.Parent, f.Child, r))
			}
			a := p.ArrayXYZXYZW()
			v = append(v, a[:]...)
		}
		return v
	case feature.Joints:
		var v []float64
		for r := range n {
			if f.Timing == frames.Next {
				r = min(r+1, n-1)
			}
			v = append(v, k.joints[0][r], k.joints[1][r])
		}
		return v
	case feature.Buttons:
		return make([]int32, 3*n)
	case feature.RowTime, feature.CaptureTime:
		return m.times(f, n, start)
	}
	flags := make([]bool, n)
	for r := range flags {
		flags[r] = f.Kind != feature.Done || r == n-1
	}
	return flags
}

func (m *maker) times(f feature.Feature, n int, start int64) []int64 {
	var v []int64
	for r := range n {
		t := start + int64(r)*1_000_000_000/int64(m.fps)
		if f.Kind == feature.RowTime {
			v = append(v, t)
			continue
		}
		age := int64(1e6 + 3e6*m.rng.Float64())
		v = append(v, t-age, t-age)
	}
	return v
}

// film makes a video in which a bright block moves with a hand.
func (m *maker) film(t testing.TB, path string, k *take, side string, shade byte) {
	t.Helper()
	enc, err := video.NewEncoder(context.Background(), path, video.EncodeOptions{FPS: m.fps, Width: m.width, Height: m.height, Preset: "ultrafast"})
	if err != nil {
		t.Fatal(err)
	}
	defer enc.Abort()
	rgb := make([]byte, m.height*m.width*3)
	for r := range k.rows {
		p := k.poses[side+"_hand_root"][r].Pos
		for y := range m.height {
			for x := range m.width {
				i := (y*m.width + x) * 3
				u, w := float64(x)/float64(m.width)+3*p.Y, float64(y)/float64(m.height)+3*p.Z
				g := byte(90 + 50*math.Sin(9*u)*math.Cos(7*w))
				rgb[i], rgb[i+1], rgb[i+2] = g, g/2+shade, shade
			}
		}
		if err := enc.WriteRGB(rgb); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := enc.Close(); err != nil {
		t.Fatal(err)
	}
}

func needFFmpeg(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath("ffmpeg"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("ffmpeg is not installed: apt-get install ffmpeg")
		}
		t.Skip("ffmpeg is not installed: apt-get install ffmpeg")
	}
}

// shades tell cameras apart.
var shades = map[string]byte{"left": 20, "right": 120, "center": 200}

// write makes a dataset of takes with the given numbers of rows; one video per camera and episode, or, when films is false, the first
// for all.
func (m *maker) write(t testing.TB, root string, rows []int, films bool) {
	t.Helper()
	needFFmpeg(t)
	w, err := dataset.Create(root, dataset.Options{FPS: m.fps, RobotType: "yubi", Features: m.datasetFeatures(), WriterOptions: dataset.WriterOptions{SkipImageStats: !films}})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	dir := t.TempDir()
	made := map[string]string{}
	for i, n := range rows {
		k := m.take(n)
		ep := dataset.Episode{Length: n, Tasks: []string{fmt.Sprintf("task %d", i%2)}, Columns: m.columns(k, int64(1e15)+int64(i)*1e12), Videos: map[string]string{}, ImageStats: map[string]dataset.Stats{}}
		for _, f := range m.features {
			if f.Kind != feature.Video {
				continue
			}
			path := filepath.Join(dir, fmt.Sprintf("%s-%d.mp4", f.Stream, i))
			if !films && made[f.Stream] != "" {
				path = made[f.Stream]
			} else {
				side := map[bool]string{true: "right", false: "left"}[f.Stream == "right"]
				m.film(t, path, k, side, shades[f.Stream])
				made[f.Stream] = path
			}
			ep.Videos[f.Name] = path
			if !films {
				var acc dataset.ImageAccumulator
				acc.Add(slices.Repeat([]byte{10, 200, 90, 60}, m.height*m.width*3/4), m.width, m.height)
				ep.ImageStats[f.Name] = acc.Stats()
			}
		}
		if _, err := w.AddEpisode(context.Background(), ep); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}
