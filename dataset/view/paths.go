package view

import (
	"slices"
	"strconv"
	"strings"

	"github.com/pinch-robotics/pinch/dataset"
)

// path is a trace in space: three elements of a feature, and the quaternion beside them.
type path struct {
	Name    string `json:"name"`
	Feature string `json:"feature"`
	// At is the element that holds x, with y and z behind it, in metres; Rotation the element of qx, with qy, qz and qw behind it, or -1.
	At       int `json:"at"`
	Rotation int `json:"rotation"`
	// Side is left, right or empty.
	Side string `json:"side"`
	// Main paths are shown at first: the hands where a dataset has them, else what there is.
	Main bool `json:"main"`
	// Tips are features with the poses of this hand's finger tips.
	Tips []string `json:"tips"`
}

func itoa(n int) string { return strconv.Itoa(n) }

// notPositions are words in names of features and elements whose x, y and z are no places.
var notPositions = []string{"vel", "force", "torque", "wrench", "acc", "gyro", "imu", "rot", "ang", "rpy", "euler", "omega", "relative", "delta", "gravity", "mag", "_to_"}

// findPaths looks for positions: elements named x, y, z one after the other, alone or behind the same prefix (left_x, pos.x).
func findPaths(features []dataset.Feature) []path {
	paths := []path{}
	for _, f := range features {
		if !f.DType.Numeric() || f.DType == dataset.Bool || len(f.Names) < 3 || !place(f.Name) {
			continue
		}
		for k := 0; k+2 < len(f.Names) && len(f.Names) == f.Dim(); k++ {
			prefix, ok := positionAt(f.Names, k)
			if !ok {
				continue
			}
			p := path{Name: shortName(f.Name, prefix), Feature: f.Name, At: k, Rotation: rotationAt(f.Names, prefix), Tips: []string{}}
			p.Side = side(p.Name)
			paths = append(paths, p)
		}
	}
	chooseMain(paths)
	return paths
}

func place(name string) bool {
	return !slices.ContainsFunc(notPositions, func(w string) bool { return strings.Contains(strings.ToLower(name), w) })
}

// positionAt tells whether elements k, k+1, k+2 are x, y, z behind one prefix.
func positionAt(names []string, k int) (prefix string, ok bool) {
	prefix, ok = strings.CutSuffix(names[k], "x")
	if !ok || names[k+1] != prefix+"y" || names[k+2] != prefix+"z" {
		return "", false
	}
	if prefix != "" && !strings.ContainsAny(prefix[len(prefix)-1:], "._-/ ") {
		return "", false // dx, qx
	}
	return prefix, place(prefix)
}

func rotationAt(names []string, prefix string) int {
	k := slices.Index(names, prefix+"qx")
	if k < 0 || k+3 >= len(names) || names[k+1] != prefix+"qy" || names[k+2] != prefix+"qz" || names[k+3] != prefix+"qw" {
		return -1
	}
	return k
}

func shortName(feature, prefix string) string {
	name := strings.TrimPrefix(feature, "observation.")
	name = strings.TrimSuffix(strings.TrimPrefix(name, "pose."), ".absolute")
	if prefix = strings.TrimRight(prefix, "._-/ "); prefix != "" {
		name += " " + prefix
	}
	return name
}

func side(name string) string {
	left, right := strings.Index(name, "left"), strings.Index(name, "right")
	switch {
	case left >= 0 && (right < 0 || left < right):
		return "left"
	case right >= 0:
		return "right"
	}
	return ""
}

// chooseMain marks the hands, or else the first path of each side, and gives the hands their finger tips.
func chooseMain(paths []path) {
	hands := false
	for i := range paths {
		if strings.HasSuffix(paths[i].Name, "hand_root") {
			paths[i].Main, hands = true, true
			for _, q := range paths {
				if strings.HasPrefix(q.Name, paths[i].Side+"_") && strings.HasSuffix(q.Name, "finger_tip") {
					paths[i].Tips = append(paths[i].Tips, q.Feature)
				}
			}
		}
	}
	seen := map[string]bool{}
	for i := range paths {
		if !hands && !seen[paths[i].Side] {
			paths[i].Main, seen[paths[i].Side] = true, true
		}
	}
}
