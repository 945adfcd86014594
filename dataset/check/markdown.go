package check

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// WriteMarkdown prints every check: code, severity, what it means, how its threshold comes about, and what to do.
func WriteMarkdown(w io.Writer) error {
	b := bufio.NewWriter(w)
	cell := func(s string) string { return strings.ReplaceAll(s, "|", "\\|") }
	for _, a := range Areas() {
		fmt.Fprintf(b, "\n## %s\n\n%s\n\n| code | severity | meaning | threshold | what to do |\n|---|---|---|---|---|\n", a.Name, strings.ToUpper(a.About[:1])+a.About[1:]+".")
		for _, e := range a.Entries {
			fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s |\n", e.Code, e.Severity, cell(e.What), cell(e.Rule), cell(e.Fix))
		}
	}
	return b.Flush()
}
