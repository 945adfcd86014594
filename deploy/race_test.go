//go:build race

package deploy

// raceDetector: its shadow memory is terabytes, which can not be locked, and its pace is not real time.
const raceDetector = true
