package imaging

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// Mode says how a camera image is fitted to the target size.
type Mode string

// The two modes; see the package comment.
const (
	Squash     Mode = "squash"
	CentreCrop Mode = "centre_crop"
)

// geometryVersion is part of the hash. Version 1: integer crop, exact area mean, rounded half up, RGB.
const geometryVersion = 1

// Geometry is the one image transform: crop, area resize, channel order. The zero value is not valid.
type Geometry struct {
	Mode   Mode `json:"mode" yaml:"mode"`
	Width  int  `json:"width" yaml:"width"`   // output pixels
	Height int  `json:"height" yaml:"height"` // output pixels
}

// Check reports an unknown mode or a size outside 1 to 4096 pixels.
func (g Geometry) Check() error {
	if g.Mode != Squash && g.Mode != CentreCrop {
		return fmt.Errorf("image geometry mode %q is unknown: use %q or %q", g.Mode, Squash, CentreCrop)
	}
	if g.Width < 1 || g.Width > 4096 || g.Height < 1 || g.Height > 4096 {
		return fmt.Errorf("image geometry size %d x %d: each side must be 1 to 4096 pixels", g.Width, g.Height)
	}
	return nil
}

// Hash identifies the transform: mode, size, version of the arithmetic and channel order. Equal hashes mean equal bytes
// from equal camera images, whatever the platform.
func (g Geometry) Hash() string {
	text, err := json.Marshal(struct {
		Version  int
		Channels string
		Geometry
	}{geometryVersion, "RGB", g})
	if err != nil {
		panic(err) // a struct of strings and integers always marshals
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// Apply transforms src into a new image of Width x Height pixels.
func (g Geometry) Apply(src RGB) (RGB, error) {
	dst := NewRGB(max(g.Width, 0), max(g.Height, 0))
	if err := g.ApplyInto(dst.Pix, src); err != nil {
		return RGB{}, err
	}
	return dst, nil
}

// ApplyInto transforms src into dst, which must have Width*Height*3 bytes. src is not changed. Safe for concurrent use
// with distinct dst.
func (g Geometry) ApplyInto(dst []byte, src RGB) error {
	if err := g.Check(); err != nil {
		return err
	}
	if err := src.Check(); err != nil {
		return err
	}
	if len(dst) != g.Width*g.Height*3 {
		return fmt.Errorf("resize to %d x %d: destination has %d bytes, want %d", g.Width, g.Height, len(dst), g.Width*g.Height*3)
	}
	r := Rect{W: src.Width, H: src.Height}
	if g.Mode == CentreCrop {
		r = centreRect(src.Width, src.Height, g.Width, g.Height)
	}
	areaResize(dst, g.Width, g.Height, src, r)
	return nil
}

// Rect is a part of an image: left column X, top row Y, W columns and H rows.
type Rect struct{ X, Y, W, H int }

// Crop gives the part of a width x height camera image that the geometry keeps.
func (g Geometry) Crop(width, height int) Rect {
	if g.Mode == CentreCrop {
		return centreRect(width, height, g.Width, g.Height)
	}
	return Rect{W: width, H: height}
}

// centreRect is the largest centred part of srcW x srcH with aspect dstW:dstH, in whole pixels (rounded down, at least 1).
func centreRect(srcW, srcH, dstW, dstH int) Rect {
	w, h := srcW, srcH
	if srcW*dstH > srcH*dstW { // source is wider than the target
		w = max(srcH*dstW/dstH, 1)
	} else {
		h = max(srcW*dstH/dstW, 1)
	}
	return Rect{X: (srcW - w) / 2, Y: (srcH - h) / 2, W: w, H: h}
}
