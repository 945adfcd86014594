package node

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pinch-robotics/pinch/cmd/internal/program"
	"github.com/pinch-robotics/pinch/deploy"
	"github.com/pinch-robotics/pinch/policy"
	"github.com/pinch-robotics/pinch/policy/engine"
	"github.com/pinch-robotics/pinch/policy/engine/xla"
)

type serveOptions struct {
	deploy.ServeOptions
	Policy  policy.Options
	Aliases string
	Noise   string
	Answer  string
	JSON    bool
	Log     program.LogFlags
}

// apiKeyVariable is the environment variable with the key that clients must send: a flag would show in the list of processes.
const apiKeyVariable = "PINCH_API_KEY"

// AddFlags adds the flags of `pinch serve`.
func (o *serveOptions) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Addr, "listen", "127.0.0.1:8000", "`address` to serve at; port 0 takes a free one")
	f.Uint64Var(&o.Policy.Seed, "seed", 1, "of the sampling noise")
	f.StringVar(&o.Noise, "noise", string(policy.NoiseNone), "what chunks start from: none, the middle of the noise; fixed, one draw; fresh, a draw for each")
	f.StringVar(&o.Answer, "answer", string(policy.AnswerSteps), "form of the poses in answers: body_deltas, as the UMI Arena; chunk_poses; absolute_poses")
	f.BoolVar(&o.Policy.RawWeights, "raw-weights", false, "use the last weights instead of their running average")
	f.IntVar(&o.Policy.Threads, "threads", 0, "of the engine (default: one per processor)")
	f.StringVar(&o.Policy.Engine.Name, "engine", engine.CPU, "cpu, or xla: a device of a PJRT plugin")
	f.StringVar((*string)(&o.Policy.Engine.Platform), "platform", string(xla.CUDA), "of --engine xla: cuda or cpu")
	f.StringVar(&o.Policy.Engine.Plugin, "plugin", "", "`path` of the PJRT plugin (default: where pip puts it)")
	f.StringVar((*string)(&o.Policy.Engine.Precision), "precision", string(xla.BFloat16), "of activations on --engine xla: bfloat16 or float32")
	f.StringVar(&o.Aliases, "aliases", "", "serve the pools of this `file` by name, and follow its changes (docs/serving.md)")
	f.IntVar(&o.MaxClients, "max-clients", 16, "connections at the same time")
	f.BoolVar(&o.JSON, "json", false, "announce the address as one line of JSON")
	o.Log.AddFlags(f)
}

func (o *serveOptions) checkFlags() error {
	o.Policy.Noise = policy.Noise(o.Noise)
	if o.Policy.Noise != policy.NoiseNone && o.Policy.Noise != policy.NoiseFixed && o.Policy.Noise != policy.NoiseFresh {
		return program.Usage("--noise: %q, want %s, %s or %s", o.Noise, policy.NoiseNone, policy.NoiseFixed, policy.NoiseFresh)
	}
	o.Policy.Answer = policy.Answer(o.Answer)
	switch o.Policy.Answer {
	case policy.AnswerSteps, policy.AnswerChunk, policy.AnswerAbsolute:
	default:
		return program.Usage("--answer: %q, want %s, %s or %s", o.Answer, policy.AnswerSteps, policy.AnswerChunk, policy.AnswerAbsolute)
	}
	if _, _, err := net.SplitHostPort(o.Addr); err != nil {
		return program.Usage("--listen: %w", err)
	}
	if err := o.Policy.Engine.Check(); err != nil {
		return program.Usage("--engine, --precision: %w", err)
	}
	if err := program.CheckCount("--threads", o.Policy.Threads, 0, 1024); err != nil {
		return err
	}
	return program.CheckCount("--max-clients", o.MaxClients, 1, 100_000)
}

// Serve makes `pinch serve`.
func Serve() *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use: "serve CHECKPOINT | --aliases FILE", Short: "serve a checkpoint to robots (openpi protocol)", Args: cobra.MaximumNArgs(1),
		Long: "Serves a checkpoint (or the newest of a run folder) over the openpi WebSocket protocol with the UMI Arena contract, so any openpi\n" +
			"client can drive it. GET /healthz answers OK. Clients must send the key in " + apiKeyVariable + " when it is set.\n" + program.ExitHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.checkFlags(); err != nil {
				return err
			}
			switch {
			case (o.Aliases == "") == (len(args) == 0):
				return program.Usage("give a checkpoint, or --aliases with a file of them")
			case o.Aliases != "":
				return runServeAliases(cmd.Context(), o.Aliases, o, cmd.OutOrStdout(), cmd.ErrOrStderr())
			}
			return runServe(cmd.Context(), args[0], o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

func runServe(ctx context.Context, dir string, o serveOptions, out, errOut io.Writer) error {
	p, err := deploy.LoadCheckpoint(dir, o.Policy)
	if err != nil {
		return err
	}
	o.APIKey = os.Getenv(apiKeyVariable)
	o.Logger = o.Log.Logger(errOut)
	o.Ready = func(addr net.Addr) {
		url := "ws://" + addr.String()
		if o.JSON {
			_ = json.NewEncoder(out).Encode(map[string]any{"ready": true, "url": url, "metadata": p.Metadata()})
			return
		}
		fmt.Fprintf(out, "serving %s at %s; now run: pinch deploy --policy %s\n", dir, url, url)
	}
	if err := deploy.Serve(ctx, p, o.ServeOptions); err != nil {
		return err
	}
	return ctx.Err()
}
