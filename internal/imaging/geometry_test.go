package imaging

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"
)

func randomImage(seed uint64, w, h int) RGB {
	rng := rand.New(rand.NewPCG(seed, 1))
	m := NewRGB(w, h)
	for i := range m.Pix {
		m.Pix[i] = byte(rng.Uint32())
	}
	return m
}

// slowArea is the area mean in real numbers: integrate the source over the target pixel's rectangle.
func slowArea(src RGB, r Rect, w, h, x, y, c int) float64 {
	x0, x1 := float64(x)*float64(r.W)/float64(w), float64(x+1)*float64(r.W)/float64(w)
	y0, y1 := float64(y)*float64(r.H)/float64(h), float64(y+1)*float64(r.H)/float64(h)
	sum, area := 0.0, 0.0
	for j := 0; j < r.H; j++ {
		oy := math.Min(y1, float64(j+1)) - math.Max(y0, float64(j))
		for i := 0; i < r.W && oy > 0; i++ {
			if ox := math.Min(x1, float64(i+1)) - math.Max(x0, float64(i)); ox > 0 {
				sum += ox * oy * float64(src.Pix[((r.Y+j)*src.Width+r.X+i)*3+c])
				area += ox * oy
			}
		}
	}
	return sum / area
}

func TestAreaMeanAgreesWithRealArithmetic(t *testing.T) {
	cases := []struct{ w, h, dw, dh int }{{40, 30, 8, 8}, {37, 23, 5, 7}, {7, 5, 16, 11}, {64, 48, 64, 48}, {13, 9, 1, 1}}
	for _, c := range cases {
		for _, mode := range []Mode{Squash, CentreCrop} {
			src := randomImage(uint64(c.w), c.w, c.h)
			g := Geometry{Mode: mode, Width: c.dw, Height: c.dh}
			got, err := g.Apply(src)
			if err != nil {
				t.Fatal(err)
			}
			r := g.Crop(c.w, c.h)
			for y := range c.dh {
				for x := range c.dw {
					for ch := range 3 {
						want := slowArea(src, r, c.dw, c.dh, x, y, ch)
						if d := math.Abs(want - float64(got.Pix[(y*c.dw+x)*3+ch])); d > 0.5+1e-9 {
							t.Fatalf("%v %+v pixel %d,%d,%d: got %d, real mean %.4f", mode, c, x, y, ch, got.Pix[(y*c.dw+x)*3+ch], want)
						}
					}
				}
			}
		}
	}
}

func TestSameSizeIsIdentity(t *testing.T) {
	src := randomImage(3, 21, 17)
	got, err := Geometry{Mode: Squash, Width: 21, Height: 17}.Apply(src)
	if err != nil || !bytes.Equal(got.Pix, src.Pix) {
		t.Fatalf("identity changed the image: %v", err)
	}
}

func TestHalfRoundsUp(t *testing.T) {
	src := RGB{Width: 2, Height: 1, Pix: []byte{0, 1, 2, 1, 2, 4}}
	got, _ := Geometry{Mode: Squash, Width: 1, Height: 1}.Apply(src)
	if !bytes.Equal(got.Pix, []byte{1, 2, 3}) {
		t.Fatalf("got %v, want means 0.5 1.5 3 rounded half up", got.Pix)
	}
}

func TestCentreCropKeepsTheMiddle(t *testing.T) {
	cases := []struct {
		w, h int
		g    Geometry
		want Rect
	}{
		{640, 480, Geometry{CentreCrop, 64, 64}, Rect{80, 0, 480, 480}},
		{480, 640, Geometry{CentreCrop, 64, 64}, Rect{0, 80, 480, 480}},
		{640, 480, Geometry{CentreCrop, 64, 48}, Rect{0, 0, 640, 480}},
		{640, 480, Geometry{Squash, 64, 64}, Rect{0, 0, 640, 480}},
	}
	for _, c := range cases {
		if got := c.g.Crop(c.w, c.h); got != c.want {
			t.Errorf("%dx%d %+v: kept %+v, want %+v", c.w, c.h, c.g, got, c.want)
		}
	}
}

func TestHashNamesEveryField(t *testing.T) {
	a := Geometry{Squash, 64, 64}
	seen := map[string]Geometry{a.Hash(): a}
	for _, g := range []Geometry{{CentreCrop, 64, 64}, {Squash, 65, 64}, {Squash, 64, 65}} {
		if other, ok := seen[g.Hash()]; ok {
			t.Errorf("%+v and %+v have one hash", g, other)
		}
		seen[g.Hash()] = g
	}
	// The hash is written in checkpoints: it may only change together with geometryVersion.
	if got, want := a.Hash(), "6293ef7d0e5d1e86c682a5289325e517"; got != want {
		t.Errorf("hash of squash 64x64 is %s, want %s", got, want)
	}
}

func TestBadImagesAndGeometriesAreRefused(t *testing.T) {
	if _, err := (Geometry{Mode: "zoom", Width: 4, Height: 4}).Apply(NewRGB(4, 4)); err == nil {
		t.Error("unknown mode accepted")
	}
	if _, err := (Geometry{Mode: Squash, Width: 0, Height: 4}).Apply(NewRGB(4, 4)); err == nil {
		t.Error("width 0 accepted")
	}
	if _, err := (Geometry{Mode: Squash, Width: 4, Height: 4}).Apply(RGB{Width: 4, Height: 4, Pix: make([]byte, 47)}); err == nil {
		t.Error("short image accepted")
	}
}

func BenchmarkSquash640x480To64(b *testing.B) {
	src := randomImage(1, 640, 480)
	g := Geometry{Squash, 64, 64}
	dst := make([]byte, 64*64*3)
	for b.Loop() {
		if err := g.ApplyInto(dst, src); err != nil {
			b.Fatal(err)
		}
	}
}
