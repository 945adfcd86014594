package deploy

import (
	"errors"
	"fmt"
	"time"

	"github.com/pinch-robotics/pinch/internal/config"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
)

// Cell is cell.yaml: where the arm process is, what the table looks like and how the executor behaves. Units are in the key names.
type Cell struct {
	ArmLink      string `yaml:"arm_link"`       // tcp:host:port or unix:/path of the arm process or the simulated cell
	PolicyURL    string `yaml:"policy_url"`     // ws://host:port of a policy server; may be left to the command line
	PolicyAPIKey string `yaml:"policy_api_key"` // sent as "Authorization: Api-Key ..." when not empty

	Control ControlConfig `yaml:"control"`
	Safety  SafetyConfig  `yaml:"safety"`

	Calibration CalibrationConfig `yaml:"calibration"`

	// Contract supplies policy metadata that a server does not state (rate_hz, pose_reference, pose_timing, action_dim).
	Contract map[string]any `yaml:"contract"`
}

// ControlConfig is how chunks become motion.
type ControlConfig struct {
	ExecuteRows         int     `yaml:"execute_rows"`          // rows consumed before the next chunk takes over; 0: half of the chunk, 0.5 s at most
	LeadMS              float64 `yaml:"lead_ms"`               // knots are sent this far ahead of now
	SwitchLeadMS        float64 `yaml:"switch_lead_ms"`        // a new chunk takes over this long after it arrives
	BlendMS             float64 `yaml:"blend_ms"`              // length of the seam between two chunks
	StartRampMS         float64 `yaml:"start_ramp_ms"`         // policy time takes this long from standing to full speed, and back
	PolicyLatencyMS     float64 `yaml:"policy_latency_ms"`     // lock-step: the constant; real time: the first guess
	ActionLatencyMS     float64 `yaml:"action_latency_ms"`     // from a knot's time to the arm being there; -1: as the arm process states
	GripperLatencyMS    float64 `yaml:"gripper_latency_ms"`    // the same for the fingers; -1: as the arms
	LeftCameraOffsetMS  float64 `yaml:"left_camera_offset_ms"` // the stamps of this wrist camera are that late
	RightCameraOffsetMS float64 `yaml:"right_camera_offset_ms"`
	PostureGain         float64 `yaml:"posture_gain_per_s"` // pull of the null space toward the start posture
	ContactRad          float64 `yaml:"contact_rad"`        // a joint pressed this far off its command makes the hands give way to where they are; 0: never
}

// CalibrationConfig corrects what the arm processes state, as `pinch calibrate` measures it.
type CalibrationConfig struct {
	LeftTipM      []float64 `yaml:"left_tip_m"`       // x y z in hand_root, from where flange_from_hand puts the finger tips to where they are; empty: nothing
	RightTipM     []float64 `yaml:"right_tip_m"`      // the same
	RightBaseMRad []float64 `yaml:"right_base_m_rad"` // x y z and a rotation vector in the frame "cell": moves the right arm's base; empty: nothing
}

// SafetyConfig holds the gates. A gate that trips stops both arms, holds the grippers and waits for an acknowledgement.
type SafetyConfig struct {
	TableHeightM        float64 `yaml:"table_height_m"`         // z of the table top in the cell frame
	TableClearanceM     float64 `yaml:"table_clearance_m"`      // arms (not fingers) stay this far above it
	FingerClearanceM    float64 `yaml:"finger_clearance_m"`     // the ends of the pads stay this far above it
	ArmClearanceM       float64 `yaml:"arm_clearance_m"`        // surfaces of the two arms stay this far apart
	HandSpeedMPS        float64 `yaml:"hand_speed_m_per_s"`     // a chunk that implies more is rejected before motion
	HandRateRadPS       float64 `yaml:"hand_rate_rad_per_s"`    // the same for rotation
	SeamGateM           float64 `yaml:"seam_gate_m"`            // a new chunk further than this from the path stops the run
	SeamGateRad         float64 `yaml:"seam_gate_rad"`          // the same for rotation
	FollowingRad        float64 `yaml:"following_rad"`          // commanded minus measured, any joint
	ReachErrorM         float64 `yaml:"reach_error_m"`          // residual of inverse kinematics that counts as not reachable
	ReachErrorRad       float64 `yaml:"reach_error_rad"`        // the same for rotation
	ObservationMaxAgeMS float64 `yaml:"observation_max_age_ms"` // newest common camera time may be this old
	StateMaxAgeMS       float64 `yaml:"state_max_age_ms"`       // real time: silence of the arm process
	PolicyMaxMS         float64 `yaml:"policy_max_ms"`          // an answer later than this stops the run
	StarvationMaxMS     float64 `yaml:"starvation_max_ms"`      // standing without a chunk this long stops the run
	StallMS             float64 `yaml:"stall_ms"`               // no motion this long is reported, nothing more
	RejectedChunks      int     `yaml:"rejected_chunks"`        // this many rejected chunks in a row stop the run
	VelocityFraction    float64 `yaml:"velocity_fraction"`      // share of the joint velocity limits that is used
}

