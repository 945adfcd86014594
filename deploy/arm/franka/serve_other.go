//go:build !linux

package franka

import (
	"context"
	"errors"
)

// Serve runs the process of one arm; only Linux has the scheduling it needs.
func Serve(context.Context, Options) error {
	return errors.New("the process of a Franka arm runs on Linux only")
}
