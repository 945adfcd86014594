package xla

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// ErrNotBuilt says that this program was built without the tag "xla".
var ErrNotBuilt = errors.New(`built without XLA; build with -tags xla (cgo), or choose engine=cpu`)

// Platform names a kind of device.
type Platform string

// Platforms. A plugin for another one can be named by its path.
const (
	CPU  Platform = "cpu"
	CUDA Platform = "cuda"
)

// OpenOptions say which plugin to open.
type OpenOptions struct {
	Platform Platform // default CUDA
	// Plugin is the path of the PJRT shared library; empty: $PINCH_PJRT_PLUGIN, then where pip puts JAX's plugins.
	Plugin string
	// Devices is how many devices will be used, at least 1. The CPU platform shows as many, fixed once a CPU client has been opened; on
	// GPUs more than one sets how sums over the devices are scheduled.
	Devices int
	// Deterministic asks for the same bits from run to run, at some cost in speed.
	Deterministic bool
	// Preallocate is the share of the device's memory that is taken at once, 0 for the platform's default (three quarters on CUDA).
	Preallocate float64
}

// pluginPath finds the PJRT plugin.
func (o OpenOptions) pluginPath() (string, error) {
	if o.Plugin == "" {
		o.Plugin = os.Getenv("PINCH_PJRT_PLUGIN")
	}
	if o.Plugin != "" {
		path, err := filepath.Abs(o.Plugin)
		if err != nil {
			return "", fmt.Errorf("PJRT plugin %s: %w", o.Plugin, err)
		}
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("PJRT plugin: %w", err)
		}
		return path, nil
	}
	patterns := map[Platform][]string{
		CPU:  {"lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so"},
		CUDA: {"jax_plugins/xla_cuda13/xla_cuda_plugin.so", "jax_plugins/xla_cuda12/xla_cuda_plugin.so"},
	}[o.Platform]
	if patterns == nil {
		return "", fmt.Errorf("platform %q: want %q or %q, or name a plugin by its path", o.Platform, CPU, CUDA)
	}
	var looked []string
	for _, site := range sitePackages() {
		for _, pattern := range patterns {
			found, _ := filepath.Glob(filepath.Join(site, pattern)) // the pattern is fixed and valid
			if len(found) > 0 {
				return filepath.Abs(found[0])
			}
		}
		looked = append(looked, site)
	}
	wheel := map[Platform]string{CPU: "lammps-jax-pjrt-cpu", CUDA: "jax-cuda13-pjrt"}[o.Platform]
	return "", fmt.Errorf("no PJRT plugin for platform %q under %s: install one (pip install %s) and name it with the key plugin or with PINCH_PJRT_PLUGIN",
		o.Platform, strings.Join(looked, ", "), wheel)
}

// sitePackages lists the folders in which pip puts packages: of the active virtual environment, of .venv beside the working folder or above,
// and of the system.
func sitePackages() []string {
	var roots []string
	if v := os.Getenv("VIRTUAL_ENV"); v != "" {
		roots = append(roots, v)
	}
	if dir, err := os.Getwd(); err == nil {
		for {
			roots = append(roots, filepath.Join(dir, ".venv"))
			up := filepath.Dir(dir)
			if up == dir {
				break
			}
			dir = up
		}
	}
	if home, err := os.UserHomeDir(); err == nil {
		roots = append(roots, filepath.Join(home, ".local"))
	}
	roots = append(roots, "/opt/venv", "/usr/local", "/usr")
	var sites []string
	for _, r := range roots {
		for _, kind := range []string{"site-packages", "dist-packages"} {
			found, _ := filepath.Glob(filepath.Join(r, "lib", "python3*", kind)) // the pattern is valid unless the folder's name is odd
			sites = append(sites, found...)
		}
	}
	return sites
}
