package view

import (
	"slices"
	"sync"

	"github.com/pinch-robotics/pinch/dataset"
)

// checkPage is the state of the check and what it found, by code.
type checkPage struct {
	// State is none, running, done or failed.
	State string `json:"state"`
	// Stage, Done and Total of a check that runs; Error of one that failed.
	Stage string `json:"stage,omitempty"`
	Done  int    `json:"done,omitempty"`
	Total int    `json:"total,omitempty"`
	Error string `json:"error,omitempty"`

	Errors   int         `json:"errors"`
	Warnings int         `json:"warnings"`
	Notes    int         `json:"notes"`
	Groups   []codeGroup `json:"groups"`
	Skipped  []string    `json:"skipped"`
}

// codeGroup is the findings of one code and severity.
type codeGroup struct {
	Code     string           `json:"code"`
	Severity dataset.Severity `json:"severity"`
	Count    int              `json:"count"`
	File     string           `json:"file"`
	Message  string           `json:"message"` // of the first
	Fix      string           `json:"fix"`
	Episodes []int            `json:"episodes"` // at most maxLinks
	More     int              `json:"more"`     // episodes left out
}

// maxLinks bounds the episodes that a group of findings names.
const maxLinks = 24

// counts of an episode's findings by severity, in the order of dataset.Severity.Rank.
type counts [3]int

// findings holds a report by episode. Safe for concurrent use.
type findings struct {
	mu    sync.Mutex
	page  checkPage
	by    map[int][]dataset.Finding
	count map[int]counts
	fresh int // grows whenever a report is set
}

func newFindings(report *dataset.Report) *findings {
	f := &findings{page: checkPage{State: "none", Groups: []codeGroup{}, Skipped: []string{}}}
	if report != nil {
		f.set(report)
	}
	return f
}

func (f *findings) update(change func(p *checkPage)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.page)
}

// set shows a report.
func (f *findings) set(r *dataset.Report) {
	page := checkPage{State: "done", Errors: r.Number(dataset.Error), Warnings: r.Number(dataset.Warn), Notes: r.Number(dataset.Note),
		Groups: []codeGroup{}, Skipped: r.Skipped}
	if page.Skipped == nil {
		page.Skipped = []string{}
	}
	by, count, at := map[int][]dataset.Finding{}, map[int]counts{}, map[string]int{}
	for _, x := range r.Findings {
		key := string(x.Severity) + x.Code
		if _, ok := at[key]; !ok {
			at[key] = len(page.Groups)
			page.Groups = append(page.Groups, codeGroup{Code: x.Code, Severity: x.Severity, File: x.File, Message: x.Message, Fix: x.Fix, Episodes: []int{}})
		}
		g := &page.Groups[at[key]]
		g.Count++
		if x.Episode < 0 {
			continue
		}
		by[x.Episode] = append(by[x.Episode], x)
		c := count[x.Episode]
		if k := x.Severity.Rank(); k >= 0 {
			c[k]++
		}
		count[x.Episode] = c
		switch {
		case slices.Contains(g.Episodes, x.Episode):
		case len(g.Episodes) < maxLinks:
			g.Episodes = append(g.Episodes, x.Episode)
		default:
			g.More++
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.page, f.by, f.count = page, by, count
	f.fresh++
}

func (f *findings) of(episode int) []dataset.Finding {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.by[episode]
}

// snapshot returns the page, and the counts, which are never changed once they are set.
func (f *findings) snapshot() (checkPage, map[int]counts, int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.page, f.count, f.fresh
}
