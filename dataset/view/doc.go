// Package view shows a dataset in a web browser: the episodes with what a check found in them, the pictures of all cameras and the
// curves of all features under one time cursor, and the paths of the grippers in space.
//
// The same page is served in two ways:
//
//   - Server answers on a local address and reads what the page asks for: rows, columns and parts of videos of the episode that is
//     looked at, so that a set of a million episodes opens at once;
//   - Write puts everything into a folder of pages that need neither a program nor a network.
//
// Vocabulary of the page's data (JSON, see set.go and episode.go):
//
//   - set: what is said of the dataset as a whole;
//   - segment: a stretch of rows with one instruction or one text;
//   - mark: an event in time, such as a pedal press, a lost sample, or a finding of the check;
//   - path: a feature that holds positions in space, and quaternions if it has them.
//
// The smallest program:
//
//	s, err := view.NewServer("cups", view.Options{})
//	l, err := net.Listen("tcp", "127.0.0.1:0")
//	err = s.Run(ctx, l)
package view
