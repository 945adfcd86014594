//go:build !opencv

package imaging

// Decoder names the JPEG decoder of this build: "go" or "opencv".
const Decoder = "go"

func decodeJPEG(data []byte) (RGB, error) { return decodeJPEGGo(data) }
