// Package node holds the verbs of pinch-node: datasets, training, serving and measuring.
package node

import (
	"errors"
	"fmt"

	"github.com/pinch-robotics/pinch/dataset/video"
	"github.com/pinch-robotics/pinch/internal/doctor"
	"github.com/pinch-robotics/pinch/policy/engine/kernel"
)

// Probe multiplies two matrices and tells how video is decoded.
func Probe() []doctor.Part {
	blas := doctor.Try("BLAS", "run `make build`, which installs libopenblas-dev and builds with the tag blas", func() (string, error) {
		if !kernel.Native {
			return "", errors.New("built without the tag blas: matrix products run in pure Go, several times slower")
		}
		return "OpenBLAS", multiply()
	})
	libav := doctor.Try("libav", "run `make build`, which installs libavcodec-dev and its companions and builds with the tag libav", func() (string, error) {
		if !video.RandomAccess {
			return "", errors.New("built without the tag libav: video is decoded by the ffmpeg program, a process for each window")
		}
		return "decodes any frame directly", nil
	})
	return []doctor.Part{blas, libav}
}

// multiply computes [1 2; 3 4] x [5 6; 7 8], whose product is [19 22; 43 50].
func multiply() error {
	c := make([]float32, 4)
	kernel.Gemm(false, false, 2, 2, 2, []float32{1, 2, 3, 4}, 2, []float32{5, 6, 7, 8}, 2, 0, c, 2)
	if [4]float32(c) != [4]float32{19, 22, 43, 50} {
		return fmt.Errorf("a product of two small matrices came out as %v", c)
	}
	return nil
}
