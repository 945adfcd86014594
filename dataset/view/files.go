package view

import (
	"bytes"
	"fmt"
	"image"
	"image/jpeg"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/dataset/video"
)

// locate finds a file where the template says, or under another top folder by the same rest of the path; "" when nowhere.
func locate(root, rel string) string {
	if !filepath.IsLocal(filepath.FromSlash(rel)) {
		return ""
	}
	if path := filepath.Join(root, filepath.FromSlash(rel)); isFile(path) {
		return path
	}
	_, rest, _ := strings.Cut(rel, "/")
	if rest == "" {
		return ""
	}
	folders, _ := os.ReadDir(root)
	for _, f := range folders {
		if path := filepath.Join(root, f.Name(), filepath.FromSlash(rest)); f.IsDir() && isFile(path) {
			return path
		}
	}
	return ""
}

func isFile(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular()
}

// pictures gives single pictures of an episode, for browsers that can not decode a video and for features of picture files. Safe for
// concurrent use.
type pictures struct {
	d *dataset.Dataset

	mu     sync.Mutex
	path   string // of the open video
	reader *video.Reader
	still  stills
}

// stills are the picture files of one feature of one episode.
type stills struct {
	feature string
	episode int
	files   []string
}

// at returns the picture of a row as JPEG or PNG.
func (p *pictures) at(f dataset.Feature, e dataset.EpisodeMeta, row int) ([]byte, error) {
	if row < 0 || row >= e.Length {
		return nil, fmt.Errorf("episode %d has %d rows, no row %d", e.Index, e.Length, row)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if f.DType == dataset.Image {
		return p.stillAt(f.Name, e, row)
	}
	span := e.Videos[f.Name]
	path := locate(p.d.Root(), span.Path)
	if path == "" {
		return nil, fmt.Errorf("the file %s is missing: %w", span.Path, os.ErrNotExist)
	}
	if path != p.path {
		p.close()
		r, err := video.Open(path, video.ReaderOptions{})
		if err != nil {
			return nil, err
		}
		p.path, p.reader = path, r
	}
	w, h := p.reader.Size()
	rgb := make([]byte, 3*w*h)
	if err := p.reader.Frame(span.FirstFrame+row, rgb); err != nil {
		return nil, err
	}
	return encodeJPEG(rgb, w, h)
}

func (p *pictures) close() {
	if p.reader != nil {
		p.reader.Close()
	}
	p.path, p.reader = "", nil
}

func encodeJPEG(rgb []byte, w, h int) ([]byte, error) {
	img := image.NewRGBA(image.Rect(0, 0, w, h))
	for i := range w * h {
		img.Pix[4*i], img.Pix[4*i+1], img.Pix[4*i+2], img.Pix[4*i+3] = rgb[3*i], rgb[3*i+1], rgb[3*i+2], 255
	}
	var b bytes.Buffer
	err := jpeg.Encode(&b, img, &jpeg.Options{Quality: 90})
	return b.Bytes(), err
}

// stillAt reads the picture files of an episode at once: they stand in one group of rows.
func (p *pictures) stillAt(name string, e dataset.EpisodeMeta, row int) ([]byte, error) {
	if p.still.feature != name || p.still.episode != e.Index || len(p.still.files) == 0 {
		files, err := p.d.Pictures(name, e.Index)
		if err != nil {
			return nil, err
		}
		p.still = stills{name, e.Index, files}
	}
	if row >= len(p.still.files) {
		return nil, fmt.Errorf("episode %d has no picture %d of %q", e.Index, row, name)
	}
	return []byte(p.still.files[row]), nil
}
