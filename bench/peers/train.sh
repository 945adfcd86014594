#!/bin/sh
# Compares the tiny policy's training step with PyTorch on the processor: same shapes, same recipe, random data, in turns.
# Usage: train.sh PYTHON, the Python of an environment with torch, from the repository's root. COMPILE=1 adds torch.compile.
set -eu
python=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
go test -c -tags blas -o "$dir/train.test" ./train
for _ in 1 2 3; do
	printf 'pinch: '
	"$dir/train.test" -test.run '^$' -test.bench '^BenchmarkStep$' -test.benchtime 20x | grep BenchmarkStep
	printf 'torch: '
	"$python" bench/peers/train_torch.py
	[ -z "${COMPILE:-}" ] || { printf 'torch: '; "$python" bench/peers/train_torch.py --compile; }
done
