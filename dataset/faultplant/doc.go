// Package faultplant plants known faults in a clean dataset, to find out which of them a check finds.
//
// The faults are those that public bug reports and the documents of recording rigs describe, at the size that they have there: a
// kind's Doc says where it comes from and how big it is. The package knows nothing of any check. Vocabulary:
//
//   - base: a clean dataset in which every episode has its own files and that keeps no hashes of its rows (Base makes one), as the
//     datasets of most programs are;
//   - kind: one way in which an episode can be wrong;
//   - place: where in an episode a fault can be, e.g. a stall only where the hand moves. An episode without a place is passed over.
//
// Faults that a recorder would have written into the rows leave a dataset in accord with itself: what follows from the changed
// values (motions, actions, finger tips, statistics) follows from the wrong ones. Faults that befall files afterwards do not.
//
//	err := faultplant.Base(ctx, "cups", "base")
//	p, err := faultplant.Open("base")
//	faults, err := p.Plant(ctx, "broken", "pose-jump", 1, 50)
//	// faults[0].Episode has a hand that jumps at faults[0].Frame
//
// Unchanged files are hard links to the source's, and a changed file is always a new one, so the source is never touched.
package faultplant
