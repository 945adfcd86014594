package imaging

import (
	"bytes"
	"errors"
	"fmt"
)

// ErrTruncatedJPEG marks JPEG data that does not begin with the start marker or lacks the end marker. Decoders fill the
// missing part with grey and go on; a policy must never see such a picture, so both decoders refuse it.
var ErrTruncatedJPEG = errors.New("jpeg data is cut short")

// DecodeJPEG decodes a baseline or progressive JPEG to RGB. Grey images become RGB with equal channels. It fails on
// truncated or damaged data and never returns a partly filled image. It is safe for concurrent use.
func DecodeJPEG(data []byte) (RGB, error) {
	if err := checkMarkers(data); err != nil {
		return RGB{}, fmt.Errorf("decode jpeg of %d bytes: %w", len(data), err)
	}
	img, err := decodeJPEG(data)
	if err != nil {
		return RGB{}, fmt.Errorf("decode jpeg of %d bytes: %w", len(data), err)
	}
	return img, nil
}

// checkMarkers wants SOI (ff d8) first and EOI (ff d9) last; cameras may pad the end with zero bytes.
// Specification: ITU-T Rec. T.81, Table B.1.
func checkMarkers(data []byte) error {
	if !bytes.HasPrefix(data, []byte{0xff, 0xd8}) {
		return fmt.Errorf("no start marker: %w", ErrTruncatedJPEG)
	}
	if !bytes.HasSuffix(bytes.TrimRight(data, "\x00"), []byte{0xff, 0xd9}) {
		return fmt.Errorf("no end marker: %w", ErrTruncatedJPEG)
	}
	return nil
}
