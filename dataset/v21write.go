package dataset

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// The format before v3.0: one Parquet file and one mp4 per camera for each episode, and tables of one JSON object a line. Openpi
// reads only this one.
const (
	v21Version   = "v2.1"
	v21DataPath  = "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet"
	v21VideoPath = "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4"
)

func v21Values(episode int, camera string) map[string]any {
	return map[string]any{"episode_chunk": episode / defaultChunksSize, "episode_index": episode, "video_key": camera}
}

// stageV21 is stage for v2.1.
func (r *rebuild) stageV21() error {
	if err := r.describeVideos(); err != nil {
		return err
	}
	d := &Dataset{root: r.d.abs(nextDir), info: r.info, tasks: r.tasks, files: map[string]*dataFile{}}
	for i := range r.p.Episodes {
		e := EpisodeMeta{Index: i, Length: r.l.lengths[i], FromIndex: r.l.from[i], Videos: map[string]VideoSpan{}}
		if err := d.v21Paths(&e); err != nil {
			return err
		}
		d.episodes = append(d.episodes, e)
	}
	r.staged = d
	return nil
}

// makeMetaV21 writes meta/ of a v2.1 dataset: the lines hold the extra columns and the content hash, too, which other readers ignore;
// stats.json is there for those who want statistics of the whole.
func (r *rebuild) makeMetaV21(ctx context.Context) error {
	if err := r.d.remove(nextDir + "/meta"); err != nil {
		return err
	}
	pictures := map[string][]Stats{}
	var rows []EpisodeMeta
	for lo := 0; lo < len(r.p.Episodes); lo += tableRows {
		some, err := r.episodeRows(ctx, lo, min(lo+tableRows, len(r.p.Episodes)), fileIndex{}, pictures)
		if err != nil {
			return err
		}
		rows = append(rows, some...)
	}
	err := r.lines(v21EpisodesPath, len(rows), func(i int) (any, error) { return v21Line(rows[i]), nil })
	if err != nil {
		return err
	}
	err = r.lines(v21TasksPath, len(r.tasks), func(i int) (any, error) { return v21Task{&i, r.tasks[i]}, nil })
	if err != nil {
		return err
	}
	err = r.lines(v21StatsPath, len(rows), func(i int) (any, error) {
		stats, err := encodeStats(r.info.Features, rows[i].Stats)
		return v21Stats{&i, stats}, err
	})
	if err != nil {
		return err
	}
	return r.writeTotals(ctx, pictures)
}

// lines writes a table of one JSON object a line.
func (r *rebuild) lines(path string, n int, line func(i int) (any, error)) error {
	return r.d.write(nextDir+"/"+path, func(w io.Writer) error {
		b := bufio.NewWriter(w)
		for i := range n {
			v, err := line(i)
			if err != nil {
				return err
			}
			text, err := marshal(v)
			if err != nil {
				return err
			}
			b.Write(text)
			b.WriteByte('\n')
		}
		return b.Flush()
	})
}

// v21Line is an episode's line, the format's own keys first.
func v21Line(e EpisodeMeta) json.RawMessage {
	var parts []string
	add := func(name string, v any) {
		key, err1 := marshal(name)
		value, err2 := marshal(v)
		if x, ok := v.(float64); ok { // 1.0 stays a fraction when it is read again
			if value = []byte(strconv.FormatFloat(x, 'g', -1, 64)); !strings.ContainsAny(string(value), ".eE") {
				value = append(value, ".0"...)
			}
		}
		if errors.Join(err1, err2) == nil {
			parts = append(parts, string(key)+": "+string(value))
		}
	}
	add("episode_index", e.Index)
	add("tasks", e.Tasks)
	add("length", e.Length)
	for _, name := range slices.Sorted(maps.Keys(e.Extra)) {
		add(name, e.Extra[name])
	}
	add(contentColumn, e.content)
	return json.RawMessage(fmt.Sprintf("{%s}", strings.Join(parts, ", ")))
}
