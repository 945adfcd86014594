package score

import (
	"fmt"
	"math"
)

// Milestone is one observable step of a task, judged yes or no.
type Milestone struct {
	Name   string  `yaml:"name" json:"name"`
	Weight float64 `yaml:"weight" json:"weight"` // share of the score, in (0, 1]; all weights of a rubric add up to 1
	// Criterion says in words when the milestone is passed, so that a person at the robot judges as the simulator does.
	Criterion string `yaml:"criterion" json:"criterion"`
}

// Rubric is the milestones of a task in the order in which they must be passed.
type Rubric []Milestone

// weightTolerance lets weights such as three times 0.333 and one 0.001 more or less pass.
const weightTolerance = 1e-3

// Validate refuses an empty rubric, a milestone without a name or with the name of another, and weights that are not
// positive or do not add up to 1.
func (r Rubric) Validate() error {
	if len(r) == 0 {
		return fmt.Errorf("a rubric needs at least one milestone")
	}
	sum, names := 0.0, map[string]bool{}
	for i, m := range r {
		switch {
		case m.Name == "":
			return fmt.Errorf("milestone %d has no name", i+1)
		case names[m.Name]:
			return fmt.Errorf("milestone %q stands twice in the rubric", m.Name)
		case !(m.Weight > 0 && m.Weight <= 1):
			return fmt.Errorf("milestone %q: weight %v, want more than 0 and at most 1", m.Name, m.Weight)
		}
		names[m.Name] = true
		sum += m.Weight
	}
	if math.Abs(sum-1) > weightTolerance {
		return fmt.Errorf("the weights of the milestones add up to %v, want 1", sum)
	}
	return nil
}

// Credit is the partial credit of a trial that passed the first done milestones: the sum of their weights, 0 to 1.
func (r Rubric) Credit(done int) float64 {
	if done >= len(r) {
		return 1 // not the rounded sum of all weights
	}
	sum := 0.0
	for _, m := range r[:max(done, 0)] {
		sum += m.Weight
	}
	return sum
}

// Levels lists the possible scores of a trial in rising order: the credit of 0, 1, ... all milestones.
func (r Rubric) Levels() []float64 {
	levels := make([]float64, len(r)+1)
	for done := range levels {
		levels[done] = r.Credit(done)
	}
	return levels
}

// Step is how a milestone went over many trials.
type Step struct {
	Attempts int // trials that had passed the milestone before it
	Passes   int // trials that passed it
}

// Rate is passes over attempts, NaN without attempts: the complement of the hazard of failing here.
func (s Step) Rate() float64 { return float64(s.Passes) / float64(s.Attempts) }

// Steps counts attempts and passes per milestone. done lists, for each trial, how many milestones it passed; because
// milestones are ordered, milestone j is attempted by the trials that passed j before it. The product of all rates is the share of
// trials that passed everything.
func (r Rubric) Steps(done []int) []Step {
	steps := make([]Step, len(r))
	for _, d := range done {
		for j := range steps {
			if d >= j {
				steps[j].Attempts++
			}
			if d > j {
				steps[j].Passes++
			}
		}
	}
	return steps
}
