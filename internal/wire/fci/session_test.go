package fci

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// What libfranka 0.21.3 sends (through pylibfranka) for the same calls, recorded on the wire: connect with its UDP port, collision behavior, joint
// impedance, load, joint position move, recovery. The counters are its own.
var recorded = []string{
	"0000000000000000100000000a00a1d3",
	"0b000000010000000c000000",
	"0300000002000000ac010000" +
		strings.Repeat("000000000000264000000000000028400000000000002a400000000000002c400000000000002e4000000000000030400000000000003140"+
			"000000000000354000000000000036400000000000003740000000000000384000000000000039400000000000003a400000000000003b40", 2) +
		strings.Repeat("0000000000003f4000000000000040400000000000804040000000000000414000000000008041400000000000004240"+
			"000000000080444000000000000045400000000000804540000000000000464000000000008046400000000000004740", 2),
	"040000000300000044000000000000000070a740000000000070a740000000000070a740000000000088a3400000000000" + "88a3400000000000409f400000000000409f40",
	"090000000400000074000000000000000000e03f7b14ae47e17a843f7b14ae47e17a943fb81e85eb51b89e3f" +
		"fca9f1d24d62503f000000000000000000000000000000000000000000000000" +
		"fca9f1d24d62503f000000000000000000000000000000000000000000000000fca9f1d24d62503f",
	"01000000050000007d0000000000000000000000" + strings.Repeat("0000000000002440f6285c8fc2f50840182d4454fb211940", 2) + "00" + strings.Repeat("00", 56),
	"0a000000060000000c000000",
}

// script is the arm's side of a connection, played by the test: want bytes, then send answers.
func script(t *testing.T, steps func(c *player)) string {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		steps(&player{t: t, l: l})
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l.Addr().String()
}

type player struct {
	t *testing.T
	l net.Listener
	net.Conn
}

func (p *player) accept() {
	c, err := p.l.Accept()
	if err != nil {
		p.t.Error(err)
		return
	}
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	p.Conn = c
}

func (p *player) want(hexBytes string) {
	b := make([]byte, len(hexBytes)/2)
	if _, err := io.ReadFull(p.Conn, b); err != nil {
		p.t.Errorf("want %s: %v", hexBytes, err)
		return
	}
	if got := hex.EncodeToString(b); got != hexBytes {
		p.t.Errorf("the client sent\n%s, want\n%s", got, hexBytes)
	}
}

func (p *player) answer(hexBytes string) {
	b, err := hex.DecodeString(hexBytes)
	if err != nil {
		p.t.Error(err)
	}
	if _, err := p.Write(b); err != nil {
		p.t.Error(err)
	}
}

// The client's requests are, byte for byte, those of the vendor's library; the answers are the arm's as recorded, some out of order.
func TestRequestsEqualTheVendors(t *testing.T) {
	addr := script(t, func(p *player) {
		p.accept()
		p.want(recorded[0])
		p.answer("00000000000000000f000000000a00")
		p.want(recorded[1])
		p.answer("0b000000010000001300000000" + hex.EncodeToString([]byte("<robot")))
		p.want(recorded[2])
		p.answer("0300000002000000" + "0d00000000")
		p.want(recorded[3])
		p.answer("04000000030000000d00000002")
		p.want(recorded[4])
		p.answer("09000000040000000d00000000")
		p.want(recorded[5])
		p.answer("01000000050000000d00000001")
		p.want(recorded[6])
		p.answer("01000000050000000d00000008" + "0a000000060000000d00000003") // the move's end before the answer to the recovery
		p.Close()
	})
	ctx := context.Background()
	s, err := Dial(ctx, addr, 0xd3a1, false)
	if err != nil {
		t.Fatal(err)
	}
	if s.Version() != 10 {
		t.Errorf("version %d", s.Version())
	}
	if m, err := s.RobotModel(ctx); err != nil || m != "<robot" {
		t.Errorf("model %q, %v", m, err)
	}
	c := CollisionBehavior{LowerTorque: Joints{11, 12, 13, 14, 15, 16, 17}, UpperTorque: Joints{21, 22, 23, 24, 25, 26, 27},
		LowerForce: [6]float64{31, 32, 33, 34, 35, 36}, UpperForce: [6]float64{41, 42, 43, 44, 45, 46}}
	if err := s.SetCollisionBehavior(ctx, c); err != nil {
		t.Error(err)
	}
	var status *StatusError
	if err := s.SetJointImpedance(ctx, Joints{3000, 3000, 3000, 2500, 2500, 2000, 2000}); !errors.As(err, &status) || status.Status != 2 ||
		!strings.Contains(err.Error(), "invalid argument") {
		t.Errorf("a refused setting: %v", err)
	}
	if err := s.SetLoad(ctx, 0.5, [3]float64{0.01, 0.02, 0.03}, [9]float64{0: 0.001, 4: 0.001, 8: 0.001}); err != nil {
		t.Error(err)
	}
	m, err := s.MoveJoints(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Recover(ctx); err == nil || !strings.Contains(err.Error(), "by hand") {
		t.Errorf("recovery: %v", err)
	}
	if end, err := m.Wait(ctx); err != nil || end != MoveReflexAborted {
		t.Errorf("the motion ended with %v, %v", end, err)
	}
	<-s.Done()
	if err := s.StopMove(ctx); !errors.Is(err, ErrClosed) {
		t.Errorf("a call after the end: %v", err)
	}
	_ = s.Close()
}

// A server of an older version names it and is asked again in its own; one that is too old or foreign is refused with both versions.
func TestVersionIsTheServers(t *testing.T) {
	addr := script(t, func(p *player) {
		p.accept()
		p.want("0000000000000000100000000a003930")
		p.answer("00000000000000000f000000010700")
		p.accept()
		p.want("00000000000000001000000007003930")
		p.answer("00000000000000000f000000000700")
		p.want("0a000000010000000c000000") // recovery is call 10 in version 7
		p.answer("0a000000010000000d00000000")
	})
	s, err := Dial(context.Background(), addr, 12345, false)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.Version() != 7 {
		t.Errorf("version %d, want 7", s.Version())
	}
	if err := s.Recover(context.Background()); err != nil {
		t.Error(err)
	}
	if _, err := s.RobotModel(context.Background()); err == nil || !strings.Contains(err.Error(), "version 7 has no such call") {
		t.Errorf("model of version 7: %v", err)
	}
	old := script(t, func(p *player) {
		p.accept()
		p.want("0000000000000000100000000a003930")
		p.answer("00000000000000000f000000010400")
	})
	if _, err := Dial(context.Background(), old, 12345, false); !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), "version 4 (Panda system 4.0.0)") {
		t.Errorf("version 4: %v", err)
	}
	foreign := script(t, func(p *player) {
		p.accept()
		p.want("0000000000000000100000000a003930")
		p.answer(hex.EncodeToString([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")))
	})
	if _, err := Dial(context.Background(), foreign, 12345, false); err == nil || !strings.Contains(err.Error(), "no Franka interface") {
		t.Errorf("a web server: %v", err)
	}
}
