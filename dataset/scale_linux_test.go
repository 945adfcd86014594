package dataset

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pinch-robotics/pinch/dataset/internal/pq"
)

// scaleInfo describes a dataset of cams cameras and numeric features.
func scaleInfo(episodes, rows, cams, features, dim int) Info {
	info := Info{CodebaseVersion: Version, TotalEpisodes: episodes, TotalFrames: episodes * rows, TotalTasks: 1, ChunksSize: defaultChunksSize,
		DataFilesSizeMB: defaultDataFileMB, VideoFilesSizeMB: defaultVideoFileMB, FPS: 10, Splits: map[string]string{"train": fmt.Sprintf("0:%d", episodes)},
		DataPath: defaultDataPath}
	for k := range features {
		info.Features = append(info.Features, Feature{Name: fmt.Sprintf("observation.f%02d", k), DType: Float32, Shape: []int{dim}, Names: make([]string, 0)})
	}
	for k := range cams {
		info.VideoPath = defaultVideoPath
		info.Features = append(info.Features, Feature{Name: fmt.Sprintf("observation.images.c%d", k), DType: Video, Shape: []int{480, 640, 3}, Names: []string{"height", "width", "channels"}})
	}
	info.Features = append(info.Features, DefaultFeatures()...)
	return info
}

func someStats(rng *rand.Rand, dim int, count int64) Stats {
	s := Stats{Count: count}
	for _, name := range statNames {
		if p := s.part(name); p != nil {
			for range dim {
				*p = append(*p, rng.Float64())
			}
		}
	}
	return s
}

// writeScale writes meta/ of a compacted dataset of n episodes of 300 rows, 3 cameras and 20 features, with all statistics. Only meta/ is
// there: opening reads nothing else.
func writeScale(b testing.TB, root string, n int) {
	const rows = 300
	info := scaleInfo(n, rows, 3, 20, 2)
	d := disk{root: root}
	text, err := info.encode()
	if err != nil {
		b.Fatal(err)
	}
	if err := d.writeBytes(infoPath, text); err != nil {
		b.Fatal(err)
	}
	f, err := os.Create(filepath.Join(root, "tasks"))
	if err != nil {
		b.Fatal(err)
	}
	if err := pq.Write(f, 1, taskColumns([]string{"put the cup on the plate"}), map[string]string{"pandas": tasksPandas}); err != nil {
		b.Fatal(err)
	}
	f.Close()
	os.Rename(f.Name(), filepath.Join(root, tasksPath))
	rng := rand.New(rand.NewPCG(1, 1))
	var stats []map[string]Stats // a thousand sets of statistics, used in turn
	for range 1000 {
		one := map[string]Stats{}
		for _, f := range info.Features {
			dim := f.Dim()
			if f.DType == Video {
				dim = 3
			}
			one[f.Name] = someStats(rng, dim, rows)
		}
		stats = append(stats, one)
	}
	const perFile = 10_000
	for at, i := (fileIndex{}), 0; i < n; at = at.next(defaultChunksSize) {
		path := filepath.Join(root, at.path(episodesPath, ""))
		os.MkdirAll(filepath.Dir(path), 0o755)
		file, err := os.Create(path)
		if err != nil {
			b.Fatal(err)
		}
		var out *pq.Writer
		for end := min(n, i+perFile); i < end; {
			var block []EpisodeMeta
			for ; i < end && len(block) < 2048; i++ {
				e := EpisodeMeta{Index: i, Length: rows, FromIndex: i * rows, Tasks: []string{"put the cup on the plate"}, data: fileIndex{0, i / 4000 % 1000}, meta: at,
					Videos: map[string]VideoSpan{}, Stats: stats[i%1000], Extra: map[string]any{"success": i%3 > 0, "episode_id": fmt.Sprintf("%08x-1c7e-4c0a:%d", i*2654435761, i%7)},
					content: fmt.Sprintf("01234567-%064x", i)}
				for c := range 3 {
					from := float64(i%30) * rows / 10
					e.Videos[fmt.Sprintf("observation.images.c%d", c)] = VideoSpan{FromTime: from, ToTime: from + rows/10, file: fileIndex{i / 30 / 1000, i / 30 % 1000}}
				}
				block = append(block, e)
			}
			columns := episodesTable(info.Features, block, extraColumns(block[0].Extra), true)
			parts := make([]pq.Part, len(columns))
			fields := make([]pq.Field, len(columns))
			for k, c := range columns {
				parts[k] = pq.Part{Column: c}
				if fields[k], err = c.Field(); err != nil {
					b.Fatal(err)
				}
			}
			if out == nil {
				if out, err = pq.NewWriter(file, fields, nil); err != nil {
					b.Fatal(err)
				}
			}
			if err := out.WriteGroup(len(block), parts); err != nil {
				b.Fatal(err)
			}
		}
		if err := out.Close(); err != nil {
			b.Fatal(err)
		}
		file.Close()
	}
}

// residentMiB reads the greatest resident size of this process.
func residentMiB() float64 {
	text, _ := os.ReadFile("/proc/self/status")
	for _, line := range strings.Split(string(text), "\n") {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return kb / 1024
		}
	}
	return 0
}

