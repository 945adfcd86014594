package rosmsg

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// samples has one message of each type with every field set.
func samples() []Message {
	h := Header{Stamp: Time{Sec: 1700000000, Nanosec: 123456789}, FrameID: "quest_origin"}
	return []Message{
		&TFMessage{Transforms: []TransformStamped{
			{h, "left_hand_root", Transform{Vector3{1, 2, 3}, Quaternion{0.1, 0.2, 0.3, 0.4}}},
			{h, "x", Transform{Vector3{-1, -2, -3}, Quaternion{0, 0, 0, 1}}},
		}},
		&CompressedImage{Header: h, Format: "jpeg", Data: []byte{0xff, 0xd8, 1, 2, 3}},
		&CompressedVideo{Timestamp: h.Stamp, FrameID: "center", Data: []byte{0, 0, 0, 1, 0x65}, Format: "h264"},
		&CameraInfo{
			Header: h, Height: 480, Width: 640, DistortionModel: "equidistant", D: []float64{0.1, -0.2, 0.3, -0.4},
			K: [9]float64{1, 0, 2, 0, 3, 4, 0, 0, 1}, R: [9]float64{1, 0, 0, 0, 1, 0, 0, 0, 1}, P: [12]float64{1, 0, 2, 0, 0, 3, 4, 0, 0, 0, 1, 0},
			BinningX: 1, BinningY: 2, ROI: RegionOfInterest{3, 4, 5, 6, true},
		},
		&JointState{Header: h, Name: []string{"left_right_finger_joint", "right_right_finger_joint"}, Position: []float64{0.5, -0.01}},
		&Joy{Header: h, Axes: []float32{0.5, -1}, Buttons: []int32{1, 0, -3}},
		&Bool{Data: true},
		&PoseStamped{h, Vector3{1, 2, 3}, Quaternion{0, 0, 1, 0}},
	}
}

func fresh(m Message) Message {
	switch m.(type) {
	case *TFMessage:
		return &TFMessage{}
	case *CompressedImage:
		return &CompressedImage{}
	case *CompressedVideo:
		return &CompressedVideo{}
	case *CameraInfo:
		return &CameraInfo{}
	case *JointState:
		return &JointState{}
	case *Joy:
		return &Joy{}
	case *Bool:
		return &Bool{}
	}
	return &PoseStamped{}
}

func TestMessagesReadBackAndCutsAreErrors(t *testing.T) {
	for _, m := range samples() {
		b := m.MarshalCDR(nil)
		got := fresh(m)
		if err := got.UnmarshalCDR(b); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(m, got); d != "" {
			t.Errorf("%s: %s", m.TypeName(), d)
		}
		for cut := range len(b) {
			if err := fresh(m).UnmarshalCDR(b[:cut]); err == nil || !strings.Contains(err.Error(), m.TypeName()) {
				t.Fatalf("%s cut at %d of %d: %v", m.TypeName(), cut, len(b), err)
			}
		}
	}
}

// A JointState laid out by hand from the published field order (sensor_msgs/JointState: header, name, position, velocity, effort).
func TestJointStateLayoutByHand(t *testing.T) {
	m := JointState{Header: Header{Stamp: Time{1, 2}, FrameID: "a"}, Name: []string{"j"}, Position: []float64{1.5}}
	want := []byte{
		0, 1, 0, 0,
		1, 0, 0, 0, 2, 0, 0, 0, // stamp
		2, 0, 0, 0, 'a', 0, 0, 0, // frame_id, padding to 4
		1, 0, 0, 0, 2, 0, 0, 0, 'j', 0, 0, 0, // name[1]
		1, 0, 0, 0, 0, 0, 0, 0x00, 0, 0, 0, 0, // count at 28, float64 at 32
	}
	copy(want[len(want)-8:], []byte{0, 0, 0, 0, 0, 0, 0xf8, 0x3f})
	want = append(want, 0, 0, 0, 0, 0, 0, 0, 0) // velocity, effort: empty
	if got := m.MarshalCDR(nil); !bytes.Equal(got, want) {
		t.Errorf("got\n% x\nwant\n% x", got, want)
	}
}

func TestJointStateOfUnequalLengthsIsRefused(t *testing.T) {
	m := JointState{Name: []string{"a", "b"}, Position: []float64{1}}
	if err := new(JointState).UnmarshalCDR(m.MarshalCDR(nil)); err == nil || !strings.Contains(err.Error(), "2 names but 1 values") {
		t.Errorf("error %v", err)
	}
}

func TestTimeSplitsAndJoins(t *testing.T) {
	for _, ns := range []int64{0, 1, 999_999_999, 1_000_000_000, 1_700_000_000_123_456_789, -1, -1_500_000_000} {
		if got := TimeFromNanos(ns); got.Nanos() != ns || got.Nanosec >= 1e9 {
			t.Errorf("%d ns became %+v", ns, got)
		}
	}
}

func TestDefinitionsAreWhole(t *testing.T) {
	for _, m := range samples() {
		def := Definition(m.TypeName())
		sections := strings.Split(def, strings.Repeat("=", 80)+"\n")
		have := map[string]bool{}
		for _, s := range sections[1:] {
			head, _, _ := strings.Cut(s, "\n")
			name := strings.TrimPrefix(head, "MSG: ")
			if have[name] {
				t.Errorf("%s: %s is there twice", m.TypeName(), name)
			}
			have[name] = true
		}
		for _, line := range strings.Split(def, "\n") {
			typ, _, _ := strings.Cut(line, " ")
			if typ, _, _ = strings.Cut(typ, "["); strings.Contains(typ, "/") && !have[typ] {
				t.Errorf("%s uses %s, which is not defined", m.TypeName(), typ)
			}
		}
	}
	if Definition("no/msg/Type") != "" {
		t.Error("an unknown type has a definition")
	}
}

// FuzzUnmarshal: no bytes may crash a decoder; what decodes must encode and decode to the same again.
func FuzzUnmarshal(f *testing.F) {
	for i, m := range samples() {
		f.Add(uint8(i), m.MarshalCDR(nil))
	}
	all := samples()
	f.Fuzz(func(t *testing.T, kind uint8, b []byte) {
		m := fresh(all[int(kind)%len(all)])
		if m.UnmarshalCDR(b) != nil {
			return
		}
		once := m.MarshalCDR(nil)
		again := fresh(m)
		if err := again.UnmarshalCDR(once); err != nil {
			t.Fatalf("%s does not read its own writing: %v", m.TypeName(), err)
		}
		if !bytes.Equal(again.MarshalCDR(nil), once) { // bytes, because NaN is unlike itself
			t.Fatalf("%s changed in a round trip", m.TypeName())
		}
	})
}