// DefaultCell returns the values used where cell.yaml says nothing.
func DefaultCell() Cell {
	return Cell{
		ArmLink: "tcp:127.0.0.1:7480",
		Control: ControlConfig{
			LeadMS: 400, SwitchLeadMS: 40, BlendMS: 150, StartRampMS: 250, PolicyLatencyMS: 100, ActionLatencyMS: -1, GripperLatencyMS: -1, PostureGain: 0.5,
			ContactRad: 0.008,
		},
		Safety: SafetyConfig{
			TableClearanceM: 0.02, FingerClearanceM: 0.003, ArmClearanceM: 0.03,
			HandSpeedMPS: 1.0, HandRateRadPS: 2.5 * 1.2, // the arm's own rate limit and a fifth more for noise between rows
			SeamGateM: 0.12, SeamGateRad: 0.7,
			FollowingRad: 0.15, ReachErrorM: 0.01, ReachErrorRad: 0.052, // 1 cm, 3 degrees
			ObservationMaxAgeMS: 200, StateMaxAgeMS: 100, PolicyMaxMS: 1600, // the arena's limit: 16 rows at 10 Hz
			StarvationMaxMS: 3000, StallMS: 5000, RejectedChunks: 5, VelocityFraction: 0.9,
		},
	}
}

// LoadCell reads a cell file strictly over DefaultCell.
func LoadCell(path string) (Cell, error) {
	c := DefaultCell()
	if err := config.Load(path, &c); err != nil {
		return Cell{}, err
	}
	return c, nil
}

// Validate refuses values without meaning; the error starts with the key.
func (c *Cell) Validate() error {
	if c.ArmLink == "" {
		return errors.New("arm_link: must name the arm process, tcp:host:port or unix:/path")
	}
	type bound struct {
		key       string
		v, lo, hi float64
	}
	for _, b := range []bound{
		{"control.lead_ms", c.Control.LeadMS, 20, 1000},
		{"control.switch_lead_ms", c.Control.SwitchLeadMS, 10, c.Control.LeadMS},
		{"control.blend_ms", c.Control.BlendMS, 20, 1000},
		{"control.start_ramp_ms", c.Control.StartRampMS, 50, 5000},
		{"control.policy_latency_ms", c.Control.PolicyLatencyMS, 0, 10000},
		{"control.action_latency_ms", c.Control.ActionLatencyMS, -1, 1000},
		{"control.gripper_latency_ms", c.Control.GripperLatencyMS, -1, 1000},
		{"control.left_camera_offset_ms", c.Control.LeftCameraOffsetMS, -1000, 1000},
		{"control.right_camera_offset_ms", c.Control.RightCameraOffsetMS, -1000, 1000},
		{"control.posture_gain_per_s", c.Control.PostureGain, 0, 10},
		{"control.contact_rad", c.Control.ContactRad, 0, 1},
		{"safety.arm_clearance_m", c.Safety.ArmClearanceM, 0.005, 0.5},
		{"safety.table_clearance_m", c.Safety.TableClearanceM, 0, 0.5},
		{"safety.finger_clearance_m", c.Safety.FingerClearanceM, -0.05, 0.5},
		{"safety.hand_speed_m_per_s", c.Safety.HandSpeedMPS, 0.01, 3},
		{"safety.hand_rate_rad_per_s", c.Safety.HandRateRadPS, 0.01, 10},
		{"safety.seam_gate_m", c.Safety.SeamGateM, 0.001, 0.5},
		{"safety.seam_gate_rad", c.Safety.SeamGateRad, 0.001, 3},
		{"safety.following_rad", c.Safety.FollowingRad, 0.005, 1},
		{"safety.reach_error_m", c.Safety.ReachErrorM, 1e-4, 0.1},
		{"safety.reach_error_rad", c.Safety.ReachErrorRad, 1e-4, 0.5},
		{"safety.observation_max_age_ms", c.Safety.ObservationMaxAgeMS, 20, 5000},
		{"safety.state_max_age_ms", c.Safety.StateMaxAgeMS, 5, 5000},
		{"safety.policy_max_ms", c.Safety.PolicyMaxMS, 50, 60000},
		{"safety.starvation_max_ms", c.Safety.StarvationMaxMS, 50, 60000},
		{"safety.stall_ms", c.Safety.StallMS, 100, 600000},
		{"safety.rejected_chunks", float64(c.Safety.RejectedChunks), 1, 1000},
		{"safety.velocity_fraction", c.Safety.VelocityFraction, 0.05, 0.98},
	} {
		if !(b.v >= b.lo && b.v <= b.hi) {
			return fmt.Errorf("%s: %v is outside %v to %v", b.key, b.v, b.lo, b.hi)
		}
	}
	if err := c.Calibration.check(); err != nil {
		return err
	}
	if c.Control.ExecuteRows < 0 {
		return fmt.Errorf("control.execute_rows: %d is negative", c.Control.ExecuteRows)
	}
	return nil
}

// actionLatency is ControlConfig.ActionLatencyMS, or what the arm process states.
func (c *Cell) actionLatency(h *armlink.Hello) time.Duration {
	if c.Control.ActionLatencyMS < 0 {
		return time.Duration(h.ActionLatencyNS)
	}
	return ms(c.Control.ActionLatencyMS)
}

func ms(v float64) time.Duration { return time.Duration(v * float64(time.Millisecond)) }
