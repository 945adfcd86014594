package eval

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"

	"github.com/pinch-robotics/pinch/dataset/ingest"
	"github.com/pinch-robotics/pinch/internal/atomicfile"
)

// Names of the report's files in an output folder.
const (
	ReportJSON = "report.json"
	ReportHTML = "report.html"
)

// datasets turns the trials of the entrants that Options.Record names into a dataset each. Trials that are in it already are
// left alone.
func (r *runner) datasets(ctx context.Context) error {
	names := r.o.Record
	if names == nil {
		names = []string{r.plan.Entrants[0].Name}
	}
	for _, name := range names {
		source := filepath.Join(r.o.Out, "trials", name)
		if _, err := os.Stat(source); err != nil {
			return fmt.Errorf("make a dataset of trials: %q is no entrant of this plan", name)
		}
		_, err := ingest.Run(ctx, ingest.Options{
			Sources: []string{source}, Out: filepath.Join(r.o.Out, "datasets", name), Logger: r.o.Logger,
		})
		if err != nil {
			return fmt.Errorf("make a dataset of the trials of %s: %w", name, err)
		}
	}
	return nil
}

// finish sums the trials up and writes both reports.
func finish(out string, plan Plan, trials []Trial) (*Report, error) {
	r, err := summarize(plan, trials)
	if err != nil {
		return nil, err
	}
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the report: %w", err)
	}
	if err := atomicfile.WriteFile(filepath.Join(out, ReportJSON), append(data, '\n'), 0o644); err != nil {
		return nil, err
	}
	err = atomicfile.Write(atomicfile.OS, filepath.Join(out, ReportHTML), 0o644, func(w io.Writer) error { return r.WriteHTML(w, out) })
	return r, err
}

// ReadReport reads the report.json of an output folder.
func ReadReport(out string) (*Report, error) {
	path := filepath.Join(out, ReportJSON)
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read a report: %w", err)
	}
	var r Report
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("read a report: %s: %w", path, err)
	}
	if r.Plan.Version != PlanVersion {
		return nil, fmt.Errorf("read a report: %s has version %d, this program reads %d", path, r.Plan.Version, PlanVersion)
	}
	return &r, nil
}

// WriteText prints the score table.
func (r *Report) WriteText(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintf(tw, "\tmean score [%.0f %%]\tsuccess", 100*r.Plan.Level)
	for _, m := range r.Plan.Task.Rubric() {
		fmt.Fprintf(tw, "\t%s", m.Name)
	}
	fmt.Fprintln(tw)
	for _, s := range r.Summaries {
		fmt.Fprintf(tw, "%s\t%v\t%.0f/%d", s.Entrant, s.Score, s.Success.Estimate*float64(s.Trials), s.Trials)
		for _, st := range s.Steps {
			fmt.Fprintf(tw, "\t%d/%d", st.Passes, st.Attempts)
		}
		fmt.Fprintln(tw)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for _, c := range r.Comparisons {
		if _, err := fmt.Fprintf(w, "%s - %s: %+.2f [%+.2f, %+.2f], %s p = %.2g\n",
			c.Entrant, c.Against, c.Difference.Estimate, c.Difference.Low, c.Difference.High, c.Test.Method, c.Test.P); err != nil {
			return err
		}
	}
	return nil
}
