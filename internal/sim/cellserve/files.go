package cellserve

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"text/template"

	"github.com/pinch-robotics/pinch/internal/atomicfile"
	"github.com/pinch-robotics/pinch/internal/sim"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
)

// Names of the files of WriteFiles.
const (
	JoinFile = "join.yaml"
	CellFile = "cell.yaml"
)

// ArmFile is the name of an arm's file.
func ArmFile(s sim.Side) string { return s.String() + ".yaml" }

// The files are written in full here, since this package may not know those who read them; tests of the whole chain read what this writes.
//
// Contact is read from how far a joint is held from its desired position; 60 Nm are 0.02 rad, as in the cell that speaks armlink itself.
var worldFiles = template.Must(template.New("").Parse(`
{{define "arm"}}# the process of the simulated {{.Name}} arm: pinch arm franka -f {{.Name}}.yaml{{if .LockStep}} --lockstep{{end}}
name: {{.Name}}
address: {{.Address}}
listen: tcp:127.0.0.1:{{.Port}}
world_from_base: [{{range $i, $v := .Base}}{{if $i}}, {{end}}{{$v}}{{end}}]
contact_torque_nm: [40, 40, 40, 40, 40, 40, 40]
collision_torque_nm: [60, 60, 60, 60, 60, 60, 60]
contact_force_n: [40, 40, 40, 40, 40, 40]
collision_force_n: [60, 60, 60, 60, 60, 60]
realtime: {{if .LockStep}}off{{else}}try{{end}}
hand:
  dynamixel: {port: {{.Gripper}}, baud: 1000000{{if .LockStep}}, answer_ms: 1000, watchdog_ms: 2000{{end}}}
{{end}}
{{define "join"}}# one cell of both simulated arms: pinch arm join join.yaml
listen: tcp:127.0.0.1:7480
left: tcp:127.0.0.1:7481
right: tcp:127.0.0.1:7482
scene: {{.Scene}}
cameras:
{{range .Cameras}}  - {name: {{.Name}}, url: "{{.URL}}", kind: {{.Kind}}, rate_hz: {{.RateHz}}}
{{end}}{{end}}
{{define "cell"}}# pinch deploy --cell cell.yaml
arm_link: tcp:127.0.0.1:7480
{{end}}`))

// WriteFiles writes the files of two arm processes, of what joins them and of the cell into a folder; addresses are the arms'.
func (w *World) WriteFiles(dir string, addresses [2]string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("write the cell's files: %w", err)
	}
	ready := w.Ready()
	for _, s := range sim.Sides {
		err := writeFile(dir, ArmFile(s), "arm", map[string]any{"Name": s, "Address": addresses[s], "Port": 7481 + int(s), "Base": sim.CellFromBase(s).ArrayXYZXYZW(),
			"LockStep": w.lockStep(), "Gripper": ready.Grippers[s]})
		if err != nil {
			return err
		}
	}
	type camera struct {
		armlink.CameraInfo
		RateHz float64
	}
	var cameras []camera
	for _, c := range ready.Cameras {
		cameras = append(cameras, camera{c, 1e9 / float64(c.PeriodNS)})
	}
	if err := writeFile(dir, JoinFile, "join", map[string]any{"Scene": ready.Scene, "Cameras": cameras}); err != nil {
		return err
	}
	return writeFile(dir, CellFile, "cell", nil)
}

func (w *World) lockStep() bool { return w.opts.Clock == armlink.LockStep }

// Commands are what drives the cell from the files in a folder.
func (w *World) Commands(dir string) string {
	flag := ""
	if w.lockStep() {
		flag = " --lockstep"
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	return fmt.Sprintf("  pinch arm franka -f %s%s\n  pinch arm franka -f %s%s\n  pinch arm join %s\n  pinch deploy --cell %s --policy ws://HOST:PORT\n",
		at(ArmFile(sim.Left)), flag, at(ArmFile(sim.Right)), flag, at(JoinFile), at(CellFile))
}

func writeFile(dir, name, kind string, data any) error {
	var b bytes.Buffer
	if err := worldFiles.ExecuteTemplate(&b, kind, data); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return atomicfile.WriteFile(filepath.Join(dir, name), b.Bytes(), 0o644)
}
