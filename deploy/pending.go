package deploy

import (
	"context"
	"errors"

	"github.com/pinch-robotics/pinch/internal/rawlog"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
)

var errPending = errors.New("not built yet")

// Session is a connection to one cell: arms and wrist cameras. Its methods belong to one goroutine.
type Session struct{ hello armlink.Hello }

// Connect reaches the arm process and the wrist cameras of a cell and waits for the first state.
func Connect(ctx context.Context, cell Cell, opts ConnectOptions) (*Session, error) {
	return nil, errPending
}

// Hello is what the arm process said about itself.
func (s *Session) Hello() armlink.Hello { return s.hello }

// Now is the cell's clock (ns) at the newest state.
func (s *Session) Now() int64 { return 0 }

// Run drives the arms with a policy until it ends. A tripped gate is a Result with OutcomeStopped, not an error; an error means that the
// cell, the policy or the log was lost (arms were told to stop).
func (s *Session) Run(ctx context.Context, opts RunOptions) (Result, error) {
	return Result{}, errPending
}

// Home moves both hands to their starts along a joint path that keeps its distances, and refuses when it finds none.
func (s *Session) Home(ctx context.Context, starts [2]HandStart) error { return errPending }

// Stop ramps both arms down; Recover is needed afterwards.
func (s *Session) Stop(ctx context.Context, reason string) error { return errPending }

// Recover is the operator's acknowledgement after a stop; it waits until both arms are ready.
func (s *Session) Recover(ctx context.Context) error { return errPending }

// SetScene puts a simulated cell into a condition (the simulator's JSON). Arms stay where they are.
func (s *Session) SetScene(ctx context.Context, condition []byte) error { return errPending }

// Truth asks a simulated cell for the state of its objects.
func (s *Session) Truth(ctx context.Context) (*armlink.Truth, error) { return nil, errPending }

// Close closes the link and the cameras.
func (s *Session) Close() error { return errPending }

// TrialLog writes runs into a raw log, in the topics of docs/architecture.md.
type TrialLog struct{ w *rawlog.Writer }

// NewTrialLog declares the topics in w, which stays the caller's to close.
func NewTrialLog(w *rawlog.Writer, hello armlink.Hello) (*TrialLog, error) { return nil, errPending }

// SessionEvent logs a pinch.SessionEvent ("start", "subtask", "accept", "reject", "cancel") at tNS of the cell's clock.
func (l *TrialLog) SessionEvent(tNS int64, event, label string, success bool) error {
	return errPending
}
