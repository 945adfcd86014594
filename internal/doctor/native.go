package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
)

// Probe is what a helper program answers to its hidden verb `probe`: one entry per native part that it tried.
type Probe struct {
	Parts []Part `json:"parts"`
}

// Part is one native part of a helper program.
type Part struct {
	Topic  string `json:"topic"`            // "OpenCV"
	Detail string `json:"detail,omitempty"` // version or what worked
	Fault  string `json:"fault,omitempty"`  // why it does not work; empty when it does
	Fix    string `json:"fix,omitempty"`
}

// Try runs one native part for a Probe: use does something small with it and returns a detail.
func Try(topic, fix string, use func() (string, error)) (p Part) {
	p = Part{Topic: topic}
	defer func() {
		if r := recover(); r != nil {
			p.Detail, p.Fault, p.Fix = "", fmt.Sprint(r), fix
		}
	}()
	detail, err := use()
	if err != nil {
		p.Fault, p.Fix = err.Error(), fix
		return p
	}
	p.Detail = detail
	return p
}

// nativeParts says which topics a helper's probe covers, so that a helper that does not start still gets its lines.
var nativeParts = []struct {
	helper string
	topics []string
	verbs  string
}{
	{"pinch-rig", []string{"OpenCV"}, "record, deploy, home, eval"},
	{"pinch-sim", []string{"MuJoCo", "offscreen GL"}, "sim, demo"},
	{"pinch-node", []string{"BLAS", "libav"}, "ingest, dataset, train, serve, bench"},
}

// helpers starts each helper program's probe and turns the answers into lines.
func helpers(ctx context.Context, m Machine) []Line {
	var lines []Line
	for _, n := range nativeParts {
		parts, err := probe(ctx, m, n.helper)
		if err != nil {
			for _, topic := range n.topics {
				lines = append(lines, Line{topic, Missing, err.Error(), "run `make build`; until then these verbs do not work: " + n.verbs})
			}
			continue
		}
		for _, p := range parts {
			l := Line{Topic: p.Topic, State: OK, Detail: fmt.Sprintf("%s (%s)", p.Detail, n.helper)}
			if p.Fault != "" {
				l.State, l.Detail, l.Fix = Missing, n.helper+": "+p.Fault, p.Fix
			}
			lines = append(lines, l)
		}
	}
	return lines
}

func probe(ctx context.Context, m Machine, helper string) ([]Part, error) {
	path, err := m.HelperPath(helper)
	if err != nil {
		return nil, err
	}
	if err := m.CheckLibraries(ctx, path); err != nil {
		return nil, err
	}
	out, err := m.Output(ctx, path, "probe")
	if err != nil {
		return nil, fmt.Errorf("%s does not start: %s", helper, firstLine(out+"\n"+err.Error()))
	}
	// Native libraries may print warnings; the answer is the last line.
	text := strings.TrimSpace(out)
	text = text[strings.LastIndexByte(text, '\n')+1:]
	var p Probe
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return nil, fmt.Errorf("%s gave no readable answer to its probe: %q", helper, firstLine(out))
	}
	return p.Parts, nil
}
