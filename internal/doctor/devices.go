package doctor

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
)

// cameras lists video devices with their names.
func cameras(_ context.Context, m Machine) []Line {
	devices := m.Glob("/dev/video*")
	if len(devices) == 0 {
		return []Line{{"cameras", Absent, "no /dev/video*",
			"none is needed for network cameras and the simulator; plug a USB camera in and, in a container, pass its device through"}}
	}
	var found []string
	for _, d := range devices {
		name, err := m.ReadFile("/sys/class/video4linux/" + filepath.Base(d) + "/name")
		if err != nil {
			found = append(found, d)
			continue
		}
		found = append(found, fmt.Sprintf("%s (%s)", d, strings.TrimSpace(string(name))))
	}
	return []Line{{"cameras", OK, strings.Join(found, ", "), ""}}
}

// serialPorts lists ports that encoders and grippers can hang on, by their stable names where udev made them.
func serialPorts(_ context.Context, m Machine) []Line {
	ports := m.Glob("/dev/serial/by-id/*")
	if len(ports) == 0 {
		ports = append(m.Glob("/dev/ttyACM*"), m.Glob("/dev/ttyUSB*")...)
	}
	if len(ports) == 0 {
		return []Line{{"serial ports", Absent, "no /dev/ttyACM* or /dev/ttyUSB*",
			"none is needed for the simulator; plug the encoder in, and add yourself to the group dialout (`usermod -aG dialout $USER`, then log in again)"}}
	}
	return []Line{{"serial ports", OK, strings.Join(ports, ", "), ""}}
}

// gpus reports graphics cards with the driver and the CUDA version that it supports. The driver's files under /proc tell the
// cards even where nvidia-smi is not installed; only nvidia-smi tells the CUDA version.
func gpus(ctx context.Context, m Machine) []Line {
	cards := m.Glob("/proc/driver/nvidia/gpus/*/information")
	if len(cards) == 0 {
		return []Line{{"GPU", Absent, "no NVIDIA driver is loaded",
			"training and serving then run on the CPU; for a GPU install NVIDIA's driver (Debian package nvidia-driver)"}}
	}
	models := map[string]int{}
	var order []string
	for _, c := range cards {
		text, _ := m.ReadFile(c)
		model := field(string(text), "Model:")
		if models[model] == 0 {
			order = append(order, model)
		}
		models[model]++
	}
	for i, model := range order {
		order[i] = fmt.Sprintf("%d x %s", models[model], model)
	}
	detail := strings.Join(order, ", ")
	version, _ := m.ReadFile("/proc/driver/nvidia/version")
	if v := driverVersion(string(version)); v != "" {
		detail += ", driver " + v
	}
	smi, err := m.Output(ctx, "nvidia-smi")
	if err != nil {
		return []Line{{"GPU", OK, detail + ", CUDA version unknown", "install nvidia-smi (Debian package nvidia-smi) to see the CUDA version"}}
	}
	if cuda := field(smi, "CUDA Version:"); cuda != "" {
		detail += ", CUDA " + cuda
	}
	return []Line{{"GPU", OK, detail, ""}}
}

// driverVersion reads `NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar ...`, also in the open module's form.
func driverVersion(text string) string {
	for _, word := range strings.Fields(firstLine(text)) {
		if parts := strings.Split(word, "."); len(parts) >= 2 && strings.Trim(word, "0123456789.") == "" {
			return word
		}
	}
	return ""
}

// field returns the word or words after a label, up to the end of the line or a column border.
func field(text, label string) string {
	_, rest, ok := strings.Cut(text, label)
	if !ok {
		return ""
	}
	rest, _, _ = strings.Cut(rest, "\n")
	rest, _, _ = strings.Cut(rest, "|")
	return strings.TrimSpace(rest)
}

// realTime tells whether the kernel can keep a 1 kHz loop: PREEMPT_RT says so in /sys/kernel/realtime.
func realTime(ctx context.Context, m Machine) []Line {
	release, _ := m.ReadFile("/proc/sys/kernel/osrelease")
	name := strings.TrimSpace(string(release))
	if flag, err := m.ReadFile("/sys/kernel/realtime"); err == nil && strings.TrimSpace(string(flag)) == "1" {
		return []Line{{"real-time", OK, "kernel " + name + " is PREEMPT_RT", ""}}
	}
	return []Line{{"real-time", Absent, "kernel " + name + " is not PREEMPT_RT",
		"not needed for recording, training and the simulator; on the computer that drives an arm install the Debian package linux-image-rt-amd64"}}
}

// minimumFree is what one day of recording wants: 2 wrist cameras at 12 Mbit/s each are 11 GB an hour.
const minimumFree = 20 << 30

func disk(m Machine, dir string) Line {
	free, total, err := m.FreeBytes(dir)
	if err != nil {
		return Line{"disk", Missing, err.Error(), "name an existing folder"}
	}
	l := Line{"disk", OK, fmt.Sprintf("%.0f of %.0f GiB free at %s", gib(free), gib(total), dir), ""}
	if free < minimumFree {
		l.State, l.Fix = Absent, "an hour of recording takes about 11 GB; free some space or record to another disk"
	}
	return l
}

func gib(b uint64) float64 { return float64(b) / (1 << 30) }
