package node

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pinch-robotics/pinch/cmd/internal/program"
	"github.com/pinch-robotics/pinch/train"
)

// trainRecipe makes `pinch train pretrain` and `pinch train post`: the training of `pinch train` with built-in values of their own.
func trainRecipe(name, short, size string, recipe func(size string) train.Config) *cobra.Command {
	o := trainOptions{recipe: recipe}
	from := ""
	cmd := &cobra.Command{
		Use: name + " --config FILE [KEY=VALUE...]", Short: short,
		Long: strings.ToUpper(short[:1]) + short[1:] + ". The configuration is the built-in values of the size, then the file, then KEY=VALUE\n" +
			"arguments; an unknown key is an error that names the nearest one. Built-in values of size " + size + ":\n\n" + recipeText(recipe(size)) + program.ExitHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			if from != "" {
				args = append(slices.Clone(args), "from="+from)
			}
			c, err := o.load(args)
			if err != nil {
				return err
			}
			if name == "post" && c.From == "" && !c.Resume {
				return program.Usage("give --from CHECKPOINT, and statistics=checkpoint or statistics=data")
			}
			return runTrain(cmd.Context(), c, o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.AddFlags(cmd.Flags())
	if name == "post" {
		cmd.Flags().StringVar(&from, "from", "", "the `checkpoint` (or run folder) to begin with; the same as from=CHECKPOINT")
	}
	return cmd
}

type planOptions struct {
	Config  string
	GPU     string
	Count   int
	MFU     float64
	Measure bool
	Loader  int
	JSON    bool
	Log     program.LogFlags
}

// AddFlags adds the flags of `pinch train plan`.
func (o *planOptions) AddFlags(f *pflag.FlagSet) {
	f.StringVarP(&o.Config, "config", "c", "", "YAML `file` with the training configuration")
	f.StringVar(&o.GPU, "gpu", "h200", "`name` of the devices: "+strings.Join(gpuNames(), ", "))
	f.IntVar(&o.Count, "gpus", 1, "`number` of devices")
	f.Float64Var(&o.MFU, "mfu", 0.4, "`share` of the device's speed that the step reaches")
	f.BoolVar(&o.Measure, "measure", false, "measure steps of several networks on the engine of the configuration and predict from them (minutes)")
	f.IntVar(&o.Loader, "loader", 0, "instead of a plan compare so many `steps` with the run's loader against as many without")
	f.BoolVar(&o.JSON, "json", false, "print the plan as one line of JSON")
	o.Log.AddFlags(f)
}

func gpuNames() []string {
	var names []string
	for name := range train.GPUs {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// trainPlan makes `pinch train plan`.
func trainPlan() *cobra.Command {
	var o planOptions
	cmd := &cobra.Command{
		Use: "plan [KEY=VALUE...]", Short: "say what a pretraining run will take before anything runs",
		Long: "Prints parameters, operations of a sample, memory of each device, time of a step and samples per second, from the configuration\n" +
			"alone: no device is touched. With --measure it first times steps of several networks on the engine of the configuration (engine,\n" +
			"platform, precision), fits a cost of operations, activations, parameters and starts to them, and prints how far the fit is off on\n" +
			"points that it did not see. With --loader N and data=DATASET it says how much of its speed a run keeps with its loader." + program.ExitHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd.Context(), args, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

func (o planOptions) run(ctx context.Context, args []string, out, console io.Writer) error {
	gpu, ok := train.GPUs[o.GPU]
	if !ok {
		return program.Usage("--gpu %q is unknown: use %s", o.GPU, strings.Join(gpuNames(), ", "))
	}
	c, err := train.LoadRecipe(train.PretrainConfig, o.Config, args...)
	if err != nil {
		return program.UsageError{Err: err}
	}
	if o.Loader > 0 {
		r, err := train.CompareLoader(ctx, c, o.Loader, time.Now, o.Log.Logger(console))
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(out, r)
		return err
	}
	spec, err := train.PlanSpec(c)
	if err != nil {
		return err
	}
	plan := train.PlanOptions{GPU: gpu, Count: o.Count, MFU: o.MFU, Spec: spec}
	if o.Measure {
		plan.Model, err = train.MeasureSpeed(ctx, c, time.Now, func(done, total int) { fmt.Fprintf(console, "measured %d of %d\n", done, total) })
		if err != nil {
			return err
		}
		fmt.Fprintln(out, plan.Model)
	}
	p, err := train.NewPlan(c, plan)
	if err != nil {
		return err
	}
	if o.JSON {
		return json.NewEncoder(out).Encode(map[string]any{"program": "plan", "size": p.Size, "gpus": p.Count, "batch": p.Batch, "step_ms": 1e3 * p.StepSeconds,
			"communication_ms": 1e3 * p.CommunicationS, "samples_per_s": p.SamplesPerSecond, "memory_gb": p.MemoryGB, "fits": p.Fits, "accumulate": p.Accumulate})
	}
	_, err = fmt.Fprint(out, p)
	return err
}
