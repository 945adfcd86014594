package franka

import (
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pinch-robotics/pinch/internal/sim/fciserve"
	"github.com/pinch-robotics/pinch/internal/testpeer"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
	"github.com/pinch-robotics/pinch/internal/wire/fci"
)

// startPeer runs a simulator of others as a program and waits until it listens; what it prints is returned by the function.
func startPeer(t *testing.T, addr, python string, args ...string) (printed func() string) {
	t.Helper()
	log := filepath.Join(t.TempDir(), "peer.log")
	f, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	if chrt, err := exec.LookPath("chrt"); err == nil && exec.Command(chrt, "-f", "30", "true").Run() == nil {
		args = append([]string{"-f", "30", python}, args...)
		python = chrt
	}
	cmd := exec.Command(python, args...)
	cmd.Stdout, cmd.Stderr = f, f
	cmd.Env = append(os.Environ(), "PYTHONUNBUFFERED=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait(); _ = f.Close() })
	printed = func() string {
		b, _ := os.ReadFile(log)
		return string(b)
	}
	for end := time.Now().Add(60 * time.Second); ; time.Sleep(200 * time.Millisecond) {
		if listening(addr) && strings.Contains(printed(), "Ctrl+C") {
			time.Sleep(2 * time.Second) // its loop starts after the words
			return printed
		}
		if time.Now().After(end) || cmd.ProcessState != nil {
			t.Fatalf("the simulator does not listen at %s; it printed\n%s", addr, printed())
		}
	}
}

// listening looks into the kernel's table: connecting would count as a client.
func listening(addr string) bool {
	host, port, _ := net.SplitHostPort(addr)
	ip := net.ParseIP(host).To4()
	n, _ := strconv.Atoi(port)
	table, _ := os.ReadFile("/proc/net/tcp")
	for _, at := range []string{fmt.Sprintf("%02X%02X%02X%02X", ip[3], ip[2], ip[1], ip[0]), "00000000"} {
		if strings.Contains(string(table), fmt.Sprintf("%s:%04X 00000000:0000 0A", at, n)) {
			return true
		}
	}
	return false
}

// drives moves a peer's arm through our process for two seconds and checks that it followed.
func drives(t *testing.T, addr string, printed func() string) {
	t.Helper()
	defer func() {
		if t.Failed() || t.Skipped() {
			t.Logf("the peer printed\n%s", last(printed(), 25))
		}
	}()
	c := &cell{t: t, addrs: []string{addr}}
	a := startChild(t, "left", addr)
	c.arms[0], c.arms[1] = a, a
	if !c.ready() {
		st, _, _, faults := a.look()
		t.Skipf("the arm does not become ready: %s (%s) %q; a simulator in Python loses time on a busy machine", st.Mode, st.Reason, faults)
	}
	from, began := c.from[0], c.began[0]
	most := 0.0
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		st, tns, _, _ := a.look()
		if st.Mode.NeedsRecover() {
			t.Skipf("the arm stopped: %s (%s); a simulator in Python loses commands on a busy machine", st.Mode, st.Reason)
		}
		for j := range from {
			most = math.Max(most, math.Abs(st.Q[j]-from[j]))
		}
		_ = a.conn.Write(wave("left", from, began, tns, 300*time.Millisecond))
	}
	_ = a.conn.Write(&armlink.Stop{Reason: "end of the test"})
	time.Sleep(time.Second)
	st, _, _, _ := a.look()
	for j := range from {
		if d := math.Abs(st.Q[j] - st.QCmd[j]); st.Mode != armlink.ModeStopped || d > 0.05 {
			t.Errorf("%s (%s), joint %d of the peer's arm stands %.3f rad from its command", st.Mode, st.Reason, j+1, d)
		}
	}
	if most < 0.1 {
		t.Errorf("the peer's arm moved by %.3f rad only", most)
	}
	t.Logf("the peer's arm moved by up to %.3f rad", most)
	if out := printed(); strings.Contains(out, "violation") || strings.Contains(out, "discontinuity") || strings.Contains(out, "Traceback") {
		t.Errorf("the peer objects:\n%s", last(out, 20))
	}
}

