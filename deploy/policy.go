package deploy

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/feature"
	"github.com/pinch-robotics/pinch/internal/imaging"
)

// Keys of the UMI Arena observation, the only ones a policy gets.
const (
	KeyImageLeft   = feature.ImageLeft
	KeyImageRight  = feature.ImageRight
	KeyRelative    = feature.HandToHand
	KeyJointStates = feature.JointStates
	KeyPrompt      = "prompt"
)

// Keys that an observation has beyond them for policies that ask for more.
const (
	KeyPast   = ".past" // appended to a key: earlier moments, newest first, along a first axis
	KeyPrefix = "action_prefix"
)

// KeyHands are the keys of Observation.Hands.
var KeyHands = [2]string{"observation.pose.left_hand_root.absolute", "observation.pose.right_hand_root.absolute"}

// Shape of the contract's action chunk.
const (
	ActionColumns = 16 // 7 left delta, 7 right delta (x y z qx qy qz qw), left and right finger angle
	MinRows       = 16 // a shorter chunk is refused
)

// Observation is one instant of the cell as a policy sees it. The images belong to the receiver of the call until it returns.
type Observation struct {
	Left, Right   imaging.RGB // wrist images, 640 x 480, not undistorted
	LeftFromRight frames.Pose // right hand_root in left hand_root
	FingerRad     [2]float64  // finger angle, left and right
	Prompt        string

	// What follows goes only to policies whose metadata asks for it (Contract), and is no part of the arena's contract.

	// Hands are the poses of both hands in the frame "cell", for policies that answer with absolute poses; nil: not given.
	Hands *[2]frames.Pose
	// Past are earlier moments, newest first: Past[f-1] is f frame intervals old. Only pictures, relative pose and fingers count. At the beginning of a run
	// there are fewer.
	Past []Observation
	// Prefix are first rows that the arms will carry out whatever the answer is, rows of ActionColumns numbers as body deltas of timing next: the tail of
	// the chunk before, as far as the answer comes too late to change it.
	Prefix []float32

	// Consumed is the policy time since the run began: how much of the motion asked for has been carried out. Not part of the contract and
	// never sent; baselines inside this program use it.
	Consumed time.Duration
}

// Chunk is a policy's answer: Rows x Cols float32, row-major. Columns as in ActionColumns; a row's delta moves each hand from where the row
// before left it, in body axes.
type Chunk struct {
	Rows, Cols int
	Data       []float32

	// Checkpoint is the hash of the policy that gave this answer, where it is not simply the one that the metadata states.
	Checkpoint string
}

// At gives row r, column c.
func (c Chunk) At(r, col int) float32 { return c.Data[r*c.Cols+col] }

// ErrBadChunk marks an answer that breaks the contract: wrong shape, too few rows, numbers that are not finite.
var ErrBadChunk = errors.New("answer breaks the action contract")

// Check refuses a chunk that is not at least MinRows x 16 finite numbers with usable quaternions. The error wraps ErrBadChunk.
func (c Chunk) Check() error {
	if c.Cols != ActionColumns {
		return fmt.Errorf("actions have %d columns, want %d: %w", c.Cols, ActionColumns, ErrBadChunk)
	}
	if c.Rows < MinRows {
		return fmt.Errorf("actions have %d rows, want at least %d: %w", c.Rows, MinRows, ErrBadChunk)
	}
	if len(c.Data) != c.Rows*c.Cols {
		return fmt.Errorf("actions hold %d numbers, want %d x %d: %w", len(c.Data), c.Rows, c.Cols, ErrBadChunk)
	}
	for i, v := range c.Data {
		if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
			return fmt.Errorf("actions row %d column %d is %v: %w", i/c.Cols, i%c.Cols, v, ErrBadChunk)
		}
	}
	for r := 0; r < c.Rows; r++ {
		for hand, at := range [2]int{3, 10} {
			var n float64
			for k := at; k < at+4; k++ {
				n += float64(c.At(r, k)) * float64(c.At(r, k))
			}
			if math.Sqrt(n) < frames.MinQuatNorm {
				return fmt.Errorf("actions row %d: quaternion of the %s hand has length zero: %w", r, Hands[hand], ErrBadChunk)
			}
		}
	}
	return nil
}

// Hands names the two hands in the order of every two-element array of this package.
var Hands = [2]string{"left", "right"}

