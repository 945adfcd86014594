#!/bin/sh
# Trains a policy on demonstrations on one GPU within minutes, then compares `large` with its loader against without. Run it on the GPU machine in
# the folder that learn_pack.sh made; results go to $OUT:
#
#	sh learn.sh            (MINUTES of training, default 3.4; STEPS; PLATFORM=cpu and CONFIG="key=value ..." for a trial run)
#
# learn.log has samples/s, MFU and the loader's share; policy.tar.* are parts of the checkpoint without the optimiser's moments.
set -u
here=$(cd "$(dirname "$0")" && pwd)
out=${OUT:-$here/out}
work=${WORK:-/tmp/pinch-learn}
minutes=${MINUTES:-3.4}
mkdir -p "$out" "$work"
began=$(date +%s)
say() { echo "[$(($(date +%s) - began)) s] $*" | tee -a "$out/learn.log"; }
if [ "${PLATFORM:-cuda}" = cuda ]; then
	. "$here/env.sh"
	nvidia-smi --query-gpu=name,driver_version --format=csv,noheader >>"$out/learn.log"
fi
say "unpack"
python3 "$here/learn_unpack.py" "$here" "$work" >>"$out/learn.log" 2>&1 || { say "unpacking failed"; tail -n 5 "$out/learn.log"; exit 1; }
node=$work/pinch-node
recipe="engine=xla platform=${PLATFORM:-cuda} cache_dir=$work/cache workers=${WORKERS:-14} $(cat "$here/recipe")"

# Triton products are off: XLA would choose among them for a minute or more, and the whole run takes a few.
[ "${PLATFORM:-cuda}" != cuda ] || export XLA_FLAGS="${XLA_FLAGS:---xla_gpu_enable_triton_gemm=false}"

say "train"
# shellcheck disable=SC2086 # the recipe is a list of words
"$node" train --data "$work/dataset" --out "$work/run" $recipe max_minutes="$minutes" ${CONFIG:-} >>"$out/learn.log" 2>&1 || say "training failed"
tail -n 4 "$out/learn.log"
say "pack the policy"
cp "$work/run/metrics.jsonl" "$work/run/config.yaml" "$out/" 2>/dev/null
latest=$(readlink -f "$work/run/checkpoints/latest")
(cd "$latest" && tar cf - manifest.json COMPLETE model_ema.safetensors | split -b 15M - "$out/policy.tar.")
ls -l "$out" >>"$out/learn.log"

say "large with its loader and without"
# shellcheck disable=SC2086
timeout "${LARGE_SECONDS:-150}" "$node" train plan --loader "${LARGE_STEPS:-40}" size="${LARGE_SIZE:-large}" \
	engine=xla platform="${PLATFORM:-cuda}" data="$work/dataset" cache_dir="$work/cache" workers="${WORKERS:-14}" vocabulary=0 max_episodes=40 batch="${LARGE_BATCH:-64}" \
	${LARGE_CONFIG:-} >"$out/large.log" 2>&1 || say "the comparison of large did not end"
tail -n 3 "$out/large.log" | tee -a "$out/learn.log"
say "done"
