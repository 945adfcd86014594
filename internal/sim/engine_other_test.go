//go:build !mujoco || !cgo

package sim

import (
	"errors"
	"testing"
)

func TestNewWithoutMuJoCo(t *testing.T) {
	if _, err := New(Config{Mode: ModeRobot}); !errors.Is(err, ErrNotBuilt) {
		t.Errorf("error %v, want ErrNotBuilt", err)
	}
}
