//go:build !libav

package video

// RandomAccess tells whether Reader decodes any frame directly (build tag libav) or by decoding from the start.
const RandomAccess = false

func openDecoder(path string, info Info, width, height int) (decoder, error) {
	return newCLIDecoder(path, info, width, height), nil
}
