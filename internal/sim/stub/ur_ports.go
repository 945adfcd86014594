package stub

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"math"
	"net"
	"strings"

	"github.com/pinch-robotics/pinch/internal/wire/rtde"
)

// outputs and inputs of RTDE that the controller has, with their types. Source: RTDE guide, field names.
var (
	urOutputs = fields("DOUBLE timestamp target_speed_fraction speed_scaling momentum actual_main_voltage actual_robot_voltage actual_robot_current actual_momentum actual_execution_time tcp_force_scalar actual_tool_accelerometer_x standard_analog_input0 standard_analog_input1 standard_analog_output0 standard_analog_output1 io_current tool_analog_input0 tool_analog_input1 tool_output_current",
		"VECTOR6D target_q target_qd target_qdd target_current target_moment actual_q actual_qd actual_current actual_current_as_torque joint_control_output actual_TCP_pose actual_TCP_speed actual_TCP_force target_TCP_pose target_TCP_speed joint_temperatures actual_joint_voltage ft_raw_wrench tcp_offset payload_inertia",
		"VECTOR3D actual_tool_accelerometer payload_cog",
		"UINT64 actual_digital_input_bits actual_digital_output_bits", "INT32 robot_mode safety_mode safety_status",
		"UINT32 runtime_state robot_status_bits safety_status_bits output_bit_registers0_to_31 output_bit_registers32_to_63",
		"VECTOR6INT32 joint_mode", "DOUBLE payload")
	urInputs = fields("UINT32 speed_slider_mask", "DOUBLE speed_slider_fraction standard_analog_output_0 standard_analog_output_1",
		"UINT8 standard_digital_output_mask configurable_digital_output_mask standard_digital_output configurable_digital_output standard_analog_output_mask standard_analog_output_type tool_digital_output_mask tool_digital_output")
)

func fields(groups ...string) map[string]rtde.Type {
	m := map[string]rtde.Type{}
	for _, g := range groups {
		words := strings.Fields(g)
		for _, w := range words[1:] {
			m[w] = rtde.Type(words[0])
		}
	}
	for i := 0; i < 48; i++ {
		m[fmt.Sprintf("output_int_register_%d", i)] = "INT32"
		m[fmt.Sprintf("output_double_register_%d", i)] = "DOUBLE"
		m[fmt.Sprintf("input_int_register_%d", i)] = "INT32"
		m[fmt.Sprintf("input_double_register_%d", i)] = "DOUBLE"
	}
	return m
}

// rtdeConn is one RTDE client; its fields are guarded by the controller's mutex.
type rtdeConn struct {
	conn    net.Conn
	names   []string
	types   []rtde.Type
	every   int64 // cycles between packages
	on      bool
	inputs  []string
	inTypes []rtde.Type
	out     chan []byte
}

func (u *UR) serveRTDE(c net.Conn) {
	r := &rtdeConn{conn: c, every: 1, out: make(chan []byte, 200)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for b := range r.out {
			if _, err := c.Write(b); err != nil {
				_ = c.Close()
			}
		}
	}()
	defer func() {
		u.mu.Lock()
		delete(u.streams, r)
		for name, by := range u.taken {
			if by == r {
				delete(u.taken, name)
			}
		}
		close(r.out)
		u.mu.Unlock()
		_ = c.Close()
		<-done
	}()
	var buf []byte
	for {
		k, p, err := rtde.ReadPackage(c, &buf)
		if err != nil {
			return
		}
		u.mu.Lock()
		answer := u.rtdeAnswer(r, k, p)
		if answer != nil {
			r.out <- rtde.Append(nil, k, answer)
		}
		u.mu.Unlock()
	}
}

// rtdeAnswer carries out one request.
func (u *UR) rtdeAnswer(r *rtdeConn, k rtde.Kind, p []byte) []byte {
	switch k {
	case rtde.RequestVersion:
		if len(p) == 2 && binary.BigEndian.Uint16(p) == rtde.ProtocolVersion {
			return []byte{1}
		}
		return []byte{0}
	case rtde.ControllerVersion:
		var b []byte
		for _, v := range []uint32{5, 15, 0, 1} {
			b = binary.BigEndian.AppendUint32(b, v)
		}
		return b
	case rtde.SetupOutputs:
		if len(p) < 8 {
			return []byte{0}
		}
		hz := math.Float64frombits(binary.BigEndian.Uint64(p))
		if !(hz >= 1 && hz <= 500) {
			return []byte{0}
		}
		r.every = int64(math.Round(500 / hz))
		r.names = strings.Split(strings.TrimSuffix(string(p[8:]), ","), ",") // controllers let a last comma pass
		words := []string{}
		r.types = nil
		for _, n := range r.names {
			t, known := urOutputs[n]
			if !known {
				t = "NOT_FOUND"
			}
			words = append(words, string(t))
			r.types = append(r.types, t)
		}
		return append([]byte{1}, strings.Join(words, ",")...)
	case rtde.SetupInputs:
		return u.setupInputs(r, strings.Split(strings.TrimSuffix(string(p), ","), ","))
	case rtde.Start, rtde.Pause:
		r.on = k == rtde.Start
		if r.on {
			u.streams[r] = true
		}
		return []byte{1}
	case rtde.Data:
		u.takeInputs(r, p)
	}
	return nil
}

