package lint

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/pinch-robotics/pinch/internal/testpeer"
)

const module = "github.com/pinch-robotics/pinch"

// rooms lists, in the order in which data flows, each top-level room and the rooms that it may import besides itself, frames and
// internal. docs/architecture.md has the picture.
var rooms = map[string][]string{
	"frames":   {},
	"internal": {},
	"capture":  {},
	"dataset":  {},
	"policy":   {},
	"train":    {"dataset", "policy"},
	"deploy":   {"policy"},
	"eval":     {"dataset", "deploy"},
	"bench":    {"capture", "dataset", "policy", "train", "deploy"},
	"cmd":      {"capture", "dataset", "policy", "train", "deploy", "eval", "bench"},
}

// pkg is what `go list -json` says of a package.
type pkg struct {
	ImportPath   string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

// list loads all packages with all build tags, so that no file escapes the rules.
func list(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,XTestImports", "-e", "-tags", "opencv,mujoco,blas,libav,xla", "./...")
	cmd.Dir = testpeer.Root(t)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pkgs []pkg
	dec := json.NewDecoder(out)
	for {
		var p pkg
		err := dec.Decode(&p)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if len(pkgs) < 10 {
		t.Fatalf("go list found only %d packages", len(pkgs))
	}
	return pkgs
}

// inside is an import path within the module, and its room.
func inside(path string) (rel, room string, ok bool) {
	rel, ok = strings.CutPrefix(path, module+"/")
	room, _, _ = strings.Cut(rel, "/")
	return rel, room, ok
}

// Imports go only in the direction of the data: a stage that imports a later one would tie recording to training, or a robot
// computer to a trainer.
func TestImportsFollowTheData(t *testing.T) {
	for _, p := range list(t) {
		rel, room, ok := inside(p.ImportPath)
		if !ok {
			continue
		}
		allowed, known := rooms[room]
		if !known && room != "tools" {
			t.Errorf("%s: no room %q in docs/architecture.md; put the package into one of the rooms there", rel, room)
			continue
		}
		for _, imported := range p.Imports {
			other, otherRoom, ok := inside(imported)
			if !ok || otherRoom == room {
				continue
			}
			switch {
			case room == "frames":
				t.Errorf("%s imports %s: frames is the vocabulary below everything and imports nothing of ours", rel, other)
			case otherRoom == "frames" || otherRoom == "internal" || slices.Contains(allowed, otherRoom):
			default:
				t.Errorf("%s imports %s: data flows the other way (%s may import frames, internal and %v)", rel, other, room, allowed)
			}
		}
	}
}

// frames is imported by everything, so it stays free of everything but gonum.
func TestFramesImportsOnlyGonum(t *testing.T) {
	for _, p := range list(t) {
		if p.ImportPath != module+"/frames" {
			continue
		}
		for _, imported := range p.Imports {
			if first, _, _ := strings.Cut(imported, "/"); strings.Contains(first, ".") && first != "gonum.org" {
				t.Errorf("frames imports %s: only gonum and the standard library are allowed there", imported)
			}
		}
	}
}

// The main program links no native code and none of the heavy packages: it must start at once and be able to report a library that
// does not load.
func TestPinchItselfIsLight(t *testing.T) {
	cmd := exec.Command("go", "list", "-deps", "./cmd/pinch")
	cmd.Dir = testpeer.Root(t)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // as it is built
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, dep := range strings.Fields(string(out)) {
		for _, heavy := range []string{"runtime/cgo", "gocv.io", "gorgonia.org", "github.com/parquet-go", "github.com/bluenviron", "gonum.org/v1/plot"} {
			if strings.HasPrefix(dep, heavy) {
				t.Errorf("cmd/pinch depends on %s; leave it to a helper program", dep)
			}
		}
	}
}

// Native code sits behind one package each, so that its build tag has one place.
func TestNativeLibrariesHaveOneDoor(t *testing.T) {
	doors := map[string][]string{
		"gocv.io/x/gocv": {"internal/imaging"},
	}
	for _, p := range list(t) {
		rel, _, ok := inside(p.ImportPath)
		if !ok {
			continue
		}
		for _, imported := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if allowed, isNative := doors[imported]; isNative && !slices.Contains(allowed, rel) {
				t.Errorf("%s imports %s: use %v", rel, imported, allowed)
			}
		}
	}
}
