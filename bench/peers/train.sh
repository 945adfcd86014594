#!/bin/sh
# Compares the tiny policy's training step with PyTorch on the processor: same shapes, same recipe, random data, in turns.
# Usage: train.sh PYTHON, the Python of an environment with torch, from the repository's root. COMPILE=1 adds torch.compile. On a machine that others
# use too, compare processor time: idle threads of PyTorch sleep here, so that they do not count.
set -eu
export OMP_WAIT_POLICY=PASSIVE
python=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
go test -c -tags blas -o "$dir/train.test" ./train
for _ in $(seq "${ROUNDS:-3}"); do
	printf 'pinch: '
	"$dir/train.test" -test.run '^$' -test.bench '^BenchmarkStep$' -test.benchtime 10x | grep BenchmarkStep
	printf 'torch: '
	"$python" bench/peers/train_torch.py --steps 10
	[ -z "${COMPILE:-}" ] || { printf 'torch: '; "$python" bench/peers/train_torch.py --steps 10 --compile; }
done