// setupInputs gives the names to this client unless another one has them.
func (u *UR) setupInputs(r *rtdeConn, names []string) []byte {
	words := []string{}
	ok := true
	for _, n := range names {
		t, known := urInputs[n]
		if by := u.taken[n]; by != nil && by != r {
			t, ok = "IN_USE", false
		} else if !known {
			t, ok = "NOT_FOUND", false
		}
		words = append(words, string(t))
	}
	if !ok {
		return append([]byte{0}, strings.Join(words, ",")...)
	}
	r.inputs = append(r.inputs, strings.Join(names, ","))
	for _, n := range names {
		u.taken[n] = r
	}
	return append([]byte{byte(len(r.inputs))}, strings.Join(words, ",")...)
}

// takeInputs reads a data package of inputs; the speed slider acts.
func (u *UR) takeInputs(r *rtdeConn, p []byte) {
	if len(p) < 1 || int(p[0]) < 1 || int(p[0]) > len(r.inputs) {
		return
	}
	names := strings.Split(r.inputs[p[0]-1], ",")
	types := make([]string, len(names))
	for i, n := range names {
		types[i] = string(urInputs[n])
	}
	recipe, err := rtde.NewRecipe(p[0], names, strings.Join(types, ","))
	if err != nil || recipe.Check(p) != nil {
		return
	}
	if m, f := recipe.Index("speed_slider_mask"), recipe.Index("speed_slider_fraction"); m >= 0 && f >= 0 && recipe.Int(p, m) == 1 {
		u.slider = recipe.Float(p, f)
	}
}

// sendOutputs sends each stream its package; a client that does not take them is cut off.
func (u *UR) sendOutputs() {
	for r := range u.streams {
		if !r.on || u.cycles%r.every != 0 {
			continue
		}
		b := []byte{1}
		for i, n := range r.names {
			b = rtde.AppendValue(b, r.types[i], u.value(n))
		}
		select {
		case r.out <- rtde.Append(nil, rtde.Data, b):
		default:
			u.log = append(u.log, "an RTDE client did not take its packages and was cut off")
			delete(u.streams, r)
			_ = r.conn.Close()
		}
	}
}

// value is one output now; those that this controller does not model are zero.
func (u *UR) value(name string) []float64 {
	one := func(v float64) []float64 { return []float64{v} }
	switch name {
	case "timestamp":
		return one(float64(u.cycles) * urCycle.Seconds())
	case "actual_q", "target_q":
		return u.q[:]
	case "actual_qd", "target_qd":
		return u.qd[:]
	case "actual_TCP_pose", "target_TCP_pose":
		p := u.toolPose()
		return p[:]
	case "robot_mode":
		return one(float64(u.robotMode))
	case "safety_mode", "safety_status":
		return one(float64(u.safetyMode))
	case "runtime_state":
		if u.program != nil && !u.program.ended {
			return one(2)
		}
		return one(1)
	case "speed_scaling", "target_speed_fraction":
		return one(u.slider)
	case "robot_status_bits":
		bits := 0.0
		if u.robotMode == robotRunning {
			bits++
		}
		if u.program != nil && !u.program.ended {
			bits += 2
		}
		return one(bits)
	case "safety_status_bits":
		return one(map[int]float64{safetyNormal: 1, safetyProtective: 4, safetySafeguard: 16, safetyEmergency: 128}[u.safetyMode])
	}
	return nil
}

// serveDashboard answers the few commands that recovery needs.
func (u *UR) serveDashboard(c net.Conn) {
	if _, err := fmt.Fprint(c, "Connected: Universal Robots Dashboard Server\n"); err != nil {
		return
	}
	lines := bufio.NewScanner(c)
	for lines.Scan() {
		u.mu.Lock()
		answer := "could not understand: " + lines.Text()
		switch strings.ToLower(strings.TrimSpace(lines.Text())) {
		case "robotmode":
			answer = "Robotmode: " + map[int]string{robotPowerOff: "POWER_OFF", robotRunning: "RUNNING"}[u.robotMode]
		case "safetystatus", "safetymode":
			answer = "Safetystatus: " + map[int]string{safetyNormal: "NORMAL", safetyProtective: "PROTECTIVE_STOP", safetySafeguard: "SAFEGUARD_STOP",
				safetyEmergency: "ROBOT_EMERGENCY_STOP"}[u.safetyMode]
		case "close safety popup":
			answer = "closing safety popup"
		case "unlock protective stop":
			answer = "Protective stop releasing"
			if u.safetyMode == safetyProtective {
				u.safetyMode = safetyNormal
			}
		case "polyscopeversion":
			answer = "URSoftware 5.15.0.126449 (Oct 24 2023)"
		case "get robot model":
			answer = strings.ToUpper(strings.TrimSuffix(u.model.Name, "e"))
		case "is in remote control":
			answer = "true"
		case "quit":
			u.mu.Unlock()
			_, _ = fmt.Fprint(c, "Disconnected\n")
			return
		}
		u.mu.Unlock()
		if _, err := fmt.Fprint(c, answer+"\n"); err != nil {
			return
		}
	}
}
