package loader

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/pinch-robotics/pinch/dataset"
)

// Filter chooses episodes by their metadata; all conditions must hold.
type Filter []Condition

// Condition on one field of an episode: `length` (rows), `index`, `task` (any of its instructions), or a column that the dataset
// adds to meta/episodes, such as success, label or robot_type. An episode without the field does not fulfil it.
type Condition struct {
	Field string `yaml:"field"`
	// In lists the values that are taken: texts, numbers, true or false.
	In []any `yaml:"in"`
	// Min and Max bound a number, both included.
	Min *float64 `yaml:"min"`
	Max *float64 `yaml:"max"`
	// Matches is a regular expression that part of a text must match.
	Matches string `yaml:"matches"`
	// Not turns the condition round.
	Not bool `yaml:"not"`
}

func (f Filter) check() error {
	for i, c := range f {
		if c.Field == "" {
			return fmt.Errorf("condition %d has no field", i)
		}
		if _, err := regexp.Compile(c.Matches); err != nil {
			return fmt.Errorf("condition %d: %w", i, err)
		}
		if c.In == nil && c.Min == nil && c.Max == nil && c.Matches == "" {
			return fmt.Errorf("condition %d on %q says nothing: give in, min, max or matches", i, c.Field)
		}
	}
	return nil
}

// choose lists the episodes that fulfil the filters. A field that no episode has is an error: a typing error would otherwise
// leave everything out.
func choose(episodes []dataset.EpisodeMeta, filters ...Filter) ([]dataset.EpisodeMeta, error) {
	all := slices.Concat(filters...)
	if len(all) == 0 || len(episodes) == 0 {
		return episodes, nil
	}
	for _, c := range all {
		if !slices.ContainsFunc(episodes, func(e dataset.EpisodeMeta) bool { return fieldOf(e, c.Field) != nil }) {
			return nil, fmt.Errorf("no episode has the field %q; there are %s", c.Field, strings.Join(fieldNames(episodes[0]), ", "))
		}
	}
	tests := make([]func(dataset.EpisodeMeta) (bool, error), len(all))
	for i, c := range all {
		tests[i] = c.compile()
	}
	var out []dataset.EpisodeMeta
	for _, e := range episodes {
		keep := true
		for i, test := range tests {
			ok, err := test(e)
			if err != nil {
				return nil, fmt.Errorf("episode %d, filter on %q: %w", e.Index, all[i].Field, err)
			}
			keep = keep && ok
		}
		if keep {
			out = append(out, e)
		}
	}
	return out, nil
}

func fieldNames(e dataset.EpisodeMeta) []string {
	return append([]string{"length", "index", "task"}, slices.Sorted(maps.Keys(e.Extra))...)
}

// fieldOf gives the values of a field: one, or several of a list; nil when the episode lacks it.
func fieldOf(e dataset.EpisodeMeta, name string) []any {
	switch name {
	case "length":
		return []any{float64(e.Length)}
	case "index":
		return []any{float64(e.Index)}
	case "task", "tasks":
		return asAny(e.Tasks)
	}
	switch v := e.Extra[name].(type) {
	case nil:
		return nil
	case int64:
		return []any{float64(v)}
	case []string:
		return asAny(v)
	default:
		return []any{v}
	}
}

func asAny(texts []string) []any {
	out := make([]any, len(texts))
	for i, t := range texts {
		out[i] = t
	}
	return out
}

var errNoNumber = errors.New("min and max need a number")

// compile makes the test of one condition.
func (c Condition) compile() func(dataset.EpisodeMeta) (bool, error) {
	pattern := regexp.MustCompile(c.Matches) // checked before
	wanted := make([]any, len(c.In))
	for i, v := range c.In {
		wanted[i] = plain(v)
	}
	one := func(v any) (bool, error) {
		if c.In != nil && !slices.Contains(wanted, v) {
			return false, nil
		}
		if c.Matches != "" && !pattern.MatchString(fmt.Sprint(v)) {
			return false, nil
		}
		if c.Min == nil && c.Max == nil {
			return true, nil
		}
		n, ok := v.(float64)
		if !ok {
			return false, fmt.Errorf("%v: %w", v, errNoNumber)
		}
		return (c.Min == nil || n >= *c.Min) && (c.Max == nil || n <= *c.Max), nil
	}
	return func(e dataset.EpisodeMeta) (bool, error) {
		any := false
		for _, v := range fieldOf(e, c.Field) {
			ok, err := one(v)
			if err != nil {
				return false, err
			}
			any = any || ok
		}
		return any != c.Not, nil
	}
}

// plain brings a YAML value into the form that fieldOf gives.
func plain(v any) any {
	switch v := v.(type) {
	case int:
		return float64(v)
	case int64:
		return float64(v)
	case uint64:
		return float64(v)
	}
	return v
}
