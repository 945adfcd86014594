package video

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// x264Presets are the names that x264 knows; AV1 has numbers.
var x264Presets = []string{"ultrafast", "superfast", "veryfast", "faster", "fast", "medium", "slow", "slower", "veryslow", "placebo"}

// Check refuses a codec, quality or preset that the encoder does not have, before anything is encoded. Zero values are its defaults.
func (o EncodeOptions) Check() error {
	most := 51
	switch o.Codec {
	case "", H264:
		if o.Preset != "" && !slices.Contains(x264Presets, o.Preset) {
			return fmt.Errorf("preset %q: %s has %s", o.Preset, H264, strings.Join(x264Presets, ", "))
		}
	case AV1:
		most = 63
		if n, err := strconv.Atoi(o.Preset); o.Preset != "" && (err != nil || n < 0 || n > 13) {
			return fmt.Errorf("preset %q: %s has 0 to 13", o.Preset, AV1)
		}
	default:
		return fmt.Errorf("codec %q can not be written; choose %s or %s", o.Codec, H264, AV1)
	}
	if o.CRF < 0 || o.CRF > most {
		return fmt.Errorf("constant rate factor %d: want 1 to %d, or 0 for the default", o.CRF, most)
	}
	return nil
}
