package node

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pinch-robotics/pinch/cmd/internal/program"
	"github.com/pinch-robotics/pinch/dataset/transfer"
)

// Data makes `pinch data` with its verbs.
func Data() *cobra.Command {
	return program.Group("data", "move datasets between this machine, S3 and the Hugging Face Hub", dataPull(), dataPush(), dataVerify())
}

const dataHelp = "REMOTE is s3://bucket/prefix (server and keys from AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID and so on) or\n" +
	"hf://owner/name[@revision] (server from HF_ENDPOINT, token from HF_TOKEN or `hf auth login`).\n"

type dataOptions struct {
	transfer.Options
	Chosen string
	JSON   bool
}

func (o *dataOptions) addFlags(f *pflag.FlagSet) {
	f.IntVar(&o.Workers, "workers", 0, "files moved at the same time (default: 4)")
	f.BoolVar(&o.JSON, "json", false, "print the report as JSON")
}

func (o *dataOptions) addEpisodes(f *pflag.FlagSet) {
	f.StringVar(&o.Chosen, "episodes", "", "only the files of these `episodes`: 3 or 0-4 or 1,5,7-9 (default: all)")
}

func (o *dataOptions) checkFlags() (err error) {
	if err := program.CheckCount("--workers", o.Workers, 0, 256); err != nil {
		return err
	}
	o.Episodes, err = program.ParseEpisodes(o.Chosen)
	return err
}

// show prints progress, at most one line for each percent.
func (o *dataOptions) show(act string, progress io.Writer) {
	if o.JSON {
		return
	}
	last := int64(-1)
	o.Progress = func(p transfer.Progress) {
		percent := int64(100)
		if p.TotalBytes > 0 {
			percent = 100 * p.Bytes / p.TotalBytes
		}
		if percent != last || p.Files == p.TotalFiles {
			last = percent
			fmt.Fprintf(progress, "%s: %d of %d files, %.1f of %.1f MB\n", act, p.Files, p.TotalFiles, float64(p.Bytes)/1e6, float64(p.TotalBytes)/1e6)
		}
	}
}

func (o *dataOptions) report(r transfer.Report, text string, out io.Writer) error {
	if o.JSON {
		return json.NewEncoder(out).Encode(r)
	}
	_, err := fmt.Fprint(out, text)
	return err
}

func dataPull() *cobra.Command {
	var o dataOptions
	cmd := &cobra.Command{
		Use: "pull REMOTE FOLDER", Short: "copy a dataset, or some of its episodes, to this machine", Args: cobra.ExactArgs(2),
		Long: "Copies a dataset into a folder. Run again after an interruption it goes on where it stopped; every file is checked against\n" +
			"the hash that the remote has of it.\n" + dataHelp + program.ExitHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.checkFlags(); err != nil {
				return err
			}
			o.show("pull", cmd.ErrOrStderr())
			r, err := transfer.Pull(cmd.Context(), args[0], args[1], o.Options)
			if err != nil {
				return err
			}
			return o.report(r, moved(r, r.Local), cmd.OutOrStdout())
		},
	}
	o.addFlags(cmd.Flags())
	o.addEpisodes(cmd.Flags())
	return cmd
}

func moved(r transfer.Report, what string) string {
	text := fmt.Sprintf("%s: %d files copied (%.1f MB), %d were there already\n", what, r.Moved, float64(r.MovedBytes)/1e6, r.Kept)
	if n := len(r.Removed); n > 0 {
		text += fmt.Sprintf("%d files of an older version removed\n", n)
	}
	if n := len(r.Unverified); n > 0 {
		text += fmt.Sprintf("%d files have no hash at the remote; only their size was compared\n", n)
	}
	return text
}

func dataPush() *cobra.Command {
	var o dataOptions
	cmd := &cobra.Command{
		Use: "push FOLDER REMOTE", Short: "copy a dataset to S3 or the Hugging Face Hub", Args: cobra.ExactArgs(2),
		Long: "Copies a complete dataset to a remote; files that it has already are not sent again. meta/info.json goes last, so nobody reads\n" +
			"a part of it as the whole.\n" + dataHelp + program.ExitHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.checkFlags(); err != nil {
				return err
			}
			o.show("push", cmd.ErrOrStderr())
			r, err := transfer.Push(cmd.Context(), args[0], args[1], o.Options)
			if err != nil {
				return err
			}
			return o.report(r, moved(r, r.Remote), cmd.OutOrStdout())
		},
	}
	o.addFlags(cmd.Flags())
	cmd.Flags().BoolVar(&o.Prune, "prune", false, "remove files of the remote's data, videos and meta folders that the dataset does not have")
	cmd.Flags().BoolVar(&o.Public, "public", false, "a repository that is made by this push is readable for everybody (default: private)")
	cmd.Flags().StringVar(&o.Message, "message", "", "`text` of the commit on the Hub")
	return cmd
}

func dataVerify() *cobra.Command {
	var o dataOptions
	cmd := &cobra.Command{
		Use: "verify REMOTE FOLDER", Short: "compare every file of a folder with a remote", Args: cobra.ExactArgs(2),
		Long: "Compares sizes and hashes of all files.\n" + dataHelp + program.ExitHelpFound,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.checkFlags(); err != nil {
				return err
			}
			return runVerify(cmd.Context(), args[0], args[1], o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.addFlags(cmd.Flags())
	o.addEpisodes(cmd.Flags())
	return cmd
}

func runVerify(ctx context.Context, remote, folder string, o dataOptions, out, progress io.Writer) error {
	o.show("verify", progress)
	r, err := transfer.Verify(ctx, remote, folder, o.Options)
	if err != nil {
		return err
	}
	text := ""
	for _, f := range r.Faults {
		text += fmt.Sprintf("%s: %s: %s\n", f.What, f.Path, f.Text)
	}
	text += fmt.Sprintf("%s: %d files have the hash of the remote, %d differ, %d have none there\n", folder, r.Kept, len(r.Faults), len(r.Unverified))
	if err := o.report(r, text, out); err != nil {
		return err
	}
	if len(r.Faults) > 0 {
		return program.ErrFound
	}
	return nil
}
