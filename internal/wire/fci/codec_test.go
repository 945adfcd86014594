package fci

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/pinch-robotics/pinch/internal/robotmodel"
)

// offsets of a version 10 state as compiled from the vendor's header: field, first byte, numbers.
var published = []struct {
	name string
	at   int
	n    int
}{
	{"O_T_EE", 8, 16}, {"O_T_EE_d", 72, 16}, {"F_T_EE", 136, 16}, {"EE_T_K", 200, 16}, {"F_T_NE", 264, 16}, {"NE_T_EE", 328, 16}, {"m_ee", 392, 1},
	{"I_ee", 396, 9}, {"F_x_Cee", 432, 3}, {"m_load", 444, 1}, {"I_load", 448, 9}, {"F_x_Cload", 484, 3}, {"elbow", 496, 2}, {"elbow_d", 504, 2},
	{"tau_J", 512, 7}, {"tau_J_d", 540, 7}, {"dtau_J", 568, 7}, {"q", 596, 7}, {"q_d", 624, 7}, {"dq", 652, 7}, {"dq_d", 680, 7}, {"ddq_d", 708, 7},
	{"joint_contact", 736, 7}, {"cartesian_contact", 764, 6}, {"joint_collision", 788, 7}, {"cartesian_collision", 816, 6},
	{"tau_ext_hat_filtered", 840, 7}, {"O_F_ext_hat_K", 868, 6}, {"K_F_ext_hat_K", 892, 6}, {"O_dP_EE_d", 916, 6}, {"O_ddP_O", 940, 3},
	{"elbow_c", 952, 2}, {"delbow_c", 960, 2}, {"ddelbow_c", 968, 2}, {"O_T_EE_c", 976, 16}, {"O_dP_EE_c", 1040, 6}, {"O_ddP_EE_c", 1064, 6},
	{"theta", 1088, 7}, {"dtheta", 1116, 7}, {"accelerometers", 1144, 36},
}

func TestLayoutsArePublished(t *testing.T) {
	for _, p := range published {
		if got := layoutF32.at[p.name]; got != p.at {
			t.Errorf("version 10: %s at %d, published at %d", p.name, got, p.at)
		}
		if p.name == "accelerometers" {
			continue
		}
		if got, want := layoutF64.at[p.name], 8+2*(p.at-8); got != want {
			t.Errorf("versions 5 to 9: %s at %d, want %d", p.name, got, want)
		}
	}
	if layoutF32.bytes != 1377 || layoutF64.bytes != 2373 || layoutOld.bytes != 1233 || layoutF32.tail != 1288 {
		t.Errorf("state lengths %d, %d, %d, tail at %d", layoutF32.bytes, layoutF64.bytes, layoutOld.bytes, layoutF32.tail)
	}
	for v, n := range map[Version]int{5: 370, 6: 370, 7: 371, 8: 371, 9: 371, 10: 371} {
		if v.CommandBytes() != n {
			t.Errorf("version %d: command of %d bytes, published %d", v, v.CommandBytes(), n)
		}
	}
}

// stateBytes writes a datagram in which every number tells its field and place.
func stateBytes(v Version) []byte {
	b := make([]byte, 1377)
	wide := v < 10
	if wide {
		b = make([]byte, 2373)
	}
	binary.LittleEndian.PutUint64(b, 123456789012)
	for i, p := range published {
		if wide && p.name == "accelerometers" {
			continue
		}
		for k := 0; k < p.n; k++ {
			x := float64(i+1) + float64(k)/64 // exact in float32
			if wide {
				binary.LittleEndian.PutUint64(b[8+2*(p.at-8)+8*k:], math.Float64bits(x))
			} else {
				binary.LittleEndian.PutUint32(b[p.at+4*k:], math.Float32bits(float32(x)))
			}
		}
	}
	tail := 1288
	if wide {
		tail = 8 + 2*(1144-8)
	}
	b[tail], b[tail+1] = 1, 0
	b[tail+2+25], b[tail+2+40] = 1, 1
	b[tail+43+6] = 1
	b[tail+84] = 4
	if wide {
		binary.LittleEndian.PutUint64(b[tail+85:], math.Float64bits(0.75))
	} else {
		binary.LittleEndian.PutUint32(b[tail+85:], math.Float32bits(0.75))
	}
	return b
}

