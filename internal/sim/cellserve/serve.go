package cellserve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/robotmodel"
	"github.com/pinch-robotics/pinch/internal/sim"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
)

// Serve runs the simulated arms until ctx ends or Options.Clients clients have left. It returns nil then; else the error says
// what could not be opened (sim.ErrNotBuilt in programs without the simulator) or how the physics failed.
func Serve(ctx context.Context, o Options) error {
	o, err := o.withDefaults()
	if err != nil {
		return err
	}
	cell, err := sim.New(o.Cell)
	if err != nil {
		return err
	}
	defer cell.Close()
	ctx, cancel := context.WithCancel(ctx)
	cams, err := openCameras(ctx, o)
	if err != nil {
		cancel()
		return err
	}
	defer func() {
		cancel() // nobody waits for the frames that are still on their way
		cams.close()
	}()
	listener, err := armlink.Listen(o.Listen)
	if err != nil {
		return err
	}
	defer listener.Close()
	both, err := newArms(cell)
	if err != nil {
		return err
	}
	s := &server{Options: o, cell: cell, cams: cams, arms: both, judge: newJudge(), log: o.Logger.With("part", "cellserve")}
	if o.Ready != nil {
		o.Ready(Ready{Ready: true, ArmLink: dialAddress(listener), RTSP: cams.srv.Addr()})
	}
	return s.serve(ctx, listener)
}

// dialAddress is a listener's address as armlink.Dial takes it.
func dialAddress(l net.Listener) string { return l.Addr().Network() + ":" + l.Addr().String() }

// server is the loop that owns the cell; all its methods run on one goroutine.
type server struct {
	Options
	cell  *sim.Cell
	cams  *cameras
	arms  *arms
	judge judge
	conn  *armlink.Conn // of the present client
	log   *slog.Logger
}

// serve takes clients one after the other.
func (s *server) serve(ctx context.Context, l net.Listener) error {
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	for served := 0; s.Clients == 0 || served < s.Clients; served++ {
		nc, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("accept the executor: %w", err)
		}
		err = s.client(ctx, armlink.NewConn(nc))
		var lost *lostError
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.As(err, &lost):
			s.log.Info("the executor left", "err", err)
			s.arms.abandon("the executor left")
		case err != nil:
			return err
		}
	}
	return nil
}

// lostError ends a client, not the server.
type lostError struct{ err error }

func (e *lostError) Error() string { return e.err.Error() }
func (e *lostError) Unwrap() error { return e.err }

// received is one message or the end of the stream.
type received struct {
	msg armlink.Message
	err error
}

// client speaks with one client until it leaves.
func (s *server) client(ctx context.Context, conn *armlink.Conn) error {
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	s.conn = conn
	if err := s.send(s.hello()); err != nil {
		return err
	}
	if err := s.send(s.arms.state()); err != nil {
		return err
	}
	done := make(chan struct{})
	defer close(done)
	in := make(chan received)
	go read(conn, in, done)
	if s.Clock == armlink.RealTime {
		return s.realTime(ctx, in)
	}
	for r := range in {
		if r.err != nil {
			return &lostError{r.err}
		}
		if err := s.handle(ctx, r.msg); err != nil {
			return err
		}
	}
	return nil
}

// read passes messages on until the stream or the client loop ends.
func read(conn *armlink.Conn, in chan<- received, done <-chan struct{}) {
	defer close(in)
	for {
		msg, err := conn.Read()
		if err != nil && !errors.Is(err, io.EOF) {
			err = fmt.Errorf("read from the executor: %w", err)
		}
		select {
		case in <- received{msg, err}:
		case <-done:
			return
		}
		if err != nil {
			return
		}
	}
}

// realTime lets the cell's clock follow the host's, tick by tick, and takes messages between ticks.
func (s *server) realTime(ctx context.Context, in <-chan received) error {
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	began, at := time.Now(), s.cell.Now()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case r, ok := <-in:
			if !ok {
				return nil
			}
			if r.err != nil {
				return &lostError{r.err}
			}
			if err := s.handle(ctx, r.msg); err != nil {
				return err
			}
		case <-ticker.C:
			if err := s.advance(ctx, at.Add(time.Since(began)), false); err != nil {
				return err
			}
		}
	}
}

