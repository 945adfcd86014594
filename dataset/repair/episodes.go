package repair

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/dataset/internal/survey"
	"github.com/pinch-robotics/pinch/dataset/video"
)

// episode is one that is kept.
type episode struct {
	src   *survey.Episode // its row of the table; made up when it had none
	old   int
	index int // new number
	rows  int
	from  int // number of its first row over all files
	segs  []segment
	tasks []string
	clips map[string]*clip
	path  string // of its rows in the result
	files [2]int // chunk and file number of path
	stats map[string]dataset.Stats
	fresh bool // its numbers have to be computed
	extra map[string]any
}

// clip is an episode's part of a video.
type clip struct {
	found       string // where the file is
	path        string // where it shall be
	chunk, file int
	first       int // frame of row 0
	info        *video.Info
	moved       bool // from or to of the table were wrong
}

// chooseEpisodes keeps the episodes that have rows.
func (m *mender) chooseEpisodes() error {
	segs := map[int][]segment{}
	for _, f := range m.files {
		for _, s := range f.segs {
			segs[s.episode] = append(segs[s.episode], s)
		}
	}
	var gone []int
	seen := map[int]bool{}
	for i := range m.set.Episodes {
		e := &m.set.Episodes[i]
		switch {
		case e.Index < 0:
			m.did("row %d of %s left out: it has no episode number", e.Row, e.File)
			continue
		case seen[e.Index]:
			m.did("episode %d: its second row in the episode table left out", e.Index)
			continue
		}
		seen[e.Index] = true
		if len(segs[e.Index]) == 0 {
			gone = append(gone, e.Index)
			continue
		}
		m.keep(e, segs[e.Index])
	}
	for _, id := range unlisted(segs, seen) {
		m.adopt(id, segs[id])
	}
	if len(gone) > 0 {
		slices.Sort(gone)
		m.did("episodes %s left out: they have no rows", dataset.Ranges(gone))
	}
	if len(m.episodes) == 0 {
		return fmt.Errorf("no episode has rows that can be read")
	}
	return nil
}

func unlisted(segs map[int][]segment, seen map[int]bool) []int {
	var out []int
	for id := range segs {
		if !seen[id] && id >= 0 {
			out = append(out, id)
		}
	}
	sort.Ints(out)
	return out
}

func (m *mender) keep(e *survey.Episode, segs []segment) {
	k := &episode{src: e, old: e.Index, segs: segs, clips: map[string]*clip{}, extra: map[string]any{}}
	for _, s := range segs {
		k.rows += s.hi - s.lo
	}
	for name, v := range e.Extra {
		if name != contentHash { // of the rows as they were
			k.extra[name] = v
		}
	}
	if e.Length != k.rows {
		m.did("episode %d: length set to %d, the table said %d", e.Index, k.rows, e.Length)
		k.fresh = true
	}
	if len(segs) > 1 {
		m.did("episode %d: its rows, which stood in %d places, put together", e.Index, len(segs))
	}
	m.episodes = append(m.episodes, k)
}

// contentHash is a column that hashes what repairs change; it is computed anew where it is needed.
const contentHash = "content_sha256"

// adopt lists an episode that the table lacks, when its place in the videos is certain: files of its own under the number of its data
// file.
func (m *mender) adopt(id int, segs []segment) {
	e := &survey.Episode{Index: id, Length: survey.Missing, From: survey.Missing, To: survey.Missing, Videos: map[string]survey.Span{}, DataChunk: survey.Missing, DataFile: survey.Missing}
	var chunk, file int
	if n, _ := fmt.Sscanf(segs[0].file.path, "data/chunk-%d/file-%d.parquet", &chunk, &file); n == 2 {
		e.DataChunk, e.DataFile = chunk, file
	}
	for _, c := range m.cameras() {
		s := survey.Span{Chunk: chunk, File: file, From: 0, To: math.NaN(), Path: survey.FilePath(survey.VideoPath, c.Name, chunk, file)}
		if !m.v3() {
			s.Path = survey.EpisodePath(m.set.Info.VideoPath, c.Name, id, m.set.Info.ChunksSize)
		} else if len(segs[0].file.segs) != 1 || m.usedVideo(c.Name, s.Path) {
			m.did("episode %d left out: the episode table does not list it, so its place in the video %q is not known", id, c.Name)
			return
		}
		e.Videos[c.Name] = s
	}
	m.keep(e, segs)
	m.did("episode %d listed: its rows and videos are there", id)
}

