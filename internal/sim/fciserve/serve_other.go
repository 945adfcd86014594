//go:build !linux

package fciserve

import (
	"context"
	"errors"
)

// Serve runs the arms; only Linux has the timers it needs.
func Serve(context.Context, Options) error {
	return errors.New("simulated arms are served on Linux only")
}
