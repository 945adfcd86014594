package fciserve

import (
	"fmt"
	"strings"

	"github.com/pinch-robotics/pinch/internal/robotmodel"
)

// description is the arm's URDF: links with masses, seven revolute joints with limits, a flange. Centres of mass and inertias are those of solid
// spheres at the joints; nothing in the simulation depends on them, but readers refuse links without.
func description(arm robotmodel.Arm) string {
	var b strings.Builder
	fmt.Fprintf(&b, "<?xml version=\"1.0\" ?>\n<robot name=%q>\n", arm.Name)
	link := func(name string, mass float64) {
		const radius = 0.06
		i := 0.4 * mass * radius * radius
		fmt.Fprintf(&b, "  <link name=%q>\n    <inertial>\n      <origin rpy=\"0 0 0\" xyz=\"0 0 0\"/>\n      <mass value=\"%g\"/>\n"+
			"      <inertia ixx=\"%g\" ixy=\"0\" ixz=\"0\" iyy=\"%g\" iyz=\"0\" izz=\"%g\"/>\n    </inertial>\n  </link>\n", name, mass, i, i, i)
	}
	b.WriteString("  <link name=\"base\"/>\n  <joint name=\"base_joint\" type=\"fixed\">\n    <parent link=\"base\"/>\n    <child link=\"link0\"/>\n" +
		"    <origin rpy=\"0 0 0\" xyz=\"0 0 0\"/>\n  </joint>\n")
	link("link0", 2.4)
	for j, d := range arm.Table {
		link(fmt.Sprintf("link%d", j+1), arm.LinkMassKG[j])
		l := arm.Limits
		fmt.Fprintf(&b, "  <joint name=\"joint%d\" type=\"revolute\">\n    <origin rpy=\"%.15g 0 0\" xyz=\"%.15g %.15g %.15g\"/>\n"+
			"    <parent link=\"link%d\"/>\n    <child link=\"link%d\"/>\n    <axis xyz=\"0 0 1\"/>\n"+
			"    <limit effort=\"%g\" lower=\"%g\" upper=\"%g\" velocity=\"%g\"/>\n",
			j+1, d.Alpha, d.A, -d.D*sin(d.Alpha), d.D*cos(d.Alpha), j, j+1, arm.TauMax[j], l.QMin[j], l.QMax[j], l.DQ[j])
		if l.DDQDec[j] > 0 {
			fmt.Fprintf(&b, "    <position_based_velocity_limits deceleration_limit=\"%g\" velocity_offset=\"%g\"/>\n", l.DDQDec[j], l.DQOffset[j])
		}
		b.WriteString("    <dynamics D=\"1\" K=\"7000\" damping=\"0.003\" friction=\"0.2\" mu_coulomb=\"0\" mu_viscous=\"16\"/>\n  </joint>\n")
	}
	fmt.Fprintf(&b, "  <link name=\"link8\"/>\n  <joint name=\"joint8\" type=\"fixed\">\n    <origin rpy=\"0 0 0\" xyz=\"0 0 %g\"/>\n"+
		"    <parent link=\"link7\"/>\n    <child link=\"link8\"/>\n  </joint>\n</robot>\n", arm.FlangeD)
	return b.String()
}
