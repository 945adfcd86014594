package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/dataset/check"
	"github.com/pinch-robotics/pinch/dataset/faultplant"
)

// FaultsOptions say how to measure what the check finds of planted faults.
type FaultsOptions struct {
	// Dataset is the clean dataset of v3.0 in which faults are planted; each episode must have files of its own.
	Dataset string
	// Clean are further datasets on which the check's own findings are listed; they are not planted in.
	Clean []string
	// Kinds of faults by name or group; nil takes all.
	Kinds []string
	// Episodes is how many get a fault of each kind; default 50.
	Episodes int
	// Seed of the faults.
	Seed uint64
	// Work is a folder for the copies; default a temporary one.
	Work string
	// Progress gets a line for each kind; may be nil.
	Progress io.Writer
}

func (o FaultsOptions) wants(k faultplant.Kind) bool {
	return o.Kinds == nil || slices.Contains(o.Kinds, k.Name) || slices.Contains(o.Kinds, k.Group)
}

// FaultRow is what became of one kind.
type FaultRow struct {
	Kind    string `json:"kind"`
	Group   string `json:"group"`
	Planted int    `json:"planted"`
	// Found counts planted episodes that an error or warning names, by number or by a file of theirs, which the clean dataset does not have.
	Found int `json:"found"`
	// Codes of these findings with the number of episodes, Missed the faults without any.
	Codes  map[string]int     `json:"codes"`
	Missed []faultplant.Fault `json:"missed,omitempty"`
	// Flagged counts episodes without a fault that such a finding names, of Others.
	Flagged int  `json:"flagged"`
	Others  int  `json:"others"`
	Decoded bool `json:"decoded"`
	// Whole are codes of new findings that name no episode.
	Whole []string `json:"whole,omitempty"`
}

// CleanRow is what the check says of a clean dataset.
type CleanRow struct {
	Dataset  string         `json:"dataset"`
	Episodes int            `json:"episodes"`
	Flagged  int            `json:"flagged"`
	Codes    map[string]int `json:"codes"`
}

// FaultsReport is the outcome.
type FaultsReport struct {
	Clean []CleanRow `json:"clean"`
	Rows  []FaultRow `json:"rows"`
}

