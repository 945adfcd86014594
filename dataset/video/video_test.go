package video

import (
	"bytes"
	"context"
	"encoding/json"
	"image"
	"image/jpeg"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const testW, testH = 96, 64

// picture draws frame i: a textured background that moves, with i in binary as black and white blocks, so that a decoded
// frame tells which one it is.
func picture(i, w, h int) []byte {
	rgb := make([]byte, w*h*3)
	r := rand.New(rand.NewPCG(7, uint64(i)))
	for y := range h {
		for x := range w {
			p := rgb[(y*w+x)*3:]
			p[0] = byte(128 + 80*math.Sin(float64(x+3*i)/9) + 4*r.Float64())
			p[1] = byte(128 + 80*math.Cos(float64(y+2*i)/7) + 4*r.Float64())
			p[2] = byte(100 + (x+y+i)%60)
			if y < 16 && x < 16*6 {
				v := byte(16)
				if i>>(x/16)&1 == 1 {
					v = 235
				}
				p[0], p[1], p[2] = v, v, v
			}
		}
	}
	return rgb
}

// number reads the frame number back from the blocks.
func number(rgb []byte, w int) int {
	n := 0
	for bit := range 6 {
		if rgb[(8*w+bit*16+8)*3] > 128 {
			n |= 1 << bit
		}
	}
	return n
}

func asJPEG(t testing.TB, rgb []byte, w, h int) []byte {
	t.Helper()
	img := image.NewRGBA(image.Rect(0, 0, w, h))
	for i := range w * h {
		copy(img.Pix[i*4:], rgb[i*3:i*3+3])
		img.Pix[i*4+3] = 255
	}
	var b bytes.Buffer
	if err := jpeg.Encode(&b, img, &jpeg.Options{Quality: 92}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
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

func encode(t testing.TB, path string, o EncodeOptions, frames int, jpegs bool) Info {
	t.Helper()
	needFFmpeg(t)
	e, err := NewEncoder(context.Background(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	return fill(t, e, frames, jpegs)
}

// fill writes the first pictures and closes.
func fill(t testing.TB, e *Encoder, frames int, jpegs bool) Info {
	t.Helper()
	o := e.o
	for i := range frames {
		rgb := picture(i, o.Width, o.Height)
		var err error
		if jpegs {
			err = e.WriteJPEG(asJPEG(t, rgb, o.Width, o.Height))
		} else {
			err = e.WriteRGB(rgb)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	info, err := e.Close()
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func TestEncodedFileIsWhatTrainingNeeds(t *testing.T) {
	for _, codec := range []Codec{H264, AV1} {
		for _, jpegs := range []bool{false, true} {
			path := filepath.Join(t.TempDir(), "v.mp4")
			o := EncodeOptions{Codec: codec, FPS: 30, Width: testW, Height: testH}
			info := encode(t, path, o, 41, jpegs)
			if info.Codec != codec || info.PixFmt != "yuv420p" || info.Width != testW || info.Height != testH {
				t.Errorf("%s: %s %s %dx%d", codec, info.Codec, info.PixFmt, info.Width, info.Height)
			}
			if info.Frames() != 41 || info.MaxGOP != 2 || info.HasBFrames || info.HasAudio || info.Timescale != 15360 {
				t.Errorf("%s: frames %d GOP %d B %t timescale %d", codec, info.Frames(), info.MaxGOP, info.HasBFrames, info.Timescale)
			}
			for k, pts := range info.PTS {
				if pts != int64(k)*512 || info.Key[k] != (k%2 == 0) {
					t.Fatalf("%s: frame %d at tick %d, key %t", codec, k, pts, info.Key[k])
				}
			}
			again := filepath.Join(t.TempDir(), "again.mp4")
			encode(t, again, o, 41, jpegs)
			a, _ := os.ReadFile(path)
			b, _ := os.ReadFile(again)
			if !bytes.Equal(a, b) {
				t.Errorf("%s: the same frames gave different bytes", codec)
			}
			checkNumbers(t, path, 41)
		}
	}
}

// checkNumbers reads frames in a scattered order and compares the number drawn in each.
func checkNumbers(t *testing.T, path string, n int) {
	t.Helper()
	r, err := Open(path, ReaderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	w, h := r.Size()
	buf := make([]byte, w*h*3)
	for _, i := range []int{0, 1, 2, n - 1, n - 2, 7, 8, 9, 3, 3, n / 2} {
		if err := r.Frame(i, buf); err != nil {
			t.Fatal(err)
		}
		if got := number(buf, w); got != i {
			t.Errorf("%s: frame %d shows number %d", path, i, got)
		}
		if e := meanError(buf, picture(i, w, h)); e > 8 {
			t.Errorf("%s: frame %d differs from its picture by %.1f levels on average", path, i, e)
		}
	}
	if err := r.Frame(n, buf); err == nil {
		t.Error("a frame beyond the end was returned")
	}
}

func meanError(a, b []byte) float64 {
	sum := 0.0
	for i := range a {
		sum += math.Abs(float64(a[i]) - float64(b[i]))
	}
	return sum / float64(len(a))
}

// ffprobe is the independent reader of containers.
func ffprobe(t *testing.T, path string) (codec, pix string, frames int) {
	t.Helper()
	out, err := exec.Command("ffprobe", "-v", "error", "-select_streams", "v", "-count_packets", "-show_streams", "-of", "json", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	var v struct {
		Streams []struct {
			Codec  string `json:"codec_name"`
			Pix    string `json:"pix_fmt"`
			Frames int    `json:"nb_read_packets,string"`
		}
	}
	if err := json.Unmarshal(out, &v); err != nil {
		t.Fatal(err)
	}
	return v.Streams[0].Codec, v.Streams[0].Pix, v.Streams[0].Frames
}

// Files of other encoders: B-frames with an edit list, other chroma, other codecs.
func TestProbeAgreesWithFFprobe(t *testing.T) {
	needFFmpeg(t)
	for name, args := range map[string]string{
		"bframes":  "-c:v libx264 -bf 3 -g 30 -pix_fmt yuv420p",
		"yuv444":   "-c:v libx264 -bf 0 -pix_fmt yuv444p -g 5",
		"tenbit":   "-c:v libx264 -pix_fmt yuv420p10le",
		"hevc":     "-c:v libx265 -x265-params log-level=none -g 2 -pix_fmt yuv420p",
		"mpeg4":    "-c:v mpeg4 -g 12",
		"mjpeg":    "-c:v mjpeg -pix_fmt yuvj420p",
		"av1":      "-c:v libsvtav1 -preset 12 -g 8",
		"oddstart": "-c:v libx264 -bf 0 -g 2 -pix_fmt yuv420p -output_ts_offset 0.5",
	} {
		path := filepath.Join(t.TempDir(), name+".mp4")
		all := append([]string{"-v", "error", "-f", "lavfi", "-i", "testsrc2=size=96x64:rate=25:duration=2", "-threads", "1"}, strings.Fields(args)...)
		if out, err := exec.Command("ffmpeg", append(all, path)...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v %s", name, err, out)
		}
		info, err := Probe(path)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		codec, pix, frames := ffprobe(t, path)
		if string(info.Codec) != codec || info.Frames() != frames || frames != 50 {
			t.Errorf("%s: codec %s frames %d, ffprobe %s %d", name, info.Codec, info.Frames(), codec, frames)
		}
		if info.PixFmt != "" && info.PixFmt != pix {
			t.Errorf("%s: pixel format %s, ffprobe %s", name, info.PixFmt, pix)
		}
		if info.HasBFrames != (name == "bframes" || name == "tenbit" || name == "hevc") {
			t.Errorf("%s: B-frames %t", name, info.HasBFrames)
		}
		_, off := info.WorstTime(25)
		if want := name == "oddstart"; (off > 1e-6) != want {
			t.Errorf("%s: frame times off by %g s", name, off)
		}
		if math.Abs(info.Rate()-25) > 1e-6 {
			t.Errorf("%s: rate %g", name, info.Rate())
		}
	}
}

func TestCutCopiesPackets(t *testing.T) {
	dir := t.TempDir()
	src := filepath.Join(dir, "src.mp4")
	encode(t, src, EncodeOptions{FPS: 30, Width: testW, Height: testH}, 40, false)
	for _, c := range [][2]int{{0, 7}, {10, 12}, {38, 2}} {
		dst := filepath.Join(dir, "cut.mp4")
		info, err := Cut(context.Background(), src, dst, c[0], c[1])
		if err != nil {
			t.Fatal(err)
		}
		if _, off := info.WorstTime(30); info.Frames() != c[1] || off > 1e-9 {
			t.Errorf("cut %v: %d frames, times off by %g", c, info.Frames(), off)
		}
		buf := make([]byte, testW*testH*3)
		err = Each(dst, ReaderOptions{}, 0, c[1], func(i int, rgb []byte) error {
			copy(buf, rgb)
			if got := number(rgb, testW); got != c[0]+i {
				t.Errorf("cut %v: frame %d shows %d", c, i, got)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Cut(context.Background(), src, filepath.Join(dir, "x.mp4"), 3, 4); err == nil {
		t.Error("a cut that starts between key frames was accepted")
	}
}

func TestBadFramesAreRefused(t *testing.T) {
	needFFmpeg(t)
	o := EncodeOptions{FPS: 30, Width: testW, Height: testH}
	good := asJPEG(t, picture(0, testW, testH), testW, testH)
	for name, bad := range map[string][]byte{
		"truncated": good[:len(good)/2], "text": []byte("no picture at all"), "empty": nil,
		"size": asJPEG(t, picture(0, 64, 64), 64, 64),
	} {
		path := filepath.Join(t.TempDir(), "v.mp4")
		e, err := NewEncoder(context.Background(), path, o)
		if err != nil {
			t.Fatal(err)
		}
		if err := e.WriteJPEG(good); err != nil {
			t.Fatal(err)
		}
		if err := e.WriteJPEG(bad); err == nil || !strings.Contains(err.Error(), "frame 1") {
			t.Errorf("%s: error %v does not name frame 1", name, err)
		}
		e.Abort()
		if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*")); len(left) != 0 {
			t.Errorf("%s: left behind %v", name, left)
		}
	}
	if _, err := NewEncoder(context.Background(), "x.mp4", EncodeOptions{FPS: 30, Width: 95, Height: 64}); err == nil {
		t.Error("an odd width was accepted")
	}
}

func TestProbeNamesACutOffFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "v.mp4")
	encode(t, path, EncodeOptions{FPS: 30, Width: testW, Height: testH}, 10, false)
	whole, _ := os.ReadFile(path)
	for _, n := range []int{0, 7, 200, len(whole) / 2, len(whole) - 1} {
		cut := filepath.Join(dir, "cut.mp4")
		os.WriteFile(cut, whole[:n], 0o644)
		if _, err := Probe(cut); err == nil {
			t.Errorf("the first %d of %d bytes passed as a whole video", n, len(whole))
		}
	}
}

func FuzzProbe(f *testing.F) {
	path := filepath.Join(f.TempDir(), "v.mp4")
	encode(f, path, EncodeOptions{FPS: 30, Width: 16, Height: 16}, 3, false)
	whole, _ := os.ReadFile(path)
	f.Add(whole)
	f.Fuzz(func(t *testing.T, b []byte) {
		info, err := probe(bytes.NewReader(b), int64(len(b)))
		if err == nil && (len(info.Key) != len(info.PTS) || len(info.packets) != len(info.PTS)) {
			t.Errorf("tables of %d, %d and %d entries", len(info.Key), len(info.PTS), len(info.packets))
		}
	})
}
