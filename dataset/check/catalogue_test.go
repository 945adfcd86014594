package check

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pinch-robotics/pinch/internal/testpeer"
)

var update = flag.Bool("update", false, "write docs/checks.md anew")

const docHead = `# Checks

` + "`pinch dataset check DATASET`" + ` looks at a LeRobot dataset of version 3.0 or 2.1 and names every fault with its code, severity, file,
episode, row and numbers, and what to do. ` + "`--json`" + ` prints the same for programs, ` + "`--html FILE`" + ` writes one page with the frames and curves
around the findings, ` + "`--decode`" + ` also looks at the pictures. Exit status 3 means that there are errors. Library: package ` + "`dataset/check`" + `.

**Severity.** An error makes the official loader or training fail or read wrong data; a warning may; a note is worth knowing.

**Thresholds** come from the dataset. A *fence* is the median over the episodes plus (3 + sqrt(2 ln n)) times 1.4826 times their median absolute
deviation, n being the number of values that are looked at; the deviation is never taken smaller than what the kind of number can
have, such as one row. A third of broken episodes hardly moves it. Runs of equal rows also span from the median to the 65th
percentile, because part of a set may pause by design. In a set of fewer than 8 episodes all elements are judged together, and lags, idle
stretches and outliers are not looked at. *Laws* are relations between features that at least 60 % of the episodes follow to float32
rounding: equality now or one row later, relative motions of poses, rigidly joined frames, values that hold where a freshness flag is false.

**Missing files** are said once; checks that would need them stay silent.

The tables below are printed by ` + "`pinch dataset check --list`" + ` and by ` + "`go test ./dataset/check -update`" + `.
`

func TestDocumentHoldsTheCatalogue(t *testing.T) {
	var b bytes.Buffer
	b.WriteString(docHead)
	if err := WriteMarkdown(&b); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(testpeer.Root(t), "docs", "checks.md")
	if *update {
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(have, b.Bytes()) {
		t.Errorf("docs/checks.md is not the catalogue: go test ./dataset/check -run Document -update (%v)", err)
	}
	if n := len(catalogue); n < 80 {
		t.Errorf("%d checks, want at least 80", n)
	}
}

// Every check of the catalogue is said somewhere, and everything that is said is in the catalogue.
func TestEveryCheckIsUsed(t *testing.T) {
	files, _ := filepath.Glob("*.go")
	source := ""
	for _, f := range files {
		if !strings.HasPrefix(f, "catalogue") && !strings.HasSuffix(f, "_test.go") {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			source += string(b)
		}
	}
	for code, e := range catalogue {
		if !strings.Contains(source, `"`+code+`"`) {
			t.Errorf("no code says %q", code)
		}
		if e.What == "" || e.Fix == "" || e.Severity.Rank() < 0 {
			t.Errorf("%q is not explained: %+v", code, e)
		}
	}
	for _, m := range regexp.MustCompile(`(?:say|wrong)\("([a-z0-9-]+)"`).FindAllStringSubmatch(source, -1) {
		if _, ok := catalogue[m[1]]; !ok {
			t.Errorf("%q is not in the catalogue", m[1])
		}
	}
}