// Faults plants faults of each kind in a copy of the dataset, runs the check on it and counts what it finds.
func Faults(ctx context.Context, o FaultsOptions) (*FaultsReport, error) {
	if o.Episodes == 0 {
		o.Episodes = 50
	}
	if o.Work == "" {
		dir, err := os.MkdirTemp("", "pinch-faults-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		o.Work = dir
	}
	base := filepath.Join(o.Work, "base")
	if err := faultplant.Base(ctx, o.Dataset, base); err != nil {
		return nil, err
	}
	p, err := faultplant.Open(base)
	if err != nil {
		return nil, err
	}
	h := &faultHunt{o: o, decode: slices.ContainsFunc(faultplant.Kinds(), func(k faultplant.Kind) bool { return looks(k) && o.wants(k) }), base: base, p: p, before: map[bool]map[string]bool{}}
	r := &FaultsReport{}
	for _, root := range append([]string{base}, o.Clean...) {
		row, err := h.clean(ctx, root)
		if err != nil {
			return nil, err
		}
		r.Clean = append(r.Clean, row)
	}
	for _, k := range faultplant.Kinds() {
		if !o.wants(k) {
			continue
		}
		row, err := h.kind(ctx, k)
		if err != nil {
			return r, err
		}
		r.Rows = append(r.Rows, row)
		if o.Progress != nil {
			fmt.Fprintf(o.Progress, "faults: %s: %d of %d found, %d of %d others flagged %v\n", k.Name, row.Found, row.Planted, row.Flagged, row.Others, row.Codes)
		}
	}
	return r, nil
}

// faultHunt is one call of Faults.
type faultHunt struct {
	o      FaultsOptions
	decode bool // some kind needs it
	base   string
	p      *faultplant.Planter
	before map[bool]map[string]bool // what is found in the base, with pictures decoded or not
	files  map[string]int           // episode by file
}

// looks reports whether a fault shows in decoded pictures only.
func looks(k faultplant.Kind) bool {
	return strings.HasPrefix(k.Name, "camera-") || k.Name == "video-block-lost"
}

// key tells findings apart that are of one episode or file.
func key(f dataset.Finding) string {
	return fmt.Sprintf("%s|%d|%s|%s", f.Code, f.Episode, f.File, f.Feature)
}

func (h *faultHunt) check(ctx context.Context, root string, decode bool) ([]dataset.Finding, error) {
	r, err := check.Run(ctx, root, check.Options{Decode: decode})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(r.Findings, func(f dataset.Finding) bool { return f.Severity == dataset.Note }), nil
}

func (h *faultHunt) clean(ctx context.Context, root string) (CleanRow, error) {
	r, err := check.Run(ctx, root, check.Options{Decode: h.decode})
	if err != nil {
		return CleanRow{}, err
	}
	row := CleanRow{Dataset: filepath.Base(root), Episodes: r.Present, Codes: map[string]int{}}
	flagged := map[int]bool{}
	for _, f := range r.Findings {
		if f.Severity == dataset.Note {
			continue
		}
		row.Codes[f.Code]++
		if f.Episode >= 0 {
			flagged[f.Episode] = true
		}
	}
	row.Flagged = len(flagged)
	return row, nil
}

// known lists the findings in the base.
func (h *faultHunt) known(ctx context.Context, decode bool) (map[string]bool, error) {
	if h.before[decode] == nil {
		findings, err := h.check(ctx, h.base, decode)
		if err != nil {
			return nil, err
		}
		h.before[decode] = map[string]bool{}
		for _, f := range findings {
			h.before[decode][key(f)] = true
		}
	}
	return h.before[decode], nil
}

func (h *faultHunt) kind(ctx context.Context, k faultplant.Kind) (FaultRow, error) {
	row := FaultRow{Kind: k.Name, Group: k.Group, Codes: map[string]int{}, Decoded: looks(k)}
	known, err := h.known(ctx, row.Decoded)
	if err != nil {
		return row, err
	}
	root := filepath.Join(h.o.Work, "planted")
	if err := os.RemoveAll(root); err != nil {
		return row, err
	}
	faults, err := h.p.Plant(ctx, root, k.Name, h.o.Seed, h.o.Episodes)
	if err != nil {
		return row, err
	}
	row.Planted = len(faults)
	findings, err := h.check(ctx, root, row.Decoded)
	if err != nil {
		return row, err
	}
	planted := map[int]faultplant.Fault{}
	for _, f := range faults {
		planted[f.Episode] = f
	}
	named := h.byEpisode(findings, known, &row)
	for e, codes := range named {
		if _, ok := planted[e]; !ok {
			row.Flagged++
			continue
		}
		row.Found++
		for code := range codes {
			row.Codes[code]++
		}
	}
	for _, f := range faults {
		if named[f.Episode] == nil {
			row.Missed = append(row.Missed, f)
		}
	}
	row.Others = h.p.NumEpisodes() - row.Planted
	return row, os.RemoveAll(root)
}

// byEpisode sorts new findings by the episode that they name, codes as a set.
func (h *faultHunt) byEpisode(findings []dataset.Finding, known map[string]bool, row *FaultRow) map[int]map[string]bool {
	if h.files == nil {
		h.files = h.p.Files()
	}
	out := map[int]map[string]bool{}
	for _, f := range findings {
		if known[key(f)] {
			continue
		}
		e := f.Episode
		if e < 0 {
			owner, ok := h.files[f.File]
			if !ok {
				if !slices.Contains(row.Whole, f.Code) {
					row.Whole = append(row.Whole, f.Code)
				}
				continue
			}
			e = owner
		}
		if out[e] == nil {
			out[e] = map[string]bool{}
		}
		out[e][f.Code] = true
	}
	return out
}

// WriteText prints the report as a table.
func (r *FaultsReport) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "kind\tplanted\tfound\tclean episodes flagged\tby")
	planted, found, flagged, others := 0, 0, 0, 0
	for _, row := range r.Rows {
		codes := slices.SortedFunc(maps.Keys(row.Codes), func(a, b string) int { return row.Codes[b] - row.Codes[a] })
		fmt.Fprintf(t, "%s\t%d\t%d\t%d of %d\t%s\n", row.Kind, row.Planted, row.Found, row.Flagged, row.Others, strings.Join(codes[:min(3, len(codes))], " "))
		planted, found, flagged, others = planted+row.Planted, found+row.Found, flagged+row.Flagged, others+row.Others
	}
	fmt.Fprintf(t, "all\t%d\t%d (%.1f %%)\t%d of %d (%.2f %%)\t\n", planted, found, percent(found, planted), flagged, others, percent(flagged, others))
	for _, c := range r.Clean {
		fmt.Fprintf(t, "clean: %s\t\t\t%d of %d\t%v\n", c.Dataset, c.Flagged, c.Episodes, c.Codes)
	}
	return t.Flush()
}

func percent(a, of int) float64 { return 100 * float64(a) / float64(max(1, of)) }

// WriteJSON prints the report for programs.
func (r *FaultsReport) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}
