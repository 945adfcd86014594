package dataset

import (
	"context"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/pinch-robotics/pinch/dataset/internal/pq"
	"github.com/pinch-robotics/pinch/dataset/video"
)

// The functions here write the files of a v3.0 dataset one by one, for tools that mend a dataset which can not be opened. Everything
// that makes whole datasets uses Writer or Rebuild.

// Lock keeps writers out of the dataset at root until the function it returns is called, after finishing what a crash interrupted. The
// error wraps ErrLocked while a writer is at work.
func Lock(root string) (unlock func(), err error) {
	if err := recoverIfNeeded(root); err != nil {
		return nil, err
	}
	d := disk{root: root}
	if err := d.mkdir(workDir); err != nil {
		return nil, err
	}
	lock, err := d.lock()
	if err != nil {
		return nil, err
	}
	return func() {
		d.remove(lockFile)
		os.Remove(d.abs(workDir)) // when nothing else is in it
		lock.Close()
	}, nil
}

// SetFiles says in which files the episode's rows and its row of the table stand: chunk and file number of each.
func (e *EpisodeMeta) SetFiles(dataChunk, dataFile, metaChunk, metaFile int) {
	e.data, e.meta = fileIndex{dataChunk, dataFile}, fileIndex{metaChunk, metaFile}
}

// SpanAt is the place of an episode in the video with these numbers; times in seconds of the file.
func SpanAt(chunk, file int, from, to float64) VideoSpan {
	return VideoSpan{FromTime: from, ToTime: to, file: fileIndex{chunk, file}}
}

// WriteEpisodes writes a file of the episode table. Statistics must be complete. Of an extra column whose type differs between
// episodes the type of the first one stays and the others become null.
func WriteEpisodes(w io.Writer, features []Feature, rows []EpisodeMeta) error {
	extra := map[string]any{}
	for _, e := range rows {
		for name, v := range e.Extra {
			if _, known := extra[name]; !known && kindOf(v) != "" {
				extra[name] = v
			}
		}
	}
	clean := slices.Clone(rows)
	for i, e := range clean {
		clean[i].Extra = maps.Clone(e.Extra)
		for name, v := range e.Extra {
			if kindOf(v) != kindOf(extra[name]) {
				delete(clean[i].Extra, name)
			}
		}
	}
	return pq.Write(w, len(rows), episodesTable(features, clean, extraColumns(extra), false), nil)
}

// WriteTasks writes meta/tasks.parquet: row i is task i.
func WriteTasks(w io.Writer, tasks []string) error {
	return pq.Write(w, len(tasks), taskColumns(tasks), map[string]string{"pandas": tasksPandas})
}

// WriteRows writes a data file of one row group: the values of each feature but the video ones, row after row, of the feature's type.
func WriteRows(w io.Writer, features []Feature, rows int, values map[string]any) error {
	stored := slices.DeleteFunc(slices.Clone(features), func(f Feature) bool { return f.DType == Video })
	hf, err := huggingface(stored)
	if err != nil {
		return err
	}
	var columns []pq.Column
	for _, f := range stored {
		c := pq.Column{Name: f.Name, Values: values[f.Name]}
		if f.Dim() > 1 {
			c.Shape, c.Fixed = f.Shape, true
		}
		columns = append(columns, c)
	}
	return pq.Write(w, rows, columns, map[string]string{"huggingface": hf})
}

// EncodeStats is the content of meta/stats.json, or one episode's of v2.1.
func EncodeStats(features []Feature, stats map[string]Stats) ([]byte, error) {
	return encodeStats(features, stats)
}

// ColumnStats computes the statistics of dim interleaved elements.
func ColumnStats(values []float64, dim int) Stats { return columnStats(values, dim) }

// MergePictureStats joins the picture statistics of episodes: exact but for the quantiles, which are those of the mixture.
func MergePictureStats(parts []Stats) Stats {
	var all Stats
	for _, p := range parts {
		all = merge(all, p)
	}
	mixed := mixQuantiles(parts)
	for i, q := range all.quantiles() {
		*q = *mixed.quantiles()[i]
	}
	return all
}

// PictureStats decodes LeRobot's sample of the n frames from first on and computes their statistics.
func PictureStats(ctx context.Context, path string, first, n int) (Stats, error) {
	return sampleStats(ctx, path, first, n)
}

// VideoFeatureInfo is the "info" map of a video feature in info.json.
func VideoFeatureInfo(v video.Info, fps int) map[string]any { return videoInfo(v, fps) }
