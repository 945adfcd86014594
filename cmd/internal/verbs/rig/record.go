package rig

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/pinch-robotics/pinch/capture"
	"github.com/pinch-robotics/pinch/cmd/internal/program"
)

type recordOptions struct {
	capture.Options
	Recover string
	JSON    bool
	Logs    program.LogFlags
}

// AddFlags adds the flags of `pinch record`.
func (o *recordOptions) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.RigFile, "rig", "", "YAML `file` of the rig: devices, addresses, frames, task")
	f.StringVarP(&o.Out, "out", "o", "recordings", "the `folder` for recordings")
	f.IntVar(&o.Episodes, "episodes", 0, "end after this many saved recordings; 0: until interrupted")
	f.DurationVar(&o.ConnectTimeout, "connect-timeout", 0, "every device must answer within it (default 15s)")
	f.StringVar(&o.Recover, "recover", "", "finish the recordings that a killed session left in this `folder`, instead of recording")
	f.BoolVar(&o.JSON, "json", false, "print the result as JSON")
	o.Logs.AddFlags(f)
}

func (o *recordOptions) checkFlags() error {
	switch {
	case o.Recover == "" && o.RigFile == "":
		return program.Usage("--rig: name the rig file; `pinch sim handheld` writes one for the simulated rig")
	case o.Recover != "" && o.RigFile != "":
		return program.Usage("--rig and --recover: recover needs no rig")
	case o.ConnectTimeout < 0:
		return program.Usage("--connect-timeout: %v is negative", o.ConnectTimeout)
	}
	if err := program.CheckCount("--episodes", o.Episodes, 0, 1_000_000); err != nil || o.Recover != "" {
		return err
	}
	rig, err := capture.LoadRig(o.RigFile)
	if err != nil {
		return program.UsageError{Err: err}
	}
	o.Rig, o.RigFile = &rig, ""
	return nil
}

// Record makes `pinch record`.
func Record() *cobra.Command {
	var o recordOptions
	cmd := &cobra.Command{
		Use: "record --rig FILE", Short: "record demonstrations from a handheld rig into raw logs", Args: cobra.NoArgs,
		Long: "Connects to the rig's devices and records what the pedal asks for: accept starts a recording and ends a subtask with success,\n" +
			"reject repeats it, cancel drops the recording. Each recording is a folder with one MCAP log and a meta.json.\n" +
			"After a crash, --recover FOLDER finishes what was left open; everything older than a second is there.\n" + program.ExitHelp,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.checkFlags(); err != nil {
				return err
			}
			if o.Recover != "" {
				return runRecover(cmd.Context(), o, cmd.OutOrStdout())
			}
			return runRecord(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

func runRecord(ctx context.Context, o recordOptions, out, errOut io.Writer) error {
	o.Log = o.Logs.Logger(errOut)
	o.Console = errOut
	o.Live = terminal(errOut)
	result, err := capture.Record(ctx, o.Options)
	if o.JSON {
		if jsonErr := json.NewEncoder(out).Encode(result); err == nil {
			err = jsonErr
		}
		return err
	}
	if err != nil && len(result.Saved)+len(result.Discarded) == 0 {
		return err // nothing to tell beside it
	}
	for _, c := range result.Cameras {
		fmt.Fprintf(out, "camera %s: %d frames received, %d logged, %d damaged, %d packets lost\n", c.Name, c.Frames, c.Logged, c.Bad, c.PacketsLost)
	}
	fmt.Fprintf(out, "%d recordings saved in %s, %d discarded\n", len(result.Saved), o.Out, len(result.Discarded))
	return err
}

// terminal tells whether w is a terminal, where a line may be drawn over.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

func runRecover(ctx context.Context, o recordOptions, out io.Writer) error {
	report, err := capture.Recover(ctx, o.Recover)
	if o.JSON {
		if jsonErr := json.NewEncoder(out).Encode(report); err == nil {
			err = jsonErr
		}
		return err
	}
	for _, r := range report.Recordings {
		fmt.Fprintf(out, "%s: %d messages, %d segments\n", r.Folder, r.Messages, r.Segments)
		if r.Discarded {
			fmt.Fprintln(out, "  no subtask had begun, so it is no recording; the data is kept there")
		}
		if r.Unjudged {
			fmt.Fprintln(out, "  the last attempt had no verdict and is kept as failed")
		}
		for _, l := range r.Losses {
			fmt.Fprintf(out, "  lost: %d bytes at byte %d, %s\n", l.Bytes, l.Offset, l.Reason)
		}
	}
	if err == nil && len(report.Recordings) == 0 {
		fmt.Fprintln(out, "nothing to recover in", o.Recover)
	}
	return err
}
