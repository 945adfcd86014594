package fci

import (
	"encoding/xml"
	"fmt"
	"strings"

	"github.com/pinch-robotics/pinch/internal/robotmodel"
)

// LimitsFromURDF returns base with position limits, speeds and the speed's dependence on position as the arm's description has them. Acceleration
// and jerk are in no description and stay. The description has to name seven revolute joints whose names end in 1 to 7.
func LimitsFromURDF(urdf string, base robotmodel.Limits) (robotmodel.Limits, error) {
	var doc struct {
		Joints []struct {
			Name  string `xml:"name,attr"`
			Type  string `xml:"type,attr"`
			Limit *struct {
				Lower    float64 `xml:"lower,attr"`
				Upper    float64 `xml:"upper,attr"`
				Velocity float64 `xml:"velocity,attr"`
			} `xml:"limit"`
			Position *struct {
				Offset       float64 `xml:"velocity_offset,attr"`
				Deceleration float64 `xml:"deceleration_limit,attr"`
			} `xml:"position_based_velocity_limits"`
		} `xml:"joint"`
	}
	if err := xml.Unmarshal([]byte(strings.TrimSpace(urdf)), &doc); err != nil {
		return base, fmt.Errorf("read the arm's description: %w", err)
	}
	out := base
	for j := 0; j < 7; j++ {
		found := false
		for _, d := range doc.Joints {
			if d.Type != "revolute" || d.Limit == nil || !strings.HasSuffix(d.Name, fmt.Sprintf("joint%d", j+1)) {
				continue
			}
			if !(d.Limit.Lower < d.Limit.Upper && d.Limit.Velocity > 0) {
				return base, fmt.Errorf("read the arm's description: %s has limits %v to %v rad at %v rad/s", d.Name, d.Limit.Lower, d.Limit.Upper, d.Limit.Velocity)
			}
			out.QMin[j], out.QMax[j], out.DQ[j] = d.Limit.Lower, d.Limit.Upper, d.Limit.Velocity
			if d.Position != nil {
				out.DQOffset[j], out.DDQDec[j] = d.Position.Offset, d.Position.Deceleration
			}
			found = true
		}
		if !found {
			return base, fmt.Errorf("read the arm's description: it has no revolute joint %d with limits", j+1)
		}
	}
	return out, nil
}
