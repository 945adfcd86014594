// Package ingest turns recordings into episodes of a LeRobot v3.0 dataset: our own logs, YUBI recordings made by the ROS stack, and
// trials on arms, all of them one MCAP log with a meta.json (schema 2.0) beside it.
//
//	report, err := ingest.Run(ctx, ingest.Options{Sources: []string{"recordings"}, Out: "cups"})
//
// The way of a recording:
//
//	log ─ survey (stamps, poses, angles) ─ timeline ─ segments ─ rows ─ columns ┐
//	  └──────────────────────────── chosen frames ─ encoders ─ mp4 per episode ─┴─ episode
//
// One episode per segment; segments that touch share no row and no motion reaches across a cut. Values are held (the last sample at
// or before a row's tick). The timeline rests on the mapped topics only. Streams that share a device clock (channel metadata
// pinch.clock) are aligned by it, other recordings by the log's receive time. What rows hold: docs/dataset.md.
//
// Recordings are worked on in parallel and added in order of their path, so the dataset does not depend on the number of workers.
// A segment that the dataset already has (same log, by SHA-256) is left out, so a killed run can be repeated.
package ingest

import (
	"context"
	"log/slog"

	"github.com/pinch-robotics/pinch/dataset/video"
)

// Options say what to convert, and how.
type Options struct {
	// Sources are MCAP files, or folders that are searched for them.
	Sources []string
	// Out is the dataset's folder: new, empty, or a dataset to add to.
	Out string
	// FPS is the row rate in Hz; 0 takes that of an existing dataset, 30 for a new one.
	FPS int
	// Workers is how many recordings are converted at the same time; 0 means one for each processor.
	Workers int
	// Codec of the videos; default video.H264. CRF and Preset: 0 and "" take the codec's defaults of package video.
	Codec  video.Codec
	CRF    int
	Preset string
	// Map names the topics; nil chooses a built-in one for each recording (see MapFor).
	Map *Map
	// Task is the instruction for logs without a meta.json; such a log is one segment. Empty: a missing meta.json is an error.
	Task string
	// Salvage converts what is left of logs that are cut or damaged, and leaves out single broken records. Default: such a log is
	// an error.
	Salvage bool
	// Compat follows another tool's rules instead of ours: "" or CompatRebake.
	Compat string
	// Progress is called, from one goroutine at a time, as recordings go on; may be nil.
	Progress func(Progress)
	// Logger gets a line for each recording and warning; nil is silent.
	Logger *slog.Logger
}

// Progress is one step of a run.
type Progress struct {
	// Done of Total recordings are finished, whatever their outcome.
	Done, Total int
	// Path of the log that was just finished.
	Path string
	// Rows and Seconds are what has been added so far, and how much recorded time that is.
	Rows    int
	Seconds float64
}

// Report is the outcome of a run.
type Report struct {
	// Out is the dataset's folder, FPS its rate.
	Out string `json:"out"`
	FPS int    `json:"fps"`
	// Recordings in the order they were added.
	Recordings []RecordingReport `json:"recordings"`
	// Episodes and Rows added; Skipped recordings were in the dataset already; Failed ones are not in it.
	Episodes int `json:"episodes"`
	Rows     int `json:"rows"`
	Skipped  int `json:"skipped"`
	Failed   int `json:"failed"`
	// RecordedSeconds is the recorded time in the episodes added.
	RecordedSeconds float64 `json:"recorded_seconds"`
}

// RecordingReport is the outcome of one recording.
type RecordingReport struct {
	Path string `json:"path"`
	UUID string `json:"uuid,omitempty"`
	// Clock is the device clock that the rows are aligned on; empty: receive time.
	Clock string `json:"clock,omitempty"`
	// Episodes are the indices added.
	Episodes []int `json:"episodes,omitempty"`
	Rows     int   `json:"rows"`
	// Skipped: all its segments were in the dataset already.
	Skipped bool `json:"skipped,omitempty"`
	// Lost is what of the log cannot be read; nil when it is whole.
	Lost *Lost `json:"lost,omitempty"`
	// Marks count the rows that rest on late, lost or repeated samples, by stream.
	Marks map[string]MarkCount `json:"marks,omitempty"`
	// Warnings tell what is odd about the recording: lost bytes, gaps, rows left out.
	Warnings []string `json:"warnings,omitempty"`
	// Error is why it was not added; empty when it was.
	Error string `json:"error,omitempty"`
}

// Run converts all recordings. A recording that cannot be converted does not stop the others and leaves nothing in the dataset; the
// error then names each of them, and the report is still valid. Cancelling ctx leaves the episodes added so far.
func Run(ctx context.Context, o Options) (Report, error) {
	r, err := newRun(o)
	if err != nil {
		return Report{Out: o.Out}, err
	}
	return r.do(ctx)
}
