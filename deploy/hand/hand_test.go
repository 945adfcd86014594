package hand

import (
	"math"
	"testing"

	"github.com/pinch-robotics/pinch/internal/robotmodel"
)

func TestScale(t *testing.T) {
	g := robotmodel.YUBI()
	for name, points := range map[string][]Point{
		"rising":  {{0, 2048}, {0.94, 2661}},
		"falling": {{0, 2048}, {0.94, 1435}},
		"bent":    {{0, 100}, {0.3, 200}, {0.6, 900}, {0.94, 1000}},
	} {
		s, err := NewScale(points)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i <= 100; i++ {
			rad := g.OpenRad * float64(i) / 100
			if back := s.Rad(s.Count(rad)); math.Abs(back-rad) > 1e-12 {
				t.Errorf("%s: %.4f comes back as %.4f", name, rad, back)
			}
		}
		for _, p := range points {
			if got := s.Count(p.Rad); got != p.Count {
				t.Errorf("%s: count of %v is %v, want %v", name, p.Rad, got, p.Count)
			}
		}
		if s.Count(-1) != points[0].Count || s.Count(9) != points[len(points)-1].Count {
			t.Errorf("%s: goals outside the range are not clamped", name)
		}
	}
	for name, points := range map[string][]Point{
		"one point": {{0, 1}}, "angle falls": {{0.5, 1}, {0.2, 9}}, "count turns round": {{0, 1}, {0.3, 9}, {0.5, 4}}, "count stands": {{0, 1}, {0.3, 1}},
		"not a number": {{0, 1}, {0.3, math.NaN()}},
	} {
		if _, err := NewScale(points); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
