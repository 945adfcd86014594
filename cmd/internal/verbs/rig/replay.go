package rig

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pinch-robotics/pinch/cmd/internal/program"
	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/deploy"
	"github.com/pinch-robotics/pinch/eval"
)

type replayOptions struct {
	Policy   string
	Episodes string
	JSON     bool
}

// AddFlags adds the flags of `pinch eval replay`.
func (o *replayOptions) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Policy, "policy", "", "`address` of the policy server, ws://HOST:PORT")
	f.StringVar(&o.Episodes, "episodes", "", "which `episodes`: 3 or 0-4 or 1,5,7-9 (default: all that are present)")
	f.BoolVar(&o.JSON, "json", false, "print the report as JSON")
}

func evalReplay() *cobra.Command {
	var o replayOptions
	cmd := &cobra.Command{
		Use: "replay DATASET --policy URL", Short: "compare a policy's answers with recorded motion, without a robot", Args: cobra.ExactArgs(1),
		Long: "Asks the policy with recorded pictures and states, every 16 of its rows, and compares its motion with what was recorded (the\n" +
			"replay metric of the UMI Arena). Use episodes that the policy was not trained on.\n" + program.ExitHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			episodes, err := program.ParseEpisodes(o.Episodes)
			if err != nil {
				return err
			}
			if o.Policy == "" {
				return program.Usage("--policy: name a policy server")
			}
			return runReplay(cmd.Context(), args[0], episodes, o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

func runReplay(ctx context.Context, root string, episodes []int, o replayOptions, out, errOut io.Writer) error {
	d, err := dataset.Open(root)
	if err != nil {
		return err
	}
	client, err := deploy.Dial(ctx, o.Policy, deploy.ClientOptions{})
	if err != nil {
		return err
	}
	defer client.Close()
	report, err := eval.OpenLoop(ctx, eval.OpenLoopOptions{Dataset: d, Policy: client, Episodes: episodes, Progress: func(done, total int) {
		fmt.Fprintf(errOut, "replay: %d of %d episodes\n", done, total)
	}})
	if err != nil {
		return err
	}
	if o.JSON {
		return json.NewEncoder(out).Encode(report)
	}
	return report.WriteText(out)
}