func (m *mender) usedVideo(camera, path string) bool {
	return slices.ContainsFunc(m.set.Episodes, func(e survey.Episode) bool { return e.Videos[camera].Path == path })
}

// placeVideos finds each episode's frames, and leaves out or cuts the episodes that lack some.
func (m *mender) placeVideos() error {
	probes := map[string]*video.Info{}
	failed := map[string]error{}
	probe := func(path string) (*video.Info, error) {
		if probes[path] == nil && failed[path] == nil {
			info, err := video.Probe(m.set.Abs(path))
			probes[path], failed[path] = &info, err
		}
		return probes[path], failed[path]
	}
	for _, c := range m.cameras() {
		m.placeCamera(c.Name, probe)
	}
	m.episodes = slices.DeleteFunc(m.episodes, func(e *episode) bool { return e.rows == 0 })
	if len(m.episodes) == 0 {
		return fmt.Errorf("no episode has all its videos")
	}
	return nil
}

// drop leaves an episode out.
func (m *mender) drop(e *episode, format string, a ...any) {
	if e.rows > 0 {
		m.did("episode %d left out: %s", e.old, fmt.Sprintf(format, a...))
	}
	e.rows = 0
}

func (m *mender) placeCamera(camera string, probe func(string) (*video.Info, error)) {
	byFile := map[string][]*episode{}
	var order []string
	for _, e := range m.episodes {
		span, ok := e.src.Videos[camera]
		path := m.set.Locate(span.Path)
		if !ok || path == "" {
			m.drop(e, "its video %q is missing (%s)", camera, span.Path)
			continue
		}
		info, err := probe(path)
		if err != nil {
			m.drop(e, "its video %q can not be read: %v", camera, err)
			continue
		}
		e.clips[camera] = &clip{found: path, path: path, chunk: span.Chunk, file: span.File, info: info}
		if byFile[path] == nil {
			order = append(order, path)
		}
		byFile[path] = append(byFile[path], e)
	}
	for _, path := range order {
		m.placeFile(camera, byFile[path])
	}
}

// placeFile finds where the episodes of one video start, and cuts those that run over its end.
func (m *mender) placeFile(camera string, episodes []*episode) {
	fps, total, sound := m.set.Info.FPS, 0, true
	end := 0
	for _, e := range episodes {
		s := e.src.Videos[camera]
		first := int(math.Round(s.From * fps))
		if math.IsNaN(s.From) || s.From < 0 || first < end {
			sound = false
		}
		end = first + e.rows
		total += e.rows
	}
	frames := episodes[0].clips[camera].info.Frames()
	at := 0
	for _, e := range episodes {
		c, s := e.clips[camera], e.src.Videos[camera]
		switch {
		case sound:
			c.first = int(math.Round(s.From * fps))
		case total == frames || len(episodes) == 1:
			c.first = at
		default:
			m.drop(e, "its place in %s is not known: the table says %v to %v s, and the lengths do not fill the file", c.found, s.From, s.To)
			continue
		}
		at += e.rows
		m.fitFrames(camera, e, c)
		from, to := float64(c.first)/fps, float64(c.first+e.rows)/fps
		if m.v3() && e.rows > 0 && (math.Abs(s.From-from) > 1e-9 || !(math.Abs(s.To-to) < 1e-9)) {
			c.moved = true
			m.did("video times of %q computed from frame numbers", camera)
		}
	}
}

// fitFrames cuts the tail of rows that have no picture.
func (m *mender) fitFrames(camera string, e *episode, c *clip) {
	have := c.info.Frames() - c.first
	missing := e.rows - have
	if missing <= 0 {
		return
	}
	most := m.o.MaxTrim
	if most < 0 {
		most = m.fps()
	}
	if missing > most || have < 1 {
		m.drop(e, "its video %q has %d frames for %d rows", camera, max(0, have), e.rows)
		return
	}
	m.did("episode %d: its last %d rows cut, for which %q has no frames", e.old, missing, camera)
	e.fresh = true
	e.rows = have
	for i := len(e.segs) - 1; missing > 0 && i >= 0; i-- {
		n := min(missing, e.segs[i].hi-e.segs[i].lo)
		e.segs[i].hi -= n
		missing -= n
	}
	e.segs = slices.DeleteFunc(e.segs, func(s segment) bool { return s.lo >= s.hi })
}

