package video

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bluenviron/mediacommon/v2/pkg/codecs/h264"
	"github.com/pinch-robotics/pinch/internal/testpeer"
)

// annexB encodes n frames of a moving test picture with x264 and the given options, split into access units.
func annexB(t *testing.T, n int, options ...string) [][]byte {
	t.Helper()
	testpeer.Program(t, "ffmpeg", "ffmpeg")
	args := append([]string{"-hide_banner", "-loglevel", "error", "-f", "lavfi", "-i", fmt.Sprintf("testsrc2=size=64x48:rate=30:duration=%f", float64(n)/30),
		"-frames:v", fmt.Sprint(n), "-pix_fmt", "yuv420p", "-c:v", "libx264", "-threads", "1"}, options...)
	out, err := exec.Command("ffmpeg", append(args, "-bsf:v", "dump_extra,h264_metadata=aud=insert", "-f", "h264", "pipe:1")...).Output()
	if err != nil {
		t.Fatal(err)
	}
	delimiter := []byte{0, 0, 0, 1, 9}
	parts := bytes.Split(out, delimiter)[1:]
	for i, p := range parts {
		parts[i] = append(bytes.Clone(delimiter), p...)
	}
	if len(parts) != n {
		t.Fatalf("%d access units of %d pictures", len(parts), n)
	}
	return parts
}

// pictures decodes a stream or file with the ffmpeg program: MD5 of each frame.
func pictures(t *testing.T, path string) []string {
	t.Helper()
	out, err := exec.Command("ffmpeg", "-hide_banner", "-loglevel", "error", "-i", path, "-vsync", "passthrough", "-f", "framemd5", "-").Output()
	if err != nil {
		t.Fatal(err)
	}
	var sums []string
	for line := range strings.Lines(string(out)) {
		if !strings.HasPrefix(line, "#") {
			f := strings.Fields(line)
			sums = append(sums, f[len(f)-1])
		}
	}
	return sums
}

// A copied stream decodes to exactly the pictures of the source, with the times and key frames of a dataset video.
func TestCopierKeepsThePictures(t *testing.T) {
	dir := t.TempDir()
	units := annexB(t, 21, "-g", "2", "-bf", "0", "-sc_threshold", "0")
	source := filepath.Join(dir, "source.h264")
	if err := os.WriteFile(source, bytes.Join(units, nil), 0o644); err != nil {
		t.Fatal(err)
	}
	var look Units
	c, err := NewCopier(dir+"/copy.mp4", EncodeOptions{FPS: 30, Width: 64, Height: 48}, Units{})
	if err != nil {
		t.Fatal(err)
	}
	for i, u := range units[4:] {
		var au h264.AnnexB
		if err := au.Unmarshal(u); err != nil || look.See(au) != (i%2 == 0) {
			t.Fatalf("unit %d: key frames are not where they should be, %v", i, err)
		}
		if err := c.WriteUnit(u); err != nil {
			t.Fatal(err)
		}
	}
	info, err := c.Close()
	if err != nil || look.Refusal() != "" {
		t.Fatal(err, look.Refusal())
	}
	if info.Codec != H264 || info.Frames() != 17 || info.MaxGOP != 2 || info.HasBFrames || info.PixFmt != "yuv420p" || info.Rate() != 30 {
		t.Errorf("copy is %+v", info)
	}
	want, got := pictures(t, source)[4:], pictures(t, dir+"/copy.mp4")
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the copy shows other pictures:\n%v\n%v", got, want)
	}
	left, _ := filepath.Glob(dir + "/copy.mp4.*")
	if len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// Streams that cannot keep what dataset videos promise are refused, each with its reason.
func TestCopierRefuses(t *testing.T) {
	dir := t.TempDir()
	for name, tc := range map[string]struct {
		units  [][]byte
		reason string
	}{
		"B-frames":    {annexB(t, 12, "-g", "6", "-bf", "2", "-b_strategy", "0"), "B-frames"},
		"full colour": {annexB(t, 4, "-g", "2", "-bf", "0", "-pix_fmt", "yuv444p"), "pixel format"},
	} {
		var look Units
		for _, u := range tc.units {
			var au h264.AnnexB
			if err := au.Unmarshal(u); err != nil {
				t.Fatal(err)
			}
			look.See(au)
		}
		if !strings.Contains(look.Refusal(), tc.reason) {
			t.Errorf("%s: %q", name, look.Refusal())
		}
	}
	long := annexB(t, 6, "-g", "6", "-bf", "0")
	for name, tc := range map[string]struct {
		units  [][]byte
		w      int
		reason string
	}{
		"group":     {long, 64, "the last key frame is 2 frames back"},
		"late":      {long[1:], 64, "start with a key frame"},
		"size":      {long[:2], 66, "64x48, want 66x48"},
		"no frames": {nil, 64, "no frames"},
	} {
		c, err := NewCopier(dir+"/x.mp4", EncodeOptions{FPS: 30, Width: tc.w, Height: 48}, Units{})
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range tc.units {
			if err = c.WriteUnit(u); err != nil {
				break
			}
		}
		if err == nil {
			_, err = c.Close()
		}
		c.Abort()
		if err == nil || !strings.Contains(err.Error(), tc.reason) {
			t.Errorf("%s: %v", name, err)
		}
		if files, _ := os.ReadDir(dir); len(files) > 0 {
			t.Errorf("%s: left %v", name, files)
		}
	}
}
