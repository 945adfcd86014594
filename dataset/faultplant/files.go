package faultplant

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/dataset/internal/pq"
)

// structureKinds befall files: killed writers, full disks, copies that broke off.
var structureKinds = []Kind{
	{"data-footer-lost", "structure", "The rows' Parquet file breaks off at 50 to 95 % of its bytes: the writer was killed before the footer (lerobot #2495, #3522).", func(s *site) error {
		return s.cutFile(s.ep.DataPath)
	}},
	{"data-file-missing", "structure", "The rows' file is not there, as after a conversion that left one out (lerobot #2643).", func(s *site) error {
		s.at(0, s.n, "", "%s removed", s.ep.DataPath)
		return s.remove(s.ep.DataPath)
	}},
	{"video-file-missing", "structure", "One camera's mp4 is not there (validator list 3 of the format's facts).", func(s *site) error {
		camera, span, err := s.camera()
		if err != nil {
			return err
		}
		s.at(0, s.n, camera.Name, "%s removed", span.Path)
		return s.remove(span.Path)
	}},
	{"video-cut-off", "structure", "One camera's mp4 breaks off at 50 to 95 % of its bytes: index first, so it opens, but its last pictures are gone (a copy that broke off, a full disk).", func(s *site) error {
		camera, span, err := s.camera()
		if err != nil {
			return err
		}
		if err := s.cutFile(span.Path); err != nil {
			return err
		}
		s.fault.Feature = camera.Name
		return nil
	}},
	{"data-page-damaged", "structure", "512 bytes of zeros amid the rows' file, a sector that was never written (Isaac-GR00T #58 and #435: corrupt Parquet inside a big set).", func(s *site) error {
		s.at(0, s.n, "", "512 bytes of %s are zero", s.ep.DataPath)
		return s.edit(s.ep.DataPath, func(b []byte) []byte {
			return s.zero(b, 512, len(b)/10, len(b)/2)
		})
	}},
	{"video-block-lost", "structure", "4096 bytes of zeros amid one camera's pictures: a block that the disk lost in a power cut.", func(s *site) error {
		camera, span, err := s.camera()
		if err != nil {
			return err
		}
		s.at(0, s.n, camera.Name, "4096 bytes of %s are zero", span.Path)
		return s.edit(span.Path, func(b []byte) []byte { return s.zero(b, 4096, len(b)/3, len(b)) })
	}},
	{"table-column-extra", "structure", "The episode's file of meta/episodes has a column that the others lack, which the official loader does not read (validator list 12).", func(s *site) error {
		s.at(0, s.n, "", "meta/episodes has the extra column operator_note")
		s.add = append(s.add, pq.Column{Name: "operator_note", Values: []string{"second attempt"}})
		return nil
	}},
}

// cutFile shortens a file.
func (s *site) cutFile(rel string) error {
	share := s.between(0.5, 0.95)
	s.at(0, s.n, "", "%s breaks off at %.0f %%", rel, 100*share)
	return s.edit(rel, func(b []byte) []byte { return b[:int(share*float64(len(b)))] })
}

// zero clears n bytes at a random place between two, in a copy.
func (s *site) zero(b []byte, n, lo, hi int) []byte {
	b = slices.Clone(b)
	hi = max(lo+1, min(hi, len(b)-n))
	at := lo + s.rng.IntN(hi-lo)
	clear(b[at:min(len(b), at+n)])
	return b
}

// own reports whether a feature is none of the five that every dataset has.
func own(f dataset.Feature) bool {
	return !slices.ContainsFunc(dataset.DefaultFeatures(), func(d dataset.Feature) bool { return d.Name == f.Name })
}