// numberEpisodes orders the episodes as their rows stand in the files, which is the order of the loader, and numbers them.
func (m *mender) numberEpisodes() error {
	slices.SortStableFunc(m.episodes, func(a, b *episode) int {
		if c := strings.Compare(a.segs[0].file.path, b.segs[0].file.path); c != 0 {
			return c
		}
		return a.segs[0].lo - b.segs[0].lo
	})
	at, renumbered := 0, 0
	for i, e := range m.episodes {
		e.index, e.from = i, at
		at += e.rows
		if e.old != i {
			renumbered++
		}
		m.place(e)
	}
	if renumbered > 0 {
		m.did("%d episodes numbered anew", renumbered)
	}
	return nil
}

// place gives an episode its files in the result.
func (m *mender) place(e *episode) {
	info := m.set.Info
	if !m.v3() {
		e.path = survey.EpisodePath(survey.DataPathV21, "", e.index, info.ChunksSize)
		for name, c := range e.clips {
			c.path = survey.EpisodePath(survey.VideoPathV21, name, e.index, info.ChunksSize)
		}
		return
	}
	e.path = e.segs[0].file.path
	var chunk, file int
	if n, _ := fmt.Sscanf(e.path, "data/chunk-%d/file-%d.parquet", &chunk, &file); n != 2 || survey.FilePath(survey.DataPath, "", chunk, file) != e.path {
		chunk, file = max(0, e.src.DataChunk), max(0, e.src.DataFile)
		e.path = survey.FilePath(survey.DataPath, "", chunk, file)
	}
	e.files = [2]int{chunk, file}
	for name, c := range e.clips {
		c.path = survey.FilePath(survey.VideoPath, name, max(0, c.chunk), max(0, c.file))
	}
}

// planTasks makes the table of tasks: numbers from 0 without a gap, texts of the table or, where it has none, of the episodes.
func (m *mender) planTasks() error {
	texts := m.texts
	used := m.usedTasks()
	for _, i := range used {
		if strings.TrimSpace(texts[i]) != "" {
			continue
		}
		text := ""
		for _, e := range m.episodes {
			if own := m.taskNumbers(e); len(own) == 1 && own[0] == i && len(e.src.Tasks) == 1 {
				text = e.src.Tasks[0]
			}
		}
		if text == "" {
			m.left("task %d has no text, and no episode tells it: write it into the task table", i)
			text = fmt.Sprintf("task %d", i)
		} else {
			m.did("task %d: its text %q taken from the episode table", i, text)
		}
		texts[i] = text
	}
	numbers := make([]int, 0, len(texts))
	for i := range texts {
		numbers = append(numbers, i)
	}
	sort.Ints(numbers)
	for n, i := range numbers {
		m.taskOf[i] = n
		m.tasks = append(m.tasks, texts[i])
		if n != i {
			m.did("tasks numbered anew")
		}
	}
	for _, e := range m.episodes {
		for _, i := range m.taskNumbers(e) {
			e.tasks = append(e.tasks, m.tasks[m.taskOf[i]])
		}
	}
	return nil
}

func (m *mender) usedTasks() []int {
	seen := map[int]bool{}
	for _, e := range m.episodes {
		for _, i := range m.taskNumbers(e) {
			seen[i] = true
		}
	}
	out := make([]int, 0, len(seen))
	for i := range seen {
		out = append(out, i)
	}
	sort.Ints(out)
	return out
}

// taskNumbers lists the distinct tasks of an episode's rows, as the rows number them. Rows without a usable number get the number of
// the episode's text.
func (m *mender) taskNumbers(e *episode) []int {
	var out []int
	for _, s := range e.segs {
		for r := s.lo; r < s.hi; r++ {
			i := m.taskAt(e, s, r)
			if !slices.Contains(out, i) {
				out = append(out, i)
			}
		}
	}
	return out
}

func (m *mender) taskAt(e *episode, s segment, row int) int {
	texts := m.texts
	if s.file.task != nil {
		if v := s.file.task[row]; v >= 0 && v == math.Trunc(v) {
			if _, ok := texts[int(v)]; ok || len(texts) == 0 {
				return int(v)
			}
		}
	}
	for i, t := range texts {
		if len(e.src.Tasks) > 0 && t == e.src.Tasks[0] {
			return i
		}
	}
	return 0
}
