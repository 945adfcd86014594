package faultplant

import (
	"bytes"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/dataset/internal/pq"
)

// taskKinds are wrong instructions.
var taskKinds = []Kind{
	{"task-number-unknown", "tasks", "The rows' task_index is beyond the list of tasks: it was added to in one file and not in the other.", func(s *site) error {
		k := len(s.p.d.Tasks()) + s.rng.IntN(3)
		s.at(0, s.n, dataset.TaskIndex, "task_index %d of %d tasks", k, len(s.p.d.Tasks()))
		s.recorded = true
		return s.constant(dataset.TaskIndex, int64(k))
	}},
	{"task-list-other", "tasks", "The episode's list of tasks names another task than its rows do: texts were looked up by position (lerobot-dataset-visualizer #61).", func(s *site) error {
		others := slices.DeleteFunc(slices.Clone(s.p.d.Tasks()), func(t string) bool { return slices.Contains(s.ep.Tasks, t) })
		if len(others) == 0 {
			return errNowhere
		}
		task := others[s.rng.IntN(len(others))]
		s.at(0, s.n, "", "%q instead of %q", task, s.ep.Tasks)
		s.setTable("tasks", []string{task})
		return nil
	}},
	{"task-text-empty", "tasks", "The episode's instruction is an empty text (labels are not checked when recording: yubi facts 1.10).", func(s *site) error {
		return s.newTask("")
	}},
	{"task-text-placeholder", "tasks", "The episode's instruction is a placeholder that nobody filled in (the recorder ships such texts: yubi facts 1.2).", func(s *site) error {
		return s.newTask([]string{"TODO", "<task>", "test", "task description"}[s.rng.IntN(4)])
	}},
}

// newTask gives the episode a task of its own, consistently.
func (s *site) newTask(text string) error {
	rel := "meta/tasks.parquet"
	tasks, err := s.tasks()
	if err != nil {
		return err
	}
	k := slices.Index(tasks, text)
	if k < 0 {
		k = len(tasks)
		tasks = append(tasks, text)
		if err := s.write(rel, func(w io.Writer) error { return dataset.WriteTasks(w, tasks) }); err != nil {
			return err
		}
		if err := s.edit("meta/info.json", func(b []byte) []byte { return countTasks(b, len(tasks)) }); err != nil {
			return err
		}
	}
	s.at(0, s.n, dataset.TaskIndex, "the text %q", text)
	s.setTable("tasks", []string{text})
	s.recorded = true
	return s.constant(dataset.TaskIndex, int64(k))
}

// tasks reads the texts as they are by now.
func (s *site) tasks() ([]string, error) {
	f, err := pq.Open(s.path("meta/tasks.parquet"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for _, name := range []string{"__index_level_0__", "task"} {
		if f.Has(name) {
			c, err := f.Read(name, 0, f.Rows())
			if err != nil {
				return nil, err
			}
			v, _ := c.Values.([]string)
			return slices.Clone(v), nil
		}
	}
	return nil, errNowhere
}

// countTasks sets total_tasks in the text of info.json.
func countTasks(b []byte, n int) []byte {
	key := []byte(`"total_tasks": `)
	i := bytes.Index(b, key)
	if i < 0 {
		return b
	}
	i += len(key)
	end := i + bytes.IndexAny(b[i:], ",\n}")
	return slices.Concat(b[:i], strconv.AppendInt(nil, int64(n), 10), b[end:])
}

// statisticsKinds are statistics in the table that are not those of the rows.
var statisticsKinds = []Kind{
	{"stats-of-other-episode", "statistics", "The statistics of all numbers are those of another episode: an edit renumbered rows and left them (lerobot #4276).", func(s *site) error {
		other, err := s.otherEpisode()
		if err != nil {
			return err
		}
		stats, err := s.p.d.EpisodeStats(other)
		if err != nil {
			return err
		}
		for _, feature := range s.p.d.Features() {
			if x, ok := stats[feature.Name]; ok && feature.DType.Numeric() {
				s.setStats(feature, x)
			}
		}
		s.at(0, s.n, "", "those of episode %d", other)
		return nil
	}},
	{"stats-indices-stale", "statistics", "The statistics of index and episode_index are those before a merge shifted the columns (lerobot #4276).", func(s *site) error {
		if s.ep.FromIndex == 0 {
			return errNowhere
		}
		stats, err := s.p.d.EpisodeStats(s.ep.Index)
		if err != nil {
			return err
		}
		for name, shift := range map[string]float64{dataset.Index: float64(s.ep.FromIndex), dataset.EpisodeIndex: float64(s.ep.Index)} {
			f, err := s.feature(name)
			if err != nil {
				return err
			}
			x, ok := stats[name]
			if !ok {
				return errNowhere
			}
			for _, v := range []*[]float64{&x.Min, &x.Max, &x.Mean, &x.Q01, &x.Q10, &x.Q50, &x.Q90, &x.Q99} {
				*v = slices.Clone(*v)
				for i := range *v {
					(*v)[i] -= shift
				}
			}
			s.setStats(f, x)
		}
		s.at(0, s.n, dataset.Index, "count from 0")
		return nil
	}},
	{"stats-not-finite", "statistics", "Mean and deviation of one feature are NaN: a constant dimension was divided by its deviation (lerobot #3280).", func(s *site) error {
		f, x, err := s.statsOf(func(f dataset.Feature) bool { return own(f) && f.DType.Numeric() && !strings.Contains(f.Name, "image") })
		if err != nil {
			return err
		}
		x.Mean, x.Std = slices.Clone(x.Mean), slices.Clone(x.Std)
		k := s.rng.IntN(len(x.Mean))
		x.Mean[k], x.Std[k] = math.NaN(), math.NaN()
		s.at(0, s.n, f.Name, "element %d", k)
		s.setStats(f, x)
		return nil
	}},
	{"stats-picture-std", "statistics", "The deviation of one camera's pictures is 0.006: squares of bytes overflowed (lerobot #3682).", func(s *site) error {
		f, x, err := s.statsOf(func(f dataset.Feature) bool { return f.DType == dataset.Video })
		if err != nil {
			return err
		}
		x.Std = []float64{0.0061, 0.0058, 0.0063}
		s.at(0, s.n, f.Name, "0.006 for each channel")
		s.setStats(f, x)
		return nil
	}},
	{"stats-picture-bytes", "statistics", "The statistics of one camera's pictures are those of bytes, 0 to 255 instead of 0 to 1.", func(s *site) error {
		f, x, err := s.statsOf(func(f dataset.Feature) bool { return f.DType == dataset.Video })
		if err != nil {
			return err
		}
		for _, v := range []*[]float64{&x.Min, &x.Max, &x.Mean, &x.Std, &x.Q01, &x.Q10, &x.Q50, &x.Q90, &x.Q99} {
			*v = slices.Clone(*v)
			for i := range *v {
				(*v)[i] *= 255
			}
		}
		s.at(0, s.n, f.Name, "mean %.0f", x.Mean[0])
		s.setStats(f, x)
		return nil
	}},
}

// statsOf draws a feature and reads its statistics in the table.
func (s *site) statsOf(ok func(dataset.Feature) bool) (dataset.Feature, dataset.Stats, error) {
	stats, err := s.p.d.EpisodeStats(s.ep.Index)
	if err != nil {
		return dataset.Feature{}, dataset.Stats{}, err
	}
	f, err := s.pick(func(f dataset.Feature) bool { _, there := stats[f.Name]; return there && ok(f) })
	return f, stats[f.Name], err
}