func last(text string, lines int) string {
	all := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// franka-sim is a simulator of others that judges commands as the robot does: our process drives it with all its checks on. It would fetch a model of the
// arm from the net, so it is given our arm's description.
func TestDrivesFrankaSim(t *testing.T) {
	python := testpeer.Python(t, "franka_sim", "mujoco")
	urdf := filepath.Join(t.TempDir(), "arm.urdf")
	// Its servos are too stiff for links as light as our description's balls.
	heavy := regexp.MustCompile(`(i[xyz]{2})="[0-9.e-]*[1-9][0-9.e-]*"`).ReplaceAllString(describe(t), `$1="0.5"`)
	if err := os.WriteFile(urdf, []byte(heavy), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("FR3_MJCF", urdf)
	t.Setenv("PINCH_TEST_MODEL_ERROR", "0.2") // it reports link 7, 0.107 m before the flange
	const addr = "127.0.0.1:21337"
	drives(t, addr, startPeer(t, addr, python, "-m", "franka_sim.run_server", "--physics", "mujoco", "--no-gripper", "--port", "21337",
		"--enforce-motion-limits", "--enforce-comm-constraints"))
}

// describe asks the strict arm for its description.
func describe(t *testing.T) string {
	t.Helper()
	_, stop := strict(t, "127.0.0.94", 10)
	defer stop()
	s, err := fci.Dial(context.Background(), "127.0.0.94", 1, true)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	urdf, err := s.RobotModel(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return urdf
}

// franky-sim is another one, which judges nothing. It brings 650 MB of libraries, so only an environment that is named has it.
func TestDrivesFrankySim(t *testing.T) {
	python := os.Getenv("PINCH_FRANKY_SIM_PYTHON")
	if python == "" {
		t.Skip("PINCH_FRANKY_SIM_PYTHON names no Python with franky-sim (pip install franky-sim: 650 MB)")
	}
	const addr = "127.0.0.91:1337"
	drives(t, addr, startPeer(t, addr, python, "-m", "franky_sim.run_server", "-s", "mujoco", "--hostname", "127.0.0.91"))
}

// strict serves the strict arm for clients of others, which know only port 1337; in lock-step, so that a slow client is no fault.
func strict(t *testing.T, host string, version int) (robot *fciserve.Robot, stop func()) {
	t.Helper()
	robot, err := fciserve.NewRobot(fciserve.RobotOptions{Version: version})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan []string, 1), make(chan error, 1)
	go func() {
		ended <- fciserve.Serve(ctx, fciserve.Options{LockStep: true, Arms: []fciserve.ArmOptions{{Robot: robot, Listen: host + ":1337"}}, Ready: func(a []string) { ready <- a }})
	}()
	select {
	case <-ready:
	case err := <-ended:
		cancel()
		t.Fatal(err)
	}
	return robot, func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func runPython(t *testing.T, python, script string, args ...string) string {
	t.Helper()
	cmd := exec.Command(python, append([]string{"-"}, args...)...)
	cmd.Stdin = strings.NewReader(script)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = io.MultiWriter(&out), &out
	timer := time.AfterFunc(100*time.Second, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	return out.String()
}

// The vendor's own client library takes our arm for a robot: settings, model, a motion that ends in order, a recovery; and it names the error when a
// motion steps by 1e-5 rad at its start.
func TestVendorsClientDrivesTheStrictArm(t *testing.T) {
	python := testpeer.Python(t, "pylibfranka")
	robot, stop := strict(t, "127.0.0.92", 10)
	out := runPython(t, python, `
import math, sys
import pylibfranka as lf
r = lf.Robot(sys.argv[1], lf.RealtimeConfig.kIgnore)
assert str(r.read_once().robot_mode) == "RobotMode.Idle"
r.set_collision_behavior([20.]*7, [20.]*7, [20.]*6, [20.]*6)
r.set_joint_impedance([3000., 3000, 3000, 2500, 2500, 2000, 2000])
r.set_load(0.5, [0.0, 0.0, 0.1], [0.001, 0, 0, 0, 0.001, 0, 0, 0, 0.001])
p = r.load_model().pose(lf.Frame.kFlange, r.read_once()) if hasattr(lf, "Frame") else None
c = r.start_joint_position_control(lf.ControllerMode.JointImpedance)
t, q0 = 0.0, None
while True:
    s, d = c.readOnce()
    q0 = q0 or list(s.q_d)
    t += d.to_sec()
    q = list(q0)
    q[3] += 0.05 * (1 - math.cos(math.pi * min(t, 1.0)))
    cmd = lf.JointPositions(q)
    cmd.motion_finished = t >= 1.0
    c.writeOnce(cmd)
    if cmd.motion_finished:
        break
print("moved %.6f rate %.2f" % (s.q_d[3] - q0[3], s.control_command_success_rate))
c = r.start_joint_position_control(lf.ControllerMode.JointImpedance)
s, d = c.readOnce()
q = list(s.q_d)
q[0] += 1e-5
try:
    c.writeOnce(lf.JointPositions(q))
    for i in range(5):
        c.readOnce()
        c.writeOnce(lf.JointPositions(q))
    print("no error")
except lf.ControlException as e:
    print(e)
r.automatic_error_recovery()
for i in range(50): # states that were sent before are read first
    s = r.read_once()
print(s.robot_mode)
`, "127.0.0.92")
	stop()
	for _, want := range []string{"moved 0.1000", "rate 1.00", "joint_motion_generator_", "_discontinuity", "RobotMode.Idle"} {
		if !strings.Contains(out, want) {
			t.Errorf("the client's words have no %q:\n%s", want, out)
		}
	}
	if s := robot.Stats; s.Violations != 1 || s.Motions != 2 || s.Accepted < 1000 {
		t.Errorf("%+v", s)
	}
}

// franky, which plans its own motions with the vendor's library below, moves the strict arm and causes no violation.
func TestFrankyDrivesTheStrictArm(t *testing.T) {
	python := testpeer.Python(t, "franky")
	robot, stop := strict(t, "127.0.0.93", 10)
	out := runPython(t, python, `
import sys, franky
r = franky.Robot(sys.argv[1], realtime_config=franky.RealtimeConfig.Ignore)
r.relative_dynamics_factor = 0.3
q0 = list(r.current_joint_state.position)
t = [q0[0] + 0.2, q0[1] - 0.1, q0[2], q0[3] + 0.15, q0[4], q0[5] + 0.2, q0[6] - 0.3]
r.move(franky.JointMotion(t))
q1 = list(r.current_joint_state.position)
print("off %.4f" % max(abs(a - b) for a, b in zip(q1, t)))
`, "127.0.0.93")
	stop()
	if !strings.Contains(out, "off 0.000") {
		t.Errorf("franky: %s", out)
	}
	if s := robot.Stats; s.Violations != 0 || s.Stops != 0 || s.Accepted < 300 {
		t.Errorf("%+v", s)
	}
}
