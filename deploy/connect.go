package deploy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"time"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
)

// ErrCellLost marks errors after which the arm process or a camera is gone; connect anew.
var ErrCellLost = errors.New("cell lost")

// ErrPolicyLost marks errors of the policy or its server; the cell is still connected and the arms have been stopped.
var ErrPolicyLost = errors.New("policy lost")

// answerTimeout is how long the arm process or a camera may take for something that is due, by the host's clock. Rendering and physics of a
// simulated cell on a busy machine take fractions of a second.
const answerTimeout = 30 * time.Second

// Session is a connection to one cell: arms and wrist cameras. Its methods belong to one goroutine.
type Session struct {
	cell   Cell
	hello  armlink.Hello
	conn   *armlink.Conn
	pair   pair
	index  [2]int // of the hands in Hello.Arms
	wrists [2]*wrist
	log    *slog.Logger
	cancel context.CancelFunc

	incoming chan any // armlink.Message or error, from the reader goroutine
	state    armlink.State
	faults   []string // refused messages not reported yet
	refusal  string   // of the last Recover; empty: it was not refused

	source func() error // gives the next state of a log that is replayed; nil: the link does
}

// Connect reaches the arm process and the wrist cameras of a cell and waits for the first state. ctx bounds connecting only.
func Connect(ctx context.Context, cell Cell, opts ConnectOptions) (*Session, error) {
	if err := cell.Validate(); err != nil {
		return nil, fmt.Errorf("connect to cell: %w", err)
	}
	s := &Session{cell: cell, conn: opts.Conn, log: opts.Logger, incoming: make(chan any, 64)}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.log = s.log.With("component", "deploy")
	if s.conn == nil {
		var err error
		if s.conn, err = armlink.Dial(ctx, cell.ArmLink); err != nil {
			return nil, err
		}
	}
	life, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	if err := s.start(ctx, life, opts); err != nil {
		_ = s.Close()
		return nil, fmt.Errorf("connect to cell: %w", err)
	}
	return s, nil
}

// start greets the arm process and opens the cameras, which live as long as life. The session has to be closed whatever it returns.
func (s *Session) start(ctx, life context.Context, opts ConnectOptions) error {
	giveUp := context.AfterFunc(ctx, s.cancel) // a camera that is being opened must not outlast ctx
	defer giveUp()
	go s.readLoop()
	m, err := s.receive(ctx)
	if err != nil {
		return err
	}
	hello, ok := m.(*armlink.Hello)
	if !ok {
		return fmt.Errorf("the arm process began with %T instead of Hello", m)
	}
	if hello.Version != armlink.Version {
		return fmt.Errorf("the arm process speaks armlink %d, this program %d; use programs of one release", hello.Version, armlink.Version)
	}
	if hello.PeriodNS < 1e6 || hello.PeriodNS > 50e6 {
		return fmt.Errorf("the arm process sends states every %d ns, want 1 to 50 ms", hello.PeriodNS)
	}
	s.hello = *hello
	if err := s.placeArms(); err != nil {
		return err
	}
	open := opts.OpenCamera
	if open == nil {
		open = func(ctx context.Context, info armlink.CameraInfo) (FrameSource, error) {
			return openRTSP(ctx, info, quiet(hello.Clock))
		}
	}
	for h, name := range Hands {
		info, err := findCamera(hello, name)
		if err != nil {
			return err
		}
		src, err := open(life, info)
		if err != nil {
			return errors.Join(ctx.Err(), err)
		}
		s.wrists[h] = startWrist(life, info, src, s.cell.Control.cameraOffset(h))
	}
	for {
		m, err := s.receive(ctx)
		if err != nil {
			return err
		}
		if st, ok := m.(*armlink.State); ok {
			return s.take(st)
		}
	}
}

// placeArms builds the arms of the greeting, as the cell corrects it.
func (s *Session) placeArms() error {
	placed, err := s.cell.Calibration.apply(s.hello)
	if err == nil {
		s.pair, s.index, err = newPair(&placed, s.cell.Safety)
	}
	return err
}

func findCamera(h *armlink.Hello, name string) (armlink.CameraInfo, error) {
	var have []string
	for _, c := range h.Cameras {
		if c.Name == name {
			if c.PeriodNS <= 0 {
				return c, fmt.Errorf("%s wrist camera states a period of %d ns", name, c.PeriodNS)
			}
			return c, nil
		}
		have = append(have, c.Name)
	}
	return armlink.CameraInfo{}, fmt.Errorf("the cell has no %s wrist camera; it has %v", name, have)
}

// readLoop moves messages from the link to incoming; it leaves when the link closes.
func (s *Session) readLoop() {
	for {
		m, err := s.conn.Read()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = errors.New("the arm process closed the connection")
			}
			s.incoming <- fmt.Errorf("%w: %w", ErrCellLost, err)
			close(s.incoming)
			return
		}
		s.incoming <- m
	}
}

