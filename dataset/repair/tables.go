package repair

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"math"
	"os"
	"slices"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/dataset/internal/survey"
)

// planTables writes the task table, the episode table and the statistics where they differ from what they shall be.
func (m *mender) planTables() error {
	if m.v3() {
		return m.planTablesV30()
	}
	return m.planTablesV21()
}

func (m *mender) planTablesV30() error {
	if m.taskTableWrong() {
		m.did("task table written anew, with the texts as pandas index")
		m.write(survey.TasksPath, func(w io.Writer) error { return dataset.WriteTasks(w, m.tasks) })
	}
	if m.episodeTableWrong() {
		rows := m.metas()
		path := survey.FilePath(survey.EpisodesPath, "", 0, 0)
		m.did("episode table written anew")
		m.write(path, func(w io.Writer) error { return dataset.WriteEpisodes(w, m.features, rows) })
		for _, f := range m.set.EpisodeFiles {
			if f.Path != path {
				m.replaced(f.Path)
			}
		}
	}
	return m.planStatsFile()
}

func (m *mender) taskTableWrong() bool {
	t := m.set.Tasks
	if !t.Found || !t.Pandas || t.Column != "__index_level_0__" || t.Columns != 2 || !slices.Equal(t.Text, m.tasks) {
		return true
	}
	for r, i := range t.Index {
		if r != i {
			return true
		}
	}
	return false
}

// metas are the rows of the new episode table.
func (m *mender) metas() []dataset.EpisodeMeta {
	var out []dataset.EpisodeMeta
	for _, e := range m.episodes {
		meta := dataset.EpisodeMeta{Index: e.index, Length: e.rows, Tasks: e.tasks, FromIndex: e.from, DataPath: e.path, Videos: map[string]dataset.VideoSpan{}, Stats: e.stats, Extra: e.extra}
		meta.SetFiles(e.files[0], e.files[1], 0, 0)
		for name, c := range e.clips {
			from, to := m.times(e, c)
			meta.Videos[name] = dataset.SpanAt(max(0, c.chunk), max(0, c.file), from, to)
		}
		out = append(out, meta)
	}
	return out
}

func (m *mender) times(e *episode, c *clip) (from, to float64) {
	return float64(c.first) / m.set.Info.FPS, float64(c.first+e.rows) / m.set.Info.FPS
}

// episodeTableWrong compares the table that is there with the one that shall be.
func (m *mender) episodeTableWrong() bool {
	if len(m.episodes) != len(m.set.Episodes) {
		return true
	}
	var first []string
	for _, f := range m.set.EpisodeFiles {
		if f.Err != nil || first != nil && !slices.Equal(sorted(first), sorted(f.Columns)) {
			return true
		}
		first = f.Columns
	}
	for _, p := range m.set.Problems {
		if p.File != survey.TasksPath {
			return true
		}
	}
	for i, e := range m.episodes {
		if m.set.Episodes[i].Index != e.index || m.rowWrong(e) {
			return true
		}
	}
	return false
}

func sorted(s []string) []string {
	s = slices.Clone(s)
	slices.Sort(s)
	return s
}

func (m *mender) rowWrong(e *episode) bool {
	s := e.src
	if s.Index != e.index || s.Length != e.rows || s.From != e.from || s.To != e.from+e.rows || s.DataChunk != e.files[0] || s.DataFile != e.files[1] ||
		!slices.Equal(sorted(s.Tasks), sorted(e.tasks)) {
		return true
	}
	for name, c := range e.clips {
		from, to := m.times(e, c)
		if have := s.Videos[name]; c.moved || !(math.Abs(have.From-from) < 1e-9 && math.Abs(have.To-to) < 1e-9) {
			return true
		}
	}
	for name, want := range e.stats {
		if have, ok := s.Stats[name]; !ok || !same(have, want) {
			return true
		}
	}
	return false
}

func same(a, b dataset.Stats) bool {
	for _, part := range survey.StatNames {
		p, q := survey.Part(&a, part), survey.Part(&b, part)
		if p != nil && !slices.Equal(*p, *q) {
			return false
		}
	}
	return a.Count == b.Count
}

// planStatsFile writes meta/stats.json when it is not that of the rows.
func (m *mender) planStatsFile() error {
	want, err := dataset.EncodeStats(m.features, m.stats)
	if err != nil {
		return err
	}
	have, _ := os.ReadFile(m.set.Abs(survey.StatsPath))
	if statsEqual(have, want) {
		return nil
	}
	m.did("statistics of the dataset computed from all rows")
	m.write(survey.StatsPath, func(w io.Writer) error { _, err := w.Write(want); return err })
	return nil
}

// statsEqual compares two stats.json: same features, parts and shapes, numbers to a thousandth of the range. Quantiles of tools that
// estimate them may differ by a hundredth.
func statsEqual(have, want []byte) bool {
	var a, b map[string]map[string]any
	if json.Unmarshal(have, &a) != nil || json.Unmarshal(want, &b) != nil || len(a) != len(b) {
		return false
	}
	for name, parts := range b {
		other, ok := a[name]
		if !ok || len(other) != len(parts) {
			return false
		}
		lo, hi := flat(parts["min"]), flat(parts["max"])
		for part, v := range parts {
			p, q := flat(other[part]), flat(v)
			if len(p) != len(q) {
				return false
			}
			for i := range p {
				span := 1e-9
				if i < len(lo) && i < len(hi) {
					span += 0.01*(hi[i]-lo[i]) + 1e-6*math.Abs(hi[i])
				}
				if math.Abs(p[i]-q[i]) > span {
					return false
				}
			}
		}
	}
	return true
}

