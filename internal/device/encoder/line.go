package encoder

import (
	"bytes"
	"math"
	"regexp"
	"strconv"

	"github.com/pinch-robotics/pinch/frames"
)

// maxLine is far above the longest line of the firmware (header, 50 bytes); a longer one is noise of a wrong baud rate.
const maxLine = 256

// idPattern is what the firmware documents as device id.
var idPattern = regexp.MustCompile(`^[LR][0-9]{3}$`)

// line is one parsed line of the serial text.
type line struct {
	kind   lineKind
	id     string            // sample: device id, "" from older firmware
	raw    float64           // sample: rad
	device frames.DeviceTime // time: ns
	text   string            // note, bad
}

type lineKind int

const (
	lineSample  lineKind = iota
	lineTime             // "# t=<ns>"
	lineComment          // any other "#" line, and blank lines
	lineNote             // text without a comma: the firmware's magnet warning
	lineBad              // everything else
)

// parseLine reads one line without its line end. Accepted samples are "<ID>,<rad>" and a bare "<rad>"; the angle must be a finite
// number in [0, 2 pi), written in digits: "nan" and "inf" are no angles, and a negative or larger one is a cut line.
func parseLine(b []byte) line {
	b = bytes.TrimSpace(b)
	switch {
	case len(b) == 0:
		return line{kind: lineComment}
	case b[0] == '#':
		return parseComment(b)
	}
	id, number, found := bytes.Cut(b, []byte(","))
	if !found {
		id, number = nil, b
	}
	raw, ok := parseAngle(bytes.TrimSpace(number))
	switch {
	case ok:
		return line{kind: lineSample, id: string(bytes.TrimSpace(id)), raw: raw}
	case !found && isText(b):
		return line{kind: lineNote, text: string(b)}
	}
	return line{kind: lineBad, text: string(b)}
}

func parseComment(b []byte) line {
	rest := bytes.TrimSpace(b[1:])
	number, found := bytes.CutPrefix(rest, []byte("t="))
	if !found {
		return line{kind: lineComment}
	}
	ns, err := strconv.ParseInt(string(number), 10, 64)
	if err != nil || ns < 0 {
		return line{kind: lineBad, text: string(b)}
	}
	return line{kind: lineTime, device: frames.DeviceTime(ns)}
}

func parseAngle(b []byte) (float64, bool) {
	if len(b) == 0 || b[0] < '0' || b[0] > '9' {
		return 0, false
	}
	v, err := strconv.ParseFloat(string(b), 64)
	// 8 decimals may round the largest count, 4095/4096 of a turn, no nearer than 0.0015 to the full turn.
	if err != nil || math.IsNaN(v) || v < 0 || v >= 2*math.Pi {
		return 0, false
	}
	return v, true
}

// isText is true for the firmware's plain sentences: printable ASCII with at least four letters.
func isText(b []byte) bool {
	letters := 0
	for _, c := range b {
		if c < ' ' || c > '~' {
			return false
		}
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
			letters++
		}
	}
	return letters >= 4 // "nan", "inf" and "-inf" are not sentences
}
