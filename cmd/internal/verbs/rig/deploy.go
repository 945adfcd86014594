package rig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pinch-robotics/pinch/cmd/internal/program"
	"github.com/pinch-robotics/pinch/deploy"
	"github.com/pinch-robotics/pinch/internal/rawlog"
)

type deployOptions struct {
	Policy  string
	Prompt  string
	Seconds float64
	Record  string
	Replay  string
	JSON    bool
	Cell    cellFlags
	Log     program.LogFlags
}

// AddFlags adds the flags of `pinch deploy`.
func (o *deployOptions) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Policy, "policy", "", "`address` of the policy server, ws://HOST:PORT (default: policy_url of the cell file)")
	f.StringVar(&o.Prompt, "prompt", "", "the `instruction` (default: the first that the policy was trained on)")
	f.Float64Var(&o.Seconds, "seconds", 30, "end after this many seconds of the cell's clock; 0: until interrupted")
	f.StringVar(&o.Record, "record", "", "write the run into this MCAP `file`")
	f.StringVar(&o.Replay, "replay", "", "decide the runs of this MCAP `file` again, offline; with --set or --cell, show what a change would alter")
	f.BoolVar(&o.JSON, "json", false, "print the result as JSON")
	o.Cell.AddFlags(f)
	o.Log.AddFlags(f)
}

// Deploy makes `pinch deploy`.
func Deploy() *cobra.Command {
	var o deployOptions
	cmd := &cobra.Command{
		Use: "deploy --policy URL", Short: "drive arms with a policy server", Args: cobra.NoArgs,
		Long: "Connects to a cell (arm process and wrist cameras) and a policy server, and lets the policy drive until the time is over.\n" +
			"A tripped safety gate stops both arms and ends the run with status 1. An interrupt ramps the arms to rest.\n\n" +
			"--replay LOG drives nothing: it decides the recorded runs again, from their inputs, and shows the first decision that differs (status 1).\n" + program.ExitHelp,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Replay != "" {
				return replayLog(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
			}
			return runDeploy(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

func runDeploy(ctx context.Context, o deployOptions, out, errOut io.Writer) error {
	if err := program.CheckNumber("--seconds", o.Seconds, 0, 1e6); err != nil {
		return err
	}
	if o.Record != "" {
		if _, err := os.Lstat(o.Record); err == nil {
			return program.Usage("--record: %s is there already; give another name", o.Record)
		}
	}
	cell, err := o.Cell.load()
	if err != nil {
		return err
	}
	if o.Policy == "" {
		o.Policy = cell.PolicyURL
	}
	if o.Policy == "" {
		return program.Usage("--policy: name a policy server, or policy_url in the cell file")
	}
	client, err := deploy.Dial(ctx, o.Policy, deploy.ClientOptions{APIKey: cell.PolicyAPIKey, Override: cell.Contract})
	if err != nil {
		return err
	}
	defer client.Close()
	contract, err := deploy.ReadContract(client.Metadata(), cell.Contract)
	if err != nil {
		return err
	}
	if o.Prompt == "" && len(contract.Prompts) > 0 {
		o.Prompt = contract.Prompts[0]
	}
	if o.Prompt == "" {
		return program.Usage("--prompt: the policy states no prompts of its own, give one")
	}
	s, err := connect(ctx, cell, o.Cell.Sim, o.Log.Logger(errOut), errOut)
	if err != nil {
		return err
	}
	defer s.Close()
	result, err := drive(ctx, s, client, o, newWatcher(errOut, time.Now))
	if err != nil {
		return err
	}
	return showRun(result, o.JSON, out)
}

// drive runs the policy, recorded if wanted.
func drive(ctx context.Context, s *session, p deploy.Policy, o deployOptions, w *watcher) (result deploy.Result, err error) {
	run := deploy.RunOptions{Policy: p, Prompt: o.Prompt, MaxDuration: time.Duration(o.Seconds * float64(time.Second))}
	if !o.JSON && !o.Log.Quiet {
		run.Watch = w.show
		defer w.end()
	}
	if o.Record != "" {
		w, err := rawlog.Create(o.Record, rawlog.WriterOptions{})
		if err != nil {
			return result, err
		}
		defer func() { err = errors.Join(err, w.Close()) }()
		if run.Log, err = deploy.NewTrialLog(w, s.Hello()); err != nil {
			return result, err
		}
	}
	return s.Run(ctx, run)
}

func showRun(r deploy.Result, asJSON bool, out io.Writer) error {
	if asJSON {
		if err := json.NewEncoder(out).Encode(r); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(out, "%s after %.1f s: %s\n%d chunks taken, %d rejected, path ran out %d times, policy latency p50 %v p99 %v\n",
			r.Outcome, r.Duration.Seconds(), r.Reason, r.Chunks, r.Rejected, r.Starved, r.PolicyLatency.P50, r.PolicyLatency.P99)
	}
	if r.Stopped() {
		return fmt.Errorf("the arms were stopped: %s", r.Reason)
	}
	return nil
}
