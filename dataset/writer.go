package dataset

import (
	"context"
	"errors"
	"log/slog"
)

// Options describe a new dataset.
type Options struct {
	// FPS is the row rate in Hz; every video must have exactly this rate.
	FPS int
	// RobotType is free text for info.json; empty writes null.
	RobotType string
	// Features of the caller in the order info.json lists them; DefaultFeatures are appended.
	// The writer takes scalars and vectors (Float32, Float64, Int32, Int64, Bool), scalar String, and Video.
	Features []Feature
	// Writer settings that do not change the meaning of the data.
	WriterOptions
}

// WriterOptions are the settings of an open writer.
type WriterOptions struct {
	// Logger gets one line for each recovery and published episode; nil is silent.
	Logger *slog.Logger
	// ImageWorkers is how many goroutines decode sampled frames for image statistics; default 2.
	ImageWorkers int
	// SkipImageStats leaves picture statistics to Episode.ImageStats: AddEpisode fails if a camera has none there.
	SkipImageStats bool
}

// Episode is what AddEpisode writes. The writer fills the five default columns itself.
type Episode struct {
	// Length is the number of rows, at least 1.
	Length int
	// Tasks holds one instruction for all rows, or one per row.
	Tasks []string
	// Columns maps each non-video feature to its values, row after row: []float32, []float64, []int32, []int64,
	// []bool or []string of Length*Dim elements, of exactly the feature's type.
	Columns map[string]any
	// Videos maps each video feature to an mp4 of exactly Length frames at times k/FPS. A file under Writer.Scratch
	// is moved into the dataset; any other file is copied.
	Videos map[string]string
	// ImageStats of video features, when the caller has them from the frames (see ImageAccumulator); else the writer
	// decodes a sample of the mp4.
	ImageStats map[string]Stats
	// Extra columns of meta/episodes, such as the hash of the source recording or the success flag: string, bool, int64,
	// float64 or []string. The first episode of a dataset fixes the set and the types.
	Extra map[string]any
}

// Writer adds episodes to a dataset. Each accepted episode is durable when AddEpisode returns: every file is synced
// before meta/info.json is renamed into place. Not safe for concurrent use; one writer per dataset (a lock file holds that).
type Writer struct {
	root string
}

// ErrLocked is returned when another process has the dataset open for writing.
var ErrLocked = errors.New("dataset is open for writing elsewhere")

var errNotBuilt = errors.New("not available yet")

// Create makes an empty dataset at root, which must not exist or be an empty folder.
func Create(root string, o Options) (*Writer, error) { return nil, errNotBuilt }

// OpenWriter opens the v3.0 dataset at root to add episodes. It first finishes or rolls back what a crash left behind:
// an episode whose redo log is complete is published, everything else in staging is removed.
func OpenWriter(root string, o WriterOptions) (*Writer, error) { return nil, errNotBuilt }

// AddEpisode checks ep, writes its file set and publishes it. It returns the episode's index. On error the dataset is as
// before the call.
func (w *Writer) AddEpisode(ctx context.Context, ep Episode) (int, error) { return 0, errNotBuilt }

// Scratch is a folder inside the dataset, on the same file system, to encode videos into. It is emptied when the
// writer opens and closes, so a killed recording leaves nothing behind.
func (w *Writer) Scratch() string { return "" }

// NumEpisodes is the number of published episodes.
func (w *Writer) NumEpisodes() int { return 0 }

// Close rewrites meta/stats.json with quantiles computed from all rows, removes the working folder and releases the lock.
func (w *Writer) Close() error { return errNotBuilt }
