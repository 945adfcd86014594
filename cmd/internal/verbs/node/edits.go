package node

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pinch-robotics/pinch/cmd/internal/program"
	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/dataset/edit"
	"github.com/pinch-robotics/pinch/dataset/video"
)

// datasetEdits are the verbs that change datasets.
func datasetEdits() []*cobra.Command {
	out := []*cobra.Command{datasetStats()}
	for _, v := range []func() editVerb{deleteVerb, filterVerb, splitVerb, mergeVerb, renameVerb, remapVerb, addFeatureVerb, removeFeatureVerb,
		reencodeVerb, convertVerb, compactVerb, restatVerb} {
		out = append(out, v().command())
	}
	return out
}

func deleteVerb() editVerb {
	var list string
	var episodes []int
	return editVerb{use: "delete DATASET [TARGET] --episodes LIST", short: "leave episodes out of a dataset", sources: 1,
		long: "Makes a dataset without some episodes; those behind them move up.",
		flags: func(f *pflag.FlagSet) {
			f.StringVar(&list, "episodes", "", "the `episodes` that go: 3 or 0-4 or 1,5,7-9")
		},
		check: func() (err error) {
			if list == "" {
				return program.Usage("--episodes: say which episodes to delete")
			}
			episodes, err = program.ParseEpisodes(list)
			return err
		},
		run: one(func(ctx context.Context, s []string, t edit.Target) (*edit.Result, error) {
			return edit.Delete(ctx, s[0], episodes, t)
		})}
}

func filterVerb() editVerb {
	var texts []string
	var conditions []edit.Condition
	return editVerb{use: "filter DATASET [TARGET] --where CONDITION...", short: "keep the episodes that meet conditions", sources: 1,
		long: "Keeps the episodes whose metadata meet all conditions: NAME=VALUE, !=, <, <=, >, >=, or NAME~PART of a text. Names are index,\n" +
			"length (rows), seconds, task, and the extra columns of meta/episodes that `pinch dataset info` lists, such as success or robot_id.",
		flags: func(f *pflag.FlagSet) {
			f.StringArrayVar(&texts, "where", nil, "a `condition` such as success=true; may be given several times")
		},
		check: func() error {
			if len(texts) == 0 {
				return program.Usage("--where: say which episodes to keep")
			}
			for _, s := range texts {
				c, err := edit.ParseCondition(s)
				if err != nil {
					return program.Usage("--where: %w", err)
				}
				conditions = append(conditions, c)
			}
			return nil
		},
		run: one(func(ctx context.Context, s []string, t edit.Target) (*edit.Result, error) {
			return edit.Filter(ctx, s[0], conditions, t)
		})}
}

func splitVerb() editVerb {
	var texts []string
	return editVerb{use: "split DATASET TARGET --part NAME=SHARE...", short: "divide a dataset into several", sources: 1, onlyNew: true,
		long: "Makes a dataset TARGET/NAME for each part: NAME=0.8 takes a share of the episodes in their order, NAME=0-79,90 takes these episodes.\n" +
			"Shares and lists are not mixed.",
		flags: func(f *pflag.FlagSet) {
			f.StringArrayVar(&texts, "part", nil, "a `part`: NAME=SHARE or NAME=EPISODES; given several times")
		},
		check: func() error {
			if len(texts) == 0 {
				return program.Usage("--part: say how to divide, for instance --part train=0.9 --part test=0.1")
			}
			return nil
		},
		run: func(ctx context.Context, s []string, t edit.Target) ([]edited, error) {
			parts, err := splitParts(s[0], texts)
			if err != nil {
				return nil, err
			}
			made, err := edit.Split(ctx, s[0], parts, t)
			if err != nil {
				return nil, err
			}
			var out []edited
			for _, name := range slices.Sorted(maps.Keys(made)) {
				out = append(out, edited{t.Path + "/" + name, made[name]})
			}
			return out, nil
		}}
}

