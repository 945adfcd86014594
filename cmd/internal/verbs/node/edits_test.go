package node

import (
	"errors"
	"strings"
	"testing"

	"github.com/pinch-robotics/pinch/cmd/internal/program"
)

// What an edit can not mean is wrong usage, said before a dataset is opened.
func TestEditsAreCheckedFirst(t *testing.T) {
	for line, want := range map[string]string{
		"dataset delete x y":                                 "--episodes",
		"dataset delete x y --episodes 3-1":                  "--episodes",
		"dataset delete x --episodes 1":                      "want 2",
		"dataset delete x y --episodes 1 --in-place":         "want 1",
		"dataset filter x y --where success":                 "--where",
		"dataset split x y":                                  "--part",
		"dataset split x y --part a=0.5 --part b=1":          "--part",
		"dataset merge x y":                                  "want 3",
		"dataset rename x y --feature a":                     "--feature",
		"dataset remap x y --feature a":                      "--elements",
		"dataset add-feature x y --name a":                   "--value",
		"dataset add-feature x y --name a --value 1 --csv f": "--value",
		"dataset remove-feature x y":                         "--feature",
		"dataset reencode x y --codec vp9":                   "vp9",
		"dataset convert x y --to v1.0":                      "--to",
		"dataset stats x --chunks a --horizon 0":             "--horizon",
		"dataset compact x y z":                              "want 2",
		"dataset restat":                                     "want 2",
	} {
		var usage program.UsageError
		if _, err := run(t, strings.Fields(line)...); !errors.As(err, &usage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", line, err, want)
		}
	}
}
