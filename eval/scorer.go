package eval

import (
	"context"

	"github.com/pinch-robotics/pinch/deploy"
)

// Scorer judges trials, one at a time. The simulator's truth and a person at the robot are two implementations.
//
// Begin is called when a condition stands and the arms are at their starts. Judge is called once per control step while the
// policy drives, so it must return at once. End is called once after the arms rest and may take its time.
type Scorer interface {
	Begin(ctx context.Context, robot Robot, c Condition) error
	Judge(ctx context.Context, step deploy.Step) (Verdict, error)
	End(ctx context.Context, result deploy.Result) (Finding, error)
}

// Resetter is a Scorer that also lays out the scene between trials: a person who moves the objects by hand. Where a scorer is
// none, the simulator sets the scene.
type Resetter interface {
	// Reset returns when the condition stands.
	Reset(ctx context.Context, c Condition) error
}

// Verdict is what a scorer has seen so far.
type Verdict struct {
	Done  int    // milestones passed, in order
	Abort string // not empty: end the trial now, with this reason; a person's decision, counted as a safety stop
}

// Finding is what a scorer says of a trial that has ended.
type Finding struct {
	Done       int     `json:"done"`
	Times      []int64 `json:"milestone_ns"` // when each was passed, ns of the cell's clock
	Cause      Cause   `json:"cause,omitempty"`
	CauseText  string  `json:"cause_text,omitempty"` // the first cause in words, with numbers
	FinalState string  `json:"final_state"`          // how the scene looks at the end
	Collided   bool    `json:"collided"`             // a hand or an arm touched table, tray or the other arm
}

// Cause is the kind of the first thing that went wrong in a trial.
type Cause string

// The causes. A trial that passed everything has none.
const (
	CausePerception Cause = "perception" // wrong or missed object
	CauseReach      Cause = "reach"      // never near the object, or at a wrong height
	CauseGrasp      Cause = "grasp"      // missed, slipped, crushed
	CauseTransport  Cause = "transport"  // dropped or collided on the way
	CausePlace      Cause = "place"      // beside, tilted, released too early or not at all
	CauseSequence   Cause = "sequence"   // skipped, repeated or wrong order
	CauseStall      Cause = "stall"      // no motion
	CauseSafety     Cause = "safety"     // stopped by a gate or the arm
	CauseSystem     Cause = "system"     // server, camera or cell lost
	CauseOperator   Cause = "operator"   // reset or scoring error
)

// Causes lists all causes in the order in which a report shows them.
var Causes = []Cause{CausePerception, CauseReach, CauseGrasp, CauseTransport, CausePlace, CauseSequence, CauseStall, CauseSafety, CauseSystem, CauseOperator}