// typeKinds are columns whose type or shape is not what info.json says.
var typeKinds = []Kind{
	{"scalar-as-list", "types", "A column of shape (1,) is stored as lists of one (lerobot #3344: does not load).", func(s *site) error {
		f, err := s.pick(func(f dataset.Feature) bool { return own(f) && f.DType == dataset.Bool && f.Dim() == 1 })
		if err != nil {
			return err
		}
		v, err := column[bool](s, f.Name)
		if err != nil {
			return err
		}
		s.at(0, s.n, f.Name, "lists of one")
		s.putColumn(pq.Column{Name: f.Name, Shape: []int{1}, Fixed: true, Values: v})
		return nil
	}},
	{"vector-short", "types", "One row of a vector has one number too few (rows trimmed by hand; does not load).", func(s *site) error {
		f, v, err := s.vector()
		if err != nil {
			return err
		}
		row := 1 + s.rng.IntN(s.n-1)
		starts := make([]int, s.n+1)
		for r := range starts {
			starts[r] = r * f.Dim()
			if r > row {
				starts[r]--
			}
		}
		s.at(row, 1, f.Name, "%d numbers instead of %d", f.Dim()-1, f.Dim())
		s.putColumn(pq.Column{Name: f.Name, Starts: starts, Values: slices.Delete(slices.Clone(v), (row+1)*f.Dim()-1, (row+1)*f.Dim())})
		return nil
	}},
	{"column-extra", "types", "The rows have a column that info.json does not know (validator list 4: CastError at load).", func(s *site) error {
		s.at(0, s.n, "", "the extra column debug.temperature")
		s.fault.Columns = []string{"debug.temperature"}
		s.addColumns = []pq.Column{{Name: "debug.temperature", Values: make([]float32, s.n)}}
		return nil
	}},
	{"column-missing", "types", "A column of info.json is not in the rows: nulls at load, a crash at first use.", func(s *site) error {
		f, err := s.pick(func(f dataset.Feature) bool { return own(f) && f.DType.Numeric() })
		if err != nil {
			return err
		}
		s.at(0, s.n, f.Name, "no column")
		s.fault.Columns = []string{f.Name}
		s.drop = []string{f.Name}
		return nil
	}},
	{"value-null", "types", "Some rows at the start of a column are null: a topic that began late was joined without a value (rebake; lerobot #2283).", func(s *site) error {
		f, err := s.pick(func(f dataset.Feature) bool { return own(f) && f.DType == dataset.Bool && f.Dim() == 1 })
		if err != nil {
			return err
		}
		v, err := column[bool](s, f.Name)
		if err != nil {
			return err
		}
		k := 1 + s.rng.IntN(min(10, s.n-1))
		null := make([]bool, s.n)
		for r := range k {
			null[r] = true
		}
		s.at(0, k, f.Name, "%d rows are null", k)
		s.putColumn(pq.Column{Name: f.Name, Values: v, Null: null})
		return nil
	}},
}

// vector draws a feature of several float64.
func (s *site) vector() (dataset.Feature, []float64, error) {
	f, err := s.pick(func(f dataset.Feature) bool { return own(f) && f.DType == dataset.Float64 && f.Dim() > 1 })
	if err != nil || s.n < 2 {
		return f, nil, errNowhere
	}
	v, err := column[float64](s, f.Name)
	return f, v, err
}

