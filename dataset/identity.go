package dataset

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"maps"
	"math"
	"path/filepath"
	"slices"

	"github.com/pinch-robotics/pinch/dataset/video"
)

// identityVersion changes when the way of hashing does.
const identityVersion = "pinch dataset identity 1"

// hasher writes values with their lengths, so that no two contents give the same bytes.
type hasher struct{ h hash.Hash }

func (h hasher) number(v uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], v)
	h.h.Write(b[:])
}

func (h hasher) text(s string) {
	h.number(uint64(len(s)))
	h.h.Write([]byte(s))
}

func (h hasher) values(v any) error {
	switch v := v.(type) {
	case []string:
		for _, s := range v {
			h.text(s)
		}
		return nil
	case []bool:
		n, _ := convertTo[float64](v)
		return binary.Write(h.h, binary.LittleEndian, n)
	default:
		return binary.Write(h.h, binary.LittleEndian, v)
	}
}

// Identity is a hash of the content: features, rate, tasks, rows, extra columns and encoded video of every episode,
// whatever the file layout (hex SHA-256). Two copies, or a copy before and after compaction, have the same identity; a
// dataset with a missing file has none.
func (d *Dataset) Identity() (string, error) {
	h := hasher{sha256.New()}
	h.text(identityVersion)
	h.number(uint64(d.info.FPS))
	h.text(d.info.RobotType)
	for _, f := range d.info.Features {
		h.text(f.Name)
		h.text(string(f.DType))
		for _, s := range f.Shape {
			h.number(uint64(s))
		}
		for _, n := range f.Names {
			h.text(n)
		}
		h.number(math.MaxUint64) // ends the lists
	}
	for _, e := range d.episodes {
		if err := d.hashEpisode(h, e); err != nil {
			return "", fmt.Errorf("identify dataset %s: %w", d.root, err)
		}
	}
	return hex.EncodeToString(h.h.Sum(nil)), nil
}

func (d *Dataset) hashEpisode(h hasher, e EpisodeMeta) error {
	h.number(uint64(e.Length))
	tasks, err := d.RowTasks(e.Index)
	if err != nil {
		return err
	}
	if err := h.values(tasks); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(e.Extra)) {
		h.text(name)
		h.text(fmt.Sprintf("%T %v", e.Extra[name], e.Extra[name]))
	}
	for _, f := range d.info.Features {
		h.text(f.Name)
		switch {
		case f.DType == Video:
			err = d.hashVideo(h, e, f.Name)
		case f.Name == TaskIndex: // the texts count, not their numbers
		default:
			var v any
			if v, err = d.readValues(f, e.Index); err == nil {
				err = h.values(v)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// hashVideo hashes the coded pictures of the episode's frames.
func (d *Dataset) hashVideo(h hasher, e EpisodeMeta, key string) error {
	span := e.Videos[key]
	last := span.FirstFrame + e.Length
	path := filepath.Join(d.root, span.Path)
	info, err := video.Probe(path)
	if err != nil {
		return err
	}
	n := 0
	err = video.Packets(path, func(i int, data []byte) error {
		if i >= span.FirstFrame && i < last {
			coded := video.Coded(info.Codec, data)
			h.number(uint64(len(coded)))
			h.h.Write(coded)
			n++
		}
		return nil
	})
	if err == nil && n != e.Length {
		err = fmt.Errorf("episode %d has %d rows, %s gives %d frames", e.Index, e.Length, span.Path, n)
	}
	return err
}

// RowTasks returns the instruction of each row of an episode.
func (d *Dataset) RowTasks(episode int) ([]string, error) {
	index, err := ReadColumn[int64](d, TaskIndex, episode)
	if err != nil {
		return nil, err
	}
	out := make([]string, len(index))
	for r, i := range index {
		if i < 0 || int(i) >= len(d.tasks) {
			return nil, fmt.Errorf("row %d of episode %d has task_index %d, the dataset has %d tasks", r, episode, i, len(d.tasks))
		}
		out[r] = d.tasks[i]
	}
	return out, nil
}