// Policy answers observations with chunks. Metadata has the keys of docs/architecture.md ("Policy interface") and does not change. Infer
// may be called from several goroutines; implementations that can not run two at once wait.
type Policy interface {
	Metadata() map[string]any
	Infer(ctx context.Context, obs Observation) (Chunk, error)
}

// Contract is what the executor must know of a policy to move arms; nothing in it has a default.
type Contract struct {
	RateHz        float64 // rows per second
	Horizon       int     // rows of a chunk, 0 when not stated
	PoseReference Reference
	PoseTiming    Timing
	Checkpoint    string   // hash, may be empty
	Prompts       []string // what it was trained on, may be empty

	Answer        AnswerForm // form of the poses in an answer; not stated: body deltas, the arena's
	Frames        int        // moments that an observation shows; not stated: 1, the present one
	FrameInterval float64    // s, between them
	MaxPrefix     int        // rows of a committed prefix that it takes (real-time chunking); not stated: none
	HandPoses     bool       // it wants Observation.Hands
}

// AnswerForm is the form of the poses in an answer's rows.
type AnswerForm string

const (
	// AnswerDeltas: each row moves a hand from where the row before left it; Contract.PoseReference and PoseTiming say how.
	AnswerDeltas AnswerForm = "body_deltas"
	// AnswerChunkPoses: each row is a hand's pose seen from its pose at the observation.
	AnswerChunkPoses AnswerForm = "chunk_poses"
	// AnswerAbsolute: each row is a hand's pose in the frame of Observation.Hands.
	AnswerAbsolute AnswerForm = "absolute_poses"
)

// Reference says in whose axes a row's translation is given.
type Reference string

const (
	// ReferenceBody: p' = p + R dp, R' = R dR.
	ReferenceBody Reference = "body"
	// ReferenceWorld: p' = p + dp, R' = R dR.
	ReferenceWorld Reference = "world"
)

// Timing says from which pose the first row starts.
type Timing string

const (
	// TimingNext: row 0 leads from the pose at the observation to the pose one step later.
	TimingNext Timing = "next"
	// TimingPrevious: row 0 leads from the pose one step before the observation to the pose at the observation.
	TimingPrevious Timing = "previous"
)

// ErrBadMetadata marks server metadata that lacks what the executor must not guess.
var ErrBadMetadata = errors.New("policy metadata is incomplete")

// ReadContract reads the contract from metadata. Every missing or wrong key is an error that names it and wraps ErrBadMetadata; override
// (from the cell's configuration) supplies keys for servers that state only action_dim, such as the UMI Arena runner.
func ReadContract(metadata, override map[string]any) (Contract, error) {
	get := func(key string) (any, bool) {
		if v, ok := metadata[key]; ok {
			return v, true
		}
		v, ok := override[key]
		return v, ok
	}
	var c Contract
	dim, ok := number(get("action_dim"))
	if !ok || dim != ActionColumns {
		return c, fmt.Errorf("policy states action_dim %v, want %d: %w", metadata["action_dim"], ActionColumns, ErrBadMetadata)
	}
	if c.RateHz, ok = number(get("rate_hz")); !ok || !(c.RateHz >= 1 && c.RateHz <= 200) {
		return c, fmt.Errorf("policy states rate_hz %v, want 1 to 200; without it set contract.rate_hz in the cell file: %w", metadata["rate_hz"], ErrBadMetadata)
	}
	ref, _ := get("pose_reference")
	if c.PoseReference = Reference(text(ref)); c.PoseReference != ReferenceBody && c.PoseReference != ReferenceWorld {
		return c, fmt.Errorf("policy states pose_reference %v, want body or world; without it set contract.pose_reference in the cell file: %w", ref, ErrBadMetadata)
	}
	timing, _ := get("pose_timing")
	if c.PoseTiming = Timing(text(timing)); c.PoseTiming != TimingNext && c.PoseTiming != TimingPrevious {
		return c, fmt.Errorf("policy states pose_timing %v, want next or previous; without it set contract.pose_timing in the cell file: %w", timing, ErrBadMetadata)
	}
	if h, ok := number(get("horizon")); ok {
		if c.Horizon = int(h); c.Horizon < MinRows {
			return c, fmt.Errorf("policy states horizon %v, want at least %d: %w", h, MinRows, ErrBadMetadata)
		}
	}
	if err := c.readExtras(get); err != nil {
		return c, err
	}
	ck, _ := get("checkpoint")
	c.Checkpoint = text(ck)
	if list, ok := metadata["prompts"].([]any); ok {
		for _, p := range list {
			c.Prompts = append(c.Prompts, text(p))
		}
	} else if list, ok := metadata["prompts"].([]string); ok {
		c.Prompts = append(c.Prompts, list...)
	}
	return c, nil
}

