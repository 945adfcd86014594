package stub

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"strings"
	"time"

	"github.com/pinch-robotics/pinch/internal/robotmodel"
	"github.com/pinch-robotics/pinch/internal/sim/stub/urscript"
)

// program is a script that runs on the controller.
type program struct {
	u      *UR
	ended  bool
	halted bool
	socket *scriptSocket
}

// scriptSocket is the socket a script opened. Its fields are guarded by the controller's mutex.
type scriptSocket struct {
	conn    net.Conn
	ints    []int32
	closed  bool
	started bool // the first message has come
}

func (p *program) halt() {
	p.halted = true
	if p.socket != nil {
		_ = p.socket.conn.Close()
		p.socket.closed = true
	}
}

// serveScript takes programs: text up to an end at the beginning of a line.
func (u *UR) serveScript(c net.Conn) {
	r := bufio.NewReader(c)
	var text strings.Builder
	for {
		line, err := r.ReadString('\n')
		text.WriteString(line)
		if strings.HasPrefix(line, "end") {
			u.start(text.String())
			text.Reset()
		}
		if err != nil {
			return
		}
	}
}

// start replaces the running program.
func (u *UR) start(src string) {
	parsed, err := urscript.Parse(src)
	u.mu.Lock()
	defer u.mu.Unlock()
	if err != nil {
		u.log = append(u.log, err.Error())
		return
	}
	if u.safetyMode != safetyNormal || u.robotMode != robotRunning || u.down {
		u.log = append(u.log, "a program was refused: the robot is not ready")
		return
	}
	if u.program != nil && !u.program.ended {
		u.program.halt()
	}
	p := &program{u: u}
	u.program = p
	u.wg.Add(1)
	go func() {
		defer u.wg.Done()
		err := parsed.Run(p.builtin)
		u.mu.Lock()
		defer u.mu.Unlock()
		p.ended = true
		if p.socket != nil {
			_ = p.socket.conn.Close()
		}
		if err != nil && !errors.Is(err, urscript.ErrHalt) {
			u.log = append(u.log, err.Error())
		}
		if u.program == p && u.mode == servoing {
			u.mode, u.decel = stopping, 20 // the controller brakes when a program ends in motion
		}
		u.cond.Broadcast()
	}()
}

// builtin carries out the functions of the script language that programs of a streaming client use.
func (p *program) builtin(c urscript.Call) (urscript.Value, bool, error) {
	var v urscript.Value = 0.0
	var err error
	known := true
	p.u.mu.Lock()
	halted := p.halted
	p.u.mu.Unlock()
	if halted {
		return nil, true, urscript.ErrHalt
	}
	switch c.Name {
	case "textmsg":
		parts := []string{}
		for _, a := range c.Args {
			parts = append(parts, fmt.Sprint(a))
		}
		p.u.mu.Lock()
		p.u.log = append(p.u.log, "textmsg: "+strings.Join(parts, ""))
		p.u.mu.Unlock()
	case "get_steptime":
		v = urCycle.Seconds()
	case "get_actual_joint_positions", "get_target_joint_positions":
		p.u.mu.Lock()
		v = list(p.u.q[:])
		p.u.mu.Unlock()
	case "norm":
		x, _ := c.Args[0].(float64)
		v = math.Abs(x)
	case "set_tcp":
		err = p.setTCP(c)
	case "socket_open":
		v, err = p.open(c)
	case "socket_close":
		p.u.mu.Lock()
		if p.socket != nil {
			_ = p.socket.conn.Close()
		}
		p.u.mu.Unlock()
	case "socket_read_binary_integer":
		v, err = p.readInts(c)
	case "servoj":
		err = p.servoj(c)
	case "stopj":
		err = p.stopj(c)
	case "sync":
		c.Wait(func() { err = p.nextCycle() })
	default:
		known = false
	}
	return v, known, err
}

func list(v []float64) []urscript.Value {
	out := make([]urscript.Value, len(v))
	for i, x := range v {
		out[i] = x
	}
	return out
}

// numbers reads a list of n numbers.
func numbers(v urscript.Value, n int) ([]float64, error) {
	l, ok := v.([]urscript.Value)
	if !ok || len(l) != n {
		return nil, fmt.Errorf("%v is no list of %d numbers", v, n)
	}
	out := make([]float64, n)
	for i, x := range l {
		f, ok := x.(float64)
		if !ok || math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, fmt.Errorf("%v is no number", x)
		}
		out[i] = f
	}
	return out, nil
}

// arg is a positional or keyword argument that is a number.
func arg(c urscript.Call, at int, key string, def float64) float64 {
	if v, ok := c.Keys[key].(float64); ok {
		return v
	}
	if at < len(c.Args) {
		if v, ok := c.Args[at].(float64); ok {
			return v
		}
	}
	return def
}