func TestDecodeState(t *testing.T) {
	index := map[string]int{}
	for i, p := range published {
		index[p.name] = i + 1
	}
	for v := MinVersion; v <= MaxVersion; v++ {
		var s State
		if err := DecodeState(v, stateBytes(v), &s); err != nil {
			t.Fatal(err)
		}
		for name, got := range map[string][]float64{"q": s.Q[:], "q_d": s.QD[:], "dq": s.DQ[:], "dq_d": s.DQD[:], "ddq_d": s.DDQD[:], "tau_J": s.Tau[:],
			"tau_ext_hat_filtered": s.TauExt[:], "O_T_EE": s.OTEE[:], "O_T_EE_d": s.OTEED[:], "F_T_EE": s.FTEE[:], "O_F_ext_hat_K": s.Force[:],
			"joint_contact": s.JointContact[:], "joint_collision": s.JointCollision[:], "m_ee": {s.EndEffectorKG}, "m_load": {s.LoadKG}} {
			for k, x := range got {
				if want := float64(index[name]) + float64(k)/64; x != want {
					t.Errorf("version %d: %s[%d] = %v, want %v", v, name, k, x, want)
				}
			}
		}
		if s.MessageID != 123456789012 || s.Motion != MotionJointPosition || s.Controller != ControllerJointImpedance || s.Mode != RobotReflex || s.SuccessRate != 0.75 {
			t.Errorf("version %d: %d %d %d %v %v", v, s.MessageID, s.Motion, s.Controller, s.Mode, s.SuccessRate)
		}
		if s.Errors.String() != "communication_constraints_violation, base_acceleration_invalid_reading" || s.LastErrors.String() != "joint_reflex" {
			t.Errorf("version %d: errors %q, last %q", v, s.Errors, s.LastErrors)
		}
	}
	var s State
	for _, c := range []struct {
		v Version
		b []byte
	}{{10, make([]byte, 2373)}, {9, make([]byte, 1377)}, {10, make([]byte, 1376)}, {5, nil}, {11, make([]byte, 1377)}} {
		if err := DecodeState(c.v, c.b, &s); err == nil {
			t.Errorf("version %d took a state of %d bytes", c.v, len(c.b))
		}
	}
	b := stateBytes(10)
	binary.LittleEndian.PutUint32(b[624+4*2:], math.Float32bits(float32(math.NaN())))
	if err := DecodeState(10, b, &s); err == nil || !strings.Contains(err.Error(), "joint 3") {
		t.Errorf("a desired position that is no number: %v", err)
	}
}

func TestEncodeJointPosition(t *testing.T) {
	q := Joints{0.125, -1.5, 2, -2.25, 3, 0.5, 1}
	for v := MinVersion; v <= MaxVersion; v++ {
		buf := make([]byte, 512)
		for i := range buf {
			buf[i] = 0xaa
		}
		b := EncodeJointPosition(v, buf, 0x1122334455667788, &q, true)
		want := make([]byte, 371)
		if v < 7 {
			want = want[:370]
		}
		binary.LittleEndian.PutUint64(want, 0x1122334455667788)
		for j, p := range q {
			binary.LittleEndian.PutUint64(want[8+8*j:], math.Float64bits(p))
		}
		want[313] = 1 // published offset of motion_generation_finished
		if string(b) != string(want) {
			t.Errorf("version %d: % x", v, b)
		}
	}
}

func TestDecodingDoesNotAllocate(t *testing.T) {
	var s State
	var buf [512]byte
	b10, b5 := stateBytes(10), stateBytes(5)
	if n := testing.AllocsPerRun(100, func() {
		_ = DecodeState(10, b10, &s)
		_ = DecodeState(5, b5, &s)
		EncodeJointPosition(10, buf[:], s.MessageID, &s.QD, false)
	}); n != 0 {
		t.Errorf("%v allocations for a cycle", n)
	}
}

func TestVersionErrorsNameBothSides(t *testing.T) {
	for _, v := range []Version{4, 11} {
		err := v.Check()
		if !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), "speaks 5 (Panda system 4.2.1) to 10 (FR3 system 5.9.0)") {
			t.Errorf("version %d: %v", v, err)
		}
	}
	if Version(7).Check() != nil {
		t.Error("version 7 is refused")
	}
}

// The description of a later arm, whose joint names carry a prefix.
func TestLimitsFromURDF(t *testing.T) {
	var b strings.Builder
	b.WriteString(`<?xml version="1.0" ?><robot name="fr3v2"><link name="base"/>`)
	for j := 1; j <= 7; j++ {
		b.WriteString(`<joint name="fr3v2_joint` + string(rune('0'+j)) + `" type="revolute"><limit effort="87.0" lower="-2.9" upper="2.` + string(rune('0'+j)) +
			`" velocity="2.62"/><position_based_velocity_limits velocity_offset="0.652" deceleration_limit="6.5"/></joint>`)
	}
	doc := b.String() + `</robot>`
	l, err := LimitsFromURDF(doc, robotmodel.FR3().Limits)
	if err != nil {
		t.Fatal(err)
	}
	if l.QMax[4] != 2.5 || l.QMin[6] != -2.9 || l.DQ[5] != 2.62 || l.DQOffset[2] != 0.652 || l.DDQDec[1] != 6.5 || l.DDDQ != robotmodel.FR3().Limits.DDDQ {
		t.Errorf("limits %+v", l)
	}
	for name, bad := range map[string]string{
		"no XML":        "motor",
		"a joint less":  strings.Replace(doc, "joint7", "joint8", 1),
		"empty range":   strings.Replace(doc, `upper="2.3"`, `upper="-3"`, 1),
		"no speed":      strings.Replace(doc, `velocity="2.62"`, `velocity="0"`, 1),
		"not revolute":  strings.Replace(doc, `joint4" type="revolute"`, `joint4" type="fixed"`, 1),
		"not a number":  strings.Replace(doc, `upper="2.3"`, `upper="wide"`, 1),
		"cut off short": doc[:len(doc)/2],
	} {
		if _, err := LimitsFromURDF(bad, robotmodel.FR3().Limits); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func FuzzDecodeState(f *testing.F) {
	f.Add(uint16(10), stateBytes(10))
	f.Add(uint16(6), stateBytes(6))
	f.Fuzz(func(t *testing.T, v uint16, b []byte) {
		var s State
		if DecodeState(Version(v), b, &s) == nil && len(b) != 1377 && len(b) != 2373 && len(b) != 1233 {
			t.Errorf("version %d took %d bytes", v, len(b))
		}
	})
}
