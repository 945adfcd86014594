package deploy

import (
	"context"
	"log/slog"
	"time"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
)

// ConnectOptions completes a Cell with what comes from the program; the zero value is ready to use.
type ConnectOptions struct {
	Logger *slog.Logger // nil: silent
	// Conn replaces dialling Cell.ArmLink, for an arm process inside this program (see Fake).
	Conn *armlink.Conn
	// OpenCamera opens one of the cell's wrist cameras; nil: its RTSP URL.
	OpenCamera func(ctx context.Context, camera armlink.CameraInfo) (FrameSource, error)
}

// Frame is one camera picture: JPEG data captured at CaptureNS of the cell's clock.
type Frame struct {
	CaptureNS int64
	JPEG      []byte
}

// FrameSource delivers one camera's frames in capture order. Next is called from one goroutine and returns io.EOF after Close.
type FrameSource interface {
	Next(ctx context.Context) (Frame, error)
	Close() error
}

// HandStart is where a hand begins a trial: hand_root in the frame "cell", and the finger angle (rad).
type HandStart struct {
	Pose      frames.Pose
	FingerRad float64
}

// RunOptions is one run of a policy.
type RunOptions struct {
	Policy      Policy
	Prompt      string        // the first instruction
	MaxDuration time.Duration // of the cell's clock; 0: no end but Step's
	// Step is called once per control step, before anything is sent for it; nil: nobody watches. It may query the session's Truth.
	Step func(ctx context.Context, s Step) (Directive, error)
	Log  *TrialLog // nil: not logged
	// Watch is shown the run five times a second of the cell's clock, on the run's goroutine; it must not block. nil: nobody watches.
	Watch func(View)
}

// Step is what the scorer sees once per control step.
type Step struct {
	TNS       int64         // the cell's clock
	Elapsed   time.Duration // since the run began, cell's clock
	Hands     [2]frames.Pose
	FingerRad [2]float64
	State     armlink.State
	Prompt    string
	Chunks    int      // chunks taken over so far
	Frames    [2]Frame // newest wrist frame of each hand
}

// Directive is the scorer's answer to a Step; the zero value goes on.
type Directive struct {
	Prompt string // not empty: the instruction from now on; the next chunk is asked for at once
	End    bool   // end the run: the arms ramp to rest
	Reason string // why, kept in Result
}

// Outcome is how a run ended.
type Outcome string

const (
	// OutcomeEnded: the Step hook ended it.
	OutcomeEnded Outcome = "ended"
	// OutcomeTime: MaxDuration passed.
	OutcomeTime Outcome = "time"
	// OutcomeStopped: a gate tripped or the arm stopped; Recover before anything else.
	OutcomeStopped Outcome = "stopped"
)

// Result tells what a run did. Counts are over the whole run.
type Result struct {
	Outcome        Outcome
	Reason         string // of the end or the stop
	Duration       time.Duration
	Chunks         int // taken over
	Rejected       int // refused: contract, implied speed, seam gate, too late
	Shortened      int // taken over as far as their rows can be reached
	Contacts       int // times the hands gave way to something that held them
	Starved        int // times the path ran out before the next chunk
	Stalls         int // times nothing moved for Safety.StallMS
	PolicyLatency  Latency
	MaxFollowing   float64 // rad, commanded minus measured, any joint
	MinArmDistance float64 // m, between the surfaces of the two arms; 0 when the run ended before it was measured
	Prompts        []string
}

// Stopped reports whether the session needs Recover.
func (r Result) Stopped() bool { return r.Outcome == OutcomeStopped }

// Latency summarises times of one kind, the first (warm-up) excluded.
type Latency struct {
	N             int
	P50, P99, Max time.Duration
}
