// Package edit changes datasets: it takes episodes out, splits, merges, picks, renames, adds and removes, encodes anew, converts and
// compacts. Every operation is a dataset.Plan: which episodes, which features, from where; dataset.Rebuild carries it out, so all share
// its promises: rows and pictures that do not change are copied as encoded, sources are untouched unless the edit is asked for in
// place, the result appears whole or not at all, an interrupted run goes on when it is repeated, and the identity stays right.
//
//	res, err := edit.Delete(ctx, "cups", []int{7}, edit.Target{Path: "cups"})  // in place
//	res, err := edit.Merge(ctx, []string{"cups", "plates"}, edit.Target{Path: "both"})
package edit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pinch-robotics/pinch/dataset"
)

// Target says where the result goes.
type Target struct {
	// Path of the result: a new folder, or the source's own with InPlace.
	Path    string
	InPlace bool
	// Progress and Logger are those of dataset.RebuildOptions.
	Progress func(what string, done, total int)
	Logger   *slog.Logger
}

// Result is what dataset.Rebuild says.
type Result = dataset.RebuildResult

func (t Target) rebuild(ctx context.Context, p dataset.Plan) (*Result, error) {
	return dataset.Rebuild(ctx, t.Path, p, dataset.RebuildOptions{InPlace: t.InPlace, Progress: t.Progress, Logger: t.Logger})
}

// apply opens a dataset, starts from the plan that keeps everything, and carries out what change makes of it.
func apply(ctx context.Context, src string, t Target, change func(d *dataset.Dataset, p *dataset.Plan) error) (*Result, error) {
	d, err := dataset.Open(src)
	if err != nil {
		return nil, err
	}
	p := dataset.Keep(d)
	if d.Info().CodebaseVersion == "v2.1" {
		p.Version = "v2.1" // an edit does not change the format; Convert does
	}
	if err := change(d, &p); err != nil {
		return nil, fmt.Errorf("edit %s: %w", src, err)
	}
	return t.rebuild(ctx, p)
}

// known refuses numbers of episodes that are not there, and those named twice.
func known(d *dataset.Dataset, episodes []int) error {
	seen := map[int]bool{}
	for _, e := range episodes {
		if _, err := d.Episode(e); err != nil {
			return err
		}
		if seen[e] {
			return fmt.Errorf("episode %d is named twice", e)
		}
		seen[e] = true
	}
	if len(episodes) == 0 {
		return errors.New("no episodes are named")
	}
	return nil
}

// Delete leaves episodes out; those behind them move up.
func Delete(ctx context.Context, src string, episodes []int, t Target) (*Result, error) {
	return apply(ctx, src, t, func(d *dataset.Dataset, p *dataset.Plan) error {
		if err := known(d, episodes); err != nil {
			return err
		}
		gone := map[int]bool{}
		for _, e := range episodes {
			gone[e] = true
		}
		p.Episodes = slices.DeleteFunc(p.Episodes, func(e dataset.PlanEpisode) bool { return gone[e.Index] })
		return nil
	})
}

// Extract keeps only these episodes, in this order, as they are. (dataset.Extract also corrects what is wrong in the source.)
func Extract(ctx context.Context, src string, episodes []int, t Target) (*Result, error) {
	return apply(ctx, src, t, func(d *dataset.Dataset, p *dataset.Plan) error {
		if err := known(d, episodes); err != nil {
			return err
		}
		p.Episodes = nil
		for _, e := range episodes {
			p.Episodes = append(p.Episodes, dataset.PlanEpisode{From: d, Index: e})
		}
		return nil
	})
}

// Filter keeps the episodes that meet all conditions (see ParseCondition).
func Filter(ctx context.Context, src string, conditions []Condition, t Target) (*Result, error) {
	return apply(ctx, src, t, func(d *dataset.Dataset, p *dataset.Plan) error {
		p.Episodes = nil
		for e := range d.All() {
			keep := true
			for _, c := range conditions {
				ok, err := c.holds(e, d.Info().FPS)
				if err != nil {
					return err
				}
				keep = keep && ok
			}
			if keep {
				p.Episodes = append(p.Episodes, dataset.PlanEpisode{From: d, Index: e.Index})
			}
		}
		if len(p.Episodes) == 0 {
			return errors.New("no episode meets the conditions")
		}
		return nil
	})
}

// Part is one result of Split.
type Part struct {
	Name     string
	Episodes []int
}

// Fractions divides n episodes in order into parts of about these shares, which may not exceed 1; the last part of shares that add up
// to 1 takes the rest.
func Fractions(n int, names []string, shares []float64) ([]Part, error) {
	var parts []Part
	at, sum := 0, 0.0
	for i, s := range shares {
		sum += s
		if s <= 0 || sum > 1+1e-9 {
			return nil, fmt.Errorf("share %v of %q: shares are positive and add up to at most 1", s, names[i])
		}
		end := int(sum*float64(n) + 0.5)
		if i == len(shares)-1 && sum > 1-1e-9 {
			end = n
		}
		p := Part{Name: names[i]}
		for ; at < end; at++ {
			p.Episodes = append(p.Episodes, at)
		}
		if len(p.Episodes) == 0 {
			return nil, fmt.Errorf("share %v of %d episodes for %q is none", s, n, names[i])
		}
		parts = append(parts, p)
	}
	return parts, nil
}

