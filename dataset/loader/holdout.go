package loader

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// Holdout is a split into training and validation that stays as it is while data grows: whether an episode is held out depends on
// the seed and the episode's identity alone, never on its number or on other episodes. The same episode in two sets falls on
// the same side.
type Holdout struct {
	// Share of the episodes that is held out, 0 to below 1. Each episode is drawn by itself, so a small set may miss it.
	Share float64 `yaml:"share"`
	Seed  uint64  `yaml:"seed"`
}

// Part of a split.
type Part string

// The parts; All is both.
const (
	All   Part = "all"
	Train Part = "train"
	Val   Part = "val"
)

func (h Holdout) check() error {
	if !(h.Share >= 0 && h.Share < 1) {
		return fmt.Errorf("split.share: %v: want 0 or more and less than 1", h.Share)
	}
	return nil
}

// Holds reports whether the episode of that identity is held out: the first eight bytes of SHA-256 over seed and identity, as a
// fraction, lie below the share. A greater share holds the same episodes and more.
func (h Holdout) Holds(identity string) bool {
	sum := sha256.Sum256(append(binary.LittleEndian.AppendUint64(nil, h.Seed), identity...))
	return float64(binary.LittleEndian.Uint64(sum[:])>>11)/(1<<53) < h.Share
}

// takes reports whether the episode belongs to the part.
func (h Holdout) takes(part Part, identity string) bool {
	return part == All || h.Holds(identity) == (part == Val)
}