// indexKinds are numbers of episodes, rows and files that are not right: edits, merges and conversions that forgot one.
var indexKinds = []Kind{
	{"episode-number-stale", "indices", "The rows say the number that the episode had before others were deleted (conversion trusts ids as they are: lerobot #2643, unitree_lerobot #41).", func(s *site) error {
		old := s.ep.Index + 1 + s.rng.IntN(20)
		s.at(0, s.n, dataset.EpisodeIndex, "episode_index %d", old)
		return s.constant(dataset.EpisodeIndex, int64(old))
	}},
	{"index-not-shifted", "indices", "The global row number starts at 0, as in the set that the episode was merged from.", func(s *site) error {
		if s.ep.FromIndex == 0 {
			return errNowhere
		}
		v := make([]int64, s.n)
		for r := range v {
			v[r] = int64(r)
		}
		s.at(0, s.n, dataset.Index, "0 to %d instead of %d to %d", s.n-1, s.ep.FromIndex, s.ep.FromIndex+s.n-1)
		s.recorded = true
		return s.setColumn(dataset.Index, v)
	}},
	{"row-lost", "indices", "One row is missing while the table counts it: counters were saved before rows (axol #158).", func(s *site) error {
		row := 1 + s.rng.IntN(max(1, s.n-2))
		s.at(row, 1, "", "row %d is not in the file", row)
		return s.withoutRow(row)
	}},
	{"frame-number-gap", "indices", "frame_index jumps by 1 to 5: rows were dropped without numbering the others anew.", func(s *site) error {
		v, err := column[int64](s, dataset.FrameIndex)
		if err != nil || s.n < 3 {
			return errNowhere
		}
		v = slices.Clone(v)
		row, gap := 1+s.rng.IntN(s.n-1), 1+s.rng.IntN(5)
		for r := row; r < s.n; r++ {
			v[r] += int64(gap)
		}
		s.at(row, s.n-row, dataset.FrameIndex, "jumps by %d more", gap)
		s.recorded = true
		return s.setColumn(dataset.FrameIndex, v)
	}},
	{"rows-out-of-order", "indices", "Two neighbouring blocks of rows changed places: parts were joined in the order of their names as text (unitree_lerobot #41).", func(s *site) error {
		if s.n < 12 {
			return errNowhere
		}
		w := 2 + s.rng.IntN(s.n/4)
		row := s.rng.IntN(s.n - 2*w)
		s.at(row, 2*w, "", "rows %d-%d stand after %d-%d", row, row+w-1, row+w, row+2*w-1)
		order := make([]int, s.n)
		for r := range order {
			order[r] = r
			if r >= row && r < row+w {
				order[r] = r + w
			} else if r >= row+w && r < row+2*w {
				order[r] = r - w
			}
		}
		return s.reorder(order)
	}},
	{"range-end-inclusive", "indices", "dataset_to_index is the last row instead of the one after it.", func(s *site) error {
		s.at(0, s.n, "", "dataset_to_index %d instead of %d", s.ep.FromIndex+s.n-1, s.ep.FromIndex+s.n)
		s.setTable("dataset_to_index", s.ep.FromIndex+s.n-1)
		return nil
	}},
	{"length-wrong", "indices", "The table counts one row more than there is, and the range of rows with it.", func(s *site) error {
		s.at(0, s.n, "", "length %d instead of %d", s.n+1, s.n)
		s.setTable("length", s.n+1)
		return nil
	}},
	{"data-file-other", "indices", "data/file_index names another episode's file: an index was added instead of mapped (lerobot #2264, #2799).", func(s *site) error {
		other, err := s.otherEpisode()
		if err != nil {
			return err
		}
		chunk, file, err := s.numbers(other, "data/")
		if err != nil {
			return err
		}
		s.at(0, s.n, "", "the rows' file is that of episode %d", other)
		s.setTable("data/chunk_index", chunk)
		s.setTable("data/file_index", file)
		return nil
	}},
}

func (s *site) constant(name string, x int64) error {
	v := make([]int64, s.n)
	for r := range v {
		v[r] = x
	}
	return s.setColumn(name, v)
}

// otherEpisode draws another episode.
func (s *site) otherEpisode() (int, error) {
	n := s.p.d.NumEpisodes()
	if n < 2 {
		return 0, errNowhere
	}
	k := s.rng.IntN(n - 1)
	if k >= s.ep.Index {
		k++
	}
	return k, nil
}

// numbers reads chunk and file number of an episode in the table.
func (s *site) numbers(episode int, prefix string) (chunk, file int, err error) {
	f, err := pq.Open(filepath.Join(s.p.root, s.p.tables[episode]))
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	for name, to := range map[string]*int{prefix + "chunk_index": &chunk, prefix + "file_index": &file} {
		c, err := f.Read(name, 0, 1)
		if err != nil {
			return 0, 0, err
		}
		v, _ := c.Values.([]int64)
		if len(v) != 1 {
			return 0, 0, fmt.Errorf("column %q is no number", name)
		}
		*to = int(v[0])
	}
	return chunk, file, nil
}

// withoutRow leaves one row out of the file.
func (s *site) withoutRow(row int) error {
	order := make([]int, 0, s.n)
	for r := range s.n {
		if r != row {
			order = append(order, r)
		}
	}
	return s.reorder(order)
}

