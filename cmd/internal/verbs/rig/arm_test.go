package rig

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/pinch-robotics/pinch/internal/sim/stub"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
	"github.com/pinch-robotics/pinch/internal/wire/modbus"
)

// launch runs a verb until the test ends and returns the address it announces.
func launch(t *testing.T, cmd *cobra.Command, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r, w := io.Pipe()
	cmd.SetArgs(append(args, "--json"))
	cmd.SetOut(w)
	cmd.SetErr(os.Stderr)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	done := make(chan error, 1)
	go func() {
		err := cmd.ExecuteContext(ctx)
		_ = w.CloseWithError(io.EOF)
		done <- err
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil && err != context.Canceled { //nolint:errorlint // the verb returns ctx.Err itself
			t.Errorf("%s: %v", cmd.Name(), err)
		}
	})
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatalf("%s announces nothing: %v", cmd.Name(), <-done)
	}
	var ready struct{ Armlink string }
	if err := json.Unmarshal([]byte(line), &ready); err != nil || ready.Armlink == "" {
		t.Fatalf("%s announces %q: %v", cmd.Name(), line, err)
	}
	return ready.Armlink
}

// A UR arm and an xArm, each with its process, joined to one cell: all by the verbs, with a Robotiq gripper on one of them.
func TestArmVerbsMakeACell(t *testing.T) {
	u, err := stub.NewUR(stub.UROptions{Patience: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(u.Close)
	x, err := stub.NewXArm(stub.XArmOptions{Patience: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.Close)
	pty, err := stub.OpenPTY()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pty.Close() })
	gripper := stub.NewRobotiq(100)
	gripper.Activate()
	go modbus.ServeRTU(pty.Master, 9, gripper)

	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	left := file("left.yaml", "name: left\nlisten: unix:"+filepath.Join(dir, "left")+"\nur: {model: ur5e, silence_ms: 3000, rtde_addr: \""+u.RTDE()+"\", script_addr: \""+u.Script()+
		"\", dashboard_addr: \""+u.Dashboard()+"\"}\nhand: {robotiq: {address: \"rtu:"+pty.Path+"\", answer_ms: 1000}}\n")
	right := file("right.yaml", "name: right\nxarm: {model: xarm7, silence_ms: 3000, control_addr: \""+x.Control()+"\", report_addr: \""+x.Reports()+"\"}\n")
	joined := launch(t, ArmJoin(), "--listen", "unix:"+filepath.Join(dir, "cell"), "--left", launch(t, ArmUR(), left),
		"--right", launch(t, ArmXArm(), right, "--listen", "unix:"+filepath.Join(dir, "right")))
	conn, err := armlink.Dial(context.Background(), joined)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	m, err := conn.Read()
	h, ok := m.(*armlink.Hello)
	if !ok || len(h.Arms) != 2 || h.Arms[0].Model != "ur5e" || h.Arms[1].Model != "xarm7" {
		t.Fatalf("the cell begins with %+v, %v", m, err)
	}
	if m, err = conn.Read(); err != nil {
		t.Fatal(err)
	}
	st, ok := m.(*armlink.State)
	if !ok || st.Arms[0].Mode != armlink.ModeIdle || st.Arms[1].Mode != armlink.ModeIdle {
		t.Fatalf("first state %+v", m)
	}
	if g := st.Arms[0].GripperRad; g < 0.3 || g > 0.8 {
		t.Errorf("the gripper is at %v rad", g)
	}
	q, _ := u.Joints()
	if d := st.Arms[0].Q[1] - q[1]; d > 1e-6 || d < -1e-6 {
		t.Errorf("joint 2 of the left arm is stated as %v, is %v", st.Arms[0].Q[1], q[1])
	}
}
