package rig

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pinch-robotics/pinch/cmd/internal/program"
	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/deploy"
	"github.com/pinch-robotics/pinch/eval"
	"github.com/pinch-robotics/pinch/internal/atomicfile"
	"github.com/pinch-robotics/pinch/internal/config"
)

// Eval makes `pinch eval` with its verbs.
func Eval() *cobra.Command {
	return program.Group("eval", "run scored trials and write a report", evalRun(), evalReplay(), evalShow(), evalTask())
}

type evalOptions struct {
	Task      string
	Trials    int
	Policy    string
	Baselines []string
	Demos     string
	Out       string
	Seed      uint64
	Person    bool
	Record    []string
	JSON      bool
	Cell      cellFlags
	Log       program.LogFlags
}

// AddFlags adds the flags of `pinch eval run`.
func (o *evalOptions) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Task, "task", "", "YAML `file` of the task: prompts, milestones, rules, conditions (`pinch eval task` prints one)")
	f.IntVar(&o.Trials, "trials", 15, "number of initial conditions; each entrant meets all of them")
	f.StringVar(&o.Policy, "policy", "", "`address` of the policy server, ws://HOST:PORT")
	f.StringSliceVar(&o.Baselines, "baselines", nil, "`names` of baselines in the same run: hold, replay, blank")
	f.StringVar(&o.Demos, "demos", "", "`dataset` of demonstrations, for the baseline replay")
	f.StringVarP(&o.Out, "out", "o", "eval", "the output `folder`: new, or that of an interrupted run")
	f.Uint64Var(&o.Seed, "seed", 1, "of the order of trials and of the statistics")
	f.BoolVar(&o.Person, "person", false, "a person at this terminal resets the scene and scores")
	f.StringSliceVar(&o.Record, "record", nil, "`names` whose trials become a dataset each (default: policy; none for no dataset)")
	f.BoolVar(&o.JSON, "json", false, "print the report as JSON")
	o.Cell.AddFlags(f)
	o.Log.AddFlags(f)
}

func (o *evalOptions) checkFlags() error {
	if o.Task == "" {
		return program.Usage("--task: name the task file; `pinch eval task > task.yaml` writes the demo's")
	}
	if err := program.CheckCount("--trials", o.Trials, 1, 10_000); err != nil {
		return err
	}
	if o.Policy == "" && len(o.Baselines) == 0 {
		return program.Usage("--policy: name a policy server, or --baselines to run those alone")
	}
	for _, b := range o.Baselines {
		known := []string{eval.HoldName, eval.ReplayName, eval.BlankName}
		if near, ok := config.Nearest(b, known); !ok || near != b {
			return program.Usage("--baselines: %q, want some of %s", b, strings.Join(known, ", "))
		}
		if b == eval.ReplayName && o.Demos == "" {
			return program.Usage("--demos: the baseline replay needs a dataset of demonstrations")
		}
		if b == eval.BlankName && o.Policy == "" {
			return program.Usage("--policy: the baseline blank is the policy without pictures, so it needs one")
		}
	}
	if o.Person && o.Cell.Sim {
		return program.Usage("--person and --sim: the simulated cell scores itself")
	}
	if len(o.Record) == 1 && o.Record[0] == "none" {
		o.Record = []string{}
	}
	return nil
}