// Split makes one dataset for each part in folders of these names inside t.Path. No episode may be in two parts.
func Split(ctx context.Context, src string, parts []Part, t Target) (map[string]*Result, error) {
	seen := map[int]string{}
	for _, p := range parts {
		if !filepath.IsLocal(p.Name) || strings.ContainsAny(p.Name, `/\`) {
			return nil, fmt.Errorf("split %s: %q is no name for a folder", src, p.Name)
		}
		for _, e := range p.Episodes {
			if other, twice := seen[e]; twice {
				return nil, fmt.Errorf("split %s: episode %d is in %q and in %q", src, e, other, p.Name)
			}
			seen[e] = p.Name
		}
	}
	if t.InPlace {
		return nil, fmt.Errorf("split %s: a split can not be made in place", src)
	}
	out := map[string]*Result{}
	for _, p := range parts {
		u := t
		u.Path = filepath.Join(t.Path, p.Name)
		res, err := Extract(ctx, src, p.Episodes, u)
		if err != nil {
			return out, err
		}
		out[p.Name] = res
	}
	return out, nil
}

// Merge puts datasets one after the other. They must have one rate, one kind of robot and the same features; the first one's order
// and names of elements count.
func Merge(ctx context.Context, sources []string, t Target) (*Result, error) {
	var p dataset.Plan
	var first *dataset.Dataset
	for i, src := range sources {
		d, err := dataset.Open(src)
		if err != nil {
			return nil, err
		}
		q := dataset.Keep(d)
		if i == 0 {
			p, first = q, d
			continue
		}
		if err := mergeable(first, d); err != nil {
			return nil, fmt.Errorf("merge %s with %s: %w", sources[0], src, err)
		}
		p.Episodes = append(p.Episodes, q.Episodes...)
	}
	if len(sources) < 2 {
		return nil, errors.New("merge: name at least two datasets")
	}
	return t.rebuild(ctx, p)
}

// mergeable says in what two datasets differ.
func mergeable(a, b *dataset.Dataset) error {
	i, j := a.Info(), b.Info()
	switch {
	case i.FPS != j.FPS:
		return fmt.Errorf("%d and %d rows per second", i.FPS, j.FPS)
	case i.RobotType != j.RobotType:
		return fmt.Errorf("robot types %q and %q", i.RobotType, j.RobotType)
	case len(i.Features) != len(j.Features):
		return fmt.Errorf("features differ: %s; remove or add them first", strings.Join(difference(i.Features, j.Features), ", "))
	}
	for _, f := range i.Features {
		g, err := b.Feature(f.Name)
		if err != nil {
			return fmt.Errorf("features differ: %s; remove or add them first", strings.Join(difference(i.Features, j.Features), ", "))
		}
		if f.DType != g.DType || !slices.Equal(f.Shape, g.Shape) {
			return fmt.Errorf("feature %q is %s%v and %s%v", f.Name, f.DType, f.Shape, g.DType, g.Shape)
		}
		if !f.DType.Visual() && len(f.Names) == len(g.Names) && !slices.Equal(f.Names, g.Names) {
			return fmt.Errorf("feature %q has the elements %v and %v: bring them into one order (pinch dataset remap)", f.Name, f.Names, g.Names)
		}
		for _, key := range []string{"video.codec", "video.pix_fmt"} {
			if x, y := f.Info[key], g.Info[key]; x != nil && y != nil && x != y {
				return fmt.Errorf("video %q has %s %v and %v: encode one of them anew (pinch dataset reencode)", f.Name, key, x, y)
			}
		}
	}
	return nil
}

func difference(a, b []dataset.Feature) []string {
	names := map[string]int{}
	for _, f := range a {
		names[f.Name]++
	}
	for _, f := range b {
		names[f.Name]--
	}
	maps.DeleteFunc(names, func(_ string, n int) bool { return n == 0 })
	return slices.Sorted(maps.Keys(names))
}

// Convert brings a dataset into another version of the format ("v3.0" or "v2.1").
func Convert(ctx context.Context, src, version string, t Target) (*Result, error) {
	return apply(ctx, src, t, func(_ *dataset.Dataset, p *dataset.Plan) error {
		p.Version, p.Pack = version, version != "v2.1"
		return nil
	})
}

// Compact fills data files up to 100 MiB and videos up to 200 MiB, LeRobot's sizes for rolling over. Nothing but the files changes.
func Compact(ctx context.Context, src string, t Target) (*Result, error) {
	return apply(ctx, src, t, func(_ *dataset.Dataset, p *dataset.Plan) error {
		p.Pack, p.Version = true, ""
		return nil
	})
}

// Recompute makes all statistics and content hashes anew, those of pictures from a sample of decoded frames.
func Recompute(ctx context.Context, src string, t Target) (*Result, error) {
	return apply(ctx, src, t, func(_ *dataset.Dataset, p *dataset.Plan) error {
		p.Recompute = true
		return nil
	})
}
