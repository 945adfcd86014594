package sim

import (
	"math"
	"testing"

	"github.com/pinch-robotics/pinch/internal/robotmodel"
)

// At the contact angle of a width the turned pad's inner corner lies at that half width: checked by turning the corner about the
// pivot as a matrix would, not by the formula that found the angle.
func TestContactAngle(t *testing.T) {
	g := robotmodel.YUBI()
	for _, w := range []float64{0.001, BlockHalfWidth, 0.05} {
		q := ContactAngle(w)
		x, y := padTip(g)
		s, c := math.Sincos(-q) // the right finger turns about -Z
		at := g.RightPivot[1] + s*x + c*y
		if math.Abs(at+w) > 1e-12 {
			t.Errorf("half width %v: the right pad's corner is at y %v, want %v", w, at, -w)
		}
		if q < 0 || q > FingerMaxRad {
			t.Errorf("half width %v: angle %v is out of the joint's range", w, q)
		}
	}
	if a, b := ContactAngle(0.01), ContactAngle(0.03); a >= b {
		t.Errorf("a wider body is touched at a smaller angle: %v, %v", a, b)
	}
}

// The encoder's reading goes back to the finger angle by the host's formula, within half a count, also where it wraps.
func TestEncoderRaw(t *testing.T) {
	const count = 2 * math.Pi / 4096
	for _, s := range Sides {
		for _, q := range []float64{0, -0.003, 0.1, 0.2501, 0.45, 0.94} {
			raw := encoderRaw(s, q)
			if raw < 0 || raw >= 2*math.Pi {
				t.Errorf("%s %v: raw %v is outside one turn", s, q, raw)
			}
			if k := raw / count; math.Abs(k-math.Round(k)) > 1e-6 {
				t.Errorf("%s %v: raw %v is no whole count", s, q, raw)
			}
			got := math.Mod((raw-EncoderClosedRaw[s])*-1+4*math.Pi, 2*math.Pi) // wrap to one turn, direction -1
			if got > math.Pi {
				got -= 2 * math.Pi
			}
			if math.Abs(got-q) > count/2+1e-12 {
				t.Errorf("%s: %v rad reads back as %v", s, q, got)
			}
		}
	}
	if encoderRaw(Left, 0.3) < encoderRaw(Left, 0.1) {
		t.Error("the left encoder does not wrap through zero within its travel, so the wrap goes untested everywhere")
	}
}
