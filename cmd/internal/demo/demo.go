package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/pinch-robotics/pinch/internal/meta"
)

// Options of the demo.
type Options struct {
	Out      string // output folder: new, or that of an interrupted demo
	Episodes int    // demonstrations to record
	Trials   int    // unseen conditions
	Seed     uint64
	Train    []string // key=value settings of the training
	Console  io.Writer
	Now      func() time.Time
	Helper   func(name string) (string, error) // path of a helper program
}

// fps is the rate of the demo's wrist cameras and of its dataset's rows: the policy's steps are 0.1 s. Time is better spent on rendering
// more demonstrations than on pictures between the steps of one.
const fps = 10

// trainSteps is how long the demo trains where --train does not say otherwise: about half of its time on two cores.
const trainSteps = 4500

// Run runs the whole loop and prints the score table.
func Run(ctx context.Context, o Options) error {
	r, err := newRunner(o)
	if err != nil {
		return err
	}
	defer r.lock.Release()
	if err := r.all(ctx, script(o)); err != nil {
		return err
	}
	return r.closing(ctx, o)
}

// script is the list of stages. Each is a verb, or two that talk to each other.
func script(o Options) []stage {
	data := fmt.Sprintf("%d demonstrations, seed %d", o.Episodes, o.Seed)
	model := strings.TrimSpace(data + " " + strings.Join(o.Train, " "))
	return []stage{
		{"record", fmt.Sprintf("%d demonstrations from a simulated handheld rig, over its real wire protocols", o.Episodes), data, o.record},
		{"ingest", "raw logs to a LeRobot v3.0 dataset", data, o.ingest},
		{"check", "is the dataset what the official loader wants", data, o.check},
		{"train", "a flow-matching policy, on the CPU", model, o.train},
		{"eval", fmt.Sprintf("policy, hold, replay and blank on %d unseen conditions, on two simulated arms", o.Trials), fmt.Sprintf("%s, %d trials", model, o.Trials), o.eval},
	}
}

// record starts the simulated rig and records from it. Recordings of an interrupted run stay; the rig goes on with the next
// condition. A demonstration that was cut off stays as a failed attempt and is replaced by another one.
func (o Options) record(ctx context.Context, r *runner) error {
	recordings := r.path("recordings")
	if _, err := os.Stat(recordings); err == nil {
		if err := r.verb(ctx, "pinch-rig", "record", "--recover", recordings); err != nil {
			return err
		}
	}
	all, good, err := countRecordings(recordings)
	if err != nil {
		return err
	}
	if good >= o.Episodes {
		return nil
	}
	left := strconv.Itoa(o.Episodes - good)
	var ready struct {
		Rig string `json:"rig_file"`
	}
	rig, err := r.start(ctx, &ready, "pinch-sim", "sim", "handheld", "--json", "--wrist-hz", strconv.Itoa(fps), "--rig", r.path("rig", "rig.yaml"), "--first", strconv.Itoa(all), "--episodes", left)
	if err != nil {
		return err
	}
	defer rig.Stop() //nolint:errcheck // it has nothing to save
	err = r.verb(ctx, "pinch-rig", "record", "--rig", ready.Rig, "--out", recordings, "--episodes", left)
	if ctx.Err() != nil {
		return err
	}
	rigErr := rig.Finish()
	if err != nil {
		return errors.Join(err, rigErr)
	}
	if rigErr != nil { // the recordings are whole, or the recorder would have said so
		fmt.Fprintf(r.console, "        the simulated rig ended with an error after the last recording: %v\n", rigErr)
	}
	return nil
}

// countRecordings counts finished recordings, and those of them whose whole task succeeded. Unfinished ones are hidden folders.
func countRecordings(dir string) (all, good int, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, 0, fmt.Errorf("look for recordings: %w", err)
	}
	for _, e := range entries {
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		m, err := meta.Read(filepath.Join(dir, e.Name()))
		if err != nil {
			return 0, 0, fmt.Errorf("look for recordings: %w", err)
		}
		all++
		if m.Episode.Success {
			good++
		}
	}
	return all, good, nil
}

