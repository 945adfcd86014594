// Package repair mends what is mechanical in a dataset of the LeRobot formats v3.0 and v2.1: counters, index columns, row times, tails
// that video or rows lack, a broken last episode, files in wrong places, what info.json says of the videos, tables and statistics.
//
// Vocabulary:
//
//   - survey: the metadata as far as it can be read, value by value;
//   - segment: rows of one episode that stand together in a file;
//   - kept episode: one whose rows are whole and whose videos are there; the others are left out and named;
//   - change: a file that is written anew, moved or put aside. Everything else stays as it is, byte for byte.
//
// Rows and pictures are never invented: an episode that lacks some is cut where its videos end, or left out. The repaired dataset is a
// new one, or replaces the old one in place. In place, every new file is staged under .pinch/repair first; then commit.json names
// all moves and makes the repair durable, and only then files move, meta/info.json last. An interrupted repair goes on when it is
// started again: staged files that are complete are used, and a commit is finished. What was replaced lies in .pinch/repair/aside.
//
//	result, err := repair.Run(ctx, "cups", repair.Options{InPlace: true})
package repair
