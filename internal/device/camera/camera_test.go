package camera

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/device"
)

// The NTP form by hand: 1970-01-01T00:00:00Z is 2208988800 s after 1900, and half a second is the fraction 2^31.
func TestNTPKeepsEveryNanosecond(t *testing.T) {
	if got := NTPBytes(500_000_000); got != [8]byte{0x83, 0xaa, 0x7e, 0x80, 0x80, 0, 0, 0} {
		t.Errorf("half a second after 1970: % x", got)
	}
	for _, ns := range []frames.DeviceTime{0, 1, 999_999_999, 1_000_000_000_000, 1_000_000_000_001, 1_796_000_000_123_456_789, 2_085_978_495_999_999_999, 2_085_978_496_000_000_000, 4_000_000_000_000_000_003} {
		b := NTPBytes(ns)
		if got, ok := FromNTP(b[:]); !ok || got != ns {
			t.Errorf("%d became %d", ns, got)
		}
	}
	for _, b := range [][]byte{nil, {1, 2, 3, 4}, make([]byte, 9)} {
		if _, ok := FromNTP(b); ok {
			t.Errorf("%d bytes were taken for a time", len(b))
		}
	}
}

func FuzzNTP(f *testing.F) {
	f.Add(int64(1_000_000_000_123))
	f.Fuzz(func(t *testing.T, ns int64) {
		if ns < 0 || ns >= 2085978496e9+1<<32*1e9-ntpToUnix*1e9 {
			return
		}
		b := NTPBytes(frames.DeviceTime(ns))
		if got, _ := FromNTP(b[:]); got != frames.DeviceTime(ns) {
			t.Errorf("%d became %d", ns, got)
		}
	})
}

// scripted gives a unit per marker packet; the packet's payload is in unpack.
type scripted struct {
	got    [][]byte
	resets int
}

func (s *scripted) add(p packet) (unit, bool, error) {
	b, _ := p.unpack.([]byte)
	if b == nil {
		return unit{}, false, errors.New("broken packet")
	}
	s.got = append(s.got, b)
	if !p.marker {
		return unit{}, false, nil
	}
	u := unit{nalus: s.got, jpeg: bytes.Join(s.got, nil)}
	s.got = nil
	return u, true, nil
}

func (s *scripted) reset() { s.got, s.resets = nil, s.resets+1 }

