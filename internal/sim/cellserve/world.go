package cellserve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"sync"
	"time"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/sim"
	"github.com/pinch-robotics/pinch/internal/sim/fciserve"
	"github.com/pinch-robotics/pinch/internal/sim/stub"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
	wire "github.com/pinch-robotics/pinch/internal/wire/dynamixel"
)

// WorldOptions say what a World serves. Zero fields take the defaults of Options.
type WorldOptions struct {
	RTSP    string        // host:port of the cameras' server
	Scene   string        // armlink of the scene
	Clock   armlink.Clock // in real time frames are stamped with the host's clock, in lock-step with the cell's
	WristHz float64
	Cell    sim.Config   // Mode is set by OpenWorld
	Logger  *slog.Logger // nil: silent
}

// World is the simulated cell as a laboratory has it, for arms that are driven through their own interface: each part speaks what the real one speaks.
//
//	arms      two plants for package fciserve, left first
//	cameras   RTSP, as Serve's
//	grippers  a Dynamixel servo each, on a pseudo terminal
//	scene     armlink without arms: SetScene and QueryTruth, what a person and a judge would do
//
// The arms' ticks move its time. Its methods are safe for concurrent use.
type World struct {
	cams     *cameras
	listener net.Listener
	ptys     [2]*stub.PTY
	opts     Options
	ctx      context.Context
	cancel   context.CancelFunc
	work     sync.WaitGroup

	mu    sync.Mutex // guards what follows
	cell  *sim.Cell
	judge judge
}

// OpenWorld makes the cell and serves everything of it but the arms. Close ends it.
func OpenWorld(o WorldOptions) (*World, error) {
	opts, err := Options{RTSP: o.RTSP, Listen: o.Scene, Clock: o.Clock, WristHz: o.WristHz, Cell: o.Cell, Logger: o.Logger}.withDefaults()
	if err != nil {
		return nil, err
	}
	cell, err := sim.New(opts.Cell)
	if err != nil {
		return nil, err
	}
	w := &World{opts: opts, cell: cell, judge: newJudge()}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	if err := w.open(); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

func (w *World) open() (err error) {
	if w.cams, err = openCameras(w.ctx, w.opts); err != nil {
		return err
	}
	for _, s := range sim.Sides {
		if w.ptys[s], err = stub.OpenPTY(); err != nil {
			return err
		}
		w.work.Add(1)
		go func() {
			defer w.work.Done()
			w.servo(s).Serve(w.ptys[s].Master)
		}()
	}
	if w.listener, err = armlink.Listen(w.opts.Listen); err != nil {
		return err
	}
	w.work.Add(1)
	go func() {
		defer w.work.Done()
		w.accept()
	}()
	return nil
}

// Close ends all of it. The arms must not tick any more.
func (w *World) Close() error {
	w.cancel()
	if w.listener != nil {
		_ = w.listener.Close()
	}
	for _, p := range w.ptys {
		if p != nil {
			_ = p.Close()
		}
	}
	w.work.Wait()
	if w.cams != nil {
		w.cams.close()
	}
	return w.cell.Close()
}

// WorldReady says where the parts can be reached.
type WorldReady struct {
	Scene    string               `json:"scene"`    // as armlink.Dial takes it
	Cameras  []armlink.CameraInfo `json:"cameras"`  // as they would be announced at the cell's start
	Grippers [2]string            `json:"grippers"` // device files, left first
}

// Ready says where the parts can be reached.
func (w *World) Ready() WorldReady {
	return WorldReady{Scene: dialAddress(w.listener), Cameras: w.cams.infos(sim.StartTime), Grippers: [2]string{w.ptys[0].Path, w.ptys[1].Path}}
}

// FirstID makes the arms' count of milliseconds the cell's clock.
const FirstID = uint64(sim.StartTime)/sim.TickNS + 1

// Arms are the plants of both arms, left first, where they stand, and what has to be called after both have moved.
func (w *World) Arms() (plants [2]fciserve.Plant, start [2][7]float64, advance func() error, err error) {
	arms, start, _, err := fciserve.CellArms(w.cell)
	for i, a := range arms {
		plants[i] = &guarded{a, &w.mu}
	}
	return plants, start, w.advance, err
}

// guarded is a plant whose cell has other users.
type guarded struct {
	fciserve.Plant
	mu *sync.Mutex
}

// Place implements fciserve.Plant.
func (g *guarded) Place(q [7]float64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.Plant.Place(q)
}

// Step implements fciserve.Plant.
func (g *guarded) Step(qd, dqd [7]float64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.Plant.Step(qd, dqd)
}

// Measure implements fciserve.Plant.
func (g *guarded) Measure() (q, dq, tauExt [7]float64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.Plant.Measure()
}

// advance lets a millisecond of the cell's time pass.
func (w *World) advance() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.cell.Advance(w.cell.Now() + sim.TickNS); err != nil {
		return err
	}
	now := w.cell.Now()
	if (int64(now)/sim.TickNS)%judgeTicks == 0 {
		w.judge.watch(w.cell.Truth())
	}
	stamp := now
	if w.opts.Clock == armlink.RealTime {
		stamp = frames.DeviceTime(time.Now().UnixNano())
	}
	if err := w.cams.capture(w.ctx, w.cell, stamp); err != nil && w.ctx.Err() == nil {
		return err
	}
	return nil
}

