//go:build !linux

package policy

// physicalMemory is not known here.
func physicalMemory() float64 { return 0 }
