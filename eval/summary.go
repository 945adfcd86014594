package eval

import (
	"fmt"

	"github.com/pinch-robotics/pinch/eval/stat"
	"github.com/pinch-robotics/pinch/internal/score"
)

// Report is report.json: what an evaluation found.
type Report struct {
	Plan        Plan         `json:"plan"`
	Summaries   []Summary    `json:"summaries"`   // by entrant, in the plan's order
	Comparisons []Comparison `json:"comparisons"` // the first entrant against each other
	Trials      []Trial      `json:"trials"`      // every attempt, also those that were run again
}

// Summary is how one entrant did over the counted trials.
type Summary struct {
	Entrant string        `json:"entrant"`
	Trials  int           `json:"trials"`
	Reruns  int           `json:"reruns"`
	Score   stat.Interval `json:"score"`   // mean partial credit
	Success stat.Interval `json:"success"` // share of trials with all milestones
	Steps   []StepSummary `json:"steps"`   // milestones in order
	Causes  map[Cause]int `json:"causes"`  // first cause of each trial that failed
	Ends    map[End]int   `json:"ends"`    // how trials ended
	Seconds float64       `json:"seconds"` // mean length of a trial, cell's clock
	// Collisions counts trials in which a hand or an arm touched table, tray or the other arm.
	Collisions int `json:"collisions"`
}

// StepSummary is how one milestone went: of the trials that came to it, how many passed.
type StepSummary struct {
	Milestone string        `json:"milestone"`
	Attempts  int           `json:"attempts"`
	Passes    int           `json:"passes"`
	Rate      stat.Interval `json:"rate"` // all zero without attempts
}

// Comparison is a paired difference: the first entrant minus another, on the same conditions.
type Comparison struct {
	Entrant    string        `json:"entrant"`
	Against    string        `json:"against"`
	Difference stat.Interval `json:"difference"` // of the mean partial credit
	Test       stat.Test     `json:"test"`       // hypothesis: no difference; alternative: the first is better
	Primary    bool          `json:"primary"`    // the comparison named in the plan
}

// Better tells whether the interval of the difference lies above zero.
func (c Comparison) Better() bool { return c.Difference.Low > 0 }

// summarize computes a report from the trials of a plan.
func summarize(plan Plan, trials []Trial) (*Report, error) {
	r := &Report{Plan: plan, Trials: trials}
	scores := map[string][]float64{}
	for k, e := range plan.Entrants {
		s, list, err := summarizeEntrant(plan, e.Name, trials, plan.Seed+uint64(k))
		if err != nil {
			return nil, err
		}
		scores[e.Name] = list
		r.Summaries = append(r.Summaries, s)
	}
	rubric := plan.Task.Rubric()
	first := plan.Entrants[0].Name
	for k, e := range plan.Entrants[1:] {
		o := stat.Options{Level: plan.Level, Seed: plan.Seed + 1000 + uint64(k)}
		diff, err := stat.Paired(scores[first], scores[e.Name], rubric.Levels(), o)
		if err != nil {
			return nil, fmt.Errorf("compare %s with %s: %w", first, e.Name, err)
		}
		test, err := stat.SignFlip(stat.Differences(scores[first], scores[e.Name]), stat.Greater, o.Seed)
		if err != nil {
			return nil, fmt.Errorf("compare %s with %s: %w", first, e.Name, err)
		}
		r.Comparisons = append(r.Comparisons, Comparison{first, e.Name, diff, test, e.Name == ReplayName})
	}
	return r, nil
}

// summarizeEntrant sums up one entrant and lists its scores by condition.
func summarizeEntrant(plan Plan, name string, trials []Trial, seed uint64) (Summary, []float64, error) {
	rubric := plan.Task.Rubric()
	s := Summary{Entrant: name, Causes: map[Cause]int{}, Ends: map[End]int{}}
	scores := make([]float64, len(plan.Conditions))
	var done []int
	full := 0
	for _, t := range trials {
		switch {
		case t.Entrant != name:
			continue
		case !t.Counts:
			s.Reruns++
			continue
		}
		scores[t.Number] = t.Score
		done = append(done, t.Done)
		s.Ends[t.End]++
		s.Seconds += t.Seconds
		if t.Done == len(rubric) {
			full++
		} else {
			s.Causes[t.Cause]++
		}
		if t.Collided {
			s.Collisions++
		}
	}
	if s.Trials = len(done); s.Trials != len(scores) {
		return s, nil, fmt.Errorf("sum up %s: %d counted trials for %d conditions", name, s.Trials, len(scores))
	}
	s.Seconds /= float64(s.Trials)
	var err error
	if s.Score, err = stat.Mean(scores, rubric.Levels(), stat.Options{Level: plan.Level, Seed: seed}); err != nil {
		return s, nil, fmt.Errorf("sum up %s: %w", name, err)
	}
	if s.Success, err = stat.Rate(full, s.Trials, plan.Level); err != nil {
		return s, nil, fmt.Errorf("sum up %s: %w", name, err)
	}
	s.Steps, err = summarizeSteps(rubric, done, plan.Level)
	return s, scores, err
}

func summarizeSteps(rubric score.Rubric, done []int, level float64) ([]StepSummary, error) {
	var out []StepSummary
	for j, st := range rubric.Steps(done) {
		sum := StepSummary{Milestone: rubric[j].Name, Attempts: st.Attempts, Passes: st.Passes}
		if st.Attempts > 0 {
			var err error
			if sum.Rate, err = stat.Rate(st.Passes, st.Attempts, level); err != nil {
				return nil, fmt.Errorf("sum up milestone %s: %w", sum.Milestone, err)
			}
		}
		out = append(out, sum)
	}
	return out, nil
}

// Summary finds an entrant's summary; nil when it took no part.
func (r *Report) Summary(entrant string) *Summary {
	for i := range r.Summaries {
		if r.Summaries[i].Entrant == entrant {
			return &r.Summaries[i]
		}
	}
	return nil
}
