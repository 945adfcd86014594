package policy

import (
	"errors"
	"strings"
	"testing"
)

// What can not fit is refused with the keys to lower, before the runtime ends the program; what fits is not.
func TestTooLargeIsRefusedWithTheKeysToLower(t *testing.T) {
	old := machineMemory
	defer func() { machineMemory = old }()
	machineMemory = func() float64 { return 16e9 }
	o := func(f func(*PresetOptions)) Spec {
		p := PresetOptions{}
		f(&p)
		s, err := Preset(PresetUMI, umiFeatures, 30, p)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	plain := o(func(*PresetOptions) {})
	for name, c := range map[string]struct {
		spec         Spec
		dim          int
		batch, draws int
		word         string
	}{
		"batch":      {plain, 64, 100_000_000, 8, "batch (100000000)"},
		"draws":      {plain, 64, 1, 100_000_000, "draws (100000000)"},
		"horizon":    {o(func(p *PresetOptions) { p.Horizon = 100_000 }), 64, 64, 8, "horizon (100000)"},
		"max_tokens": {o(func(p *PresetOptions) { p.MaxTokens = 1_000_000 }), 64, 2, 1, "max_tokens (1000000)"},
		"dim":        {plain, 40_000, 1, 1, "widths or depths"},
	} {
		a := Architectures["tiny"]
		a.Dim = c.dim
		_, err := BuildTraining(c.spec, a, c.batch, c.draws)
		if !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), c.word) {
			t.Errorf("%s: got %v, want ErrTooLarge naming %q", name, err, c.word)
		}
	}
	if _, err := NewParams(plain, Architecture{}, 1); errors.Is(err, ErrTooLarge) {
		t.Errorf("an empty architecture is wrong, not large: %v", err)
	}
	for _, batch := range []int{64, 2048} { // the tiny policy at batch 64 runs in half a gigabyte
		if err := checkMemory(plain, Architectures["tiny"], batch, 8); err != nil {
			t.Errorf("batch %d: %v", batch, err)
		}
	}
}
