package loader

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/internal/atomicfile"
)

// episodeID is the extra column that pinch writes: "{recording uuid}:{segment}".
const episodeID = "episode_id"

// identityBytes of the content hash of one episode.
const identityBytes = 16

// identities names each chosen episode by what it is: its episode_id, or in datasets of other tools a hash of its rows, which is
// made once and kept beside the column files.
func (b *columnBuild) identities(ctx context.Context, ds *dataset.Dataset, chosen []dataset.EpisodeMeta) ([]string, error) {
	out := make([]string, len(chosen))
	var hashes map[int]string
	for i, e := range chosen {
		if id, ok := e.Extra[episodeID].(string); ok && id != "" {
			out[i] = id
			continue
		}
		if hashes == nil {
			var err error
			if hashes, err = b.contentHashes(ctx, ds); err != nil {
				return nil, err
			}
		}
		out[i] = hashes[e.Index]
	}
	return out, nil
}

// contentHashes reads or makes the hashes of all episodes.
func (b *columnBuild) contentHashes(ctx context.Context, ds *dataset.Dataset) (map[int]string, error) {
	path := filepath.Join(b.folder, "episodes.sha256")
	data, err := os.ReadFile(path)
	if err != nil || len(data) != identityBytes*len(b.episodes) {
		if data, err = b.hashEpisodes(ctx, ds); err != nil {
			return nil, err
		}
		if err := atomicfile.WriteFile(path, data, 0o644); err != nil {
			return nil, err
		}
	}
	out := make(map[int]string, len(b.episodes))
	for i, e := range b.episodes {
		out[e.index] = string(data[i*identityBytes : (i+1)*identityBytes])
	}
	return out, nil
}

func (b *columnBuild) hashEpisodes(ctx context.Context, ds *dataset.Dataset) ([]byte, error) {
	var own []dataset.Feature
	for _, f := range ds.Features() {
		switch f.Name {
		case dataset.Timestamp, dataset.FrameIndex, dataset.EpisodeIndex, dataset.Index, dataset.TaskIndex: // say where, not what
		default:
			if f.DType.Numeric() {
				own = append(own, f)
			}
		}
	}
	var all []byte
	var buf bytes.Buffer
	for i := range b.episodes {
		e := &b.episodes[i]
		h := sha256.New()
		for _, f := range own {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			values, err := b.tables.column(ctx, e, f)
			if err != nil {
				return nil, fmt.Errorf("episode %d: %w", e.index, err)
			}
			buf.Reset()
			if err := binary.Write(&buf, binary.LittleEndian, values); err != nil {
				return nil, fmt.Errorf("episode %d: feature %q: %w", e.index, f.Name, err)
			}
			fmt.Fprintf(h, "%q %d\n", f.Name, buf.Len())
			h.Write(buf.Bytes())
		}
		all = append(all, h.Sum(nil)[:identityBytes]...)
	}
	return all, nil
}
