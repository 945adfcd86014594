#!/bin/sh
# Measures one size on one GPU: pinch, JAX and PyTorch one after the other, then single requests. Run it on the GPU machine from the
# repository's root, with the program built beforehand:
#
#	go build -tags xla -trimpath -ldflags '-s -w' -o build/bin/gpu ./bench/gpu
#	sh bench/gpu/run.sh base 64
#
# One line of JSON each. GPU=PATH names the program, SKIP="torch infer" leaves parts out.
set -u
size=${1:-base} batch=${2:-64}
gpu=${GPU:-build/bin/gpu}
. bench/gpu/env.sh
case " ${SKIP:-} " in *" pinch "*) ;; *) "$gpu" step -size "$size" -batch "$batch" 2>/tmp/pinch-gpu.log || tail -n 3 /tmp/pinch-gpu.log ;; esac
case " ${SKIP:-} " in *" jax "*) ;; *) python3 bench/gpu/reference_jax.py --size "$size" --batch "$batch" 2>/tmp/jax-gpu.log || tail -n 3 /tmp/jax-gpu.log ;; esac
case " ${SKIP:-} " in *" torch "*) ;; *) python3 bench/gpu/reference_torch.py --size "$size" --batch "$batch" 2>/tmp/torch-gpu.log || tail -n 3 /tmp/torch-gpu.log ;; esac
case " ${SKIP:-} " in *" infer "*) ;; *) "$gpu" infer -size "$size" 2>/tmp/infer-gpu.log || tail -n 3 /tmp/infer-gpu.log ;; esac