func (o Options) ingest(ctx context.Context, r *runner) error {
	return r.verb(ctx, "pinch-node", "ingest", r.path("recordings"), "--out", r.path("dataset"), "--fps", strconv.Itoa(fps))
}

func (o Options) check(ctx context.Context, r *runner) error {
	return r.verb(ctx, "pinch-node", "dataset", "check", r.path("dataset"))
}

// train begins a run, or goes on with one that has a checkpoint.
func (o Options) train(ctx context.Context, r *runner) error {
	args := []string{"train", "--data", r.path("dataset"), "--out", r.path("policy")}
	if _, err := os.Stat(r.path("policy")); err == nil {
		saved, err := filepath.Glob(r.path("policy", "checkpoints", "*"))
		if err != nil {
			return err
		}
		if len(saved) > 0 {
			args = append(args, "--resume")
		} else if err := os.RemoveAll(r.path("policy")); err != nil {
			return fmt.Errorf("clear a training that saved nothing: %w", err)
		}
	}
	args = append(args, fmt.Sprintf("seed=%d", o.Seed), fmt.Sprintf("steps=%d", trainSteps))
	return r.verb(ctx, "pinch-node", append(args, o.Train...)...)
}

func (o Options) eval(ctx context.Context, r *runner) error {
	return r.trials(ctx, "eval", o.Trials, o.Seed)
}

// trials serves the policy and runs trials against it, into a folder of the output folder.
func (r *runner) trials(ctx context.Context, into string, n int, seed uint64) error {
	if err := r.verb(ctx, "pinch-rig", "eval", "task", "--out", r.path("task.yaml")); err != nil {
		return err
	}
	var ready struct {
		URL string `json:"url"`
	}
	server, err := r.start(ctx, &ready, "pinch-node", "serve", r.path("policy"), "--json", "--listen", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer server.Stop() //nolint:errcheck // it has nothing to save
	return r.verb(ctx, "pinch-rig", "eval", "run", "--task", r.path("task.yaml"), "--trials", strconv.Itoa(n), "--policy", ready.URL, "--sim",
		"--baselines", "hold,replay,blank", "--demos", r.path("dataset"), "--out", r.path(into), "--seed", strconv.FormatUint(seed, 10))
}

// closing prints the score table, where everything is and what to try next.
func (r *runner) closing(ctx context.Context, o Options) error {
	fmt.Fprintln(r.console)
	if err := r.print(ctx, "pinch-rig", "eval", "show", r.path("eval")); err != nil {
		return err
	}
	_, err := fmt.Fprintf(r.console, `
Try next:
  pinch dataset view %s --out %s
  pinch bench eval --demo %s --trials 60
  pinch train --data YOUR_LEROBOT_DATASET --out my-policy
`, r.path("dataset"), r.path("view"), o.Out)
	return err
}

// Again repeats the evaluation of a demo with another number of trials, into a folder of its own.
func Again(ctx context.Context, o Options) error {
	if _, err := os.Stat(filepath.Join(o.Out, stateFile)); err != nil {
		return fmt.Errorf("%s holds no demo: %w; run `pinch demo --out %s` first", o.Out, err, o.Out)
	}
	r, err := newRunner(o)
	if err != nil {
		return err
	}
	defer r.lock.Release()
	if _, ok := r.done["train"]; !ok {
		return fmt.Errorf("the demo in %s has not trained its policy yet; run `pinch demo --out %s` first", o.Out, o.Out)
	}
	into := fmt.Sprintf("eval-%d", o.Trials)
	s := stage{into, fmt.Sprintf("policy, hold, replay and blank on %d unseen conditions", o.Trials), fmt.Sprintf("%d trials, seed %d", o.Trials, o.Seed),
		func(ctx context.Context, r *runner) error { return r.trials(ctx, into, o.Trials, o.Seed) }}
	if err := r.all(ctx, []stage{s}); err != nil {
		return err
	}
	fmt.Fprintln(r.console)
	return r.print(ctx, "pinch-rig", "eval", "show", r.path(into))
}
