package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pinch-robotics/pinch/cmd/internal/program"
	"github.com/pinch-robotics/pinch/internal/config"
	"github.com/pinch-robotics/pinch/train"
)

type trainOptions struct {
	Config string
	Data   string
	Out    string
	Resume bool
	Set    []string
	Log    program.LogFlags
	recipe func(size string) train.Config // nil: the built-in values
}

// AddFlags adds the flags of `pinch train`.
func (o *trainOptions) AddFlags(f *pflag.FlagSet) {
	f.StringVarP(&o.Config, "config", "c", "", "YAML `file` with the training configuration (default: the built-in values)")
	f.StringVar(&o.Data, "data", "", "the dataset's `folder`; the same as data=FOLDER")
	f.StringVarP(&o.Out, "out", "o", "", "the run's `folder`; the same as out=FOLDER")
	f.BoolVar(&o.Resume, "resume", false, "go on with the newest checkpoint in the run's folder")
	o.Log.AddFlags(f)
}

// load resolves file, flags and key=value arguments, in this order.
func (o *trainOptions) load(args []string) (train.Config, error) {
	overrides := append([]string{}, args...)
	if o.Data != "" {
		overrides = append(overrides, "data="+o.Data)
	}
	if o.Out != "" {
		overrides = append(overrides, "out="+o.Out)
	}
	if o.Resume {
		overrides = append(overrides, "resume=true")
	}
	read := train.LoadConfig
	if o.recipe != nil {
		read = func(path string, overrides ...string) (train.Config, error) {
			return train.LoadRecipe(o.recipe, path, overrides...)
		}
	}
	c, err := read(o.Config, overrides...)
	if err != nil {
		return c, program.UsageError{Err: err}
	}
	if c.Data == "" && c.Mixture == "" || c.Out == "" {
		return c, program.Usage("give --data DATASET (or mixture=FILE) and --out RUN")
	}
	return c, nil
}

// Train makes `pinch train`.
func Train() *cobra.Command {
	var o trainOptions
	cmd := &cobra.Command{
		Use: "train --data DATASET --out RUN [KEY=VALUE...]", Short: "train a policy on a dataset",
		Long: "Trains a flow-matching policy. Its inputs and outputs are declared from the dataset's features (key preset, or spec).\n" +
			"KEY=VALUE sets single configuration values, for instance steps=500 augment.shift=0. The run's folder gets the resolved\n" +
			"configuration, a JSONL log, the loss curve and checkpoints. Built-in values:\n\n" + defaultsText() + program.ExitHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := o.load(args)
			if err != nil {
				return err
			}
			return runTrain(cmd.Context(), c, o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.AddFlags(cmd.Flags())
	cmd.AddCommand(trainRecipe("pretrain", "train a policy of any size from many datasets", "base", train.PretrainConfig),
		trainRecipe("post", "go on from a checkpoint with the data of a task", "base", train.PostConfig), trainPlan())
	return cmd
}

func defaultsText() string { return recipeText(train.DefaultConfig()) }

func recipeText(c train.Config) string {
	text, err := config.Marshal(c)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func runTrain(ctx context.Context, c train.Config, o trainOptions, out, console io.Writer) error {
	result, err := train.Run(ctx, c, train.Options{Logger: o.Log.Logger(console), Console: console})
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("%w; the newest checkpoint in %s is complete, go on with --resume", err, c.Out)
	}
	if err != nil {
		return err
	}
	if result.Report != nil {
		fmt.Fprint(out, result.Report)
	}
	if result.Replay != nil {
		fmt.Fprintln(out, result.Replay)
	}
	validation := "nothing held out"
	if !math.IsNaN(result.ValLoss) {
		validation = fmt.Sprintf("validation loss %.4f", result.ValLoss)
	}
	_, err = fmt.Fprintf(out, "%d steps, loss %.4f, %s, %.1f samples/s\ncheckpoint: %s\n",
		result.Steps, result.Loss, validation, result.SamplesPerSecond, result.Checkpoint)
	return err
}
