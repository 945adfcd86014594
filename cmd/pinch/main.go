// Command pinch turns handheld-gripper demonstrations into a policy that drives robot arms carrying the same gripper. It is
// small and links no native library; verbs that need one are carried out by the helper programs beside it.
package main

import (
	"github.com/pinch-robotics/pinch/cmd/internal/program"
	"github.com/pinch-robotics/pinch/cmd/internal/verbs/core"
)

func main() {
	root := program.Root("pinch", "from handheld demonstrations to a working robot policy",
		"pinch turns handheld-gripper demonstrations into a policy that drives robot arms carrying the same gripper.\n\n"+
			"The path of the data: record, ingest, dataset check, train, serve, deploy, eval run. `pinch demo` walks it in a simulator.\n"+
			program.ExitHelp,
		core.Demo(), core.Doctor())
	for _, h := range program.Helpers {
		for _, v := range h.Verbs {
			cmd := program.PassOn(h.Name, v)
			if v.Name == "bench" {
				cmd = core.Bench(cmd)
			}
			program.Add(root, cmd)
		}
	}
	program.Main(root)
}
