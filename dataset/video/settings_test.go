package video

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// What the encoder does not have is refused before anything is encoded; the message lists what it has.
func TestSettingsAreCheckedBeforehand(t *testing.T) {
	for _, c := range []struct {
		o    EncodeOptions
		want string // "" when fine
	}{
		{EncodeOptions{}, ""}, {EncodeOptions{Codec: H264, CRF: 51, Preset: "veryfast"}, ""}, {EncodeOptions{Codec: AV1, CRF: 63, Preset: "8"}, ""},
		{EncodeOptions{Codec: "vp9"}, "choose h264 or av1"},
		{EncodeOptions{CRF: 52}, "1 to 51"}, {EncodeOptions{CRF: -1}, "1 to 51"}, {EncodeOptions{Codec: AV1, CRF: 64}, "1 to 63"},
		{EncodeOptions{Preset: "fastest"}, "ultrafast"}, {EncodeOptions{Preset: "8"}, "ultrafast"}, {EncodeOptions{Codec: AV1, Preset: "fast"}, "0 to 13"},
	} {
		err := c.o.Check()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.o, err, c.want)
		}
	}
}

// A full disk is said once, and as what it is, whatever ffmpeg makes of it.
func TestFullDiskWhileEncoding(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full here")
	}
	path := filepath.Join(t.TempDir(), "a.mp4")
	if err := os.Symlink("/dev/full", path+".part"); err != nil {
		t.Fatal(err)
	}
	e, err := NewEncoder(t.Context(), path, EncodeOptions{FPS: 30, Width: 64, Height: 48})
	if err != nil {
		t.Fatal(err)
	}
	for range 300 {
		if err = e.WriteRGB(make([]byte, 64*48*3)); err != nil {
			break
		}
	}
	if err == nil {
		_, err = e.Close()
	}
	if !errors.Is(err, syscall.ENOSPC) || strings.Contains(err.Error(), "av_interleaved") || strings.Contains(err.Error(), "\n") {
		t.Fatalf("got %v", err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a file was published")
	}
}
