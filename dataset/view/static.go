package view

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/internal/atomicfile"
)

// WriteOptions choose what Write writes.
type WriteOptions struct {
	// Episodes to show by number; nil shows all whose rows are present.
	Episodes []int
	// Embed puts the videos into the pages instead of beside them.
	Embed bool
	// Report of a check, whose findings the pages show; nil shows none.
	Report *dataset.Report
	// Progress is called after each page; may be nil.
	Progress func(done, total int)
}

// staticBoot is the data inside a page of a folder.
type staticBoot struct {
	Set     setPage           `json:"set"`
	Check   checkPage         `json:"check"`
	List    []listRow         `json:"list,omitempty"`    // of index.html
	Episode *episodePage      `json:"episode,omitempty"` // of the others
	Columns map[string]string `json:"columns,omitempty"` // columnBytes in base64
	Failed  map[string]string `json:"failed,omitempty"`  // columns that can not be read, and why
}

// Write makes a folder of pages (index.html and one for each episode) that need neither a program nor a network, with the videos
// beside them (or inside), and returns the path of index.html. Files it wrote before are replaced; other files stay.
func Write(ctx context.Context, root, out string, o WriteOptions) (string, error) {
	d, err := dataset.Open(root)
	if err != nil {
		return "", err
	}
	s := &static{d: d, o: o, out: out, found: newFindings(o.Report), set: describeSet(d)}
	if err := s.write(ctx); err != nil {
		return "", fmt.Errorf("view %s: %w", root, err)
	}
	return filepath.Join(out, "index.html"), nil
}

type static struct {
	d     *dataset.Dataset
	o     WriteOptions
	out   string
	found *findings
	set   setPage
}

func (s *static) write(ctx context.Context) error {
	if err := os.MkdirAll(s.out, 0o755); err != nil {
		return err
	}
	places, err := s.choose()
	if err != nil {
		return err
	}
	index := staticBoot{Set: s.set, List: []listRow{}}
	var count map[int]counts
	index.Check, count, _ = s.found.snapshot()
	for i, at := range places {
		if err := ctx.Err(); err != nil {
			return err
		}
		e, err := s.d.At(at)
		if err != nil {
			return fmt.Errorf("episode %d: %w", e.Index, err)
		}
		prev, next := -1, -1
		if i > 0 {
			prev = index.List[i-1].Index
		}
		if i+1 < len(places) {
			x, _ := s.d.At(places[i+1])
			next = x.Index
		}
		if err := s.episode(at, e.Index, prev, next); err != nil {
			return fmt.Errorf("episode %d: %w", e.Index, err)
		}
		index.List = append(index.List, describeRow(s.d, e, count[e.Index], true))
		if s.o.Progress != nil {
			s.o.Progress(i+1, len(places))
		}
	}
	return s.render("index.html", s.set.Name, index)
}

// choose lists places in the table: of the wanted episodes, else of those whose rows are there (videos may be missing).
func (s *static) choose() ([]int, error) {
	at := map[int]int{}
	var all []int
	for i := range s.d.NumEpisodes() {
		e, _ := s.d.At(i)
		at[e.Index] = i
		if s.o.Episodes == nil {
			if _, err := dataset.ReadColumn[float64](s.d, dataset.FrameIndex, e.Index); err == nil {
				all = append(all, i)
			}
		}
	}
	if s.o.Episodes == nil {
		return all, nil
	}
	for _, e := range s.o.Episodes {
		i, ok := at[e]
		if !ok {
			_, err := s.d.Episode(e)
			return nil, err
		}
		all = append(all, i)
	}
	return all, nil
}

func pageName(episode int) string { return fmt.Sprintf("episode_%06d.html", episode) }

func (s *static) episode(at, index, prev, next int) error {
	var copyErr error
	p, err := describeEpisode(s.d, at, s.found.of(index), func(e dataset.EpisodeMeta, c *camera) {
		if c.Codec == "" || c.Note != "" {
			if c.Note == "" {
				c.Note = "pages in files do not show picture files: look at the dataset with pinch dataset view --listen"
			}
			return
		}
		src, err := s.bring(e.Videos[c.Name].Path)
		c.Src, copyErr = src, errors.Join(copyErr, err)
	})
	if err != nil {
		return err
	}
	if copyErr != nil {
		return copyErr
	}
	p.Prev, p.Next = prev, next
	boot := staticBoot{Set: s.set, Episode: &p, Columns: map[string]string{}, Failed: map[string]string{}}
	boot.Check, _, _ = s.found.snapshot()
	boot.Check.Groups, boot.Check.Skipped = []codeGroup{}, []string{} // the index has them
	for _, f := range s.d.Features() {
		if !f.DType.Numeric() || isIndex(f.Name) {
			continue
		}
		b, err := columnBytes(s.d, f, index)
		if err != nil {
			boot.Failed[f.Name] = err.Error()
			continue
		}
		boot.Columns[f.Name] = base64.StdEncoding.EncodeToString(b)
	}
	return s.render(pageName(index), fmt.Sprintf("%s: episode %d", s.set.Name, index), boot)
}

// bring copies a video beside the pages, or returns it as text.
func (s *static) bring(rel string) (src string, err error) {
	path := locate(s.d.Root(), rel)
	if s.o.Embed {
		b, err := os.ReadFile(path)
		return "data:video/mp4;base64," + base64.StdEncoding.EncodeToString(b), err
	}
	inside, err := filepath.Rel(s.d.Root(), path)
	if err != nil {
		return "", err
	}
	return escaped("videos/" + filepath.ToSlash(inside)), copyFile(path, filepath.Join(s.out, "videos", inside))
}

// copyFile copies a file unless it is there already with the same size.
func copyFile(src, dst string) error {
	a, err := os.Stat(src)
	if err != nil {
		return err
	}
	if b, err := os.Stat(dst); err == nil && b.Size() == a.Size() && !b.ModTime().Before(a.ModTime()) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(dst), 0o755); err != nil {
		return err
	}
	in, err := os.Open(src)
	if err != nil {
		return err
	}
	defer in.Close()
	return atomicfile.Write(atomicfile.OS, dst, 0o644, func(w io.Writer) error {
		_, err := io.Copy(w, in)
		return err
	})
}

// render writes a page, whole or not at all.
func (s *static) render(name, title string, boot staticBoot) error {
	b, err := json.Marshal(boot)
	if err != nil {
		return err
	}
	return atomicfile.Write(atomicfile.OS, filepath.Join(s.out, name), 0o644, func(w io.Writer) error {
		return writePage(w, page{Title: title, Boot: b})
	})
}
