// Package loader serves training windows from a dataset: numbers of the rows in memory, pictures decoded once.
//
// Glossary:
//   - [Data]: the chosen episodes with their numeric columns and, per camera, every frame at the network's size.
//   - cache: raw RGB bytes per camera and episode, keyed by the dataset's identity and the hash of the image geometry, so a
//     video is decoded once and never for a changed picture.
//   - row: one observation, addressed by its number in the Data (episodes one after another).
//   - [Order]: the endless shuffled sequence of rows, a function of seed and position only, so training resumes exactly.
//   - [Stream]: batches made by worker goroutines and delivered in order.
//
// The smallest useful program:
//
//	data, err := loader.Open(ctx, ds, loader.Options{Cameras: cameras, Columns: []string{"observation.state", "action"}})
//	order := loader.NewOrder(data.Rows(trainEpisodes), 7)
//	row := order.At(0)
//	pixels := data.Image(0, row)
package loader
