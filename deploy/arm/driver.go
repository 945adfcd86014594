package arm

import (
	"context"
	"time"

	"github.com/pinch-robotics/pinch/internal/armrt"
	"github.com/pinch-robotics/pinch/internal/robotmodel"
)

// Measured is what an arm reports in one control cycle.
type Measured struct {
	Q, DQ robotmodel.Joints // rad, rad/s; entries of joints the arm lacks are ignored
	// Fault says why the arm has stopped by itself (protective stop, user stop, error state); empty: it has not. It stays until Recover.
	Fault string
	// Hold says why motion has to end although the arm would still follow, for example a reduced speed; empty: it has not to.
	Hold string
}

// Driver is one arm's controller. All methods but Close are called by one goroutine, Start first; Close may come at any time, ends a blocked
// Next, and leaves the arm standing by the controller's own rule.
type Driver interface {
	// Model names the arm in package robotmodel.
	Model() string
	// Cycle is the distance of commands, a whole number of milliseconds.
	Cycle() time.Duration
	// Start connects and makes the arm ready to follow. Nothing moves. The error says what an operator has to do.
	Start(ctx context.Context) (Measured, error)
	// Next waits for the next control cycle and returns its measurement. Measurements that queued up meanwhile are skipped. An error means
	// that the controller is gone.
	Next(ctx context.Context) (Measured, error)
	// Command is the command of the cycle that Next began. It is not called while a Fault stands.
	Command(c armrt.Command) error
	// Recover acknowledges a Fault and makes the arm ready where it stands. Nothing moves.
	Recover(ctx context.Context) (Measured, error)
	Close() error
}

// HandState is what a gripper reports.
type HandState struct {
	Rad          float64 // finger angle
	CurrentA     float64 // of its motor, 0 when it does not say
	TemperatureC float64 // of its motor, 0 when it does not say
	Holding      bool    // something is between the fingers, as far as the gripper tells
}

// Hand is a gripper with one finger angle. All methods but Close are called by one goroutine, Start first.
type Hand interface {
	// Start connects and makes the hand ready. Only a hand that can not measure without moving moves here; its documentation says so.
	Start(ctx context.Context) (HandState, error)
	// Exchange sends the wanted finger angle and returns the measured state. It may take as long as the bus needs.
	Exchange(ctx context.Context, goalRad float64) (HandState, error)
	// Recover makes a hand ready again after an alarm, as far as that is possible without letting go of what it holds.
	Recover(ctx context.Context) error
	// Period is the distance of exchanges.
	Period() time.Duration
	// Range is the closed and the open finger angle, rad.
	Range() (closed, open float64)
	Close() error
}
