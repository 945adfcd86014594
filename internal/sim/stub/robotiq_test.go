package stub

import (
	"encoding/json"
	"math"
	"net"
	"os/exec"
	"testing"

	"github.com/pinch-robotics/pinch/internal/testpeer"
	"github.com/pinch-robotics/pinch/internal/wire/modbus"
)

// pymodbus drives the gripper over a serial line and over TCP.
func TestPymodbusDrivesTheGripper(t *testing.T) {
	python := testpeer.Python(t, "pymodbus", "serial")
	run := func(t *testing.T, g *Robotiq, args ...string) {
		cmd := exec.Command(python, append([]string{"testdata/modbus_peer.py"}, args...)...)
		out, err := cmd.Output()
		if err != nil {
			if ee, ok := err.(*exec.ExitError); ok {
				t.Fatalf("%v: %s", err, ee.Stderr)
			}
			t.Fatal(err)
		}
		var got struct{ Before, Activated, AtPosition, Echo, Count, Input, Exception int }
		if err := json.Unmarshal(out, &got); err != nil {
			t.Fatalf("%v in %s", err, out)
		}
		want := got
		want.Before, want.Activated, want.AtPosition, want.Echo, want.Count, want.Input, want.Exception = 0, 0x3100, 0xF900, 200, 200, 200, 2
		if got != want {
			t.Errorf("pymodbus saw %+v, want %+v", got, want)
		}
		if math.Abs(g.Count()-200) > 0.5 {
			t.Errorf("the fingers are at %v, want 200", g.Count())
		}
	}
	t.Run("rtu", func(t *testing.T) {
		pty, err := OpenPTY()
		if err != nil {
			t.Fatal(err)
		}
		g := NewRobotiq(10)
		done := make(chan struct{})
		go func() {
			defer close(done)
			modbus.ServeRTU(pty.Master, 9, g)
		}()
		run(t, g, "rtu", pty.Path)
		_ = pty.Close()
		<-done
	})
	t.Run("tcp", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		g := NewRobotiq(10)
		done := make(chan struct{})
		go func() {
			defer close(done)
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			modbus.ServeTCP(c, 9, g)
		}()
		run(t, g, "tcp", l.Addr().String())
		_ = l.Close()
		<-done
	})
}
