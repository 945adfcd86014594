// Package rig holds the verbs of pinch-rig: recording from a handheld rig, driving arms, and scored trials.
package rig

import (
	"bytes"
	"fmt"
	"image"
	"image/jpeg"

	"github.com/pinch-robotics/pinch/internal/doctor"
	"github.com/pinch-robotics/pinch/internal/imaging"
)

// Probe decodes a small picture with OpenCV.
func Probe() []doctor.Part {
	return []doctor.Part{doctor.Try("OpenCV", "run `make build`, which installs libopencv-dev and builds with the tag opencv", func() (string, error) {
		if imaging.Decoder != "opencv" {
			return "", fmt.Errorf("built without the tag opencv, pictures are decoded in pure Go, several times slower")
		}
		var buf bytes.Buffer
		if err := jpeg.Encode(&buf, image.NewGray(image.Rect(0, 0, 16, 16)), nil); err != nil {
			return "", err
		}
		img, err := imaging.DecodeJPEG(buf.Bytes())
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("decodes JPEG (%d bytes)", len(img.Pix)), nil
	})}
}
