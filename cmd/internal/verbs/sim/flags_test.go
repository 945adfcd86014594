package sim

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/pinch-robotics/pinch/cmd/internal/program"
)

// Values that no run could use are wrong usage, said before the cell is built.
func TestFlagsOutOfRange(t *testing.T) {
	t.Chdir(t.TempDir())
	for line, want := range map[string]string{
		"sim robot --clients -2":          "--clients",
		"sim robot --wrist-hz nan":        "--wrist-hz",
		"sim robot --scene-hz=-1":         "--scene-hz",
		"sim robot --clock sundial":       "--clock",
		"sim handheld --speed nan":        "--speed",
		"sim handheld --speed=-1":         "--speed",
		"sim handheld --episodes 0":       "--episodes",
		"sim handheld --first=-1":         "--first",
		"sim handheld --split validation": "--split",
	} {
		root := program.Root("pinch", "", "", Group())
		root.SetArgs(strings.Fields(line))
		root.SetOut(io.Discard)
		root.SetErr(io.Discard)
		var usage program.UsageError
		if err := root.ExecuteContext(t.Context()); !errors.As(err, &usage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", line, err)
		}
	}
}
