package doctor

import (
	"context"
	"fmt"
	"strings"
)

// system names the operating system and the processor.
func system(_ context.Context, m Machine) []Line {
	release, _ := m.ReadFile("/etc/os-release")
	name := strings.Trim(field("\n"+string(release), "\nPRETTY_NAME="), `"`)
	cpuinfo, _ := m.ReadFile("/proc/cpuinfo")
	model := strings.TrimSpace(strings.TrimPrefix(field(string(cpuinfo), "model name"), ":"))
	cores := strings.Count("\n"+string(cpuinfo), "\nprocessor")
	return []Line{{"system", OK, fmt.Sprintf("%s, %d cores %s", orUnknown(name), cores, model), ""}}
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown system"
	}
	return s
}

// encoders that ingest can use, the first of each kind being the default.
var encoders = []struct{ topic, want, alternatives string }{
	{"H.264 encoder", "libx264", "libopenh264 h264_nvenc"},
	{"AV1 encoder", "libsvtav1", "libaom-av1 av1_nvenc"},
}

// codecs asks ffmpeg which encoders it has.
func codecs(ctx context.Context, m Machine) []Line {
	const install = "install the Debian package ffmpeg"
	if _, err := m.LookPath("ffmpeg"); err != nil {
		return []Line{{"codecs", Missing, "no ffmpeg on the PATH: ingest can not encode video", install}}
	}
	version, err := m.Output(ctx, "ffmpeg", "-hide_banner", "-version")
	if err != nil {
		return []Line{{"codecs", Missing, "ffmpeg does not start: " + firstLine(version), "reinstall it: apt-get install --reinstall ffmpeg"}}
	}
	lines := []Line{{"codecs", OK, strings.TrimSuffix(firstLine(field(version, "ffmpeg version")), " Copyright"), ""}}
	if v, _, ok := strings.Cut(lines[0].Detail, " Copyright"); ok {
		lines[0].Detail = v
	}
	lines[0].Detail = "ffmpeg " + lines[0].Detail
	listing, _ := m.Output(ctx, "ffmpeg", "-hide_banner", "-encoders")
	have := map[string]bool{}
	for _, word := range strings.Fields(listing) {
		have[word] = true
	}
	for _, e := range encoders {
		l := Line{e.topic, Absent, "ffmpeg has none of " + e.want + " " + e.alternatives, install + " of the distribution, which has " + e.want}
		for _, name := range append([]string{e.want}, strings.Fields(e.alternatives)...) {
			if have[name] {
				l = Line{e.topic, OK, name, ""}
				break
			}
		}
		lines = append(lines, l)
	}
	return lines
}

// plugins lists PJRT plugins: shared libraries through which a compiled policy graph runs on an accelerator. The folders are
// those that XLA programs share.
func plugins(_ context.Context, m Machine) []Line {
	folders := []string{m.Getenv("HOME") + "/.local/lib/go-xla", "/usr/local/lib/go-xla"}
	if own := m.Getenv("PJRT_PLUGIN_LIBRARY_PATH"); own != "" {
		folders = append(strings.Split(own, ":"), folders...)
	}
	var found []string
	for _, f := range folders {
		found = append(found, m.Glob(f+"/*pjrt*.so")...)
		found = append(found, m.Glob(f+"/*/*pjrt*.so")...)
	}
	if len(found) == 0 {
		return []Line{{"PJRT plugins", Absent, "none in " + strings.Join(folders, ", "),
			"not needed on the CPU; put a plugin such as pjrt_c_api_cuda_plugin.so into one of the folders, or name its folder in PJRT_PLUGIN_LIBRARY_PATH"}}
	}
	return []Line{{"PJRT plugins", OK, strings.Join(found, ", "), ""}}
}
