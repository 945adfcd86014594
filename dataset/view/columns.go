package view

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/pinch-robotics/pinch/dataset"
)

// columnBytes are the values of one feature of one episode, row after row, little-endian: int64 as they are, all other numbers as
// float64, which holds each of them exactly.
func columnBytes(d *dataset.Dataset, f dataset.Feature, episode int) ([]byte, error) {
	if !f.DType.Numeric() {
		return nil, fmt.Errorf("feature %q holds no numbers", f.Name)
	}
	if f.DType == dataset.Int64 {
		v, err := dataset.ReadColumn[int64](d, f.Name, episode)
		if err != nil {
			return nil, err
		}
		out := make([]byte, 0, 8*len(v))
		for _, x := range v {
			out = binary.LittleEndian.AppendUint64(out, uint64(x))
		}
		return out, nil
	}
	v, err := dataset.ReadColumn[float64](d, f.Name, episode)
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, 8*len(v))
	for _, x := range v {
		out = binary.LittleEndian.AppendUint64(out, math.Float64bits(x))
	}
	return out, nil
}
