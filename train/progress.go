package train

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// plainEvery is how often a part of a run says how far it is where nothing can be drawn over: in a log file or a pipe.
const plainEvery = 10 * time.Second

// progress tells how far a long part of a run is: a bar on a terminal, elsewhere a plain line now and then.
type progress struct {
	out   io.Writer // nil or io.Discard: silent
	now   func() time.Time
	name  string
	drawn *progressbar.ProgressBar // on a terminal, from the first report on

	first            int // done at the first report
	began, lastPrint time.Time
	pending          string // the newest line, while it is not printed
}

func newProgress(out io.Writer, now func() time.Time, name string) *progress {
	if out == io.Discard {
		out = nil
	}
	return &progress{out: out, now: now, name: name}
}

// report says that done of total is done, and in text what else is worth seeing.
func (p *progress) report(done, total int, text string) {
	switch {
	case p.out == nil:
	case isTerminal(p.out):
		p.draw(done, total, text)
	default:
		p.print(done, total, text)
	}
}

func (p *progress) draw(done, total int, text string) {
	if p.drawn == nil {
		p.drawn = progressbar.NewOptions(total, progressbar.OptionSetWriter(p.out), progressbar.OptionSetDescription(p.name),
			progressbar.OptionSetWidth(30), progressbar.OptionShowCount(), progressbar.OptionSetPredictTime(true),
			progressbar.OptionThrottle(200*time.Millisecond))
	}
	p.drawn.Describe(p.name + "  " + text)
	_ = p.drawn.Set(done) // a broken terminal does not stop a training run
}

func (p *progress) print(done, total int, text string) {
	now := p.now()
	if p.began.IsZero() {
		p.began, p.lastPrint, p.first = now, now, done
	}
	p.pending = fmt.Sprintf("%s %d of %d", p.name, done, total)
	if text != "" {
		p.pending += "  " + text
	}
	if now.Sub(p.lastPrint) < plainEvery {
		return
	}
	if left := remaining(now.Sub(p.began), done-p.first, total-done); left > 0 {
		p.pending += fmt.Sprintf("  about %v left", left)
	}
	p.flush(now)
}

// remaining is the time that todo things take at the pace of those done in spent, in whole seconds.
func remaining(spent time.Duration, done, todo int) time.Duration {
	if done <= 0 {
		return 0
	}
	return (spent / time.Duration(done) * time.Duration(todo)).Round(time.Second)
}

// flush prints the newest line if it is not there yet.
func (p *progress) flush(now time.Time) {
	if p.pending != "" {
		fmt.Fprintln(p.out, p.pending)
		p.pending, p.lastPrint = "", now
	}
}

// finish leaves the last state standing, whole or not.
func (p *progress) finish() {
	switch {
	case p.out == nil:
	case p.drawn != nil:
		_ = p.drawn.Exit()
		fmt.Fprintln(p.out)
	default:
		p.flush(p.now())
	}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