// servo is one gripper's: the driver's own calibration ties its counts to finger angles.
func (w *World) servo(side sim.Side) *stub.Servo {
	const closed = 2048
	count := func(rad float64) float64 { return closed + rad/wire.RadPerCount }
	s := stub.NewServo(1, count(w.cell.GripperAngle(side)))
	s.Now = func() time.Time {
		w.mu.Lock()
		defer w.mu.Unlock()
		return time.Unix(0, int64(w.cell.Now()))
	}
	s.Motor = func(goal float64) (float64, bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		at := w.cell.GripperAngle(side)
		if math.IsNaN(goal) {
			w.cell.SetGripper(side, at)
			return count(at), false
		}
		want := (goal - closed) * wire.RadPerCount
		w.cell.SetGripper(side, want)
		const pressing = 0.05 // rad that something between the fingers keeps them from their goal
		return count(at), math.Abs(want-at) > pressing
	}
	return s
}

// accept serves one client of the scene after the other.
func (w *World) accept() {
	for {
		nc, err := w.listener.Accept()
		if err != nil {
			return
		}
		stop := context.AfterFunc(w.ctx, func() { _ = nc.Close() })
		if err := w.serveScene(armlink.NewConn(nc)); err != nil && !errors.Is(err, io.EOF) && w.ctx.Err() == nil {
			w.opts.Logger.Info("a client of the scene left", "part", "cellserve", "err", err)
		}
		stop()
		_ = nc.Close()
	}
}

func (w *World) serveScene(c *armlink.Conn) error {
	w.mu.Lock()
	hello := &armlink.Hello{Version: armlink.Version, Clock: w.opts.Clock, PeriodNS: w.opts.periodNS(), StartNS: int64(w.cell.Now()), Sim: true}
	w.mu.Unlock()
	if err := c.Write(hello); err != nil {
		return err
	}
	for {
		m, err := c.Read()
		if err != nil {
			return err
		}
		if err := c.Write(w.answer(m)); err != nil {
			return err
		}
	}
}

// answer carries out one message about the scene.
func (w *World) answer(m armlink.Message) armlink.Message {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch m := m.(type) {
	case *armlink.SetScene:
		out := &armlink.Scene{TNS: int64(w.cell.Now())}
		if err := w.setScene(m); err != nil {
			out.Error = fmt.Sprintf("set scene: %v", err)
		}
		return out
	case *armlink.QueryTruth:
		return w.judge.truth(w.cell.Truth())
	}
	return &armlink.Fault{Of: m.Kind(), Text: fmt.Sprintf("%T is for arms; this is the scene", m)}
}

func (w *World) setScene(m *armlink.SetScene) error {
	if len(m.Arms) > 0 {
		return errors.New("arms that are driven through their own interface are not placed")
	}
	cond, err := sim.DecodeCondition(m.Condition)
	if err != nil {
		return err
	}
	if err := w.cell.SetScene(cond); err != nil {
		return err
	}
	w.judge = newJudge()
	return nil
}
