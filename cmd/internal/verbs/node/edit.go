package node

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pinch-robotics/pinch/cmd/internal/program"
	"github.com/pinch-robotics/pinch/dataset/edit"
)

// editVerb is one verb that makes a dataset out of others. The last argument is the result's folder unless --in-place is given.
type editVerb struct {
	use, short, long string
	// sources is how many arguments name datasets; 0 is two or more.
	sources int
	// flags adds the verb's own; check reads them before anything is touched.
	flags func(f *pflag.FlagSet)
	check func() error
	run   func(ctx context.Context, sources []string, t edit.Target) ([]edited, error)
	// onlyNew: there is no in-place form.
	onlyNew bool
}

// edited is one dataset that was made.
type edited struct {
	path string
	*edit.Result
}

type editOptions struct {
	InPlace bool
	Log     program.LogFlags
}

// command makes the verb.
func (v editVerb) command() *cobra.Command {
	var o editOptions
	cmd := &cobra.Command{Use: v.use, Short: v.short,
		Long: v.long + "\n\nUnchanged rows and pictures are copied as they are encoded, sources stay as they were, and the result appears whole or not at\n" +
			"all. A run that was interrupted goes on when it is repeated.\n" + program.ExitHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			if v.check != nil {
				if err := v.check(); err != nil {
					return err
				}
			}
			sources, target, err := v.places(args, o.InPlace)
			if err != nil {
				return err
			}
			t := edit.Target{Path: target, InPlace: o.InPlace, Progress: editProgress(cmd.Name(), cmd.ErrOrStderr()), Logger: o.Log.Logger(cmd.ErrOrStderr())}
			made, err := v.run(cmd.Context(), sources, t)
			if err != nil {
				return err
			}
			return printEdited(cmd.OutOrStdout(), made)
		},
	}
	f := cmd.Flags()
	if !v.onlyNew {
		f.BoolVar(&o.InPlace, "in-place", false, "replace the (first) source instead of making a new dataset; TARGET is left out")
	}
	o.Log.AddFlags(f)
	if v.flags != nil {
		v.flags(f)
	}
	return cmd
}

// places tells sources from target.
func (v editVerb) places(args []string, inPlace bool) (sources []string, target string, err error) {
	least := max(v.sources, 2)
	if v.sources != 0 {
		least = v.sources
	}
	want := least + 1
	if inPlace {
		want = least
	}
	if len(args) < want || v.sources != 0 && len(args) > want {
		what := "and the folder of the result"
		if inPlace {
			what = "and no target, with --in-place"
		}
		return nil, "", program.Usage("%d arguments: want %d, the datasets %s", len(args), want, what)
	}
	if inPlace {
		return args, args[0], nil
	}
	return args[:len(args)-1], args[len(args)-1], nil
}

// editProgress prints a line for each tenth of the work.
func editProgress(verb string, to io.Writer) func(string, int, int) {
	last := map[string]int{}
	return func(what string, done, total int) {
		if tenth := done * 10 / max(1, total); tenth > last[what] {
			last[what] = tenth
			fmt.Fprintf(to, "%s: %d of %d %s\n", verb, done, total, what)
		}
	}
}

func printEdited(out io.Writer, made []edited) error {
	for _, m := range made {
		for _, change := range m.Changes {
			if _, err := fmt.Fprintln(out, "note:", change); err != nil {
				return err
			}
		}
		exact := "exact quantiles"
		if m.RankError > 0 {
			exact = fmt.Sprintf("quantiles within %.2g of rank", m.RankError)
		}
		if _, err := fmt.Fprintf(out, "%s: %d episodes, %d frames; %d files as they were, %d made; %s\n", m.path, m.Episodes, m.Frames, m.Copied, m.Made, exact); err != nil {
			return err
		}
	}
	return nil
}

// one wraps an operation that makes one dataset.
func one(f func(ctx context.Context, sources []string, t edit.Target) (*edit.Result, error)) func(context.Context, []string, edit.Target) ([]edited, error) {
	return func(ctx context.Context, sources []string, t edit.Target) ([]edited, error) {
		res, err := f(ctx, sources, t)
		if err != nil {
			return nil, err
		}
		return []edited{{t.Path, res}}, nil
	}
}
