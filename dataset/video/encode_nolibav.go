//go:build !libav

package video

import (
	"context"
	"errors"
)

const nativeEncoder = false

func newNative(context.Context, string, EncodeOptions) (coder, error) {
	return nil, errors.New("this program is built without libav")
}
