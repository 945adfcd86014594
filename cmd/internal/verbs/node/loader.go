package node

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pinch-robotics/pinch/bench"
	"github.com/pinch-robotics/pinch/cmd/internal/program"
	"github.com/pinch-robotics/pinch/dataset/loader"
	"github.com/pinch-robotics/pinch/dataset/video"
	"github.com/pinch-robotics/pinch/internal/imaging"
)

// windowFlags say what is read of each window.
type windowFlags struct {
	Cameras, Columns []string
	ImageOffsets     []int
	Offsets          []int
	Size             int
	Mode             string
	Part             string
	CacheDir         string
	FrameCacheGB     float64
	Workers          int
	Log              program.LogFlags
}

func (o *windowFlags) addFlags(f *pflag.FlagSet) {
	f.StringSliceVar(&o.Cameras, "camera", nil, "video `features`")
	f.StringSliceVar(&o.Columns, "column", nil, "numeric `features`")
	f.IntVar(&o.Size, "size", 224, "width and height of the pictures in `pixels`")
	f.StringVar(&o.Mode, "mode", string(imaging.Squash), "how pictures are fitted: squash or centre_crop")
	f.StringVar(&o.Part, "part", string(loader.All), "part of the mixture's split: all, train or val")
	f.StringVar(&o.CacheDir, "cache-dir", "", "`folder` of column stores and frames (default: DATASET.cache beside each dataset)")
	f.IntVar(&o.Workers, "workers", 0, "batches made at a `time` (default: one for each processor)")
	o.Log.AddFlags(f)
}

// mixture reads the argument: a mixture file, a folder or a place in a bucket.
func mixtureOf(arg string) (loader.Mixture, error) {
	if strings.HasSuffix(arg, ".yaml") || strings.HasSuffix(arg, ".yml") {
		return loader.ReadMixture(arg)
	}
	return loader.Single(arg), nil
}

// config is checked by the loader itself.
func (o windowFlags) config(errOut io.Writer) loader.Config {
	c := loader.Config{Batch: 1, Part: loader.Part(o.Part), CacheDir: o.CacheDir, Workers: o.Workers, Logger: o.Log.Logger(errOut),
		FrameCache: int64(o.FrameCacheGB * 1e9),
		Progress: func(set string, done, total int) {
			if done == total || done%1000 == 0 {
				fmt.Fprintf(errOut, "columns of %s: %d of %d episodes\n", set, done, total)
			}
		}}
	for _, name := range o.Cameras {
		c.Images = append(c.Images, loader.Images{Feature: name, Offsets: o.ImageOffsets,
			Geometry: imaging.Geometry{Mode: imaging.Mode(o.Mode), Width: o.Size, Height: o.Size}})
	}
	for _, name := range o.Columns {
		c.Columns = append(c.Columns, loader.Columns{Feature: name, Offsets: o.Offsets})
	}
	return c
}

// cacheProgress prints at most a hundred lines.
func cacheProgress(errOut io.Writer) func(done, total int) {
	last := -1
	return func(done, total int) {
		if percent := done * 100 / max(total, 1); percent != last {
			last = percent
			fmt.Fprintf(errOut, "frame cache: %d of %d episodes of cameras\n", done, total)
		}
	}
}