// reorder writes the given rows in the given order, all columns.
func (s *site) reorder(order []int) error {
	s.rows = len(order)
	for _, f := range s.p.d.Features() {
		var err error
		switch f.DType {
		case dataset.Video:
			continue
		case dataset.Float32:
			err = gather[float32](s, f, order)
		case dataset.Float64:
			err = gather[float64](s, f, order)
		case dataset.Int32:
			err = gather[int32](s, f, order)
		case dataset.Int64:
			err = gather[int64](s, f, order)
		case dataset.Bool:
			err = gather[bool](s, f, order)
		case dataset.String:
			err = gather[string](s, f, order)
		default:
			err = errNowhere
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func gather[T dataset.Element](s *site, f dataset.Feature, order []int) error {
	v, err := column[T](s, f.Name)
	if err != nil {
		return err
	}
	out := make([]T, 0, len(order)*f.Dim())
	for _, r := range order {
		out = append(out, v[r*f.Dim():(r+1)*f.Dim()]...)
	}
	return s.setColumn(f.Name, out)
}

// timeKinds are wrong times of rows.
var timeKinds = []Kind{
	{"timestamp-wall-clock", "time", "timestamp holds times of arrival: k/fps with a jitter of 0.5 to 3 ms (lerobot #3513, #3517; the limit of the format is 0.1 ms).", func(s *site) error {
		jitter := s.between(0.0005, 0.003)
		s.at(0, s.n, dataset.Timestamp, "jitter with a deviation of %.1f ms", 1000*jitter)
		return s.timestamps(func(r int) float64 { return math.Max(0, float64(r)/s.fps+jitter*s.rng.NormFloat64()) })
	}},
	{"timestamp-rate-wrong", "time", "timestamp counts at a rate that is off by one hertz, since 29.97 was cut to 29 (FastWAM #17, hflow #461).", func(s *site) error {
		s.at(0, s.n, dataset.Timestamp, "k/%v", s.fps-1)
		return s.timestamps(func(r int) float64 { return float64(r) / (s.fps - 1) })
	}},
	{"timestamp-not-rebased", "time", "timestamp counts from the start of the recording, 3 to 60 s before the episode (refiner #229).", func(s *site) error {
		t := math.Round(s.between(3, 60)*s.fps) / s.fps
		s.at(0, s.n, dataset.Timestamp, "from %.2f s on", t)
		return s.timestamps(func(r int) float64 { return t + float64(r)/s.fps })
	}},
	{"timestamp-repeated", "time", "One to five rows repeat the time of the row before: a writer that stamped when its queue moved.", func(s *site) error {
		if s.n < 8 {
			return errNowhere
		}
		k := 1 + s.rng.IntN(5)
		row := 1 + s.rng.IntN(s.n-k)
		s.at(row, k, dataset.Timestamp, "%d rows have the time of row %d", k, row-1)
		return s.timestamps(func(r int) float64 {
			if r >= row && r < row+k {
				r = row - 1
			}
			return float64(r) / s.fps
		})
	}},
	{"clock-step", "time", "The device clock of one stream steps by 0.1 to 2 s within the episode: a headset or camera restarted, or its clock was set (yubi facts 1.4).", func(s *site) error {
		f, err := s.pick(func(f dataset.Feature) bool {
			return len(f.Name) > 25 && f.Name[:25] == "observation.capture_time." && f.Dim() == 2 && f.DType == dataset.Int64
		})
		if err != nil {
			return err
		}
		v, err := column[int64](s, f.Name)
		if err != nil || v[0] == 0 || s.n < 10 {
			return errNowhere
		}
		v = slices.Clone(v)
		row, step := s.n/5+s.rng.IntN(s.n*3/5), s.logBetween(0.1, 2)
		if s.rng.IntN(2) == 0 {
			step = -step
		}
		for r := row; r < s.n; r++ {
			v[2*r] += int64(step * 1e9)
		}
		s.at(row, s.n-row, f.Name, "device_ns steps by %.2f s", step)
		s.recorded = true
		return s.setColumn(f.Name, v)
	}},
}

func (s *site) timestamps(at func(r int) float64) error {
	v := make([]float32, s.n)
	for r := range v {
		v[r] = float32(at(r))
	}
	s.recorded = true
	return s.setColumn(dataset.Timestamp, v)
}
