package eval

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/pinch-robotics/pinch/deploy"
)

// PersonScorer lets a person at the robot judge through a terminal. During a trial each line is a word: empty or `y` passes
// the next milestone, `u` takes the last one back, `stop WHY` ends the trial. Between trials it asks for the reset, and
// after a trial that failed for the first cause and the final state.
//
// Lines are read by one goroutine from NewPersonScorer until the input ends. It holds a line that nobody asks for until then, so a
// program has one PersonScorer for its terminal, for as long as it runs.
type PersonScorer struct {
	task  Task
	out   io.Writer
	lines chan string
	names []string

	mu    sync.Mutex // guards what the reader may see while Judge runs
	done  int
	times []int64
	abort string
}

// NewPersonScorer starts reading lines from in; prompts go to out.
func NewPersonScorer(task Task, in io.Reader, out io.Writer) *PersonScorer {
	p := &PersonScorer{task: task, out: out, lines: make(chan string)}
	for _, m := range task.Rubric() {
		p.names = append(p.names, m.Name)
	}
	go func() {
		defer close(p.lines)
		scan := bufio.NewScanner(in)
		for scan.Scan() {
			p.lines <- strings.TrimSpace(scan.Text())
		}
	}()
	return p
}

// Reset asks the person to lay the scene out and waits for Enter.
func (p *PersonScorer) Reset(ctx context.Context, c Condition) error {
	_, err := p.ask(ctx, fmt.Sprintf("\nCondition %s: %s\nPress Enter when the scene stands and nobody is near the arms. ", c.Name, c.Note))
	return err
}

// Begin clears the marks and shows the first milestone.
func (p *PersonScorer) Begin(_ context.Context, _ Robot, c Condition) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done, p.times, p.abort = 0, nil, ""
	fmt.Fprintf(p.out, "Trial on %s: Enter = milestone passed, u = take back, stop WHY = end the trial.\n", c.Name)
	p.showNext()
	return nil
}

func (p *PersonScorer) showNext() {
	if p.done < len(p.names) {
		fmt.Fprintf(p.out, "  waiting for: %s (%s)\n", p.names[p.done], p.task.Rubric()[p.done].Criterion)
		return
	}
	fmt.Fprintln(p.out, "  all milestones passed")
}

// Judge takes the lines that were typed since the last call; it never waits.
func (p *PersonScorer) Judge(_ context.Context, step deploy.Step) (Verdict, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				return Verdict{}, fmt.Errorf("read the person's marks: the input ended in the middle of a trial: %w", io.ErrUnexpectedEOF)
			}
			p.take(line, step.TNS)
		default:
			return Verdict{Done: p.done, Abort: p.abort}, nil
		}
	}
}

// take applies one line.
func (p *PersonScorer) take(line string, tNS int64) {
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "", "y":
		if p.done < len(p.names) {
			p.done++
			p.times = append(p.times, tNS)
		}
		p.showNext()
	case "u":
		if p.done > 0 {
			p.done--
			p.times = p.times[:p.done]
		}
		p.showNext()
	case "stop":
		p.abort = strings.TrimSpace("stopped by the person: " + rest)
	default:
		fmt.Fprintf(p.out, "  %q is none of: Enter, y, u, stop WHY\n", line)
	}
}

// End asks for the final state and, after a failure, for the first cause.
func (p *PersonScorer) End(ctx context.Context, _ deploy.Result) (Finding, error) {
	p.mu.Lock()
	f := Finding{Done: p.done, Times: p.times}
	p.mu.Unlock()
	var err error
	if f.FinalState, err = p.ask(ctx, "Final state in a few words: "); err != nil {
		return Finding{}, err
	}
	if f.Done == len(p.names) {
		return f, nil
	}
	for f.Cause == "" {
		line, err := p.ask(ctx, fmt.Sprintf("First cause (%s), then in your words: ", joinCauses()))
		if err != nil {
			return Finding{}, err
		}
		word, rest, _ := strings.Cut(line, " ")
		for _, c := range Causes {
			if string(c) == word {
				f.Cause, f.CauseText = c, rest
			}
		}
	}
	return f, nil
}

func joinCauses() string {
	words := make([]string, len(Causes))
	for i, c := range Causes {
		words[i] = string(c)
	}
	return strings.Join(words, ", ")
}

func (p *PersonScorer) ask(ctx context.Context, question string) (string, error) {
	fmt.Fprint(p.out, question)
	select {
	case line, ok := <-p.lines:
		if !ok {
			return "", fmt.Errorf("ask the person: the input ended: %w", io.ErrUnexpectedEOF)
		}
		return line, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}
