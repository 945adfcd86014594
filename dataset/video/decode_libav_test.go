//go:build libav

package video

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinch-robotics/pinch/internal/imaging"
)

// The native decoder and the ffmpeg program must give the same bytes, at any place, at full size and scaled.
func TestNativeDecoderEqualsProgram(t *testing.T) {
	needFFmpeg(t)
	for name, args := range map[string]string{
		"h264g2": "-c:v libx264 -bf 0 -g 2 -tune fastdecode", "h264g30b": "-c:v libx264 -bf 3 -g 30", "av1g2": "-c:v libsvtav1 -preset 12 -g 2",
		"av1g30": "-c:v libsvtav1 -preset 12 -g 30", "hevc": "-c:v libx265 -x265-params log-level=none -g 10", "mpeg4": "-c:v mpeg4 -g 12", "mjpeg": "-c:v mjpeg -pix_fmt yuvj420p",
	} {
		path := filepath.Join(t.TempDir(), name+".mp4")
		all := []string{"-v", "error", "-f", "lavfi", "-i", "testsrc2=size=320x240:rate=30:duration=2"}
		if !strings.Contains(args, "pix_fmt") {
			args += " -pix_fmt yuv420p"
		}
		if out, err := exec.Command("ffmpeg", append(append(all, strings.Fields(args)...), path)...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v %s", name, err, out)
		}
		for _, g := range []*imaging.Geometry{nil, {Mode: imaging.Squash, Width: 112, Height: 112}, {Mode: imaging.CentreCrop, Width: 64, Height: 48}} {
			r, err := Open(path, ReaderOptions{Geometry: g})
			if err != nil {
				t.Fatal(err)
			}
			w, h := r.Size()
			cli := newCLIDecoder(path, r.x.Width, r.x.Height, g)
			a, b := make([]byte, w*h*3), make([]byte, w*h*3)
			want := map[int][]byte{}
			for i := range r.Frames() {
				if err := cli.frame(i, b); err != nil {
					t.Fatal(err)
				}
				want[i] = bytes.Clone(b)
			}
			for _, i := range []int{59, 0, 1, 2, 31, 30, 29, 45, 47, 58, 59, 12, 13, 14, 15, 16, 0} {
				if err := r.Frame(i, a); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(a, want[i]) {
					t.Errorf("%s %v: frame %d differs by %.3f levels on average", name, g, i, meanError(a, want[i]))
				}
			}
			cli.close()
			r.Close()
		}
	}
}

// Every way of reducing gives the bytes of package imaging: with and without vector instructions, odd sizes, few and many source
// pixels to a target pixel, enlarging.
func TestNativeGeometryEqualsImaging(t *testing.T) {
	path := filepath.Join(t.TempDir(), "v.mp4")
	encode(t, path, EncodeOptions{FPS: 30, Width: testW, Height: testH}, 3, false)
	x, err := OpenIndex(path)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	full := imaging.NewRGB(testW, testH)
	for _, plain := range []string{"", "1"} {
		t.Setenv("PINCH_PLAIN_AREA", plain)
		d := NewDecoder()
		defer d.Close()
		if err := d.Frames(x, bytes.NewReader(data), []int{1}, nil, full.Pix, []int{0}); err != nil {
			t.Fatal(err)
		}
		for w := 1; w <= 100; w += 1 + w/8 {
			for _, h := range []int{1, 3, 7, 31, 33, 64, 65, 90} {
				for _, mode := range []imaging.Mode{imaging.Squash, imaging.CentreCrop} {
					g := imaging.Geometry{Mode: mode, Width: w, Height: h}
					want, err := g.Apply(full)
					if err != nil {
						t.Fatal(err)
					}
					const guard = 16 // bytes on either side that must stay
					got := bytes.Repeat([]byte{0xa5}, len(want.Pix)+2*guard)
					if err := d.Frames(x, bytes.NewReader(data), []int{1}, &g, got, []int{guard}); err != nil {
						t.Fatal(err)
					}
					if !bytes.Equal(got[guard:guard+len(want.Pix)], want.Pix) {
						t.Errorf("plain %q, %+v: differs by %.3f levels on average", plain, g, meanError(got[guard:guard+len(want.Pix)], want.Pix))
					}
					if edge := append(bytes.Clone(got[:guard]), got[guard+len(want.Pix):]...); !bytes.Equal(edge, bytes.Repeat([]byte{0xa5}, 2*guard)) {
						t.Errorf("plain %q, %+v: bytes beside the picture were written", plain, g)
					}
				}
			}
		}
	}
}
