package export

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinch-robotics/pinch/dataset/video"
)

// avcC with 4-byte lengths, one SPS and one PPS.
var avcC = []byte{1, 0x42, 0xc0, 0x1e, 0xff, 0xe1, 0, 3, 0x67, 1, 2, 1, 0, 2, 0x68, 9}

func TestAnnexB(t *testing.T) {
	a, err := newAnnexB(avcC)
	if err != nil {
		t.Fatal(err)
	}
	unit := func(b ...byte) []byte { return append([]byte{0, 0, 0, byte(len(b))}, b...) }
	coded := func(b ...byte) []byte { return append([]byte{0, 0, 0, 1}, b...) }
	parameters := append(coded(0x67, 1, 2), coded(0x68, 9)...)
	for name, c := range map[string]struct {
		in   []byte
		key  bool
		want []byte
	}{
		"key frame":                     {unit(0x65, 7, 8), true, append(bytes.Clone(parameters), coded(0x65, 7, 8)...)},
		"key frame with parameter sets": {append(unit(0x67, 1, 2), unit(0x65, 7)...), true, append(bytes.Clone(parameters), coded(0x65, 7)...)},
		"other frame":                   {append(unit(0x06, 1), unit(0x41, 5)...), false, append(coded(0x06, 1), coded(0x41, 5)...)},
	} {
		if got, err := a.packet(nil, c.in, c.key); err != nil || !bytes.Equal(got, c.want) {
			t.Errorf("%s: % x, %v, want % x", name, got, err, c.want)
		}
	}
	for name, in := range map[string][]byte{"cut length": {0, 0}, "cut unit": {0, 0, 0, 9, 0x65}, "empty unit": {0, 0, 0, 0}} {
		if _, err := a.packet(nil, in, false); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	for n := range len(avcC) {
		if _, err := newAnnexB(avcC[:n]); err == nil {
			t.Errorf("the first %d bytes of an avcC box are taken", n)
		}
	}
}

func TestSequenceHeader(t *testing.T) {
	header := []byte{0x0a, 2, 0xaa, 0xbb} // sequence header OBU of two bytes
	frame := []byte{0x32, 1, 0x55}
	o, err := newOBUs(append([]byte{0x81, 0, 0, 0}, header...))
	if err != nil {
		t.Fatal(err)
	}
	both := append(bytes.Clone(header), frame...)
	for name, c := range map[string]struct {
		in   []byte
		key  bool
		want []byte
	}{"key frame without": {frame, true, both}, "key frame with": {both, true, both}, "other frame": {frame, false, frame}} {
		if got, err := o.packet(nil, c.in, c.key); err != nil || !bytes.Equal(got, c.want) {
			t.Errorf("%s: % x, %v", name, got, err)
		}
	}
	if _, err := o.packet(nil, []byte{0x32, 9, 0x55}, false); err == nil {
		t.Error("a cut OBU is taken")
	}
	bare, _ := newOBUs([]byte{0x81, 0, 0, 0})
	if _, err := bare.packet(nil, frame, true); err == nil {
		t.Error("a key frame that no decoder can start with is taken")
	}
}

// No bytes of a broken file make it fall over.
func FuzzRepack(f *testing.F) {
	f.Add(avcC, []byte{0, 0, 0, 2, 0x65, 1}, true)
	f.Add([]byte{0x81, 0, 0, 0, 0x0a, 1, 2}, []byte{0x32, 1, 0x55}, false)
	f.Fuzz(func(t *testing.T, config, packet []byte, key bool) {
		if a, err := newAnnexB(config); err == nil {
			if out, err := a.packet(nil, packet, key); err == nil && len(packet) > 0 && !bytes.HasPrefix(out, startCode) && len(out) > 0 {
				t.Errorf("% x becomes % x", packet, out)
			}
		}
		if o, err := newOBUs(config); err == nil {
			if out, err := o.packet(nil, packet, key); err == nil && !bytes.HasSuffix(out, packet) {
				t.Errorf("% x becomes % x", packet, out)
			}
		}
	})
}

// A packet by its number is the one that lies there.
func TestPacketsByNumber(t *testing.T) {
	path := filepath.Join(t.TempDir(), "grey.mp4")
	write(t, path, video.H264, 9, 0)
	var want [][]byte
	if err := video.Packets(path, func(_ int, data []byte) error {
		want = append(want, bytes.Clone(data))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	index, err := video.OpenIndex(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []int{8, 0, 3} {
		if got, err := index.Packet(f, k, nil); err != nil || !bytes.Equal(got, want[k]) {
			t.Errorf("packet %d differs: %v", k, err)
		}
	}
	if _, err := index.Packet(f, 9, nil); err == nil || !strings.Contains(err.Error(), "no frame 9") {
		t.Errorf("a frame that is not there: %v", err)
	}
}
