package capture

import (
	"fmt"
	"strings"
	"testing"
)

// play runs commands ("a" accept, "r" reject, "c" cancel) and writes down what happens.
func play(commands string) string {
	s := sessionState{task: Task{Name: "task", Subtasks: []string{"pick", "place"}}}
	var b strings.Builder
	for _, c := range commands {
		st := s.apply(map[rune]command{'a': cmdAccept, 'r': cmdReject, 'c': cmdCancel}[c])
		fmt.Fprintf(&b, "%c:", c)
		for _, e := range st.events {
			fmt.Fprintf(&b, " %s(%s)", e.Event, e.Label)
		}
		if st.begin {
			b.WriteString(" BEGIN")
		}
		if st.end {
			fmt.Fprintf(&b, " END keep=%v success=%v", st.keep, s.success())
		}
		b.WriteString("\n")
	}
	return b.String()
}

func TestSessionTranscripts(t *testing.T) {
	for commands, want := range map[string]string{
		"aaa": `a: start(task) subtask(pick) BEGIN
a: accept(pick) subtask(place)
a: accept(place) END keep=true success=true
`,
		"arara": `a: start(task) subtask(pick) BEGIN
r: reject(pick) subtask(pick)
a: accept(pick) subtask(place)
r: reject(place) subtask(place)
a: accept(place) END keep=true success=true
`,
		"aac": `a: start(task) subtask(pick) BEGIN
a: accept(pick) subtask(place)
c: cancel(cancelled by the operator) END keep=true success=false
`,
		"ac": `a: start(task) subtask(pick) BEGIN
c: cancel(cancelled by the operator) END keep=false success=false
`,
		"arc": `a: start(task) subtask(pick) BEGIN
r: reject(pick) subtask(pick)
c: cancel(cancelled by the operator) END keep=false success=false
`,
		"rca": `r:
c:
a: start(task) subtask(pick) BEGIN
`,
	} {
		if got := play(commands); got != want {
			t.Errorf("%s:\n%swant\n%s", commands, got, want)
		}
	}
}
