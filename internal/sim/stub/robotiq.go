package stub

import (
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/pinch-robotics/pinch/internal/wire/modbus"
)

// Robotiq is a 2F gripper: three request and three status registers, activation, objects and faults. Safe for concurrent use. Serve it with
// modbus.ServeRTU or modbus.ServeTCP as unit 9.
type Robotiq struct {
	ActivateTime time.Duration // default 200 ms

	mu        sync.Mutex // guards the rest
	request   [3]uint16
	count     float64 // 0 open, 255 closed
	object    float64 // count at which something hard is, NaN: none
	side      float64 // direction of the object, seen from the fingers
	blocked   int     // gOBJ while pressing
	began     time.Time
	activated bool
	fault     byte
	last      time.Time
	refused   []string
}

// NewRobotiq makes a gripper without activation, fingers at a count.
func NewRobotiq(count float64) *Robotiq {
	return &Robotiq{ActivateTime: 200 * time.Millisecond, count: count, object: math.NaN()}
}

// Activate does at once what an activation leads to.
func (g *Robotiq) Activate() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.request[0], g.activated = 0x0100, true
}

// fullSpeed is 150 mm/s over 85 mm, in counts per second.
const fullSpeed = 150.0 / 85 * 255

func (g *Robotiq) advance() {
	now := time.Now()
	if g.last.IsZero() {
		g.last = now
	}
	dt := now.Sub(g.last).Seconds()
	g.last = now
	action := g.request[0] >> 8
	if action&1 == 0 {
		g.activated = false
		return
	}
	if !g.activated {
		if g.fault == 0 && now.Sub(g.began) >= g.ActivateTime {
			g.activated, g.count = true, 3
		}
		return
	}
	if action&8 == 0 || g.fault >= 8 && g.fault != 9 {
		return
	}
	speed := (20 + 130*float64(g.request[2]>>8)/255) / 150 * fullSpeed
	way := math.Max(3, math.Min(230, float64(g.request[1]&0xFF))) - g.count
	step := math.Copysign(math.Min(math.Abs(way), speed*dt), way)
	g.blocked = 0
	if next := g.count + step; !math.IsNaN(g.object) && way*g.side > 0 && (next-g.object)*g.side >= 0 {
		g.count = g.object
		g.blocked = 2
		if way < 0 {
			g.blocked = 1
		}
		return
	}
	g.count += step
}

// Read implements modbus.Device.
func (g *Robotiq) Read(_ byte, addr, count uint16) ([]uint16, modbus.Exception) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if addr < 0x07D0 || int(addr)+int(count) > 0x07D3 {
		g.refused = append(g.refused, fmt.Sprintf("read %d at %04x", count, addr))
		return nil, 2
	}
	g.advance()
	action := g.request[0] >> 8
	s := action & 0x09
	moving := math.Abs(math.Max(3, math.Min(230, float64(g.request[1]&0xFF)))-g.count) > 0.5
	if g.activated {
		s |= 3 << 4
		switch {
		case g.blocked > 0:
			s |= uint16(g.blocked) << 6
		case action&8 != 0 && !moving:
			s |= 3 << 6
		}
	} else if action&1 != 0 {
		s |= 1 << 4
	}
	current := uint16(0)
	if g.blocked > 0 {
		current = 30
	}
	all := [3]uint16{s << 8, uint16(g.fault)<<8 | g.request[1]&0xFF, uint16(math.Round(g.count))<<8 | current}
	return append([]uint16(nil), all[addr-0x07D0:addr-0x07D0+count]...), 0
}

// Write implements modbus.Device. A request to go before activation is fault 7, as on the real one.
func (g *Robotiq) Write(addr uint16, values []uint16) modbus.Exception {
	g.mu.Lock()
	defer g.mu.Unlock()
	if addr < 0x03E8 || int(addr)+len(values) > 0x03EB {
		g.refused = append(g.refused, fmt.Sprintf("write %d at %04x", len(values), addr))
		return 2
	}
	g.advance()
	before := g.request[0]
	copy(g.request[addr-0x03E8:], values)
	switch {
	case g.request[0]>>8&1 == 0:
		g.activated, g.fault, g.blocked = false, 0, 0
	case before>>8&1 == 0:
		g.began = time.Now()
		if g.request[0]>>8&8 != 0 {
			g.fault = 5
			g.refused = append(g.refused, "go before activation")
		}
	}
	return 0
}

// Count is where the fingers are now.
func (g *Robotiq) Count() float64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.advance()
	return g.count
}

// PutObject places something hard at a count; NaN takes it away.
func (g *Robotiq) PutObject(count float64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.advance()
	g.object, g.side = count, math.Copysign(1, count-g.count)
}

// SetFault raises a fault code (gFLT).
func (g *Robotiq) SetFault(code byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fault = code
}

// PowerCycle forgets the activation and the requests.
func (g *Robotiq) PowerCycle() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.request, g.activated, g.fault = [3]uint16{}, false, 0
}

// Refused lists the requests it refused and why.
func (g *Robotiq) Refused() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]string(nil), g.refused...)
}
