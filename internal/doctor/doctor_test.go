package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// fake is a made-up machine: files, programs and their outputs.
type fake struct {
	files   map[string]string
	outputs map[string]string // "ffmpeg -hide_banner -version" to its output; a missing entry fails
	helpers map[string]string // name to path
	loader  map[string]error  // path to what the loader says
	env     map[string]string
	free    uint64
}

func (f fake) ReadFile(path string) ([]byte, error) {
	if s, ok := f.files[path]; ok {
		return []byte(s), nil
	}
	return nil, fs.ErrNotExist
}

func (f fake) Glob(pattern string) (out []string) {
	for p := range f.files {
		if ok, _ := filepath.Match(pattern, p); ok {
			out = append(out, p)
		}
	}
	return out
}

func (f fake) LookPath(name string) (string, error) {
	for command := range f.outputs {
		if strings.HasPrefix(command, name+" ") || command == name {
			return "/usr/bin/" + name, nil
		}
	}
	return "", errors.New("not found")
}

func (f fake) Output(_ context.Context, name string, args ...string) (string, error) {
	command := strings.Join(append([]string{filepath.Base(name)}, args...), " ")
	if out, ok := f.outputs[command]; ok {
		return out, nil
	}
	return "segmentation fault", fmt.Errorf("exit status 139")
}

func (f fake) FreeBytes(string) (uint64, uint64, error) { return f.free, 500 << 30, nil }
func (f fake) Getenv(name string) string                { return f.env[name] }
func (f fake) HelperPath(name string) (string, error) {
	if p, ok := f.helpers[name]; ok {
		return p, nil
	}
	return "", fmt.Errorf("the helper program %s is not at /opt/%s; run `make build`", name, name)
}
func (f fake) CheckLibraries(_ context.Context, path string) error { return f.loader[path] }

// whole is a robot computer with everything.
func whole() fake {
	return fake{
		files: map[string]string{
			"/etc/os-release":                                      "NAME=\"Debian\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n",
			"/proc/cpuinfo":                                        "processor\t: 0\nmodel name\t: Example CPU\nprocessor\t: 1\nmodel name\t: Example CPU\n",
			"/dev/video0":                                          "",
			"/sys/class/video4linux/video0/name":                   "HD Camera\n",
			"/dev/serial/by-id/usb-Espressif_1":                    "",
			"/proc/driver/nvidia/gpus/0000:01:00.0/information":    "Model: \t\t NVIDIA H200\nIRQ: 1\n",
			"/proc/driver/nvidia/version":                          "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15  Thu Jan  9 UTC 2025\nGCC version: 12\n",
			"/proc/sys/kernel/osrelease":                           "6.1.0-rt\n",
			"/sys/kernel/realtime":                                 "1\n",
			"/home/me/.local/lib/go-xla/pjrt_c_api_cuda_plugin.so": "",
		},
		outputs: map[string]string{
			"ffmpeg -hide_banner -version":  "ffmpeg version 5.1.6-0+deb12u1 Copyright (c) 2000-2024 the FFmpeg developers\nbuilt with gcc 12\n",
			"ffmpeg -hide_banner -encoders": " V....D libx264  H.264\n V..... libsvtav1 AV1\n",
			"nvidia-smi":                    "| NVIDIA-SMI 570.86.15   Driver Version: 570.86.15   CUDA Version: 12.8     |\n",
			"pinch-rig probe":               "a native library says hello\n{\"parts\":[{\"topic\":\"OpenCV\",\"detail\":\"4.6.0\"}]}\n",
			"pinch-sim probe":               `{"parts":[{"topic":"MuJoCo","detail":"steps"},{"topic":"offscreen GL","detail":"renders"}]}`,
			"pinch-node probe":              `{"parts":[{"topic":"BLAS","detail":"OpenBLAS"},{"topic":"libav","detail":"decodes"}]}`,
		},
		helpers: map[string]string{"pinch-rig": "/opt/pinch-rig", "pinch-sim": "/opt/pinch-sim", "pinch-node": "/opt/pinch-node"},
		env:     map[string]string{"HOME": "/home/me"},
		free:    100 << 30,
	}
}

func lines(r Report) map[string]Line {
	out := map[string]Line{}
	for _, l := range r.Lines {
		out[l.Topic] = l
	}
	return out
}

