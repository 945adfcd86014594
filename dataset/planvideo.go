package dataset

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/pinch-robotics/pinch/dataset/video"
)

// packSeconds ends a packed video before the float32 times of the official loader get too coarse (see maxFileSeconds).
const packSeconds = 1000

func fileSize(root, path string) (int64, error) {
	st, err := os.Stat(filepath.Join(root, path))
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

// pictures is where the pictures of one episode come from.
type pictures struct {
	key   fileKey
	first int
}

// source finds an episode's video; an image feature has none.
func (f PlanFeature) source(pe PlanEpisode) (pictures, error) {
	s, err := pe.From.Feature(f.From)
	if err != nil || s.DType != Video {
		return pictures{}, err
	}
	if _, _, err := pe.From.VideoFrame(pe.Index, f.From); err != nil {
		return pictures{}, err
	}
	e, err := pe.From.Episode(pe.Index)
	span := e.Videos[f.From]
	return pictures{fileKey{pe.From, span.Path}, span.FirstFrame}, err
}

// placePictures lays the pictures of one camera into files.
func (p Plan) placePictures(l *layout, c *camera, note func(string, ...any)) error {
	from := make([]pictures, len(p.Episodes))
	total := map[fileKey]int{}
	counted := map[*Dataset]bool{}
	for i, pe := range p.Episodes {
		var err error
		if from[i], err = c.f.source(pe); err != nil {
			return err
		}
		if !counted[pe.From] {
			counted[pe.From] = true
			countVideos(total, pe.From, c.f.From)
		}
	}
	if c.f.Encode == nil {
		if err := p.mustEncode(l, c, from, note); err != nil {
			return err
		}
	}
	k, err := p.packPictures(l, c, from)
	if err != nil {
		return err
	}
	c.files, c.run, c.first = k.runs, k.members, make([]int, len(p.Episodes))
	for r := range c.files {
		f := &c.files[r]
		f.whole = c.f.Encode == nil && p.wholeVideo(l, *f, from, total)
		at := 0
		for i := f.lo; i < f.hi; i++ {
			c.first[i] = at
			if f.whole {
				c.first[i] = from[i].first
			}
			at += l.lengths[i]
		}
	}
	return nil
}

// packPictures decides which episodes share a file.
func (p Plan) packPictures(l *layout, c *camera, from []pictures) (k packer, err error) {
	size, frames := 0.0, 0
	var head video.Info // of the first part in the file
	probes := probeCache{}
	for i := range p.Episodes {
		fresh := i == 0 || p.v21() || from[i].key != from[i-1].key
		var bytes float64
		if p.Pack && !p.v21() {
			var info video.Info
			bytes = float64(l.lengths[i]) * 30e3 // pictures that are not a video yet
			if from[i].key.d != nil {
				if info, err = probes.get(from[i].key); err != nil {
					return k, err
				}
				bytes = float64(info.Size) * float64(l.lengths[i]) / float64(max(1, info.Frames()))
			}
			fresh = size+bytes > defaultVideoFileMB<<20 || c.f.Encode == nil && i > 0 && !video.SameStream(head, info)
			if fresh || i == 0 {
				head = info
			}
		}
		if float64(frames+l.lengths[i])/float64(p.FPS) > packSeconds && p.Pack {
			fresh = true
		}
		if err := k.add(i, fresh); err != nil {
			return k, err
		}
		if k.runs[len(k.runs)-1].lo == i {
			size, frames = 0, 0
		}
		size, frames = size+bytes, frames+l.lengths[i]
	}
	return k, nil
}

// probeCache remembers the container probed last: episodes come file by file.
type probeCache struct {
	key  fileKey
	info video.Info
}

func (c *probeCache) get(key fileKey) (video.Info, error) {
	if c.key == key {
		return c.info, nil
	}
	info, err := video.Probe(filepath.Join(key.d.root, key.path))
	if err == nil {
		c.key, c.info = key, info
	}
	return info, err
}

// wholeVideo reports whether the file's pictures are all those of one source file, in order.
func (p Plan) wholeVideo(l *layout, r run, from []pictures, total map[fileKey]int) bool {
	key := from[r.lo].key
	if key.d == nil || total[key] != r.hi-r.lo || from[r.lo].first != 0 {
		return false
	}
	for i := r.lo; i < r.hi; i++ {
		if from[i].key != key || i > r.lo && from[i].first != from[i-1].first+l.lengths[i-1] {
			return false
		}
	}
	return true
}

// countVideos counts the episodes in each file of a source's camera.
func countVideos(total map[fileKey]int, d *Dataset, camera string) {
	for i := range d.NumEpisodes() {
		if path, ok := d.videoPath(i, camera); ok {
			total[fileKey{d, path}]++
		}
	}
}

// videoPath is the file of a camera's pictures of the i-th episode.
func (d *Dataset) videoPath(i int, camera string) (string, bool) {
	if d.table == nil {
		span, ok := d.episodes[i].Videos[camera]
		return span.Path, ok
	}
	c := slices.Index(d.table.cameras, camera)
	if c < 0 || len(d.table.videos[c].file) == 0 {
		return "", false
	}
	return d.table.videos[c].file[i].index().path(d.info.VideoPath, camera), true
}

// mustEncode finds out whether some episode can not be cut out by packets; then the whole camera is encoded anew.
func (p Plan) mustEncode(l *layout, c *camera, from []pictures, note func(string, ...any)) error {
	probes := probeCache{}
	seen := map[fileKey]int{}
	for i := range p.Episodes {
		seen[from[i].key] += l.lengths[i]
	}
	for i := range p.Episodes {
		key := from[i].key
		if !p.Pack && i > 0 && from[i-1].key == key { // looked at with its neighbours below
			continue
		}
		info, err := probes.get(key)
		if err != nil {
			return err
		}
		if !p.Pack && seen[key] == info.Frames() {
			continue // taken over whole
		}
		for j := i; j < len(p.Episodes) && from[j].key == key; j++ {
			if from[j].first == 0 && info.Frames() == l.lengths[j] && !p.Pack {
				continue
			}
			if err := info.CanCut(from[j].first); err == nil {
				continue
			} else if c.f.Encode == nil {
				codec := video.H264
				if info.Codec == video.AV1 {
					codec = video.AV1
				}
				c.f.Encode = &video.EncodeOptions{Codec: codec}
				note("video %q: encoded anew as %s, because of %s: %v", c.f.Name, codec, filepath.Join(key.d.root, key.path), err)
				return nil
			}
		}
	}
	return nil
}
