// Package train fits a policy to a dataset on one machine.
//
// The story of a run, in the order of the files:
//   - [Config]: every choice, from a YAML file and key=value overrides; the resolved form is kept in the run folder.
//   - data: the policy's Spec from the dataset's features, whole episodes split into training and validation, frames decoded
//     into a cache, statistics of the training rows.
//   - loop: batches in order, one optimiser step each, log, validate, save.
//   - report: the open-loop error of the averaged weights on held-out rows, beside two baselines.
//
// A run folder:
//
//	config.yaml                 the resolved configuration
//	metrics.jsonl               one JSON object per logged step
//	loss.png, loss.svg          the loss curve
//	first_batch.png             what the network saw first
//	open_loop.json              the report
//	checkpoints/step-000500/    see package policy; also optimizer.safetensors and trainer.json
//	checkpoints/latest          link to the newest complete checkpoint
//
// All randomness is a function of the seed and of the number of the sample or step, never of time, threads or what ran before:
// equal seeds give equal weights, and a resumed run gives bit for bit those of an uninterrupted one.
package train
