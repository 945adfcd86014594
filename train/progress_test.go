package train

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
)

// In a log file or a pipe nothing can be drawn over, so there progress is a few whole lines.
func TestProgressIntoAFileIsAPlainLineNowAndThen(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(0, 0)
	p := newProgress(&out, func() time.Time { return now }, "train")
	for done := 501; done <= 600; done++ { // a resumed run: 500 steps were done before
		p.report(done, 1000, fmt.Sprintf("loss %d", done))
		now = now.Add(250 * time.Millisecond)
	}
	p.finish()
	p.finish()                                                  // nothing is left to say
	want := "train 541 of 1000  loss 541  about 1m55s left\n" + // 40 steps took 10 s: 459 take 115 s
		"train 581 of 1000  loss 581  about 1m45s left\n" +
		"train 600 of 1000  loss 600\n" // the last state, although it is no 10 s old
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
	if strings.ContainsAny(out.String(), "\r\x1b") {
		t.Error("terminal control in a plain stream")
	}
}

func TestProgressWithoutPlaceIsSilent(t *testing.T) {
	p := newProgress(nil, time.Now, "train")
	p.report(1, 2, "x")
	p.finish()
	if p.pending != "" || p.drawn != nil {
		t.Error("a report without a place to go was kept")
	}
}
