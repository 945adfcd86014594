package repair

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/dataset/internal/pq"
)

// planData decides for each data file of the result whether it stays, moves or is written anew.
func (m *mender) planData() error {
	byPath := map[string][]*episode{}
	var order []string
	for _, e := range m.episodes {
		if byPath[e.path] == nil {
			order = append(order, e.path)
		}
		byPath[e.path] = append(byPath[e.path], e)
	}
	used := map[string]bool{}
	for _, path := range order {
		episodes := byPath[path]
		from := episodes[0].segs[0].file
		for _, e := range episodes {
			for _, s := range e.segs {
				used[s.file.path] = true
			}
		}
		why := m.reasons(episodes, from)
		switch {
		case len(why) > 0:
			if err := m.writable(episodes); err != nil {
				return fmt.Errorf("%s has to be written anew (%s), but: %w", from.path, strings.Join(why, ", "), err)
			}
			m.did("rows written anew: %s", strings.Join(why, ", "))
			m.write(path, func(w io.Writer) error { return m.writeRows(w, episodes) })
			if path != from.path {
				m.replaced(from.path)
			}
		case path != from.path:
			m.did("%s moved to %s", from.path, path)
			m.move(from.path, path)
		}
	}
	for _, f := range m.files {
		if !used[f.path] {
			m.did("%s put aside: no episode that is kept lies in it", f.path)
			m.aside(f.path)
		}
	}
	return nil
}

// reasons says why a file has to be written anew; nothing when it can stay.
func (m *mender) reasons(episodes []*episode, from *dataFile) []string {
	var why []string
	because := func(text string) {
		if !slices.Contains(why, text) {
			why = append(why, text)
		}
	}
	at := 0
	for _, e := range episodes {
		if len(e.segs) != 1 || e.segs[0].file != from || e.segs[0].lo != at {
			because("rows were left out or moved")
			continue
		}
		at = e.segs[0].hi
		m.indexReasons(e, because)
	}
	if at != from.rows {
		because("rows were left out or moved")
	}
	if len(from.extra) > 0 {
		because("columns that are no features dropped: " + strings.Join(from.extra, ", "))
	}
	for _, name := range from.wrong {
		because("column " + name + " stored as its shape says")
	}
	for _, d := range m.stored() {
		if _, ok := from.columns[d.Name]; !ok && isDefault(d.Name) {
			because("column " + d.Name + " made anew")
		}
	}
	return why
}

// timeTolerance is how far a row time may lie from frame_index / fps, in seconds: the official loader's.
const timeTolerance = 1e-4

func (m *mender) indexReasons(e *episode, because func(string)) {
	s := e.segs[0]
	f := s.file
	for r := s.lo; r < s.hi; r++ {
		k := r - s.lo
		if f.frame == nil || f.frame[r] != float64(k) {
			because("frame_index counted anew")
		}
		if f.epi[r] != float64(e.index) {
			because("episode_index counted anew")
		}
		if f.index == nil || f.index[r] != float64(e.from+k) {
			because("index counted anew")
		}
		if f.time == nil || !(math.Abs(f.time[r]-float64(k)/m.set.Info.FPS) <= timeTolerance) {
			because("timestamp set to frame_index / fps")
		}
		if f.task == nil || f.task[r] != float64(m.newTask(e, s, r)) {
			because("task_index corrected")
		}
	}
}

func (m *mender) newTask(e *episode, s segment, row int) int { return m.taskOf[m.taskAt(e, s, row)] }

// writable reads every column of the episodes once, so that nothing is begun that can not be finished.
func (m *mender) writable(episodes []*episode) error {
	for _, e := range episodes {
		for _, s := range e.segs {
			for _, d := range m.stored() {
				if _, ok := s.file.columns[d.Name]; !ok && !isDefault(d.Name) {
					return fmt.Errorf("feature %q has no column in %s", d.Name, s.file.path)
				}
			}
		}
	}
	_, err := m.columnsOf(episodes)
	return err
}

// columnsOf reads the features of some episodes.
func (m *mender) columnsOf(episodes []*episode) (map[string]any, error) {
	out := map[string]any{}
	for _, d := range m.stored() {
		if isDefault(d.Name) {
			continue
		}
		var all any
		for _, e := range episodes {
			for _, s := range e.segs {
				v, err := m.readSegment(d, s)
				if err != nil {
					return nil, err
				}
				if all, err = concat(all, v, d); err != nil {
					return nil, err
				}
			}
		}
		out[d.Name] = all
	}
	return out, nil
}

func (m *mender) readSegment(d dataset.Feature, s segment) (any, error) {
	p, err := m.openData(s.file.path)
	if err != nil {
		return nil, err
	}
	return rowsOf(p, d, []segment{s})
}

func concat(all, v any, d dataset.Feature) (any, error) {
	if p, ok := v.(pq.Pictures); ok {
		if have, ok := all.(pq.Pictures); ok {
			p = pq.Pictures{Bytes: append(have.Bytes, p.Bytes...), Paths: append(have.Paths, p.Paths...)}
		}
		return p, nil
	}
	return join(all, v, d)
}

// openData keeps the last file open, as features are read one after the other.
func (m *mender) openData(path string) (*pq.File, error) {
	if m.open != nil && m.openPath == path {
		return m.open, nil
	}
	if m.open != nil {
		m.open.Close()
	}
	p, err := pq.Open(m.set.Abs(path))
	m.open, m.openPath = p, path
	return p, err
}

// writeRows writes the rows of some episodes with new index columns.
func (m *mender) writeRows(w io.Writer, episodes []*episode) error {
	columns, err := m.columnsOf(episodes)
	if err != nil {
		return err
	}
	var at []float32
	var frame, epi, index, task []int64
	for _, e := range episodes {
		k := 0
		for _, s := range e.segs {
			for r := s.lo; r < s.hi; r++ {
				at = append(at, float32(float64(k)/m.set.Info.FPS))
				frame, epi = append(frame, int64(k)), append(epi, int64(e.index))
				index, task = append(index, int64(e.from+k)), append(task, int64(m.newTask(e, s, r)))
				k++
			}
		}
	}
	columns[dataset.Timestamp], columns[dataset.FrameIndex], columns[dataset.EpisodeIndex] = at, frame, epi
	columns[dataset.Index], columns[dataset.TaskIndex] = index, task
	return dataset.WriteRows(w, m.features, len(at), columns)
}
