// Package dataset reads, writes, checks and shows robot datasets in the LeRobot formats.
//
// It reads and writes v3.0 and v2.1: Writer adds episodes to a v3.0 dataset as they are recorded, Rebuild makes a dataset of either
// version out of episodes of others (package edit has the edits). Vocabulary:
//
//   - episode: one demonstration, rows 0..Length-1 at a fixed rate;
//   - feature: one named column of a row (see Feature); video features live in mp4 files, the others in Parquet;
//   - row time: synthetic, frame_index / fps in seconds; real capture times belong in features of their own;
//   - file set: the Parquet data file, the Parquet episode file and one mp4 per camera that the writer makes for each episode.
//
// The smallest program that records one episode:
//
//	w, err := dataset.Create("cups", dataset.Options{FPS: 30, Features: []dataset.Feature{
//		{Name: "observation.state", DType: dataset.Float32, Shape: []int{2}, Names: []string{"left", "right"}},
//		{Name: "observation.images.left", DType: dataset.Video, Shape: []int{480, 640, 3}},
//	}})
//	_, err = w.AddEpisode(ctx, dataset.Episode{
//		Length:  90,
//		Tasks:   []string{"put the cup on the plate"},
//		Columns: map[string]any{"observation.state": state}, // []float32 of 90*2 values
//		Videos:  map[string]string{"observation.images.left": "left.mp4"}, // exactly 90 frames
//	})
//	err = w.Close()
//
// Files of a v3.0 dataset, as written here (one file set per episode, so a file is never changed after it is published):
//
//	meta/info.json                              the commit point, renamed last
//	meta/stats.json                             statistics of every feature
//	meta/tasks.parquet                          row i holds the text of task i
//	meta/episodes/chunk-000/file-007.parquet    one row: where episode 7 lies, and its statistics
//	data/chunk-000/file-007.parquet             one row per frame, one row group
//	videos/<camera>/chunk-000/file-007.mp4      constant rate, first frame at time 0
//	.pinch/                                     only while a writer is open: staging, lock and redo log
package dataset
