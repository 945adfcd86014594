package node

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pinch-robotics/pinch/cmd/internal/program"
	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/dataset/edit"
)

type statsOptions struct {
	Feature string
	Horizon int
	JSON    bool
}

// AddFlags adds the flags of `pinch dataset stats`.
func (o *statsOptions) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Feature, "chunks", "", "instead of all features: a `feature`'s change from a row to each of the rows behind it")
	f.IntVar(&o.Horizon, "horizon", 16, "`steps` of a chunk, with --chunks")
	f.BoolVar(&o.JSON, "json", false, "print JSON")
}

func datasetStats() *cobra.Command {
	var o statsOptions
	cmd := &cobra.Command{
		Use: "stats DATASET", Short: "statistics of every feature, computed from the rows", Args: cobra.ExactArgs(1),
		Long: "Computes minimum, maximum, mean, population deviation and quantiles of every numeric feature from all rows in one pass, and those of\n" +
			"pictures from the episodes' own; no picture is decoded. Quantiles are exact up to 8191 rows, beyond that within the printed error of rank.\n" +
			"With --chunks: of the change of a vector over 1, 2, ... steps, by step and dimension; for poses the motion in the body's axes.\n" + program.ExitHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := program.CheckCount("--horizon", o.Horizon, 1, 10000); err != nil {
				return err
			}
			return runStats(cmd.Context(), args[0], o, cmd.OutOrStdout())
		},
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

func runStats(ctx context.Context, root string, o statsOptions, out io.Writer) error {
	d, err := dataset.Open(root)
	if err != nil {
		return err
	}
	if o.Feature != "" {
		chunks, err := edit.RelativeChunks(ctx, d, o.Feature, o.Horizon)
		if err != nil {
			return err
		}
		if o.JSON {
			return writeJSON(out, chunks)
		}
		return printChunks(out, chunks)
	}
	stats, rankError, err := d.AllStats(ctx)
	if err != nil {
		return err
	}
	if o.JSON {
		return writeJSON(out, map[string]any{"rank_error": rankError, "features": stats})
	}
	b := bufio.NewWriter(out)
	for _, f := range d.Features() {
		s, ok := stats[f.Name]
		if !ok {
			continue
		}
		fmt.Fprintf(b, "%s  (%d)\n", f.Name, s.Count)
		for i := range s.Mean {
			name := fmt.Sprint(i)
			if i < len(f.Names) && !f.DType.Visual() {
				name = f.Names[i]
			}
			fmt.Fprintf(b, "  %-24s min %-12.6g q01 %-12.6g q50 %-12.6g q99 %-12.6g max %-12.6g mean %-12.6g std %.6g\n", name,
				s.Min[i], s.Q01[i], s.Q50[i], s.Q99[i], s.Max[i], s.Mean[i], s.Std[i])
		}
	}
	fmt.Fprintf(b, "quantiles within %.2g of rank\n", rankError)
	return b.Flush()
}

func printChunks(out io.Writer, c *edit.ChunkStats) error {
	b := bufio.NewWriter(out)
	fmt.Fprintf(b, "%s, %s; quantiles within %.2g of rank\n", c.Feature, c.Reference, c.RankError)
	for _, s := range c.Steps {
		for i := range s.Mean {
			name := fmt.Sprint(i)
			if i < len(c.Names) {
				name = c.Names[i]
			}
			fmt.Fprintf(b, "  step %-4d %-12s n %-9d q01 %-12.6g q50 %-12.6g q99 %-12.6g mean %-12.6g std %.6g\n", s.Step, name, s.Count,
				s.Q01[i], s.Q50[i], s.Q99[i], s.Mean[i], s.Std[i])
		}
	}
	return b.Flush()
}

func writeJSON(out io.Writer, v any) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
