package edit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/pinch-robotics/pinch/dataset"
)

// Condition is one comparison on an episode's metadata, such as success=true, length>=90, seconds<20 or task~cup.
type Condition struct {
	Name, Op, Value string
}

// operators, longest first, so that >= is not read as >.
var operators = []string{"!=", ">=", "<=", "=", ">", "<", "~"}

// ParseCondition reads NAME OP VALUE. Names are index, length (rows), seconds, task, and the extra columns of meta/episodes; the
// operators =, !=, <, <=, >, >= compare numbers or texts, ~ looks for a part of a text.
func ParseCondition(text string) (Condition, error) {
	at, op := len(text), ""
	for _, o := range operators {
		if i := strings.Index(text, o); i > 0 && i < at {
			at, op = i, o
		}
	}
	if op == "" {
		return Condition{}, fmt.Errorf("%q is no condition; write for instance success=true, length>=90 or task~cup", text)
	}
	return Condition{strings.TrimSpace(text[:at]), op, strings.TrimSpace(text[at+len(op):])}, nil
}

// holds evaluates the condition. An episode without the column does not meet it; a name that no episode could have is an error.
func (c Condition) holds(e dataset.EpisodeMeta, fps int) (bool, error) {
	values, ok := c.values(e, fps)
	if !ok {
		return false, fmt.Errorf("condition %s%s%s: episode %d has no %q; it has index, length, seconds, task%s", c.Name, c.Op, c.Value, e.Index, c.Name, extras(e))
	}
	for _, v := range values {
		met, err := c.compare(v)
		if err != nil {
			return false, fmt.Errorf("condition %s%s%s: %w", c.Name, c.Op, c.Value, err)
		}
		if met != (c.Op == "!=") { // a list meets = when one text does, != when all differ
			return met, nil
		}
	}
	return c.Op == "!=", nil
}

func extras(e dataset.EpisodeMeta) string {
	out := ""
	for _, name := range slices.Sorted(maps.Keys(e.Extra)) {
		out += ", " + name
	}
	return out
}

func (c Condition) values(e dataset.EpisodeMeta, fps int) ([]any, bool) {
	switch c.Name {
	case "index":
		return []any{float64(e.Index)}, true
	case "length":
		return []any{float64(e.Length)}, true
	case "seconds":
		return []any{float64(e.Length) / float64(fps)}, true
	case "task":
		var out []any
		for _, t := range e.Tasks {
			out = append(out, t)
		}
		return out, true
	}
	switch v := e.Extra[c.Name].(type) {
	case nil:
		return nil, false
	case int64:
		return []any{float64(v)}, true
	case bool:
		return []any{strconv.FormatBool(v)}, true
	case []string:
		var out []any
		for _, t := range v {
			out = append(out, t)
		}
		return out, true
	default:
		return []any{v}, true
	}
}

// compare is true when v stands to the condition's value as the operator says; for != when they are equal, which holds inverts.
func (c Condition) compare(v any) (bool, error) {
	order := 0
	switch v := v.(type) {
	case float64:
		want, err := strconv.ParseFloat(c.Value, 64)
		if err != nil || c.Op == "~" {
			return false, fmt.Errorf("%s is a number", c.Name)
		}
		order = cmp.Compare(v, want)
	case string:
		if c.Op == "~" {
			return strings.Contains(strings.ToLower(v), strings.ToLower(c.Value)), nil
		}
		order = cmp.Compare(v, c.Value)
	}
	switch c.Op {
	case "=":
		return order == 0, nil
	case "!=":
		return order != 0, nil
	case "<":
		return order < 0, nil
	case "<=":
		return order <= 0, nil
	case ">":
		return order > 0, nil
	default:
		return order >= 0, nil
	}
}
