package video

import (
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pinch-robotics/pinch/internal/imaging"
)

// counted remembers which bytes were read.
type counted struct {
	io.ReaderAt
	spans []Span
}

func (c *counted) ReadAt(p []byte, off int64) (int, error) {
	c.spans = append(c.spans, Span{off, int64(len(p))})
	return c.ReaderAt.ReadAt(p, off)
}

// Whatever frames are asked for together or one after the other, each has the bytes that a run through the file gives, and only
// the announced bytes of the file are read.
func TestDecoderGivesTheFramesOfTheFile(t *testing.T) {
	needFFmpeg(t)
	codings := map[string]string{"h264g2": "-c:v libx264 -bf 0 -g 2 -tune fastdecode", "h264g30b": "-c:v libx264 -bf 3 -g 30", "opengop": "-c:v libx264 -bf 2 -g 8 -flags -cgop -x264-params open-gop=1:scenecut=0", "mpeg4": "-c:v mpeg4 -g 12 -bf 0"}
	for name, args := range codings {
		if !RandomAccess && name != "h264g30b" { // each request is a process then
			continue
		}
		path := filepath.Join(t.TempDir(), name+".mp4")
		all := append([]string{"-v", "error", "-f", "lavfi", "-i", "testsrc2=size=96x64:rate=30:duration=2"}, strings.Fields(args+" -pix_fmt yuv420p")...)
		if out, err := exec.Command("ffmpeg", append(all, path)...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v %s", name, err, out)
		}
		x, err := OpenIndex(path)
		if err != nil {
			t.Fatal(err)
		}
		var want [][]byte
		g := imaging.Geometry{Mode: imaging.CentreCrop, Width: 32, Height: 32}
		if err := Each(path, ReaderOptions{Geometry: &g}, 0, x.Frames(), func(_ int, rgb []byte) error {
			want = append(want, bytes.Clone(rgb))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		checkRequests(t, name, path, x, &g, want)
	}
}

func checkRequests(t *testing.T, name, path string, x *Index, g *imaging.Geometry, want [][]byte) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d, rng, size := NewDecoder(), rand.New(rand.NewPCG(1, 1)), g.Width*g.Height*3
	defer d.Close()
	requests := [][]int{{0}, {1}, {2}, {3}, {59}, {10, 11, 12}, {13}, {14}, {5, 30, 31, 58}}
	if !RandomAccess {
		requests = [][]int{{1}, {14}, {5, 30, 31, 58}}
	}
	for range 4 {
		set := rng.Perm(60)[:1+rng.IntN(4)]
		slices.Sort(set)
		requests = append(requests, set)
	}
	for _, frames := range requests {
		at, dst := make([]int, len(frames)), make([]byte, len(frames)*size)
		for i := range at {
			at[i] = (len(frames) - 1 - i) * size // any place will do
		}
		c := &counted{ReaderAt: f}
		if err := d.Frames(x, c, frames, g, dst, at); err != nil {
			t.Fatalf("%s, frames %v: %v", name, frames, err)
		}
		for i, k := range frames {
			if !bytes.Equal(dst[at[i]:at[i]+size], want[k]) {
				t.Errorf("%s, frames %v: frame %d differs by %.3f levels on average", name, frames, k, meanError(dst[at[i]:at[i]+size], want[k]))
			}
		}
		spans, err := x.Spans(frames)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range c.spans {
			if name == "opengop" { // after a first try that gave nothing, earlier packets are read
				break
			}
			if !slices.ContainsFunc(spans, func(a Span) bool { return a.Offset <= s.Offset && a.Offset+a.Length >= s.Offset+s.Length }) {
				t.Errorf("%s, frames %v: read %+v, announced were %+v", name, frames, s, spans)
			}
		}
	}
	for _, bad := range [][]int{{-1}, {60}, {4, 4}, {5, 3}} {
		if err := d.Frames(x, f, bad, g, make([]byte, 2*size), []int{0, size}); err == nil {
			t.Errorf("%s: frames %v were given", name, bad)
		}
	}
}

// A damaged file gives an error that names the file and the frame, and never a wrong picture; the decoder can be used again.
func TestDamagedPacketsAreAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "v.mp4")
	encode(t, path, EncodeOptions{FPS: 30, Width: testW, Height: testH}, 12, false)
	x, err := OpenIndex(path)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	spans, err := x.Spans([]int{6})
	if err != nil {
		t.Fatal(err)
	}
	broken := bytes.Clone(data)
	clear(broken[spans[0].Offset : spans[0].Offset+spans[0].Length])
	d := NewDecoder()
	defer d.Close()
	dst := make([]byte, testW*testH*3)
	err = d.Frames(x, bytes.NewReader(broken), []int{6}, nil, dst, []int{0})
	if err == nil || !strings.Contains(err.Error(), "frame 6") || !strings.Contains(err.Error(), path) {
		t.Errorf("a frame of zeros: %v", err)
	}
	if err := d.Frames(x, bytes.NewReader(data[:spans[0].Offset+4]), []int{6}, nil, dst, []int{0}); err == nil {
		t.Error("a frame beyond the end of a cut file was given")
	}
	if err := d.Frames(x, bytes.NewReader(data), []int{6}, nil, dst, []int{0}); err != nil || number(dst, testW) != 6 {
		t.Errorf("after an error frame 6 shows %d: %v", number(dst, testW), err)
	}
}
