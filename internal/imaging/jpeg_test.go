package imaging

import (
	"bytes"
	"errors"
	"image"
	"image/color"
	"image/jpeg"
	"math"
	"testing"
)

// smooth is a picture that JPEG keeps well: slow gradients in each channel.
func smooth(w, h int) *image.RGBA {
	img := image.NewRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			img.Set(x, y, color.RGBA{R: byte(40 + x*150/w), G: byte(60 + y*120/h), B: byte(200 - x*100/w), A: 255})
		}
	}
	return img
}

func encode(t *testing.T, img image.Image) []byte {
	t.Helper()
	var buf bytes.Buffer
	if err := jpeg.Encode(&buf, img, &jpeg.Options{Quality: 95}); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestDecodeGivesRedFirst(t *testing.T) {
	img := smooth(64, 48)
	got, err := DecodeJPEG(encode(t, img))
	if err != nil {
		t.Fatal(err)
	}
	if got.Width != 64 || got.Height != 48 {
		t.Fatalf("size %d x %d", got.Width, got.Height)
	}
	for y := range 48 {
		for x := range 64 {
			r, g, b := got.At(x, y)
			want := img.RGBAAt(x, y)
			for _, d := range []float64{float64(r) - float64(want.R), float64(g) - float64(want.G), float64(b) - float64(want.B)} {
				if math.Abs(d) > 6 {
					t.Fatalf("pixel %d,%d: got %d %d %d, encoded %v", x, y, r, g, b, want)
				}
			}
		}
	}
}

func TestGreyBecomesEqualChannels(t *testing.T) {
	img := image.NewGray(image.Rect(0, 0, 16, 16))
	for i := range img.Pix {
		img.Pix[i] = 90
	}
	got, err := DecodeJPEG(encode(t, img))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(got.Pix); i += 3 {
		if got.Pix[i] != got.Pix[i+1] || got.Pix[i] != got.Pix[i+2] || math.Abs(float64(got.Pix[i])-90) > 2 {
			t.Fatalf("grey 90 became %v", got.Pix[i:i+3])
		}
	}
}

func TestEveryTruncationIsRefused(t *testing.T) {
	data := encode(t, smooth(32, 32))
	for n := range len(data) {
		if _, err := DecodeJPEG(data[:n]); !errors.Is(err, ErrTruncatedJPEG) {
			t.Fatalf("first %d of %d bytes: error %v, want ErrTruncatedJPEG", n, len(data), err)
		}
	}
	if _, err := DecodeJPEG(append(bytes.Clone(data), 0, 0, 0)); err != nil {
		t.Errorf("zero padding after the end marker refused: %v", err)
	}
}

func TestBuildDecoderAgreesWithTheStandardLibrary(t *testing.T) {
	data := encode(t, smooth(640, 480))
	got, err := DecodeJPEG(data)
	if err != nil {
		t.Fatal(err)
	}
	twin, err := decodeJPEGGo(data)
	if err != nil {
		t.Fatal(err)
	}
	g := Geometry{Squash, 64, 64}
	a, _ := g.Apply(got)
	b, _ := g.Apply(twin)
	for i := range a.Pix {
		if d := int(a.Pix[i]) - int(b.Pix[i]); d < -2 || d > 2 {
			t.Fatalf("byte %d: decoder %q gives %d, standard library %d", i, Decoder, a.Pix[i], b.Pix[i])
		}
	}
}

// A picture is decoded as it is stored, whatever an EXIF tag says about how it should be turned for display.
func TestOrientationTagIsIgnored(t *testing.T) {
	plain := encode(t, smooth(48, 32))
	exif := []byte("Exif\x00\x00MM\x00\x2a\x00\x00\x00\x08\x00\x01\x01\x12\x00\x03\x00\x00\x00\x01\x00\x06\x00\x00\x00\x00\x00\x00")
	segment := append([]byte{0xff, 0xe1, 0, byte(len(exif) + 2)}, exif...)
	tagged := append(append(bytes.Clone(plain[:2]), segment...), plain[2:]...)
	want, err := DecodeJPEG(plain)
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeJPEG(tagged)
	if err != nil {
		t.Fatal(err)
	}
	if got.Width != 48 || got.Height != 32 || !bytes.Equal(got.Pix, want.Pix) {
		t.Errorf("tagged picture is %d x %d, want the 48 x 32 of the file", got.Width, got.Height)
	}
}

func BenchmarkDecodeJPEG640x480(b *testing.B) {
	var buf bytes.Buffer
	if err := jpeg.Encode(&buf, smooth(640, 480), nil); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := DecodeJPEG(buf.Bytes()); err != nil {
			b.Fatal(err)
		}
	}
}
