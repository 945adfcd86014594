//go:build !race

package franka

const raceDetector = false
