package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/pinch-robotics/pinch/eval/stat"
)

// milestoneLevels are the scores of the demo's task: four milestones of a quarter each.
var milestoneLevels = []float64{0, 0.25, 0.5, 0.75, 1}

// paired compares the policies of two folders of `pinch eval run` with the same task, trials and seed, condition by condition.
func paired(w io.Writer, folders []string) error {
	if len(folders) != 2 {
		return errors.New("paired: want two folders of `pinch eval run`")
	}
	var scores [2][]float64
	first, err := trialScores(folders[0])
	if err != nil {
		return err
	}
	second, err := trialScores(folders[1])
	if err != nil {
		return err
	}
	complete := [2]int{}
	for _, t := range first.order {
		other, ok := second.score[t]
		if !ok {
			return fmt.Errorf("paired: condition %s is in %s alone", t, folders[0])
		}
		for k, v := range []float64{first.score[t], other} {
			scores[k] = append(scores[k], v)
			if v == 1 {
				complete[k]++
			}
		}
	}
	if len(second.order) != len(first.order) {
		return fmt.Errorf("paired: %d conditions against %d", len(first.order), len(second.order))
	}
	for k, folder := range folders {
		mean, err := stat.Mean(scores[k], milestoneLevels, stat.Options{})
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%s: mean partial credit %v over %d conditions (%s), %d complete\n", folder, mean, len(scores[k]), mean.Method, complete[k])
	}
	difference, err := stat.Paired(scores[0], scores[1], milestoneLevels, stat.Options{})
	if err != nil {
		return err
	}
	test, err := stat.SignFlip(stat.Differences(scores[0], scores[1]), stat.TwoSided, 1)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "first minus second, paired: %v, sign-flip p = %.3f (two-sided, %s)\n", difference, test.P, test.Method)
	return err
}

// trials are the counted scores of a folder by condition.
type trials struct {
	order []string
	score map[string]float64
}

func trialScores(folder string) (trials, error) {
	out := trials{score: map[string]float64{}}
	files, err := filepath.Glob(filepath.Join(folder, "trials", "policy", "*", "trial.json"))
	if err != nil {
		return out, err
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return out, err
		}
		var t struct {
			Condition string
			Counts    bool
			Score     float64
		}
		if err := json.Unmarshal(text, &t); err != nil {
			return out, fmt.Errorf("%s: %w", f, err)
		}
		if !t.Counts {
			continue
		}
		if _, twice := out.score[t.Condition]; twice {
			return out, fmt.Errorf("%s: condition %s counts twice", f, t.Condition)
		}
		out.order, out.score[t.Condition] = append(out.order, t.Condition), t.Score
	}
	if len(out.order) == 0 {
		return out, fmt.Errorf("%s holds no trial of the entrant policy", folder)
	}
	return out, nil
}
