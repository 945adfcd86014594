package loader

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pinch-robotics/pinch/internal/config"
)

// Mixture names the datasets that a run learns from. As a file:
//
//	version: 1
//	sets:
//	- path: /data/pick/*          # a folder, a pattern of folders, or s3://bucket/prefix; relative to this file
//	  weight: 2                   # default 1
//	  filter: [{field: success, in: [true]}]
//	- path: s3://demos/laundry
//	size_power: 0.5               # share of a set = weight * windows^size_power; default 1: each window counts the same
//	filter: [{field: length, min: 30}]   # for every set
//	split: {share: 0.02, seed: 7} # episodes held out
type Mixture struct {
	Version int    `yaml:"version"`
	Sets    []Set  `yaml:"sets"`
	Filter  Filter `yaml:"filter"`
	// SizePower p makes the share of a set proportional to weight * windows^p: 1 counts windows, 0 sets.
	SizePower float64 `yaml:"size_power"`
	Split     Holdout `yaml:"split"`
}

// Set is one dataset of a mixture, or with a pattern in Path several that are alike.
type Set struct {
	Path   string  `yaml:"path"`
	Weight float64 `yaml:"weight"`
	Filter Filter  `yaml:"filter"`
}

// mixtureVersion is the version of the file's format.
const mixtureVersion = 1

// Single is the mixture of one dataset.
func Single(path string) Mixture {
	return Mixture{Version: mixtureVersion, Sets: []Set{{Path: path, Weight: 1}}, SizePower: 1}
}

// ReadMixture reads a mixture file. Patterns are resolved and sorted; a pattern without a match is an error.
func ReadMixture(path string) (Mixture, error) {
	m := Mixture{SizePower: 1}
	if err := config.Load(path, &m); err != nil {
		return Mixture{}, err
	}
	var sets []Set
	for _, s := range m.Sets {
		if s.Weight == 0 {
			s.Weight = 1
		}
		found, err := resolve(filepath.Dir(path), s.Path)
		if err != nil {
			return Mixture{}, fmt.Errorf("%s: %w", path, err)
		}
		for _, p := range found {
			sets = append(sets, Set{Path: p, Weight: s.Weight, Filter: s.Filter})
		}
	}
	m.Sets = sets
	return m, nil
}

// Validate checks what does not need the datasets.
func (m *Mixture) Validate() error {
	if m.Version != mixtureVersion {
		return fmt.Errorf("version: %d: this program reads version %d", m.Version, mixtureVersion)
	}
	if len(m.Sets) == 0 {
		return fmt.Errorf("sets: none is named")
	}
	for i, s := range m.Sets {
		if s.Path == "" {
			return fmt.Errorf("sets.%d.path: no dataset is named", i)
		}
		if !(s.Weight >= 0) || math.IsInf(s.Weight, 0) {
			return fmt.Errorf("sets.%d.weight: %v: want a positive number", i, s.Weight)
		}
		if err := s.Filter.check(); err != nil {
			return fmt.Errorf("sets.%d.filter: %w", i, err)
		}
	}
	if !(m.SizePower >= 0 && m.SizePower <= 4) {
		return fmt.Errorf("size_power: %v: want 0 to 4", m.SizePower)
	}
	if err := m.Filter.check(); err != nil {
		return fmt.Errorf("filter: %w", err)
	}
	return m.Split.check()
}

// resolve finds the datasets that a path of a mixture file in folder dir means.
func resolve(dir, path string) ([]string, error) {
	if strings.HasPrefix(path, s3Scheme) {
		return []string{path}, nil
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	if !strings.ContainsAny(path, "*?[") {
		return []string{path}, nil
	}
	found, err := filepath.Glob(filepath.Join(path, "meta", "info.json"))
	if err != nil {
		return nil, fmt.Errorf("pattern %s: %w", path, err)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("pattern %s matches no dataset", path)
	}
	for i, p := range found {
		found[i] = filepath.Dir(filepath.Dir(p))
	}
	slices.Sort(found)
	return found, nil
}