// splitParts reads the parts of a split.
func splitParts(src string, texts []string) ([]edit.Part, error) {
	var names []string
	var shares []float64
	var parts []edit.Part
	for _, text := range texts {
		name, what, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return nil, program.Usage("--part %s: want NAME=SHARE or NAME=EPISODES", text)
		}
		if share, err := strconv.ParseFloat(what, 64); err == nil && strings.Contains(what, ".") {
			names, shares = append(names, name), append(shares, share)
			continue
		}
		episodes, err := program.ParseEpisodes(what)
		if err != nil {
			return nil, program.Usage("--part %s: %q is no share such as 0.9 and no list such as 0-8,11", text, what)
		}
		parts = append(parts, edit.Part{Name: name, Episodes: episodes})
	}
	if len(shares) == 0 {
		return parts, nil
	}
	if len(parts) > 0 {
		return nil, program.Usage("--part: shares and lists of episodes can not be mixed")
	}
	d, err := dataset.Open(src)
	if err != nil {
		return nil, err
	}
	return edit.Fractions(d.NumEpisodes(), names, shares)
}

func mergeVerb() editVerb {
	return editVerb{use: "merge DATASET DATASET... TARGET", short: "put datasets one after the other", onlyNew: true,
		long: "Puts the episodes of several datasets into one. They must have one rate, one kind of robot and the same features; the order of\n" +
			"features and tasks may differ.",
		run: one(func(ctx context.Context, s []string, t edit.Target) (*edit.Result, error) {
			return edit.Merge(ctx, s, t)
		})}
}

// pairs reads OLD=NEW.
func pairs(flag string, texts []string) (map[string]string, error) {
	out := map[string]string{}
	for _, text := range texts {
		old, new, ok := strings.Cut(text, "=")
		if !ok || old == "" || new == "" {
			return nil, program.Usage("%s %s: want OLD=NEW", flag, text)
		}
		out[old] = new
	}
	return out, nil
}

func renameVerb() editVerb {
	var features, tasks []string
	var f, k map[string]string
	return editVerb{use: "rename DATASET [TARGET] --feature OLD=NEW --task OLD=NEW", short: "rename features and tasks", sources: 1,
		long: "Gives features and tasks new names. Tasks that get the same text become one.",
		flags: func(fs *pflag.FlagSet) {
			fs.StringArrayVar(&features, "feature", nil, "a feature's `OLD=NEW` name; may be given several times")
			fs.StringArrayVar(&tasks, "task", nil, "a task's `OLD=NEW` text; may be given several times")
		},
		check: func() (err error) {
			if len(features)+len(tasks) == 0 {
				return program.Usage("--feature or --task: say what to rename")
			}
			var err2 error
			f, err = pairs("--feature", features)
			k, err2 = pairs("--task", tasks)
			return errors.Join(err, err2)
		},
		run: one(func(ctx context.Context, s []string, t edit.Target) (*edit.Result, error) {
			return edit.Rename(ctx, s[0], f, k, t)
		})}
}

func remapVerb() editVerb {
	var feature string
	var elements []string
	return editVerb{use: "remap DATASET [TARGET] --feature NAME --elements LIST", short: "pick and order the elements of a vector feature", sources: 1,
		long: "Keeps some elements of a vector feature, in the given order, by their names or numbers.",
		flags: func(f *pflag.FlagSet) {
			f.StringVar(&feature, "feature", "", "the vector `feature`")
			f.StringSliceVar(&elements, "elements", nil, "its `elements` that stay, in their new order")
		},
		check: func() error {
			if feature == "" || len(elements) == 0 {
				return program.Usage("--feature and --elements: say what stays of which feature")
			}
			return nil
		},
		run: one(func(ctx context.Context, s []string, t edit.Target) (*edit.Result, error) {
			return edit.Remap(ctx, s[0], feature, elements, t)
		})}
}

func addFeatureVerb() editVerb {
	var name, dtype, file string
	var names, value []string
	return editVerb{use: "add-feature DATASET [TARGET] --name NAME --dtype TYPE --value VALUES | --csv FILE", short: "add a feature", sources: 1,
		long: "Adds a feature of the same value in all rows (--value), or with the values of a table with the columns episode_index, frame_index\n" +
			"and one for each element (--csv).",
		flags: func(f *pflag.FlagSet) {
			f.StringVar(&name, "name", "", "`name` of the feature")
			f.StringVar(&dtype, "dtype", "float32", "`type`: float32, float64, int32, int64, bool or string")
			f.StringSliceVar(&names, "elements", nil, "`names` of the elements of a vector")
			f.StringSliceVar(&value, "value", nil, "the `values` of every row, one for each element")
			f.StringVar(&file, "csv", "", "`file` with the values")
		},
		check: func() error {
			if name == "" || (len(value) == 0) == (file == "") {
				return program.Usage("--name, and one of --value and --csv: say what to add")
			}
			return nil
		},
		run: one(func(ctx context.Context, s []string, t edit.Target) (*edit.Result, error) {
			f := dataset.Feature{Name: name, DType: dataset.DType(dtype), Names: names, Shape: []int{max(1, len(names), len(value))}}
			rows, note := edit.Rows(nil), ""
			var err error
			if file == "" {
				rows, err = edit.Constant(f, value)
				note = strings.Join(value, ",")
			} else {
				rows, err = edit.FromCSV(f, file)
				note = file
			}
			if err != nil {
				return nil, err
			}
			return edit.AddFeature(ctx, s[0], f, rows, note, t)
		})}
}

