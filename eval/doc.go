// Package eval judges policies: the same fixed list of initial conditions for everybody, milestones with declared weights, and
// statistics that say how sure one can be.
//
//	task, err := eval.LoadTask("task.yaml")
//	report, err := eval.Run(ctx, eval.Options{Task: task, Trials: 15, Entrants: entrants, Connect: connect, Scorer: scorer, Out: "eval"})
//
// Glossary:
//
//	task        the protocol: prompts, milestones with weights, time limit, rule for aborted trials, initial conditions
//	condition   where everything stands when a trial begins
//	entrant     a policy under test or a baseline (hold, replay, blank)
//	trial       one entrant on one condition; it passes milestones in order and earns their weights (partial credit)
//	step        a prompt with its milestones; the next prompt is given only when the scorer has seen all of them
//	scorer      who judges: the simulator's truth, or a person at the robot, through the same interface
//	plan        everything that is decided before the first trial, written down first (plan.json)
//
// A trial is recorded through deploy's log as one recording, so trials become a dataset like demonstrations do. An output folder
// holds plan.json, one folder for each trial (trial.json last, so a trial without it never happened), report.json and
// report.html. A run that was interrupted goes on where it stopped.
package eval
