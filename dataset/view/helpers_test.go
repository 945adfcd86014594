package view

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/dataset/video"
	"github.com/pinch-robotics/pinch/internal/testpeer"
)

const camW, camH, fps = 96, 64, 30

func TestMain(m *testing.M) {
	code := m.Run()
	chromeStop()
	if madeDir != "" {
		os.RemoveAll(madeDir)
	}
	os.Exit(code)
}

// shade is the grey level of frame i of a test video: distinct for neighbouring frames and for cameras.
func shade(seed, i int) byte { return byte(25 + (i*37+seed*53)%200) }

// rows of the episodes of the test set.
var rows = []int{75, 60}

const (
	left  = "observation.image.left"
	right = "observation.image.right"
	hands = "observation.pose.%s_hand_root.absolute"
)

func poseFeature(name string) dataset.Feature {
	return dataset.Feature{Name: name, DType: dataset.Float64, Shape: []int{7}, Names: []string{"x", "y", "z", "qx", "qy", "qz", "qw"}}
}

func features() []dataset.Feature {
	one := []int{1}
	fs := []dataset.Feature{
		{Name: "observation.state", DType: dataset.Int32, Shape: []int{2}, Names: []string{"footpedal_button_0", "footpedal_button_1"}},
	}
	for _, s := range []string{"left", "right"} {
		fs = append(fs, poseFeature(fmt.Sprintf(hands, s)),
			dataset.Feature{Name: "observation.pose." + s + "_hand_root.is_tracked", DType: dataset.Bool, Shape: one})
		for _, f := range []string{"left", "right"} {
			fs = append(fs, poseFeature(fmt.Sprintf("observation.pose.%s_%s_finger_tip.absolute", s, f)))
		}
	}
	return append(fs,
		dataset.Feature{Name: "observation.joint_states", DType: dataset.Float64, Shape: []int{2}, Names: []string{"left_right_finger_joint", "right_right_finger_joint"}},
		dataset.Feature{Name: left, DType: dataset.Video, Shape: []int{camH, camW, 3}},
		dataset.Feature{Name: right, DType: dataset.Video, Shape: []int{camH, camW, 3}},
		dataset.Feature{Name: "observation.image.left.is_fresh", DType: dataset.Bool, Shape: one},
		dataset.Feature{Name: "action", DType: dataset.Float32, Shape: []int{2}, Names: []string{"a", "b"}},
		dataset.Feature{Name: "observation.capture_time.row", DType: dataset.Int64, Shape: one},
		dataset.Feature{Name: "phase", DType: dataset.String, Shape: one})
}