// maxFrames and maxPrefixRows bound what a policy may ask for beyond the arena's observation.
const (
	maxFrames     = 16
	maxPrefixRows = 256
)

// readExtras reads what goes beyond the arena's contract; nothing of it has to be stated.
func (c *Contract) readExtras(get func(string) (any, bool)) error {
	c.Answer, c.Frames = AnswerDeltas, 1
	if v, ok := get("answer"); ok {
		switch c.Answer = AnswerForm(text(v)); c.Answer {
		case AnswerDeltas:
		case AnswerChunkPoses, AnswerAbsolute:
			if c.PoseReference != ReferenceBody || c.PoseTiming != TimingNext {
				return fmt.Errorf("policy states answer %s with pose_reference %s and pose_timing %s, want body and next: %w", c.Answer, c.PoseReference, c.PoseTiming, ErrBadMetadata)
			}
		default:
			return fmt.Errorf("policy states answer %v, want %s, %s or %s: %w", v, AnswerDeltas, AnswerChunkPoses, AnswerAbsolute, ErrBadMetadata)
		}
	}
	for _, n := range []struct {
		key    string
		into   *int
		lo, hi float64
	}{{"frames", &c.Frames, 1, maxFrames}, {"max_prefix", &c.MaxPrefix, 0, maxPrefixRows}} {
		if v, ok := get(n.key); ok {
			f, ok := number(v, true)
			if !ok || !(f >= n.lo && f <= n.hi) || f != math.Trunc(f) {
				return fmt.Errorf("policy states %s %v, want a whole number, %v to %v: %w", n.key, v, n.lo, n.hi, ErrBadMetadata)
			}
			*n.into = int(f)
		}
	}
	if c.Frames > 1 {
		v, ok := number(get("frame_interval_s"))
		if !ok || !(v > 0 && v <= 10) {
			return fmt.Errorf("policy wants %d frames and states frame_interval_s %v, want above 0 to 10: %w", c.Frames, v, ErrBadMetadata)
		}
		c.FrameInterval = v
	}
	v, _ := get("hand_poses")
	c.HandPoses, _ = v.(bool)
	c.HandPoses = c.HandPoses || c.Answer == AnswerAbsolute
	return nil
}

// Map is the contract as metadata, the inverse of ReadContract.
func (c Contract) Map() map[string]any {
	m := map[string]any{
		"action_dim": ActionColumns, "rate_hz": c.RateHz, "pose_reference": string(c.PoseReference), "pose_timing": string(c.PoseTiming),
	}
	if c.Horizon > 0 {
		m["horizon"] = c.Horizon
	}
	if c.Checkpoint != "" {
		m["checkpoint"] = c.Checkpoint
	}
	if len(c.Prompts) > 0 {
		m["prompts"] = c.Prompts
	}
	if c.Answer != "" && c.Answer != AnswerDeltas {
		m["answer"] = string(c.Answer)
	}
	if c.Frames > 1 {
		m["frames"], m["frame_interval_s"] = c.Frames, c.FrameInterval
	}
	if c.MaxPrefix > 0 {
		m["max_prefix"] = c.MaxPrefix
	}
	if c.HandPoses {
		m["hand_poses"] = true
	}
	return m
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

func number(v any, ok bool) (float64, bool) {
	if !ok {
		return 0, false
	}
	switch n := v.(type) {
	case float64:
		return n, !math.IsNaN(n)
	case float32:
		return float64(n), true
	case int:
		return float64(n), true
	case int8:
		return float64(n), true
	case int16:
		return float64(n), true
	case int32:
		return float64(n), true
	case int64:
		return float64(n), true
	case uint8:
		return float64(n), true
	case uint16:
		return float64(n), true
	case uint32:
		return float64(n), true
	case uint64:
		return float64(n), true
	}
	return 0, false
}