func flat(v any) []float64 {
	switch v := v.(type) {
	case float64:
		return []float64{v}
	case []any:
		var out []float64
		for _, e := range v {
			out = append(out, flat(e)...)
		}
		return out
	}
	return nil
}

// planTablesV21 writes the three jsonl files where they differ.
func (m *mender) planTablesV21() error {
	var tasks, episodes, stats bytes.Buffer
	for i, t := range m.tasks {
		line(&tasks, []string{"task_index", "task"}, map[string]any{"task_index": i, "task": t})
	}
	old := m.oldLines()
	for _, e := range m.episodes {
		keys, values := []string{"episode_index", "tasks", "length"}, map[string]any{}
		for _, k := range old[e.old].keys {
			if !slices.Contains(keys, k) {
				keys = append(keys, k)
			}
			values[k] = old[e.old].values[k]
		}
		maps.Copy(values, map[string]any{"episode_index": e.index, "tasks": e.tasks, "length": e.rows})
		line(&episodes, keys, values)
		b, err := dataset.EncodeStats(m.features, e.stats)
		if err != nil {
			return err
		}
		line(&stats, []string{"episode_index", "stats"}, map[string]any{"episode_index": e.index, "stats": json.RawMessage(b)})
	}
	for _, f := range []struct {
		path, what string
		want       []byte
		differ     bool
	}{{survey.TasksPathV21, "task table", tasks.Bytes(), m.taskLinesWrong()}, {survey.EpisodesPathV21, "episode table", episodes.Bytes(), m.episodeLinesWrong()},
		{survey.StatsPathV21, "statistics of episodes", stats.Bytes(), m.statLinesWrong()}} {
		if f.differ {
			m.did("%s written anew", f.what)
			m.write(f.path, func(w io.Writer) error { _, err := w.Write(f.want); return err })
		}
	}
	return nil
}

func (m *mender) taskLinesWrong() bool {
	t := m.set.Tasks
	if !t.Found || !slices.Equal(t.Text, m.tasks) {
		return true
	}
	for r, i := range t.Index {
		if r != i {
			return true
		}
	}
	return slices.ContainsFunc(m.set.Problems, func(p survey.Problem) bool { return p.File == survey.TasksPathV21 })
}

func (m *mender) episodeLinesWrong() bool {
	if len(m.episodes) != len(m.set.Episodes) || slices.ContainsFunc(m.set.Problems, func(p survey.Problem) bool { return p.File == survey.EpisodesPathV21 }) {
		return true
	}
	for i, e := range m.episodes {
		if s := m.set.Episodes[i]; s.Index != e.index || s.Length != e.rows || !slices.Equal(sorted(s.Tasks), sorted(e.tasks)) {
			return true
		}
	}
	return false
}

func (m *mender) statLinesWrong() bool {
	if len(m.episodes) != len(m.set.Episodes) || !m.set.Exists(survey.StatsPathV21) {
		return true
	}
	for _, e := range m.episodes {
		if e.old != e.index || slices.ContainsFunc(slices.Collect(maps.Keys(e.stats)), func(name string) bool {
			have, ok := e.src.Stats[name]
			want := e.stats[name]
			return !ok || !agree(have, want)
		}) {
			return true
		}
	}
	return false
}

type oldLine struct {
	keys   []string
	values map[string]any
}

// oldLines are the lines of episodes.jsonl with the keys that other tools put there.
func (m *mender) oldLines() map[int]oldLine {
	out := map[int]oldLine{}
	f, err := os.Open(m.set.Abs(survey.EpisodesPathV21))
	if err != nil {
		return out
	}
	defer f.Close()
	in := bufio.NewScanner(f)
	in.Buffer(nil, 64<<20)
	for in.Scan() {
		keys, raw, err := survey.Object(in.Bytes())
		if err != nil {
			continue
		}
		var index int
		if json.Unmarshal(raw["episode_index"], &index) != nil {
			continue
		}
		l := oldLine{keys: keys, values: map[string]any{}}
		for k, v := range raw {
			l.values[k] = v
		}
		if _, twice := out[index]; !twice {
			out[index] = l
		}
	}
	return out
}

// line appends one JSON object with its keys in order.
func line(b *bytes.Buffer, keys []string, values map[string]any) {
	b.WriteByte('{')
	for i, k := range keys {
		if i > 0 {
			b.WriteString(", ")
		}
		b.Write(compact(k))
		b.WriteString(": ")
		b.Write(compact(values[k]))
	}
	b.WriteString("}\n")
}

// compact is JSON on one line without escapes of <, > and &.
func compact(v any) []byte {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if e.Encode(v) != nil {
		return []byte("null")
	}
	var one bytes.Buffer
	if json.Compact(&one, out.Bytes()) != nil {
		return bytes.TrimSpace(out.Bytes())
	}
	return one.Bytes()
}
