//go:build libav

package video

import (
	"bytes"
	"context"
	"encoding/binary"
	"path/filepath"
	"testing"
)

// slicesOf gives the coded pictures of each frame of a file: its NAL units of types 1 and 5.
func slicesOf(t *testing.T, path string) [][]byte {
	t.Helper()
	var out [][]byte
	err := Packets(path, func(_ int, data []byte) error {
		var frame []byte
		for len(data) >= 4 {
			n := binary.BigEndian.Uint32(data)
			unit := data[4 : 4+n]
			if kind := unit[0] & 0x1f; kind == 1 || kind == 5 {
				frame = append(frame, unit...)
			}
			data = data[4+n:]
		}
		out = append(out, frame)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// The encoder in the process and the ffmpeg program give the same coded frames, bit for bit, from JPEG and from RGB.
func TestNativeEncoderEqualsProgram(t *testing.T) {
	needFFmpeg(t)
	for _, o := range []EncodeOptions{
		{FPS: 30, Width: testW, Height: testH},
		{FPS: 10, Width: 640, Height: 480, Preset: "medium", CRF: 18, GOP: 5},
		{FPS: 25, Width: 322, Height: 182, Preset: "veryfast"},
	} {
		for _, jpegs := range []bool{true, false} {
			dir := t.TempDir()
			o, err := o.fill()
			if err != nil {
				t.Fatal(err)
			}
			native, program := filepath.Join(dir, "native.mp4"), filepath.Join(dir, "program.mp4")
			got := encode(t, native, o, 23, jpegs)
			want := fill(t, &Encoder{path: program, o: o, c: &programCoder{ctx: context.Background(), path: program, o: o}}, 23, jpegs)
			if got.Frames() != 23 || got.Rate() != want.Rate() || got.Timescale != want.Timescale || got.Codec != want.Codec || got.HasBFrames {
				t.Errorf("%+v: %+v, the program's file %+v", o, got, want)
			}
			a, b := slicesOf(t, native), slicesOf(t, program)
			for i := range b {
				if len(b[i]) == 0 || !bytes.Equal(a[i], b[i]) {
					t.Fatalf("%+v, jpeg %t: frame %d has %d bytes, the program's %d", o, jpegs, i, len(a[i]), len(b[i]))
				}
				if got.Key[i] != want.Key[i] || got.PTS[i] != want.PTS[i] {
					t.Fatalf("frame %d: key %t at %d, the program's %t at %d", i, got.Key[i], got.PTS[i], want.Key[i], want.PTS[i])
				}
			}
		}
	}
}

// A JPEG whose header is right and whose body is not ends the encoder with the frame's number.
func TestNativeEncoderNamesABrokenPicture(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.mp4")
	e, err := NewEncoder(t.Context(), path, EncodeOptions{FPS: 30, Width: testW, Height: testH})
	if err != nil {
		t.Fatal(err)
	}
	good := asJPEG(t, picture(0, testW, testH), testW, testH)
	if err := e.WriteJPEG(good); err != nil {
		t.Fatal(err)
	}
	bad := bytes.Clone(good)
	bad[bytes.Index(bad, []byte{0xff, 0xc0})+4] = 0 // bits of a sample
	if err := e.WriteJPEG(bad); err == nil || !bytes.Contains([]byte(err.Error()), []byte("frame 1")) {
		t.Errorf("got %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*")); len(left) != 0 {
		t.Errorf("left behind %v", left)
	}
}