func (p *program) setTCP(c urscript.Call) error {
	v, err := numbers(c.Args[0], 6)
	if err != nil {
		return err
	}
	angle := math.Sqrt(v[3]*v[3] + v[4]*v[4] + v[5]*v[5])
	q := [4]float64{0, 0, 0, 1}
	if angle > 1e-12 {
		s := math.Sin(angle/2) / angle
		q = [4]float64{v[3] * s, v[4] * s, v[5] * s, math.Cos(angle / 2)}
	}
	p.u.mu.Lock()
	p.u.tcp = robotmodel.FromQuat(robotmodel.Vec{v[0], v[1], v[2]}, q)
	p.u.mu.Unlock()
	return nil
}

func (p *program) open(c urscript.Call) (urscript.Value, error) {
	host, _ := c.Args[0].(string)
	port := arg(c, 1, "port", 0)
	var conn net.Conn
	var err error
	c.Wait(func() { conn, err = net.DialTimeout("tcp", fmt.Sprintf("%s:%d", host, int(port)), time.Second) })
	if err != nil {
		return false, nil
	}
	s := &scriptSocket{conn: conn}
	p.u.mu.Lock()
	defer p.u.mu.Unlock()
	if p.halted {
		_ = conn.Close()
		return false, urscript.ErrHalt
	}
	p.socket = s
	p.u.wg.Add(1)
	go func() {
		defer p.u.wg.Done()
		for {
			var b [4]byte
			_, err := io.ReadFull(conn, b[:])
			p.u.mu.Lock()
			if err != nil {
				s.closed = true
			} else {
				s.ints = append(s.ints, int32(binary.BigEndian.Uint32(b[:])))
			}
			p.u.cond.Broadcast()
			p.u.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return true, nil
}

// readInts waits for n numbers, at most timeout seconds of the controller's time; the answer begins with how many came, 0 or n.
func (p *program) readInts(c urscript.Call) (urscript.Value, error) {
	n := int(arg(c, 0, "number", 1))
	timeout := arg(c, 2, "timeout", 2)
	u := p.u
	out := make([]float64, n+1)
	var err error
	c.Wait(func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		end := u.cycles + int64(timeout/urCycle.Seconds())
		for {
			switch {
			case p.halted || u.down:
				err = urscript.ErrHalt
				return
			case p.socket == nil:
				err = errors.New("the socket is not open")
				return
			case len(p.socket.ints) >= n:
				out[0] = float64(n)
				for i := 0; i < n; i++ {
					out[i+1] = float64(p.socket.ints[i])
				}
				p.socket.ints = p.socket.ints[n:]
				p.socket.started, u.served = true, true
				u.cond.Broadcast()
				return
			case p.socket.closed || (timeout > 0 && u.cycles >= end):
				return
			}
			u.cond.Wait()
		}
	})
	return list(out), err
}

// nextCycle waits for the end of the cycle.
func (p *program) nextCycle() error {
	p.u.mu.Lock()
	defer p.u.mu.Unlock()
	for at := p.u.cycles; p.u.cycles == at; {
		if p.halted || p.u.down {
			return urscript.ErrHalt
		}
		p.u.cond.Wait()
	}
	return nil
}

// servoj follows a target for one cycle. Source: script manual, servoj(q, a, v, t, lookahead_time, gain).
func (p *program) servoj(c urscript.Call) error {
	q, err := numbers(c.Args[0], 6)
	if err != nil {
		return err
	}
	t, look, gain := arg(c, 3, "t", 0.002), arg(c, 4, "lookahead_time", 0.1), arg(c, 5, "gain", 300)
	if t < 0.002 || look < 0.03 || look > 0.2 || gain < 100 || gain > 2000 {
		return fmt.Errorf("t %v, lookahead_time %v or gain %v is out of range", t, look, gain)
	}
	p.u.mu.Lock()
	if p.halted {
		p.u.mu.Unlock()
		return urscript.ErrHalt
	}
	copy(p.u.goal[:], q)
	p.u.mode, p.u.look = servoing, look
	p.u.mu.Unlock()
	c.Wait(func() { err = p.nextCycle() })
	return err
}

// stopj brakes all joints and returns when they stand.
func (p *program) stopj(c urscript.Call) error {
	a := arg(c, 0, "a", 2)
	if a <= 0 {
		return fmt.Errorf("deceleration %v", a)
	}
	p.u.mu.Lock()
	p.u.mode, p.u.decel = stopping, a
	p.u.mu.Unlock()
	var err error
	c.Wait(func() {
		for err == nil {
			err = p.nextCycle()
			p.u.mu.Lock()
			done := p.u.mode != stopping
			p.u.mu.Unlock()
			if done {
				return
			}
		}
	})
	return err
}