func TestAWholeMachine(t *testing.T) {
	r := Examine(t.Context(), whole(), "/data")
	got := lines(r)
	for topic, want := range map[string]string{
		"system":        "Debian GNU/Linux 12 (bookworm), 2 cores Example CPU",
		"codecs":        "ffmpeg 5.1.6-0+deb12u1",
		"H.264 encoder": "libx264",
		"AV1 encoder":   "libsvtav1",
		"OpenCV":        "4.6.0 (pinch-rig)",
		"MuJoCo":        "steps (pinch-sim)",
		"offscreen GL":  "renders (pinch-sim)",
		"BLAS":          "OpenBLAS (pinch-node)",
		"libav":         "decodes (pinch-node)",
		"PJRT plugins":  "/home/me/.local/lib/go-xla/pjrt_c_api_cuda_plugin.so",
		"GPU":           "1 x NVIDIA H200, driver 570.86.15, CUDA 12.8",
		"cameras":       "/dev/video0 (HD Camera)",
		"serial ports":  "/dev/serial/by-id/usb-Espressif_1",
		"real-time":     "kernel 6.1.0-rt is PREEMPT_RT",
		"disk":          "100 of 500 GiB free at /data",
	} {
		if l := got[topic]; l.State != OK || l.Detail != want || l.Fix != "" {
			t.Errorf("%s: %+v, want ok %q", topic, l, want)
		}
	}
	if !r.OK() || len(r.Lines) != 15 {
		t.Errorf("ok %v with %d lines", r.OK(), len(r.Lines))
	}
}

// Every line that is not ok says what to do; options do not make the machine unfit.
func TestABareMachineNamesEveryFix(t *testing.T) {
	r := Examine(t.Context(), fake{free: 1 << 30}, "/data")
	if len(r.Lines) != 13 { // no encoder lines without ffmpeg
		t.Errorf("%d lines", len(r.Lines))
	}
	for _, l := range r.Lines {
		if l.Topic != "system" && (l.State == OK || l.Fix == "") {
			t.Errorf("%+v", l)
		}
	}
	if r.OK() {
		t.Error("a machine without ffmpeg and helpers is not fit")
	}
	var text strings.Builder
	if err := r.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	if strings.Count(text.String(), "fix: ") != 12 || !strings.Contains(text.String(), "Debian package ffmpeg") {
		t.Errorf("text:\n%s", text.String())
	}
}

func TestNativeFaultsAreToldApart(t *testing.T) {
	cases := map[string]struct {
		spoil func(*fake)
		topic string
		want  string
		fix   string
	}{
		"library missing": {func(f *fake) {
			f.loader = map[string]error{"/opt/pinch-sim": LibraryError("/opt/pinch-sim", []string{"libmujoco.so.2.2.2"})}
		}, "MuJoCo", "pinch-sim does not find libmujoco.so.2.2.2; install the Debian package libmujoco-dev", "make build"},
		"crashes at start": {func(f *fake) { delete(f.outputs, "pinch-sim probe") }, "offscreen GL", "pinch-sim does not start: segmentation fault", "make build"},
		"answers nonsense": {func(f *fake) { f.outputs["pinch-rig probe"] = "hello" }, "OpenCV", "no readable answer", "make build"},
		"loads but fails": {func(f *fake) {
			f.outputs["pinch-node probe"] = `{"parts":[{"topic":"BLAS","fault":"built without the tag blas","fix":"run make build"}]}`
		}, "BLAS", "pinch-node: built without the tag blas", "run make build"},
		"no encoder":       {func(f *fake) { f.outputs["ffmpeg -hide_banner -encoders"] = " V..... mpeg4\n" }, "H.264 encoder", "none of libx264", "Debian package ffmpeg"},
		"ffmpeg broken":    {func(f *fake) { delete(f.outputs, "ffmpeg -hide_banner -version") }, "codecs", "ffmpeg does not start", "--reinstall ffmpeg"},
		"no nvidia-smi":    {func(f *fake) { delete(f.outputs, "nvidia-smi") }, "GPU", "driver 570.86.15, CUDA version unknown", "nvidia-smi"},
		"disk nearly full": {func(f *fake) { f.free = 3 << 30 }, "disk", "3 of 500 GiB free", "free some space"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			m := whole()
			c.spoil(&m)
			l := lines(Examine(t.Context(), m, "/data"))[c.topic]
			if !strings.Contains(l.Detail, c.want) || !strings.Contains(l.Fix, c.fix) {
				t.Errorf("%+v, want %q with fix %q", l, c.want, c.fix)
			}
		})
	}
}

// The listing is what the loader prints for LD_TRACE_LOADED_OBJECTS (man ld.so).
func TestMissingLibrariesOfALoaderListing(t *testing.T) {
	listing := "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibopencv_core.so.406 => not found\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x7f)\n\tlibopencv_imgproc.so.406 => not found\n\tlibavcodec.so.59 => not found\n"
	missing := missingLibraries(listing)
	err := LibraryError("/opt/pinch-rig", missing)
	want := "pinch-rig does not find libopencv_core.so.406, libopencv_imgproc.so.406, libavcodec.so.59; install the Debian package libopencv-dev libavcodec-dev (`make build` does)"
	if err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// A real program, whose libraries are there.
func TestCheckLibrariesOfARealProgram(t *testing.T) {
	if err := CheckLibraries(t.Context(), "/bin/sh"); err != nil {
		t.Error(err)
	}
}

func TestTryCatchesPanics(t *testing.T) {
	p := Try("BLAS", "reinstall", func() (string, error) { panic("bad instruction") })
	if p.Fault != "bad instruction" || p.Fix != "reinstall" || p.Detail != "" {
		t.Errorf("%+v", p)
	}
}
