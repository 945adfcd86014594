package node

import (
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinch-robotics/pinch/cmd/internal/program"
)

func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out strings.Builder
	root := program.Root("pinch", "", "", Serve(), Ingest(), Dataset())
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetErr(io.Discard)
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

// Values that no run could use are wrong usage, said before anything is reached or written.
func TestFlagsOutOfRange(t *testing.T) {
	for line, want := range map[string]string{
		"serve x --threads -3":                       "--threads",
		"serve x --max-clients -1":                   "--max-clients",
		"serve x --listen nowhere":                   "--listen",
		"ingest x --out y --fps -1":                  "--fps",
		"ingest x --out y --workers 999999":          "--workers",
		"ingest x --out y --map none.yaml":           "none.yaml",
		"dataset view x --episodes 0-9999999999":     "--episodes",
		"dataset extract x y --episodes 5-999999999": "--episodes",
	} {
		var usage program.UsageError
		if _, err := run(t, strings.Fields(line)...); !errors.As(err, &usage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", line, err)
		}
	}
}

// An error before anything was converted stands alone.
func TestAnErrorHasNoResultBesideIt(t *testing.T) {
	out, err := run(t, "ingest", filepath.Join(t.TempDir(), "none"), "--out", filepath.Join(t.TempDir(), "dataset"))
	if err == nil || out != "" {
		t.Errorf("got %v and the output %q", err, out)
	}
}
