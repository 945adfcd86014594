package policy

import "golang.org/x/sys/unix"

// physicalMemory is the memory of this machine in bytes, 0 when the kernel does not say.
func physicalMemory() float64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return float64(info.Totalram) * float64(info.Unit)
}