// grey makes a video of n frames, frame i of grey level shade(seed, i).
func grey(t testing.TB, path string, codec video.Codec, n, seed int) {
	t.Helper()
	enc, err := video.NewEncoder(context.Background(), path, video.EncodeOptions{Codec: codec, FPS: fps, Width: camW, Height: camH})
	if err != nil {
		t.Fatal(err)
	}
	frame := make([]byte, camW*camH*3)
	for i := range n {
		for k := range frame {
			frame[k] = shade(seed, i)
		}
		if err := enc.WriteRGB(frame); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := enc.Close(); err != nil {
		t.Fatal(err)
	}
}

// handAt is the pose of a hand at a row: a loop in front of the body, turning about the vertical.
func handAt(side, k, r int) [7]float64 {
	a := 2 * math.Pi * float64(r) / 70
	y := 0.18 - 0.36*float64(side)
	return [7]float64{0.35 + 0.12*math.Cos(a+float64(k)), y + 0.08*math.Sin(a), 0.9 + 0.05*math.Sin(2*a), 0, 0, math.Sin(a / 4), math.Cos(a / 4)}
}

// tipAt is the tip of a finger: 12 cm along x of the hand, and half the opening to its side.
func tipAt(side, finger, k, r int) [7]float64 {
	h := handAt(side, k, r)
	x, y := 0.12, (0.5-float64(finger))*0.8*opening(r)
	c, s := h[6]*h[6]-h[5]*h[5], 2*h[5]*h[6]
	h[0], h[1] = h[0]+c*x-s*y, h[1]+s*x+c*y
	return h
}

func opening(r int) float64 { return 0.06 + 0.05*math.Sin(float64(r)/6) }

// episode is episode k of the test set; its videos lie in dir.
func episode(t testing.TB, dir string, k int) dataset.Episode {
	t.Helper()
	n := rows[k]
	ep := dataset.Episode{Length: n, Columns: map[string]any{}, Videos: map[string]string{}, Extra: map[string]any{
		"label": []string{"pick", "place"}[k], "success": k == 0, "late": []string{"left:12-14"}[:1-k], "lost": []string{"joint_states:20"}, "repeated": []string{}}}
	for c, name := range []string{left, right} {
		ep.Videos[name] = filepath.Join(dir, fmt.Sprintf("%d-%d.mp4", k, c))
		grey(t, ep.Videos[name], []video.Codec{video.H264, video.AV1}[c], n, 2*k+c)
	}
	pedal, joints, fresh := make([]int32, 2*n), make([]float64, 2*n), make([]bool, n)
	action, ns, phase := make([]float32, 2*n), make([]int64, n), make([]string, n)
	poses, tracked := map[string][]float64{}, [2][]bool{make([]bool, n), make([]bool, n)}
	for r := range n {
		ep.Tasks = append(ep.Tasks, fmt.Sprintf("put cup %d on the plate", k))
		if r >= 2*n/3 {
			ep.Tasks[r] = "go home"
		}
		pedal[2*r] = int32(b2i(r >= 5 && r < 9))
		joints[2*r], joints[2*r+1] = opening(r), opening(r)*1.5
		fresh[r] = r%2 == 0
		action[2*r], action[2*r+1] = float32(math.Sin(float64(r)/9)), -float32(r)/7
		ns[r] = 1_700_000_000_123_456_789 + int64(r)*33_333_333
		phase[r] = []string{"reach", "grasp", "lift"}[3*r/n]
		for s, side := range []string{"left", "right"} {
			p := handAt(s, k, r)
			poses[fmt.Sprintf(hands, side)] = append(poses[fmt.Sprintf(hands, side)], p[:]...)
			tracked[s][r] = s == 0 || r < 30 || r > 33
			for f, finger := range []string{"left", "right"} {
				name := fmt.Sprintf("observation.pose.%s_%s_finger_tip.absolute", side, finger)
				q := tipAt(s, f, k, r)
				poses[name] = append(poses[name], q[:]...)
			}
		}
	}
	for name, v := range poses {
		ep.Columns[name] = v
	}
	for s, side := range []string{"left", "right"} {
		ep.Columns["observation.pose."+side+"_hand_root.is_tracked"] = tracked[s]
	}
	ep.Columns["observation.state"], ep.Columns["observation.joint_states"], ep.Columns["observation.image.left.is_fresh"] = pedal, joints, fresh
	ep.Columns["action"], ep.Columns["observation.capture_time.row"], ep.Columns["phase"] = action, ns, phase
	return ep
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

var (
	madeOnce sync.Once
	madeDir  string
)

// testSet is the root of a dataset that tests only read, made once.
func testSet(t testing.TB) string {
	t.Helper()
	testpeer.Program(t, "ffmpeg", "ffmpeg")
	madeOnce.Do(func() {
		dir, err := os.MkdirTemp("", "pinch-view-")
		if err != nil {
			t.Fatal(err)
		}
		madeDir = dir
		w, err := dataset.Create(filepath.Join(dir, "cups"), dataset.Options{FPS: fps, RobotType: "test_hand", Features: features()})
		if err != nil {
			t.Fatal(err)
		}
		for k := range rows {
			if _, err := w.AddEpisode(context.Background(), episode(t, dir, k)); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	})
	root := filepath.Join(madeDir, "cups")
	if _, err := os.Stat(filepath.Join(root, "meta", "info.json")); err != nil {
		t.Fatal("the test set could not be made")
	}
	return root
}

func open(t testing.TB, root string) *dataset.Dataset {
	t.Helper()
	d, err := dataset.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// testReport is a report with findings of every kind of place.
func testReport() *dataset.Report {
	return &dataset.Report{Findings: []dataset.Finding{
		{Code: "video-folder", Severity: dataset.Error, Episode: -1, Frame: -1, File: "meta/info.json", Message: "the whole set is odd", Fix: "look again", Count: 1},
		{Code: "pose-jump", Severity: dataset.Warn, Episode: 0, Frame: 40, Frames: 5, Feature: fmt.Sprintf(hands, "left"), Message: "the hand jumps 0.31 m", Fix: "leave it out", Count: 1},
		{Code: "pose-jump", Severity: dataset.Warn, Episode: 1, Frame: 7, Message: "the hand jumps 0.29 m", Count: 2},
		{Code: "idle", Severity: dataset.Note, Episode: 1, Frame: -1, Message: "nothing moves", Count: 1},
	}}
}
