#!/bin/sh
# Compares the three networks on the processor: one dump of weights and batch of the nano size, five steps in float32. Loss and gradient norm
# of each step must agree to 1e-5 with JAX, and with PyTorch where it is installed. Run it from the repository's root:
#
#	GPU=build/bin/gpu PYTHON=.venv/bin/python sh bench/gpu/check.sh
set -eu
gpu=${GPU:-build/bin/gpu} python=${PYTHON:-.venv/bin/python}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export JAX_PLATFORMS=cpu XLA_FLAGS="${XLA_FLAGS:---xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true}"
"$gpu" dump -size nano -batch 2 "$dir"
"$gpu" step -size nano -batch 2 -steps 1 -platform cpu -precision float32 >"$dir/results" 2>"$dir/log" || { cat "$dir/log" >&2; exit 1; }
"$python" bench/gpu/reference_jax.py --dump "$dir" --steps 10 --precision float32 --attention xla >>"$dir/results"
if "$python" -c 'import torch' 2>/dev/null; then
	"$python" bench/gpu/reference_torch.py --dump "$dir" --steps 10 --precision float32 --device cpu --eager >>"$dir/results"
fi
"$python" - "$dir/results" <<'PY'
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
ours = lines[0]["losses_and_norms"]
for other in lines[1:]:
    worst = max(abs(a - b) / max(abs(a), 1) for a, b in zip(ours, other["losses_and_norms"], strict=True))
    print(f"{other['program']}: losses and norms of five steps differ by {worst:.1e}")
    if worst > 1e-5:
        sys.exit(1)
PY