// hello describes the cell as it stands now.
func (s *server) hello() *armlink.Hello {
	grip := robotmodel.YUBI()
	h := &armlink.Hello{
		Version: armlink.Version, Clock: s.Clock, PeriodNS: s.periodNS(), StartNS: int64(s.cell.Now()), Sim: true,
		Cameras: s.cams.infos(s.cell.Now()),
	}
	mount := robotmodel.FlangeFromHand()
	q := mount.Quat()
	for _, side := range sim.Sides {
		h.Arms = append(h.Arms, armlink.ArmInfo{
			Name: side.String(), Model: robotmodel.FR3().Name, WorldFromBase: sim.CellFromBase(side).ArrayXYZXYZW(),
			FlangeFromHand: armlink.Pose{mount.P[0], mount.P[1], mount.P[2], q[0], q[1], q[2], q[3]},
			GripperRad:     [2]float64{grip.ClosedRad, grip.OpenRad},
		})
	}
	return h
}

func (o *Options) periodNS() int64 { return int64(o.PeriodMS) * 1_000_000 }

func (s *server) send(m armlink.Message) error {
	if err := s.conn.Write(m); err != nil {
		return &lostError{err}
	}
	return nil
}

// handle acts on one message. A refused one is answered with a Fault and changes nothing.
func (s *server) handle(ctx context.Context, m armlink.Message) error {
	var refused error
	switch m := m.(type) {
	case *armlink.Segment:
		refused = s.arms.plan(m)
	case *armlink.Stop:
		s.arms.stop(m.Reason)
	case *armlink.Recover:
		refused = s.arms.recover()
	case *armlink.Advance:
		if s.Clock != armlink.LockStep {
			refused = fmt.Errorf("advance: the cell's clock is %s", s.Clock)
			break
		}
		if m.UntilNS > int64(s.cell.Now())+maxGrantNS {
			refused = fmt.Errorf("advance: %d ns is more than %d s ahead of %d", m.UntilNS, maxGrantNS/1_000_000_000, s.cell.Now())
			break
		}
		up := (m.UntilNS + sim.TickNS - 1) / sim.TickNS * sim.TickNS // a grant that ends inside a tick includes it
		return s.advance(ctx, frames.DeviceTime(up), true)
	case *armlink.SetScene:
		return s.setScene(m)
	case *armlink.QueryTruth:
		return s.send(s.judge.truth(s.cell.Truth()))
	default:
		refused = fmt.Errorf("%T is not for the arms", m)
	}
	if refused != nil {
		s.log.Warn("a message was refused", "err", refused)
		return s.send(&armlink.Fault{Of: m.Kind(), Text: refused.Error()})
	}
	return nil
}

// maxGrantNS bounds one grant, against a client that counts in other units.
const maxGrantNS = 600 * 1_000_000_000

// advance lets time pass up to a time, sending a State each period; with last also one at the end, even if no tick passed.
func (s *server) advance(ctx context.Context, until frames.DeviceTime, last bool) error {
	sent := frames.DeviceTime(-1)
	for s.cell.Now()+sim.TickNS <= until {
		if err := s.arms.tick(); err != nil {
			return err
		}
		now := s.cell.Now()
		if (int64(now)/sim.TickNS)%judgeTicks == 0 {
			s.judge.watch(s.cell.Truth())
		}
		if err := s.cams.capture(ctx, s.cell, now); err != nil {
			return err
		}
		if int64(now-sim.StartTime)%s.periodNS() == 0 {
			if err := s.send(s.arms.state()); err != nil {
				return err
			}
			sent = now
		}
	}
	if last && sent != s.cell.Now() {
		return s.send(s.arms.state())
	}
	return nil
}

// setScene places the objects and the arms that are listed, and begins to judge anew.
func (s *server) setScene(m *armlink.SetScene) error {
	err := s.place(m)
	out := &armlink.Scene{TNS: int64(s.cell.Now())}
	if err != nil {
		out.Error = fmt.Sprintf("set scene: %v", err)
	}
	return s.send(out)
}

func (s *server) place(m *armlink.SetScene) error {
	cond, err := sim.DecodeCondition(m.Condition)
	if err != nil {
		return err
	}
	for _, a := range m.Arms {
		if err := s.arms.place(a); err != nil {
			return err
		}
	}
	if err := s.cell.SetScene(cond); err != nil {
		return err
	}
	s.judge = newJudge()
	return nil
}
