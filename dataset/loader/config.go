package loader

import (
	"fmt"
	"log/slog"
	"runtime"
	"slices"

	"github.com/pinch-robotics/pinch/internal/imaging"
)

// Columns asks for a numeric feature at frames t+offset of each window; t is the frame that the window belongs to.
type Columns struct {
	Feature string
	// Offsets in frames from the window's frame, in any order; nil means {0}.
	Offsets []int
}

// Images asks for a camera at frames t+offset, in a geometry.
type Images struct {
	Feature  string
	Geometry imaging.Geometry
	Offsets  []int // as in Columns
}

// Config says what a Loader delivers.
type Config struct {
	Columns []Columns
	Images  []Images
	// Batch is the number of windows in one batch of this rank.
	Batch int
	// Seed of order and augmentation.
	Seed uint64
	// Part of the mixture's split; default All.
	Part Part
	// Rank of World processes that train together: each gets its slice of the same global batches. Default 0 of 1.
	Rank, World int
	// Workers make batches at a time; default one per processor. Ahead is how many may wait for the consumer; default 2.
	Workers, Ahead int
	// DropFirst and DropLast leave out windows at the frames at an episode's start and end.
	DropFirst, DropLast int
	// Augment changes pictures; the zero value changes nothing. Each sample and camera draws once, for all of its frames.
	Augment Augment
	// CacheDir holds column stores and decoded frames; empty means a folder <dataset>.cache beside each dataset (for buckets, the
	// user's cache folder).
	CacheDir string
	// FrameCache is how many bytes of decoded frames may lie on disk below a cache folder; 0 makes none.
	FrameCache int64
	Logger     *slog.Logger
	// Progress tells how far a set's columns are when they are made. Calls of several sets may overlap. May be nil.
	Progress func(set string, done, total int)
}

func (c Config) progress(set string) func(done, total int) {
	if c.Progress == nil {
		return nil
	}
	return func(done, total int) { c.Progress(set, done, total) }
}

// maxOffset bounds offsets: an hour at 100 Hz.
const maxOffset = 360_000

func (c Config) fill() (Config, error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Part == "" {
		c.Part = All
	}
	if c.World == 0 {
		c.World = 1
	}
	if c.Workers <= 0 {
		c.Workers = runtime.GOMAXPROCS(0)
	}
	if c.Ahead <= 0 {
		c.Ahead = 2
	}
	switch {
	case c.Batch < 1:
		return c, fmt.Errorf("batch of %d windows: want 1 or more", c.Batch)
	case c.Rank < 0 || c.Rank >= c.World:
		return c, fmt.Errorf("rank %d of %d", c.Rank, c.World)
	case c.Part != All && c.Part != Train && c.Part != Val:
		return c, fmt.Errorf("part %q: want %s, %s or %s", c.Part, All, Train, Val)
	case c.DropFirst < 0 || c.DropLast < 0:
		return c, fmt.Errorf("leaving out %d and %d frames: want 0 or more", c.DropFirst, c.DropLast)
	case len(c.Columns) == 0 && len(c.Images) == 0:
		return c, fmt.Errorf("no feature is asked for")
	}
	c.Columns, c.Images = slices.Clone(c.Columns), slices.Clone(c.Images)
	for i := range c.Columns {
		if err := fillOffsets(c.Columns[i].Feature, &c.Columns[i].Offsets); err != nil {
			return c, err
		}
	}
	for i := range c.Images {
		if err := fillOffsets(c.Images[i].Feature, &c.Images[i].Offsets); err != nil {
			return c, err
		}
		if err := c.Images[i].Geometry.Check(); err != nil {
			return c, fmt.Errorf("feature %q: %w", c.Images[i].Feature, err)
		}
	}
	return c, nil
}

func fillOffsets(feature string, offsets *[]int) error {
	if len(*offsets) == 0 {
		*offsets = []int{0}
	}
	for _, o := range *offsets {
		if o < -maxOffset || o > maxOffset {
			return fmt.Errorf("feature %q: offset of %d frames is not plausible", feature, o)
		}
	}
	return nil
}

func (im Images) bytes() int { return im.Geometry.Width * im.Geometry.Height * 3 }
