package doctor

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// CheckLibraries asks the dynamic loader, without running the program, whether all its libraries are there, so that a missing
// one gives one sentence with its Debian package instead of the loader's message.
func CheckLibraries(ctx context.Context, path string) error {
	cmd := exec.CommandContext(ctx, path)
	cmd.Env = append(os.Environ(), "LD_TRACE_LOADED_OBJECTS=1") // what ldd does
	out, err := cmd.CombinedOutput()
	if missing := missingLibraries(string(out)); len(missing) > 0 {
		return LibraryError(path, missing)
	}
	if err != nil && ctx.Err() == nil && strings.Contains(string(out), "error while loading") {
		return fmt.Errorf("the helper program %s does not load: %s", path, strings.TrimSpace(string(out)))
	}
	return ctx.Err()
}

// missingLibraries reads the loader's listing: lines such as `libopencv_core.so.406 => not found`.
func missingLibraries(listing string) []string {
	var missing []string
	for _, line := range strings.Split(listing, "\n") {
		name, target, ok := strings.Cut(strings.TrimSpace(line), " => ")
		if ok && strings.HasPrefix(target, "not found") {
			missing = append(missing, name)
		}
	}
	return missing
}

// LibraryError is the one sentence about native libraries that a helper program does not find.
func LibraryError(path string, missing []string) error {
	var packages []string
	seen := map[string]bool{}
	for _, lib := range missing {
		if p := DebianPackage(lib); !seen[p] {
			seen[p] = true
			packages = append(packages, p)
		}
	}
	return fmt.Errorf("%s does not find %s; install the Debian package %s (`make build` does)",
		filepath.Base(path), strings.Join(missing, ", "), strings.Join(packages, " "))
}

// DebianPackage names the package that brings a shared library, as far as our programs link it.
func DebianPackage(library string) string {
	for _, known := range []struct{ prefix, debian string }{
		{"libopencv_", "libopencv-dev"},
		{"libmujoco", "libmujoco-dev"},
		{"libOSMesa", "libosmesa6-dev"},
		{"libEGL", "libegl-dev"},
		{"libturbojpeg", "libturbojpeg0-dev"},
		{"libopenblas", "libopenblas-dev"},
		{"libavcodec", "libavcodec-dev"},
		{"libavformat", "libavformat-dev"},
		{"libavutil", "libavutil-dev"},
		{"libswscale", "libswscale-dev"},
		{"libc.so", "libc6"},
		{"libstdc++", "libstdc++6"},
	} {
		if strings.HasPrefix(library, known.prefix) {
			return known.debian
		}
	}
	return "that brings " + library + " (`apt-file search " + library + "`)"
}