// cpuSeconds is the processor time that this process took so far, which says more than the clock while others use the machine.
func cpuSeconds() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// BenchmarkOpenMillion opens 1,200,000 episodes and draws rows. Set PINCH_SCALE to a folder that keeps the dataset between runs, so
// that writing it does not count into the memory.
func BenchmarkOpenMillion(b *testing.B) {
	n := 1_200_000
	if s := os.Getenv("PINCH_SCALE_EPISODES"); s != "" {
		n, _ = strconv.Atoi(s)
	}
	root := os.Getenv("PINCH_SCALE")
	if root == "" {
		root = b.TempDir()
	}
	root = filepath.Join(root, strconv.Itoa(n))
	if _, err := os.Stat(filepath.Join(root, "done")); err != nil {
		writeScale(b, root, n)
		os.WriteFile(filepath.Join(root, "done"), nil, 0o644)
	}
	runtime.GC()
	var d *Dataset
	b.Run("open", func(b *testing.B) {
		used := cpuSeconds()
		for b.Loop() {
			var err error
			d = nil
			runtime.GC()
			if d, err = Open(root); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(residentMiB(), "MiB-resident")
		b.ReportMetric((cpuSeconds()-used)/float64(b.N), "cpu-s/open")
	})
	b.Run("draw", func(b *testing.B) {
		rng := rand.New(rand.NewPCG(1, 2))
		frames := d.Info().TotalFrames
		sum := 0
		const draws = 1_000_000
		for b.Loop() {
			for range draws {
				e, f := d.Locate(rng.IntN(frames))
				sum += e + f
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/draws, "ns/draw")
		if sum == 0 {
			b.Fatal("nothing was drawn")
		}
	})
	if e, err := d.Episode(n - 1); err != nil || e.FromIndex != (n-1)*300 || e.Extra["episode_id"] == nil {
		b.Fatal(e, err)
	}
	if s, err := d.EpisodeStats(n / 2); err != nil || len(s) != 28 {
		b.Fatal(len(s), err)
	}
}

// BenchmarkDeleteOne deletes the middle one of 10,000 episodes of 250 rows in place: 30 values in two vectors, or a YUBI row. No videos:
// of those the file with the episode in it is copied by packets, at the speed of the disk.
func BenchmarkDeleteOne(b *testing.B) {
	yubi := scaleInfo(0, 0, 0, 22, 7)
	for k := range 28 {
		yubi.Features = append([]Feature{{Name: fmt.Sprintf("observation.b%02d", k), DType: Bool, Shape: []int{1}}}, yubi.Features...)
	}
	for i, f := range yubi.Features {
		if f.DType == Float32 && f.Dim() == 7 {
			yubi.Features[i].DType = Float64
		}
	}
	for name, info := range map[string]Info{"30-values": scaleInfo(0, 0, 0, 2, 15), "yubi": yubi} {
		b.Run(name, func(b *testing.B) {
			n := 10_000
			if s := os.Getenv("PINCH_DELETE_EPISODES"); s != "" {
				n, _ = strconv.Atoi(s)
			}
			base := os.Getenv("PINCH_SCALE")
			if base == "" {
				base = b.TempDir()
			}
			root := filepath.Join(base, "delete-"+name)
			if _, err := os.Stat(filepath.Join(root, infoPath)); err != nil {
				writeRows(b, root, info, n, 250)
			}
			for b.Loop() {
				start, used := time.Now(), cpuSeconds()
				d, err := Open(root)
				if err != nil {
					b.Fatal(err)
				}
				p := Keep(d)
				k := len(p.Episodes) / 2
				p.Episodes = append(p.Episodes[:k:k], p.Episodes[k+1:]...)
				if _, err := Rebuild(context.Background(), root, p, RebuildOptions{InPlace: true}); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(time.Since(start).Seconds(), "s/delete")
				b.ReportMetric(cpuSeconds()-used, "cpu-s/delete")
			}
			size, err := folderSize(root)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(size)/1e6, "MB")
		})
	}
}

// writeRows writes a packed dataset of random rows.
func writeRows(b *testing.B, root string, info Info, n, rows int) {
	b.Helper()
	source := filepath.Join(b.TempDir(), "one")
	var features []Feature
	for _, f := range info.Features {
		if !isDefault(f.Name) {
			features = append(features, f)
		}
	}
	w, err := Create(source, Options{FPS: 10, Features: features})
	if err != nil {
		b.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(5, 6))
	for k := range 20 {
		ep := Episode{Length: rows, Tasks: []string{"task"}, Columns: map[string]any{}, Extra: map[string]any{"success": k%2 == 0}}
		for _, f := range features {
			switch f.DType {
			case Float32:
				ep.Columns[f.Name] = ramp(rows*f.Dim(), func(int) float32 { return float32(rng.NormFloat64()) })
			case Float64:
				ep.Columns[f.Name] = ramp(rows*f.Dim(), func(int) float64 { return rng.NormFloat64() })
			case Bool:
				ep.Columns[f.Name] = ramp(rows, func(int) bool { return rng.IntN(2) == 0 })
			}
		}
		if _, err := w.AddEpisode(context.Background(), ep); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	d, err := Open(source)
	if err != nil {
		b.Fatal(err)
	}
	p := Keep(d)
	p.Pack = true
	twenty := p.Episodes
	p.Episodes = nil
	for k := range n {
		p.Episodes = append(p.Episodes, twenty[k%20])
	}
	if _, err := Rebuild(context.Background(), root, p, RebuildOptions{}); err != nil {
		b.Fatal(err)
	}
}
