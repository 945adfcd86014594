package loader

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/internal/atomicfile"
)

// store finds or makes the frames of a camera and episode. With a folder, each pair is one file of raw RGB bytes:
//
//	<folder>/<identity, 16 hex>/<camera feature>-<geometry hash>/episode-000007.rgb
//
// A file is written whole or not at all, so an interrupted run goes on where it stopped. Files of another dataset or
// geometry have other names; deleting the folder is always safe.
type store struct {
	folder string // of this dataset; empty: memory only
}

func newStore(ds *dataset.Dataset, o Options) (store, error) {
	if o.CacheDir == "" {
		return store{}, nil
	}
	id, err := ds.Identity()
	if err != nil {
		return store{}, fmt.Errorf("identify dataset for the frame cache: %w", err)
	}
	s := store{folder: filepath.Join(o.CacheDir, id[:min(len(id), 16)])}
	for _, c := range o.Cameras {
		dir := s.dir(c)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return store{}, fmt.Errorf("make frame cache: %w", err)
		}
		if _, err := atomicfile.RemoveStale(dir); err != nil {
			return store{}, err
		}
	}
	return s, nil
}

func (s store) dir(c Camera) string {
	return filepath.Join(s.folder, c.Feature+"-"+c.Geometry.Hash())
}

// load gives Length*Height*Width*3 bytes.
func (s store) load(ctx context.Context, ds *dataset.Dataset, e Episode, c Camera) (frames, error) {
	if s.folder == "" {
		pix, err := decode(ctx, ds, e, c)
		return frames{pix: pix}, err
	}
	path := filepath.Join(s.dir(c), frameFile(e.Index))
	size := e.Length * c.Geometry.Width * c.Geometry.Height * 3
	if pix, unmap, err := mapFile(path, size); err == nil {
		return frames{pix: pix, unmap: unmap, cached: true}, nil
	}
	pix, err := decode(ctx, ds, e, c)
	if err != nil {
		return frames{}, err
	}
	if err := atomicfile.WriteFile(path, pix, 0o644); err != nil {
		return frames{}, fmt.Errorf("write frame cache: %w", err)
	}
	mapped, unmap, err := mapFile(path, size)
	if err != nil {
		return frames{}, err
	}
	return frames{pix: mapped, unmap: unmap}, nil
}
