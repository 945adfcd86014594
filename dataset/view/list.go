package view

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/pinch-robotics/pinch/dataset"
)

// listPage is a part of the list of episodes.
type listPage struct {
	Total   int       `json:"total"`   // of the dataset
	Matched int       `json:"matched"` // by the query
	From    int       `json:"from"`    // place of the first row among the matched
	Rows    []listRow `json:"rows"`
}

type listRow struct {
	Index   int     `json:"index"`
	Rows    int     `json:"rows"`
	Seconds float64 `json:"seconds"`
	Task    string  `json:"task"`
	// Success is yes, no or empty.
	Success  string `json:"success"`
	Errors   int    `json:"errors"`
	Warnings int    `json:"warnings"`
	Notes    int    `json:"notes"`
	// Missing counts files that are not there.
	Missing int `json:"missing"`
}

// query chooses episodes: those whose number, instruction or extra columns contain the text, and of these all, or those with
// errors, warnings (or errors), or without success.
type query struct {
	text, only string
}

var onlyWords = []string{"", "errors", "warnings", "failed"}

// maxList bounds the rows of one answer.
const maxList = 500

// list answers queries, and remembers the places that the last query matched.
type list struct {
	d *dataset.Dataset
	f *findings

	mu     sync.Mutex
	last   query
	fresh  int
	places []int32 // nil: all
	known  bool
}

// page returns up to n rows from place from among the episodes that match.
func (l *list) page(ctx context.Context, q query, from, n int) (listPage, error) {
	_, count, fresh := l.f.snapshot()
	places, err := l.match(ctx, q, count, fresh)
	if err != nil {
		return listPage{}, err
	}
	p := listPage{Total: l.d.NumEpisodes(), Matched: l.d.NumEpisodes(), From: max(0, from), Rows: []listRow{}}
	if places != nil {
		p.Matched = len(places)
	}
	for k := p.From; k < min(p.From+min(n, maxList), p.Matched); k++ {
		at := k
		if places != nil {
			at = int(places[k])
		}
		e, _ := l.d.At(at)
		p.Rows = append(p.Rows, describeRow(l.d, e, count[e.Index], true))
	}
	return p, nil
}

// describeRow is one line of the list. Looking for files costs a system call for each.
func describeRow(d *dataset.Dataset, e dataset.EpisodeMeta, c counts, files bool) listRow {
	r := listRow{Index: e.Index, Rows: e.Length, Seconds: float64(e.Length) / float64(d.Info().FPS), Task: strings.Join(e.Tasks, "; "),
		Success: success(e), Errors: c[0], Warnings: c[1], Notes: c[2]}
	if !files {
		return r
	}
	for _, path := range append([]string{e.DataPath}, videoPaths(d, e)...) {
		if locate(d.Root(), path) == "" {
			r.Missing++
		}
	}
	return r
}

func videoPaths(d *dataset.Dataset, e dataset.EpisodeMeta) (paths []string) {
	for _, f := range d.Features() {
		if f.DType == dataset.Video {
			paths = append(paths, e.Videos[f.Name].Path)
		}
	}
	return paths
}

func success(e dataset.EpisodeMeta) string {
	switch e.Extra["success"] {
	case true:
		return "yes"
	case false:
		return "no"
	}
	return ""
}

// match lists the places that match, nil for all.
func (l *list) match(ctx context.Context, q query, count map[int]counts, fresh int) ([]int32, error) {
	if q == (query{}) {
		return nil, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known && l.last == q && l.fresh == fresh {
		return l.places, nil
	}
	places := []int32{}
	text := strings.ToLower(q.text)
	at := int32(-1)
	for e := range l.d.All() {
		at++
		if at%1024 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if wanted(e, q.only, count[e.Index]) && contains(e, text) {
			places = append(places, at)
		}
	}
	l.last, l.fresh, l.places, l.known = q, fresh, places, true
	return places, nil
}

func wanted(e dataset.EpisodeMeta, only string, c counts) bool {
	switch only {
	case "errors":
		return c[0] > 0
	case "warnings":
		return c[0]+c[1] > 0
	case "failed":
		return success(e) == "no"
	}
	return true
}

// contains looks for a text in lower case.
func contains(e dataset.EpisodeMeta, text string) bool {
	if text == "" || itoa(e.Index) == text {
		return true
	}
	for _, t := range e.Tasks {
		if strings.Contains(strings.ToLower(t), text) {
			return true
		}
	}
	for name, v := range e.Extra {
		if !isMark(name) && strings.Contains(strings.ToLower(fmt.Sprint(v)), text) {
			return true
		}
	}
	return false
}
