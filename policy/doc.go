// Package policy holds the models: what a policy reads and writes, how values are normalised, the network as a graph of
// policy/op operations, checkpoints, and inference.
//
// Glossary:
//   - [Spec]: the declared inputs and outputs, named by dataset features: cameras, state, actions, horizon, stride, prompt.
//   - window: everything one training sample needs, the row of the observation and the rows of the chunk after it.
//   - chunk: Horizon steps of Dim numbers; step k speaks of dataset row t + First + k*Stride.
//   - [Stats]: quantiles per (step, dimension), bound to the Spec they were measured for.
//   - [Architecture]: widths and depths of the network; sizes nano (tests), tiny (CPU), small, base, large and xl.
//   - [Words]: the tokenizer, bytes or a vocabulary kept in the checkpoint.
//   - [Checkpoint]: weights, averaged weights and a manifest that holds all of the above.
//
// The path of a sample, and its inverse:
//
//	rows of a dataset -> Spec.EncodeState, EncodeTargets -> Stats.NormalizeState, NormalizeAction -> network
//	network -> Stats.UnnormalizeAction -> Spec.StepDeltas (two hands) or Spec.DecodeAbsolute (joint space)
//
// Serving a checkpoint:
//
//	p, err := policy.Load("run/checkpoints/latest", policy.Options{Seed: 1})
//	chunk, err := p.Infer(policy.Observation{Images: images, Values: values, Prompt: "put the cup on the tray"})
//
// Flow matching convention, stated once: flow time t is 1 at noise and 0 at data, x(t) = t*noise + (1-t)*action, the network
// predicts v = dx/dt = noise - action, and sampling integrates from t = 1 down to t = 0.
package policy
