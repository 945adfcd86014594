package repair

import (
	"fmt"
	"math"
	"slices"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/dataset/internal/survey"
)

// planStats computes the statistics of every episode and of all: numbers from the rows, pictures from the stored statistics where
// those are plausible and from the pictures where not.
func (m *mender) planStats() error {
	for _, e := range m.episodes {
		e.stats = map[string]dataset.Stats{}
	}
	m.stats = map[string]dataset.Stats{}
	for n, d := range m.features {
		if err := m.ctx.Err(); err != nil {
			return err
		}
		var err error
		switch {
		case d.DType.Numeric():
			err = m.numberStats(d)
		case d.DType == dataset.Video:
			err = m.pictureStats(d)
		}
		if err != nil {
			return err
		}
		m.progress("statistics", n+1, len(m.features))
	}
	return nil
}

// numberStats computes the statistics of a numeric feature. Stored ones that agree are kept as they are.
func (m *mender) numberStats(d dataset.Feature) error {
	var all []float64
	stale := false
	for _, e := range m.episodes {
		v, err := m.floats(d, e)
		if err != nil {
			m.left("statistics of %q: %v", d.Name, err)
			return nil
		}
		s := dataset.ColumnStats(v, d.Dim())
		if have, ok := e.src.Stats[d.Name]; !ok || !agree(have, s) {
			stale = true
		} else if len(have.Q01) == d.Dim() && len(have.Q99) == d.Dim() && !e.fresh {
			s = have
		}
		e.stats[d.Name] = s
		all = append(all, v...)
	}
	m.stats[d.Name] = dataset.ColumnStats(all, d.Dim())
	if stale && !isDefault(d.Name) {
		m.did("statistics of episodes computed from the rows")
	}
	return nil
}

// floats are the numbers of an episode as they will be.
func (m *mender) floats(d dataset.Feature, e *episode) ([]float64, error) {
	out := make([]float64, 0, e.rows*d.Dim())
	k := 0
	for _, s := range e.segs {
		if isDefault(d.Name) {
			for r := s.lo; r < s.hi; r++ {
				out = append(out, m.defaultValue(d.Name, e, s, r, k))
				k++
			}
			continue
		}
		v, err := m.readSegment(d, s)
		if err != nil {
			return nil, err
		}
		f, ok := survey.Floats(v)
		if !ok {
			return nil, fmt.Errorf("%T is no list of numbers", v)
		}
		if slices.ContainsFunc(f, func(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) }) {
			return nil, fmt.Errorf("episode %d holds NaN or infinity: drop or mend these rows", e.old)
		}
		out = append(out, f...)
	}
	return out, nil
}

func (m *mender) defaultValue(name string, e *episode, s segment, row, k int) float64 {
	switch name {
	case dataset.Timestamp:
		return float64(float32(float64(k) / m.set.Info.FPS))
	case dataset.FrameIndex:
		return float64(k)
	case dataset.EpisodeIndex:
		return float64(e.index)
	case dataset.Index:
		return float64(e.from + k)
	}
	return float64(m.newTask(e, s, row))
}

// agree compares stored statistics with those of the rows, to a hundredth of the range.
func agree(have, got dataset.Stats) bool {
	if have.Count != got.Count {
		return false
	}
	for _, part := range []string{"min", "max", "mean", "std"} {
		a, b := *survey.Part(&have, part), *survey.Part(&got, part)
		if len(a) != len(b) {
			return false
		}
		for d := range a {
			if span := got.Max[d] - got.Min[d]; !(math.Abs(a[d]-b[d]) <= 0.01*span+1e-6*math.Abs(b[d])+1e-12) {
				return false
			}
		}
	}
	return true
}

// pictureStats takes the stored statistics of a camera's episodes, or computes them.
func (m *mender) pictureStats(d dataset.Feature) error {
	var parts []dataset.Stats
	for i, e := range m.episodes {
		s, ok := e.src.Stats[d.Name]
		if !ok || !plausible(s) || e.fresh {
			c := e.clips[d.Name]
			var err error
			if s, err = dataset.PictureStats(m.ctx, m.set.Abs(c.found), c.first, e.rows); err != nil {
				if m.ctx.Err() != nil {
					return m.ctx.Err()
				}
				return fmt.Errorf("statistics of %q in episode %d: %w", d.Name, e.old, err)
			}
			m.did("statistics of %q computed from the pictures", d.Name)
			m.progress("pictures of "+d.Name, i+1, len(m.episodes))
		}
		e.stats[d.Name] = s
		parts = append(parts, s)
	}
	m.stats[d.Name] = dataset.MergePictureStats(parts)
	return nil
}

// plausible tells statistics that pictures can have: three channels, all parts, in 0..1, and more contrast than five grey levels.
func plausible(s dataset.Stats) bool {
	for _, part := range survey.StatNames {
		if p := survey.Part(&s, part); p != nil && (len(*p) != 3 || slices.ContainsFunc(*p, func(x float64) bool { return !(x >= 0 && x <= 1.001) })) {
			return false
		}
	}
	return s.Count > 0 && slices.Max(s.Std) >= 0.02
}
