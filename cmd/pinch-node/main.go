// Command pinch-node carries out the verbs of `pinch` that work on datasets and policies. Build tags: blas, libav.
package main

import (
	"github.com/pinch-robotics/pinch/cmd/internal/program"
	"github.com/pinch-robotics/pinch/cmd/internal/verbs/node"
)

func main() {
	program.Main(program.Root("pinch-node", "datasets, training and serving of pinch", "The part of pinch that works on datasets and policies.",
		node.Ingest(), node.Dataset(), node.Data(), node.Train(), node.Serve(), node.Bench(), program.Probe(node.Probe)))
}
