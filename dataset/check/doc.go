// Package check says exactly what is wrong with a robot dataset of the LeRobot formats v3.0 and v2.1, made by any software.
//
// Vocabulary:
//
//   - check: one named way in which a dataset can be wrong, an entry of the catalogue (docs/checks.md has the list);
//   - finding: one place at which a check found something, with file, episode, row, numbers and what to do;
//   - fence: the limit of a check that compares an episode with the set. It is the median of the set plus so many of its median
//     absolute deviations (see reach), so it comes from the data and a third of broken episodes hardly moves it;
//   - law: a relation between features that most episodes follow exactly, learned from the set.
//
// A missing file is said once; checks that would need it stay silent. The smallest program:
//
//	report, err := check.Run(ctx, "cups", check.Options{})
//	err = report.WriteText(os.Stdout)
package check