func datasetCache() *cobra.Command {
	var o windowFlags
	cmd := &cobra.Command{
		Use: "cache DATASET|MIXTURE.yaml|s3://BUCKET/PREFIX", Short: "make a trainer's caches in advance: numeric columns, frames at the training size", Args: cobra.ExactArgs(1),
		Long: "Makes the column store of the numeric features that are named, and decodes every frame of the cameras that are named into the frame\n" +
			"cache, until its limit. What is there already stays; an interrupted run goes on where it stopped.\n" + program.ExitHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runCache(cmd.Context(), args[0], o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.addFlags(cmd.Flags())
	cmd.Flags().Float64Var(&o.FrameCacheGB, "limit", 100, "how much frames may take below a cache folder, in `GB`")
	return cmd
}

func runCache(ctx context.Context, arg string, o windowFlags, out, errOut io.Writer) error {
	if !(o.FrameCacheGB >= 0 && o.FrameCacheGB < 1e9) {
		return program.Usage("--limit %v: want 0 or more GB", o.FrameCacheGB)
	}
	m, err := mixtureOf(arg)
	if err != nil {
		return err
	}
	l, err := loader.New(ctx, m, o.config(errOut))
	if err != nil {
		return err
	}
	err = l.WaitCache(ctx, cacheProgress(errOut))
	if closeErr := l.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s: %d episodes, %d windows\n", arg, l.Episodes(), l.Windows())
	return err
}

type windowsOptions struct {
	windowFlags
	Batch, Steps, Warm int
	Seed               uint64
	Fill, JSON         bool
	List               string
}

func datasetWindows() *cobra.Command {
	var o windowsOptions
	cmd := &cobra.Command{
		Use: "windows DATASET|MIXTURE.yaml|s3://BUCKET/PREFIX", Short: "read random windows as a trainer does, and say how fast they come", Args: cobra.ExactArgs(1),
		Long: "Draws batches of random windows: numeric features and pictures at frame offsets, from one dataset or a weighted mixture.\n" + program.ExitHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runWindows(cmd.Context(), args[0], o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	o.addFlags(f)
	f.IntSliceVar(&o.ImageOffsets, "image-offsets", []int{0}, "`frames` of pictures, counted from the window's frame")
	f.IntSliceVar(&o.Offsets, "offsets", []int{0}, "`frames` of numeric features, counted from the window's frame")
	f.IntVar(&o.Batch, "batch", 32, "windows in a batch")
	f.IntVar(&o.Steps, "steps", 20, "batches that are measured")
	f.IntVar(&o.Warm, "warm", 2, "batches before that are not")
	f.Uint64Var(&o.Seed, "seed", 1, "of the order")
	f.Float64Var(&o.FrameCacheGB, "frame-cache", 0, "how much decoded frames may take on disk, in `GB` (default: none are kept)")
	f.BoolVar(&o.Fill, "fill", false, "fill the frame cache before measuring")
	f.StringVar(&o.List, "list", "", "`file` that gets the pictures shown, for other readers")
	f.BoolVar(&o.JSON, "json", false, "print the numbers as JSON")
	return cmd
}

func (o windowsOptions) checkFlags() error {
	for name, v := range map[string]int{"--batch": o.Batch, "--steps": o.Steps} {
		if err := program.CheckCount(name, v, 1, 1_000_000); err != nil {
			return err
		}
	}
	if o.Warm < 0 || o.Warm > 1_000_000 || !(o.FrameCacheGB >= 0 && o.FrameCacheGB < 1e9) {
		return program.Usage("--warm %d, --frame-cache %v: want 0 or more", o.Warm, o.FrameCacheGB)
	}
	return nil
}

func runWindows(ctx context.Context, arg string, o windowsOptions, out, errOut io.Writer) (err error) {
	if err := o.checkFlags(); err != nil {
		return err
	}
	b := bench.WindowsOptions{Config: o.config(errOut), Steps: o.Steps, Warm: o.Warm, FillCache: o.Fill, Progress: cacheProgress(errOut)}
	b.Config.Batch, b.Config.Seed = o.Batch, o.Seed
	if b.Mixture, err = mixtureOf(arg); err != nil {
		return err
	}
	if o.List != "" {
		f, err := os.Create(o.List)
		if err != nil {
			return err
		}
		defer f.Close()
		b.List = f
	}
	report, err := bench.MeasureWindows(ctx, b)
	if err != nil {
		return err
	}
	if o.JSON {
		return json.NewEncoder(out).Encode(report)
	}
	return report.WriteText(out)
}

// benchData makes `pinch bench loader-data`.
func benchData() *cobra.Command {
	var d bench.LoaderData
	var codec string
	cmd := &cobra.Command{
		Use: "loader-data FOLDER", Short: "make a dataset for measuring loaders: two cameras, key frame every second frame", Args: cobra.ExactArgs(1),
		Long: "Writes a LeRobot v3.0 dataset of moving textures with two cameras and 16 numbers of state and action.\n" + program.ExitHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			d.Codec = video.Codec(codec)
			d.FillDefaults()
			if err := program.CheckCount("--episodes", d.Episodes, 1, 10_000); err != nil {
				return err
			}
			return bench.MakeLoaderData(cmd.Context(), args[0], d)
		},
	}
	f := cmd.Flags()
	f.StringVar(&codec, "codec", string(video.H264), "h264 or av1")
	f.StringVar(&d.Preset, "preset", "", "of the encoder (default: the one that ingest uses)")
	f.IntVar(&d.Episodes, "episodes", 8, "how many")
	f.IntVar(&d.Length, "length", 250, "`frames` of each")
	return cmd
}