func evalRun() *cobra.Command {
	var o evalOptions
	cmd := &cobra.Command{
		Use: "run --task FILE --policy URL", Short: "run trials over a fixed list of conditions, score them, report", Args: cobra.NoArgs,
		Long: "Runs the policy and the baselines over the same initial conditions, in random order within each condition, and scores milestones.\n" +
			"The output folder gets plan.json before the first trial, a folder for each trial, a dataset of the trials, report.json and report.html.\n" +
			"An interrupted run goes on where it stopped when it is started again with the same flags.\n" + program.ExitHelp,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.checkFlags(); err != nil {
				return err
			}
			return runEval(cmd.Context(), o, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

func runEval(ctx context.Context, o evalOptions, in io.Reader, out, errOut io.Writer) error {
	task, err := eval.LoadTask(o.Task)
	if err != nil {
		return program.UsageError{Err: err}
	}
	cell, err := o.Cell.load()
	if err != nil {
		return err
	}
	entrants, closePolicy, err := o.entrants(ctx, cell)
	if err != nil {
		return err
	}
	defer closePolicy()
	var scorer eval.Scorer = &eval.SimScorer{}
	if o.Person {
		scorer = eval.NewPersonScorer(task, in, errOut)
	}
	log := o.Log.Logger(errOut)
	report, err := eval.Run(ctx, eval.Options{
		Task: task, TaskDir: filepath.Dir(o.Task), Trials: o.Trials, Seed: o.Seed, Entrants: entrants, Scorer: scorer,
		Connect: func(ctx context.Context) (eval.Robot, error) {
			s, err := connect(ctx, cell, o.Cell.Sim, log, errOut)
			if err != nil {
				return nil, err
			}
			return s, nil
		},
		Out: o.Out, Record: o.Record, Logger: log,
		Progress: func(done, total int, _ string, t *eval.Trial) {
			if t != nil {
				fmt.Fprintf(errOut, "eval: %d of %d, %s on %s: %.2f (%s after %.1f s)\n", done, total, t.Entrant, t.Condition, t.Score, t.End, t.Seconds)
			}
		},
	})
	if err != nil {
		return err
	}
	return showReport(report, o.Out, o.JSON, out)
}

// entrants makes the policy and its baselines, the policy first.
func (o *evalOptions) entrants(ctx context.Context, cell deploy.Cell) (list []eval.Entrant, closePolicy func(), err error) {
	closePolicy = func() {}
	contract := deploy.Contract{RateHz: 10}
	if o.Policy != "" {
		client, err := deploy.Dial(ctx, o.Policy, deploy.ClientOptions{APIKey: cell.PolicyAPIKey, Override: cell.Contract})
		if err != nil {
			return nil, closePolicy, err
		}
		closePolicy = func() { _ = client.Close() }
		if contract, err = deploy.ReadContract(client.Metadata(), cell.Contract); err != nil {
			return nil, closePolicy, err
		}
		list = append(list, eval.Entrant{Name: eval.PolicyName, Policy: client, About: "the policy under test"})
	}
	for _, b := range o.Baselines {
		switch b {
		case eval.HoldName:
			list = append(list, eval.Hold(contract))
		case eval.BlankName:
			list = append(list, eval.Blank(list[0].Policy))
		case eval.ReplayName:
			demos, err := dataset.Open(o.Demos)
			if err != nil {
				return nil, closePolicy, err
			}
			entrant, err := eval.Replay(demos)
			if err != nil {
				return nil, closePolicy, err
			}
			list = append(list, entrant)
		}
	}
	return list, closePolicy, nil
}

func evalTask() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use: "task", Short: "print the demo's task file, with every key explained", Args: cobra.NoArgs,
		Long: "Prints a task file to start from.\n" + program.ExitHelp,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if out != "" {
				return atomicfile.WriteFile(out, eval.BlockToTray, 0o644)
			}
			_, err := cmd.OutOrStdout().Write(eval.BlockToTray)
			return err
		},
	}
	cmd.Flags().StringVarP(&out, "out", "o", "", "write it to this `file` instead")
	return cmd
}

func evalShow() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "show FOLDER", Short: "print the score table of a finished evaluation", Args: cobra.ExactArgs(1),
		Long: "Prints scores and comparisons from the report in an evaluation's output folder.\n" + program.ExitHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			report, err := eval.ReadReport(args[0])
			if err != nil {
				return err
			}
			return showReport(report, args[0], asJSON, cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the report as JSON")
	return cmd
}

func showReport(r *eval.Report, folder string, asJSON bool, out io.Writer) error {
	if asJSON {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	}
	if err := r.WriteText(out); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "report: %s\n", filepath.Join(folder, eval.ReportHTML))
	return err
}