func removeFeatureVerb() editVerb {
	var names []string
	return editVerb{use: "remove-feature DATASET [TARGET] --feature NAME...", short: "drop features", sources: 1,
		long: "Drops features with their columns, videos and statistics.",
		flags: func(f *pflag.FlagSet) {
			f.StringArrayVar(&names, "feature", nil, "the `feature` that goes; may be given several times")
		},
		check: func() error {
			if len(names) == 0 {
				return program.Usage("--feature: say which features to drop")
			}
			return nil
		},
		run: one(func(ctx context.Context, s []string, t edit.Target) (*edit.Result, error) {
			return edit.RemoveFeatures(ctx, s[0], names, t)
		})}
}

func reencodeVerb() editVerb {
	var o video.EncodeOptions
	var codec string
	var cameras []string
	return editVerb{use: "reencode DATASET [TARGET]", short: "encode pictures anew, or an image feature as video", sources: 1,
		long: "Encodes the pictures of all cameras anew, or of those named. Features that hold a picture file in each row become videos.",
		flags: func(f *pflag.FlagSet) {
			f.StringArrayVar(&cameras, "camera", nil, "the `feature` to encode; may be given several times (default: all pictures)")
			f.StringVar(&codec, "codec", string(video.H264), "video `codec`: h264 or av1")
			f.IntVar(&o.CRF, "crf", 0, "constant rate factor of the codec (default: the codec's own)")
			f.StringVar(&o.Preset, "preset", "", "speed preset of the codec (default: the codec's own)")
			f.IntVar(&o.GOP, "gop", 0, "`frames` from key frame to key frame (default 2)")
		},
		check: func() error {
			o.Codec = video.Codec(strings.ToLower(codec))
			if err := o.Check(); err != nil {
				return program.Usage("%w", err)
			}
			return program.CheckCount("--gop", o.GOP, 0, 10000)
		},
		run: one(func(ctx context.Context, s []string, t edit.Target) (*edit.Result, error) {
			return edit.Reencode(ctx, s[0], cameras, o, t)
		})}
}

func convertVerb() editVerb {
	var version string
	return editVerb{use: "convert DATASET [TARGET] --to VERSION", short: "bring a dataset into LeRobot v3.0 or v2.1", sources: 1,
		long:  "Converts between the versions of the format: v3.0 for LeRobot from 0.4 on, v2.1 for openpi and older programs.",
		flags: func(f *pflag.FlagSet) { f.StringVar(&version, "to", "v3.0", "the `version`: v3.0 or v2.1") },
		check: func() error {
			if version != "v3.0" && version != "v2.1" {
				return program.Usage("--to %s: choose v3.0 or v2.1", version)
			}
			return nil
		},
		run: one(func(ctx context.Context, s []string, t edit.Target) (*edit.Result, error) {
			return edit.Convert(ctx, s[0], version, t)
		})}
}

func compactVerb() editVerb {
	return editVerb{use: "compact DATASET [TARGET]", short: "join the files of many episodes into large ones", sources: 1,
		long: "While episodes are recorded each has files of its own. This joins them to the sizes at which LeRobot begins new files, 100 MiB\n" +
			"of rows and 200 MiB of video. Rows, pictures and identity stay.",
		run: one(func(ctx context.Context, s []string, t edit.Target) (*edit.Result, error) {
			return edit.Compact(ctx, s[0], t)
		})}
}

func restatVerb() editVerb {
	return editVerb{use: "restat DATASET [TARGET]", short: "compute all statistics and hashes anew", sources: 1,
		long: "Computes the statistics and content hashes of all episodes anew, those of pictures from LeRobot's sample of frames.",
		run: one(func(ctx context.Context, s []string, t edit.Target) (*edit.Result, error) {
			return edit.Recompute(ctx, s[0], t)
		})}
}
