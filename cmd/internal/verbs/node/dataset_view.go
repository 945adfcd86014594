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
	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/dataset/check"
	"github.com/pinch-robotics/pinch/dataset/view"
)

type viewOptions struct {
	Listen   string
	Out      string
	Episodes string
	Embed    bool
	Report   string
	NoCheck  bool
	Decode   bool
	Log      program.LogFlags

	episodes []int
}

// AddFlags adds the flags of `pinch dataset view`.
func (o *viewOptions) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Listen, "listen", "127.0.0.1:0", "the `address` to answer on; port 0 is any that is free")
	f.StringVarP(&o.Out, "out", "o", "", "write pages into this `folder` instead of answering: an index and one page for each episode")
	f.StringVar(&o.Episodes, "episodes", "", "with --out: which `episodes`: 3 or 0-4 or 1,5,7-9 (default: all that are present)")
	f.BoolVar(&o.Embed, "embed", false, "with --out: put the videos into the pages instead of beside them")
	f.StringVar(&o.Report, "report", "", "show the findings of this `file`, made by pinch dataset check --json, instead of checking")
	f.BoolVar(&o.NoCheck, "no-check", false, "do not check the dataset")
	f.BoolVar(&o.Decode, "decode", false, "let the check decode the videos too")
	o.Log.AddFlags(f)
}

func (o *viewOptions) checkFlags(f *pflag.FlagSet) (err error) {
	if o.Out == "" && (o.Episodes != "" || o.Embed) {
		return program.Usage("--episodes and --embed choose what --out writes; give --out FOLDER")
	}
	if o.Out != "" && f.Changed("listen") {
		return program.Usage("give either --listen or --out")
	}
	if o.Report != "" && (o.NoCheck || o.Decode) {
		return program.Usage("--report shows the findings of a check made before; leave out --no-check and --decode")
	}
	o.episodes, err = program.ParseEpisodes(o.Episodes)
	return err
}

func datasetView() *cobra.Command {
	var o viewOptions
	cmd := &cobra.Command{
		Use: "view DATASET", Short: "look at a dataset in a browser: pictures, curves, paths of the grippers, findings", Args: cobra.ExactArgs(1),
		Long: "Prints the address of a page for a browser on this machine, and answers it until it is interrupted: the list of episodes with what\n" +
			"the check found, the pictures of all cameras, the curves of all features and the paths of the grippers under one time cursor.\n" +
			"With --out it writes pages that need neither a program nor a network.\n" + program.ExitHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.checkFlags(cmd.Flags()); err != nil {
				return err
			}
			if o.Out != "" {
				return runViewOut(cmd.Context(), args[0], o, cmd.OutOrStdout(), cmd.ErrOrStderr())
			}
			return runViewServer(cmd.Context(), args[0], o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

func runViewServer(ctx context.Context, root string, o viewOptions, out, log io.Writer) error {
	vo := view.Options{Logger: o.Log.Logger(log)}
	var err error
	if vo.Report, err = readReport(o.Report); err != nil {
		return err
	}
	if vo.Report == nil && !o.NoCheck {
		vo.Check = func(ctx context.Context, progress func(string, int, int)) (*dataset.Report, error) {
			return check.Run(ctx, root, check.Options{Decode: o.Decode, Progress: progress})
		}
	}
	s, err := view.NewServer(root, vo)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return fmt.Errorf("view %s: %w", root, err)
	}
	if _, err := fmt.Fprintf(out, "%s: http://%s/\n", root, l.Addr()); err != nil {
		l.Close()
		return err
	}
	return s.Run(ctx, l)
}

func runViewOut(ctx context.Context, root string, o viewOptions, out, progress io.Writer) error {
	report, err := readReport(o.Report)
	if err != nil {
		return err
	}
	if report == nil && !o.NoCheck {
		if report, err = check.Run(ctx, root, check.Options{Decode: o.Decode}); err != nil {
			return err
		}
	}
	index, err := view.Write(ctx, root, o.Out, view.WriteOptions{Episodes: o.episodes, Embed: o.Embed, Report: report,
		Progress: func(done, total int) { stageProgress(progress)("pages", done, total) }})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, index)
	return err
}

// readReport reads what `pinch dataset check --json` printed; nil without a path.
func readReport(path string) (*dataset.Report, error) {
	if path == "" {
		return nil, nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read report: %w", err)
	}
	r := &dataset.Report{}
	if err := json.Unmarshal(b, r); err != nil {
		return nil, fmt.Errorf("read report %s (want the output of pinch dataset check --json): %w", path, err)
	}
	return r, nil
}