func TestAssemblerAccountsForEveryFrame(t *testing.T) {
	sps, pps, idr, p := []byte{0x67, 1}, []byte{0x68, 2}, []byte{0x65, 3}, []byte{0x41, 4}
	type in struct {
		ts     uint32
		marker bool
		data   []byte
		lost   bool
	}
	for name, c := range map[string]struct {
		codec Codec
		in    []in
		want  string // per frame: k key, d delta, b bad
	}{
		"h264 clean":                       {H264, []in{{1, true, idr, false}, {2, true, p, false}}, "kd"},
		"h264 joined in the middle":        {H264, []in{{1, true, p, false}, {2, true, idr, false}, {3, true, p, false}}, "bkd"},
		"h264 loss inside a frame":         {H264, []in{{1, true, idr, false}, {2, false, p, false}, {2, true, p, true}, {3, true, p, false}, {4, true, idr, false}}, "kbbk"},
		"h264 closing packet lost":         {H264, []in{{1, true, idr, false}, {2, false, p, false}, {3, true, p, true}, {4, true, idr, false}}, "kbbk"},
		"h264 loss just before an IDR":     {H264, []in{{1, true, idr, false}, {2, true, idr, true}, {3, true, p, false}, {4, true, idr, false}}, "kbbk"},
		"h264 broken packet":               {H264, []in{{1, true, idr, false}, {2, true, nil, false}, {3, true, p, false}, {4, true, idr, false}}, "kbbk"},
		"jpeg loss costs one frame":        {MJPEG, []in{{1, true, p, false}, {2, false, p, false}, {2, true, p, true}, {3, true, p, false}}, "kbk"},
		"jpeg closing packet lost":         {MJPEG, []in{{1, true, p, false}, {2, false, p, false}, {3, true, p, true}, {4, true, p, false}}, "kbbk"},
		"jpeg frame without closing mark":  {MJPEG, []in{{1, false, p, false}, {2, true, p, false}}, "bk"},
		"h264 IDR of unknown sets is none": {H264, []in{{1, true, []byte{0x65}, false}}, "?"},
	} {
		un := &scripted{}
		sets := parameterSets{sps: sps, pps: pps}
		if strings.HasSuffix(name, "is none") {
			sets, c.want = parameterSets{}, "b"
		}
		a := newAssembler(c.codec, un, sets)
		got, last := "", 0
		for i, x := range c.in {
			if x.lost {
				a.packetsLost()
			}
			ntp := NTPBytes(frames.DeviceTime(x.ts))
			a.add(packet{timestamp: x.ts, marker: x.marker, capture: ntp[:], unpack: x.data}, frames.HostTime(i), func(f Frame) {
				switch {
				case f.Bad:
					got += "b"
				case f.Key:
					got += "k"
				default:
					got += "d"
				}
				if f.Device < frames.DeviceTime(last) || !f.Timed {
					t.Errorf("%s: frame of time %d after one of %d", name, f.Device, last)
				}
				last = int(f.Device)
			})
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestAnnexBPutsKnownSetsBeforeAnIDR(t *testing.T) {
	sps, pps, aud, idr := []byte{0x67, 1}, []byte{0x68, 2}, []byte{0x09, 0xf0}, []byte{0x65, 3}
	var s parameterSets
	s.annexB([][]byte{sps, pps})
	got, key := s.annexB([][]byte{aud, {}, idr})
	want := []byte{0, 0, 0, 1, 0x09, 0xf0, 0, 0, 0, 1, 0x67, 1, 0, 0, 0, 1, 0x68, 2, 0, 0, 0, 1, 0x65, 3}
	if !key || !bytes.Equal(got, want) {
		t.Errorf("key %v, got % x", key, got)
	}
	got, key = s.annexB([][]byte{sps, pps, idr})
	if want := []byte{0, 0, 0, 1, 0x67, 1, 0, 0, 0, 1, 0x68, 2, 0, 0, 0, 1, 0x65, 3}; !key || !bytes.Equal(got, want) {
		t.Errorf("sets are there already: key %v, got % x", key, got)
	}
}

// answer runs a text server that answers every RTSP request with one status line.
func answer(t *testing.T, status string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				buf := make([]byte, 4096)
				for {
					n, err := c.Read(buf)
					if err != nil {
						return
					}
					cseq := "1"
					for _, line := range strings.Split(string(buf[:n]), "\r\n") {
						if v, ok := strings.CutPrefix(line, "CSeq: "); ok {
							cseq = v
						}
					}
					_, _ = c.Write([]byte("RTSP/1.0 " + status + "\r\nCSeq: " + cseq + "\r\n\r\n"))
				}
			}()
		}
	}()
	return l.Addr().String()
}

func TestConnectionFailuresNameTheFix(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead := l.Addr().String()
	_ = l.Close()
	for url, want := range map[string]string{
		"rtsp://" + dead + "/left":                       "nothing listens there",
		"rtsp://" + answer(t, "404 Not Found") + "/left": "correct the path in the rig file",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		var text string
		s := &Source{Name: "left camera", URL: url, Clock: device.NewClock(), Status: func(x device.Status) {
			if x.Err != nil {
				text = x.Err.Error()
				cancel()
			}
		}}
		if err := s.Run(ctx, func(Frame) {}); err != nil {
			t.Error(err)
		}
		cancel()
		if !strings.Contains(text, want) || !strings.Contains(text, "left camera") || !strings.Contains(text, url) {
			t.Errorf("%s: status %q", url, text)
		}
	}
}
