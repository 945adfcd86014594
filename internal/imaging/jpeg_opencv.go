//go:build opencv

package imaging

import (
	"errors"

	"gocv.io/x/gocv"
)

// Decoder names the JPEG decoder of this build: "go" or "opencv".
const Decoder = "opencv"

// decodeJPEG decodes with OpenCV (libjpeg-turbo, about six times the speed of the standard library). OpenCV delivers
// blue first; the channels are swapped while copying out, so no Mat outlives the call.
func decodeJPEG(data []byte) (RGB, error) {
	// As the twin does, leave pictures as they are stored: a camera's mounting is no business of a tag in its files.
	mat, err := gocv.IMDecode(data, gocv.IMReadColor|gocv.IMReadIgnoreOrientation)
	if err != nil {
		return RGB{}, err
	}
	defer mat.Close()
	if mat.Empty() || mat.Type() != gocv.MatTypeCV8UC3 || !mat.IsContinuous() {
		return RGB{}, errors.New("opencv could not decode it")
	}
	bgr, err := mat.DataPtrUint8()
	if err != nil {
		return RGB{}, err
	}
	out := NewRGB(mat.Cols(), mat.Rows())
	for i := 0; i+2 < len(bgr) && i+2 < len(out.Pix); i += 3 {
		out.Pix[i], out.Pix[i+1], out.Pix[i+2] = bgr[i+2], bgr[i+1], bgr[i]
	}
	return out, nil
}
