package rigserve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/device/pedal"
	"github.com/pinch-robotics/pinch/internal/device/tracker"
	"github.com/pinch-robotics/pinch/internal/sim"
)

// stream is a listening socket that serves one client.
type stream struct {
	listener net.Listener
	conn     net.Conn
}

// accept waits for the client.
func (s *stream) accept(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = s.listener.Close() })
	defer stop()
	conn, err := s.listener.Accept()
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return err
	}
	s.conn = conn
	return nil
}

// write sends bytes, waiting while the client is behind; ctx ends the wait.
func (s *stream) write(ctx context.Context, b []byte) error {
	if s.conn == nil {
		return errors.New("nobody is connected")
	}
	stop := context.AfterFunc(ctx, func() { _ = s.conn.SetWriteDeadline(time.Unix(1, 0)) })
	defer stop()
	_, err := s.conn.Write(b)
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

func (s *stream) close() {
	if s.conn != nil {
		_ = s.conn.Close()
	}
	_ = s.listener.Close()
}

// trackerServer is the headset application.
type trackerServer struct {
	stream
	sync   net.PacketConn
	now    atomic.Int64 // the cell's clock, for the clock exchange
	mounts [2]frames.Pose
	last   frames.DeviceTime
	buf    []byte
}

func newTrackerServer(host string) (*trackerServer, error) {
	t := &trackerServer{mounts: mounts()}
	t.now.Store(int64(sim.StartTime))
	var err error
	if t.listener, err = net.Listen("tcp", net.JoinHostPort(host, "0")); err != nil {
		return nil, fmt.Errorf("serve tracker: %w", err)
	}
	if t.sync, err = net.ListenPacket("udp", net.JoinHostPort(host, "0")); err != nil {
		_ = t.listener.Close()
		return nil, fmt.Errorf("serve tracker's clock: %w", err)
	}
	go t.answer()
	return t, nil
}

// answer serves the clock exchange until the socket closes.
func (t *trackerServer) answer() {
	buf := make([]byte, 64)
	for {
		n, from, err := t.sync.ReadFrom(buf)
		if err != nil {
			return
		}
		if t1, err := tracker.ParseSyncRequest(buf[:n]); err == nil {
			_, _ = t.sync.WriteTo(tracker.AppendSyncReply(nil, t1, frames.DeviceTime(t.now.Load())), from)
		}
	}
}

// send sends one frame: the hands' poses become those of the controllers mounted on them.
func (t *trackerServer) send(ctx context.Context, at frames.DeviceTime, r *sim.TrackerReading) error {
	w := tracker.Reading{HMD: r.HMD, HasHMD: true, Device: at, Timed: true}
	for i := range w.Controllers {
		w.Controllers[i] = tracker.Controller{Pose: r.Hands[i].Mul(t.mounts[i]), HasPose: true, Tracked: r.Tracked[i], Valid: r.Tracked[i]}
	}
	delta := 0.0
	if t.last > 0 {
		delta = at.Sub(t.last).Seconds()
	}
	t.last = at
	t.buf = tracker.AppendLine(t.buf[:0], w, delta)
	return t.write(ctx, t.buf)
}

func (t *trackerServer) close() {
	t.stream.close()
	_ = t.sync.Close()
}

// pedalServer sends input events.
type pedalServer struct {
	stream
	dir  string
	path string
	beat frames.DeviceTime // time of the last record
}

// beatEvery is how often the pedal tells the time when no button changes. It lets the recorder know that no press is missing before
// a given time; on hardware such records do not come and do no harm.
const beatEvery = 50 * time.Millisecond

func newPedalServer() (*pedalServer, error) {
	dir, err := os.MkdirTemp("", "pinch-rig-") // short: a socket's path has at most 107 bytes
	if err != nil {
		return nil, fmt.Errorf("serve pedal: %w", err)
	}
	p := &pedalServer{dir: dir, path: filepath.Join(dir, "pedal")}
	if p.listener, err = net.Listen("unix", p.path); err != nil {
		_ = os.RemoveAll(dir)
		return nil, fmt.Errorf("serve pedal: %w", err)
	}
	return p, nil
}

func (p *pedalServer) send(ctx context.Context, at frames.DeviceTime, e *sim.PedalEvent) error {
	if e.Button < 0 || int(e.Button) >= pedal.Buttons {
		return fmt.Errorf("pedal button %d", e.Button)
	}
	p.beat = at
	return p.write(ctx, pedal.AppendKey(nil, at, pedal.DefaultKeys[e.Button], e.Down))
}

// tick tells the time if that is due.
func (p *pedalServer) tick(ctx context.Context, at frames.DeviceTime) error {
	if at.Sub(p.beat) < beatEvery {
		return nil
	}
	p.beat = at
	return p.write(ctx, pedal.AppendSyn(nil, at))
}

func (p *pedalServer) close() {
	p.stream.close()
	_ = os.RemoveAll(p.dir)
}

// encoderServer is one gripper's serial port.
type encoderServer struct {
	*pty
	id  string
	buf []byte
}

func newEncoderServer(side sim.Side) (*encoderServer, error) {
	p, err := openPTY()
	if err != nil {
		return nil, fmt.Errorf("serve %s encoder: %w", side, err)
	}
	return &encoderServer{pty: p, id: encoderID(side)}, nil
}

func encoderID(side sim.Side) string { return [2]string{"L001", "R001"}[side] }

// greet sends the header that the firmware sends after a reset.
func (s *encoderServer) greet(ctx context.Context) error {
	return s.write(ctx, fmt.Appendf(nil, "# AS5601 streaming: rad, device_id=%s\n", s.id))
}

// send sends one sample with its time.
func (s *encoderServer) send(ctx context.Context, at frames.DeviceTime, rawRad float64) error {
	s.buf = fmt.Appendf(s.buf[:0], "# t=%d\n%s,%.8f\n", int64(at), s.id, rawRad)
	return s.write(ctx, s.buf)
}
