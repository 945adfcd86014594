package robotiq

import (
	"context"
	"errors"
	"math"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/pinch-robotics/pinch/deploy/arm"
	"github.com/pinch-robotics/pinch/deploy/arm/armtest"
	"github.com/pinch-robotics/pinch/deploy/hand"
	"github.com/pinch-robotics/pinch/internal/sim/stub"
	"github.com/pinch-robotics/pinch/internal/wire/modbus"
)

// onSerial puts a gripper on a pseudo terminal, onTCP behind a socket.
func onSerial(t *testing.T, g *stub.Robotiq) (*stub.Cable, Options) {
	t.Helper()
	pty, err := stub.OpenPTY()
	if err != nil {
		t.Fatal(err)
	}
	cable := &stub.Cable{Line: pty.Master}
	done := make(chan struct{})
	go func() {
		defer close(done)
		modbus.ServeRTU(cable, 9, g)
	}()
	t.Cleanup(func() {
		_ = pty.Close()
		<-done
	})
	return cable, Options{Address: "rtu:" + pty.Path, PeriodMS: 10, AnswerMS: 400}
}

func onTCP(t *testing.T, g *stub.Robotiq, framing modbus.Framing) Options {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		if framing == modbus.TCP {
			modbus.ServeTCP(c, 9, g)
		} else {
			modbus.ServeRTU(c, 9, g)
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	kind := map[modbus.Framing]string{modbus.TCP: "tcp:", modbus.RTU: "rtutcp:"}[framing]
	return Options{Address: kind + l.Addr().String(), PeriodMS: 10, AnswerMS: 400}
}

func TestConformance(t *testing.T) {
	g := stub.NewRobotiq(100)
	cable, o := onSerial(t, g)
	h, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	armtest.Hand(t, armtest.HandCase{
		New:   func(*testing.T) arm.Hand { return h },
		Angle: func() float64 { return h.scale.Rad(g.Count()) },
		Object: func(rad float64) {
			if !math.IsNaN(rad) {
				rad = h.scale.Count(rad)
			}
			g.PutObject(rad)
		},
		Cut:          cable.Cut,
		Alarm:        func() { g.SetFault(0xE) },
		Refused:      g.Refused,
		MovesAtStart: true, Tolerance: 0.01, Lag: 0.15,
	})
}

// A gripper that is active already does not move in Start, over Modbus TCP and over RTU frames in a socket.
func TestActiveGripperDoesNotMoveAtStart(t *testing.T) {
	for _, framing := range []modbus.Framing{modbus.TCP, modbus.RTU} {
		g := stub.NewRobotiq(120)
		g.Activate()
		h, err := New(onTCP(t, g, framing))
		if err != nil {
			t.Fatal(err)
		}
		st, err := h.Start(context.Background())
		if err != nil {
			t.Fatalf("%s: %v", framing, err)
		}
		if g.Count() != 120 || math.Abs(h.scale.Count(st.Rad)-120) > 0.5 {
			t.Errorf("%s: the fingers are at %v, Start says %v", framing, g.Count(), st.Rad)
		}
		// Stop the power: the next exchange is an alarm, and nothing activates by itself.
		g.PowerCycle()
		if _, err := h.Exchange(context.Background(), 0.5); !errors.Is(err, arm.ErrHandAlarm) || !strings.Contains(err.Error(), "power") {
			t.Errorf("%s: after a power cut: %v", framing, err)
		}
		if err := h.Recover(context.Background()); err == nil {
			t.Errorf("%s: Recover accepts a gripper that is not active", framing)
		}
		if g.Count() != 120 {
			t.Errorf("%s: the fingers moved to %v without activation", framing, g.Count())
		}
		_ = h.Close()
	}
}

func TestActivationThatFailsSaysWhy(t *testing.T) {
	g := stub.NewRobotiq(50)
	g.ActivateTime = time.Hour
	_, o := onSerial(t, g)
	h, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		time.Sleep(100 * time.Millisecond)
		g.SetFault(0xD)
	}()
	if _, err := h.Start(context.Background()); err == nil || !strings.Contains(err.Error(), "between the fingers") {
		t.Errorf("error %v", err)
	}
	_ = h.Close()
}

func TestOptionsNameTheKey(t *testing.T) {
	for key, o := range map[string]Options{
		"address": {Address: "udp:x"}, "unit": {Address: "tcp:a:1", Unit: 300}, "speed": {Address: "tcp:a:1", Speed: 999},
		"force": {Address: "tcp:a:1", Force: -1}, "period_ms": {Address: "tcp:a:1", PeriodMS: 1}, "answer_ms": {Address: "tcp:a:1", AnswerMS: 1},
		"points": {Address: "tcp:a:1", Points: []hand.Point{{Rad: 0, Count: 0}, {Rad: 1, Count: 900}}},
	} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: error %v", key, err)
		}
	}
}

// The status bytes as the manual explains its example answers.
func TestParseOfTheManualsStatus(t *testing.T) {
	for _, c := range []struct {
		v    []uint16
		want status
	}{
		{[]uint16{0xF900, 0x0000, 0x0D00}, status{activated: true, object: 3, count: 13}},
		{[]uint16{0x3900, 0x00FF, 0x0E0A}, status{activated: true, count: 14, currentA: 0.1}},
		{[]uint16{0xB900, 0x00FF, 0xBD00}, status{activated: true, object: 2, count: 0xBD}},
		{[]uint16{0x1100, 0x0000, 0x0000}, status{}},
		{[]uint16{0x3900, 0x0E00, 0x0000}, status{activated: true, fault: 0xE}},
	} {
		if got := parse(c.v); got != c.want {
			t.Errorf("%04x: %+v, want %+v", c.v, got, c.want)
		}
	}
}