func (s *Session) receive(ctx context.Context) (armlink.Message, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, answerTimeout, fmt.Errorf("%w: it is silent", ErrCellLost))
	defer cancel()
	select {
	case v, open := <-s.incoming:
		if !open {
			return nil, fmt.Errorf("%w: connection closed", ErrCellLost)
		}
		if err, ok := v.(error); ok {
			return nil, err
		}
		return v.(armlink.Message), nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the arm process: %w", context.Cause(ctx))
	}
}

// take checks and keeps a state.
func (s *Session) take(st *armlink.State) error {
	if len(st.Arms) != len(s.hello.Arms) {
		return fmt.Errorf("%w: state with %d arms, Hello named %d", ErrCellLost, len(st.Arms), len(s.hello.Arms))
	}
	if st.TNS < s.state.TNS {
		return fmt.Errorf("%w: the cell's clock ran back from %d to %d ns", ErrCellLost, s.state.TNS, st.TNS)
	}
	for i, a := range st.Arms {
		for j := range a.Q {
			if !finite(a.Q[j]) || !finite(a.QCmd[j]) || !finite(a.DQ[j]) || !finite(a.DQCmd[j]) {
				return fmt.Errorf("%w: %s arm reports joint %d as %v, commanded %v", ErrCellLost, s.hello.Arms[i].Name, j+1, a.Q[j], a.QCmd[j])
			}
		}
		if !finite(a.GripperRad) || !finite(a.GripperCmdRad) {
			return fmt.Errorf("%w: %s arm reports its fingers at %v, commanded %v", ErrCellLost, s.hello.Arms[i].Name, a.GripperRad, a.GripperCmdRad)
		}
	}
	s.state = *st
	return nil
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// next lets one period pass and returns at its state: by a grant in lock-step, by waiting in real time. In real time late states are
// skipped, so that the newest counts.
func (s *Session) next(ctx context.Context) error {
	if s.source != nil {
		return s.source()
	}
	until := s.state.TNS + s.hello.PeriodNS
	if s.hello.Clock == armlink.LockStep {
		if err := s.conn.Write(&armlink.Advance{UntilNS: until}); err != nil {
			return fmt.Errorf("%w: %w", ErrCellLost, err)
		}
	}
	for got := false; !got || (s.hello.Clock == armlink.LockStep && s.state.TNS < until) ||
		(s.hello.Clock != armlink.LockStep && len(s.incoming) > 0); {
		m, err := s.receive(ctx)
		if err != nil {
			return err
		}
		switch m := m.(type) {
		case *armlink.State:
			if err := s.take(m); err != nil {
				return err
			}
			got = true
		case *armlink.Fault:
			s.faults = append(s.faults, m.Text)
			if m.Of == armlink.KindRecover {
				s.refusal = m.Text
			}
		}
	}
	return nil
}

func (s *Session) send(m armlink.Message) error {
	if err := s.conn.Write(m); err != nil {
		return fmt.Errorf("%w: %w", ErrCellLost, err)
	}
	return nil
}

// sendSegments sends the knots of both hands.
func (s *Session) sendSegments(knots [2][]armlink.Knot) error {
	for h, k := range knots {
		if len(k) == 0 {
			continue
		}
		if err := s.send(&armlink.Segment{Arm: Hands[h], Knots: k}); err != nil {
			return err
		}
	}
	return nil
}

// Hello is what the arm process said about itself.
func (s *Session) Hello() armlink.Hello { return s.hello }

// Now is the cell's clock (ns) at the newest state.
func (s *Session) Now() int64 { return s.state.TNS }

func (s *Session) arm(hand int) *armlink.ArmState { return &s.state.Arms[s.index[hand]] }

// measured gives the hands as measured at the newest state.
func (s *Session) measured() (o hands) {
	for h := range o.pose {
		a := s.arm(h)
		o.pose[h] = s.pair.arms[h].handPose(a.Q)
		o.finger[h] = a.GripperRad
	}
	return o
}

// commanded gives joints and finger angles as last commanded.
func (s *Session) commanded() (q [2]armlink.Joints, finger [2]float64) {
	for h := range q {
		q[h], finger[h] = s.arm(h).QCmd, s.arm(h).GripperCmdRad
	}
	return q, finger
}

// HandPose is a hand's measured pose, cellFromHandRoot; hand 0 is left.
func (s *Session) HandPose(hand int) frames.Pose { return s.measured().pose[hand] }

// HandAt is where a hand would be, cellFromHandRoot, with its arm's joints at q; hand 0 is left.
func (s *Session) HandAt(hand int, q armlink.Joints) frames.Pose {
	return s.pair.arms[hand].handPose(q)
}

// Settle lets a tenth of a second of the cell's time pass, so that HandPose is of what stands still now.
func (s *Session) Settle(ctx context.Context) error {
	for end := s.state.TNS + 100e6; s.state.TNS < end; {
		if err := s.next(ctx); err != nil {
			return err
		}
	}
	return nil
}

// stopped gives the reason when an arm waits for Recover.
func (s *Session) stopped() (string, bool) {
	for h, name := range Hands {
		if a := s.arm(h); a.Mode.NeedsRecover() {
			return fmt.Sprintf("%s arm: %s (%s)", name, a.Reason, a.Mode), true
		}
	}
	return "", false
}

// Stop ramps both arms down and waits until they stand; Recover is needed afterwards.
func (s *Session) Stop(ctx context.Context, reason string) error {
	if err := s.send(&armlink.Stop{Reason: reason}); err != nil {
		return err
	}
	return s.settle(ctx, settleTime, func(m armlink.Mode) bool { return m == armlink.ModeStopped || m == armlink.ModeReflex }, "stop")
}

// Recover is the operator's acknowledgement after a stop; it waits until both arms are ready. What an arm process refuses, for instance a stop that is still pressed or an
// acknowledgement too soon after the last, is an error at once.
func (s *Session) Recover(ctx context.Context) error {
	if err := s.settle(ctx, settleTime, func(m armlink.Mode) bool { return m != armlink.ModeRamp }, "come to rest"); err != nil {
		return err
	}
	if err := s.send(&armlink.Recover{}); err != nil {
		return err
	}
	return s.settle(ctx, recoverTime, func(m armlink.Mode) bool { return m == armlink.ModeIdle }, "recover")
}

// settleTime is how long (cell's clock) arms may take to reach a mode, recoverTime how long to become ready: brakes open, and a link is judged.
const (
	settleTime  = 5 * time.Second
	recoverTime = 30 * time.Second
)

func (s *Session) settle(ctx context.Context, limit time.Duration, ok func(armlink.Mode) bool, act string) error {
	s.refusal = ""
	for end := s.state.TNS + int64(limit); ; {
		if err := s.next(ctx); err != nil {
			return err
		}
		if ok(s.arm(0).Mode) && ok(s.arm(1).Mode) {
			return nil
		}
		if s.refusal != "" {
			return fmt.Errorf("arms did not %s: %s", act, s.refusal)
		}
		if s.state.TNS > end {
			return fmt.Errorf("arms did not %s within %v: left is %s (%s), right is %s (%s); refused: %v",
				act, limit, s.arm(0).Mode, s.arm(0).Reason, s.arm(1).Mode, s.arm(1).Reason, s.faults)
		}
	}
}

// SetScene puts a simulated cell into a condition (the simulator's JSON). Arms stay where they are.
func (s *Session) SetScene(ctx context.Context, condition []byte) error {
	if !s.hello.Sim {
		return errors.New("set scene: this cell is not simulated")
	}
	if err := s.send(&armlink.SetScene{Condition: condition}); err != nil {
		return err
	}
	m, err := s.answer(ctx, armlink.KindScene)
	if err != nil {
		return fmt.Errorf("set scene: %w", err)
	}
	if sc := m.(*armlink.Scene); sc.Error != "" {
		return fmt.Errorf("set scene: %s", sc.Error)
	}
	return nil
}

// Truth asks a simulated cell for the state of its objects. It may be called from RunOptions.Step.
func (s *Session) Truth(ctx context.Context) (*armlink.Truth, error) {
	if !s.hello.Sim {
		return nil, errors.New("query truth: this cell is not simulated")
	}
	if err := s.send(&armlink.QueryTruth{}); err != nil {
		return nil, err
	}
	m, err := s.answer(ctx, armlink.KindTruth)
	if err != nil {
		return nil, fmt.Errorf("query truth: %w", err)
	}
	return m.(*armlink.Truth), nil
}

// answer waits for a message of the kind; states that come meanwhile are kept.
func (s *Session) answer(ctx context.Context, kind armlink.Kind) (armlink.Message, error) {
	for {
		m, err := s.receive(ctx)
		if err != nil {
			return nil, err
		}
		switch m := m.(type) {
		case *armlink.State:
			if err := s.take(m); err != nil {
				return nil, err
			}
		case *armlink.Fault:
			if m.Of == armlink.KindQueryTruth || m.Of == armlink.KindSetScene {
				return nil, errors.New(m.Text)
			}
			s.faults = append(s.faults, m.Text)
		default:
			if m.Kind() == kind {
				return m, nil
			}
		}
	}
}

// Close closes the link and the cameras and waits for their goroutines. The arm process ramps the arms down when its client leaves.
func (s *Session) Close() error {
	err := s.conn.Close()
	for range s.incoming { // until readLoop has left
	}
	s.cancel()
	for _, w := range s.wrists {
		if w != nil {
			err = errors.Join(err, w.src.Close())
			<-w.done
		}
	}
	return err
}
