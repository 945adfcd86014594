// Package core holds the verbs that `pinch` carries out itself. It links no native library.
package core

import (
	"context"
	"encoding/json"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pinch-robotics/pinch/cmd/internal/program"
	"github.com/pinch-robotics/pinch/internal/doctor"
)

type doctorOptions struct {
	JSON bool
	Dir  string
}

// AddFlags adds the flags of `pinch doctor`.
func (o *doctorOptions) AddFlags(f *pflag.FlagSet) {
	f.BoolVar(&o.JSON, "json", false, "print one JSON object instead of text")
	f.StringVar(&o.Dir, "dir", ".", "the `folder` whose disk is looked at (where recordings will go)")
}

func (o *doctorOptions) checkFlags() error {
	if _, err := os.Stat(o.Dir); err != nil {
		return program.Usage("--dir: %w", err)
	}
	return nil
}

// Doctor makes `pinch doctor`.
func Doctor() *cobra.Command {
	var o doctorOptions
	cmd := &cobra.Command{
		Use: "doctor", Short: "say what this machine has, and how to get what is missing", Args: cobra.NoArgs,
		Long: "Looks at codecs, OpenCV, MuJoCo and offscreen GL, BLAS, PJRT plugins, GPUs, cameras, serial ports, the kernel and the disk.\n" +
			"A line is ok, missing (a verb does not work without it) or absent (optional); the fix stands under it.\n" + program.ExitHelpFound,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.checkFlags(); err != nil {
				return err
			}
			return runDoctor(cmd.Context(), o, cmd.OutOrStdout())
		},
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

func runDoctor(ctx context.Context, o doctorOptions, out io.Writer) error {
	report := doctor.Examine(ctx, doctor.This(program.HelperPath), o.Dir)
	if err := writeDoctor(report, o.JSON, out); err != nil {
		return err
	}
	if !report.OK() {
		return program.ErrFound
	}
	return ctx.Err()
}

func writeDoctor(r doctor.Report, asJSON bool, out io.Writer) error {
	if !asJSON {
		return r.WriteText(out)
	}
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}
