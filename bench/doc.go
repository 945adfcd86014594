// Package bench measures this machine with the production packages: what capture can log, how fast ingest, loader, training and
// policy run, and how late the control loop is. Each measurement is a row with its numbers and its conditions, so that a table can
// be compared between machines.
//
//	table, err := bench.Run(ctx, bench.Options{Recordings: "demo-out/recordings"})
package bench
