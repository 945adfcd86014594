#!/bin/sh
# Measures one training run on several GPUs of a node, in one call. Run it in a folder that learn_pack.sh made (it carries a dataset with decoded
# frames and the program), with bench/gpu of the repository beside it:
#
#	BENCH=PATH/bench/gpu sh PATH/bench/gpu/scale.sh
#
# GPUS ("1 2 4 8", those that there are), SIZES ("base:64 large:32", the batch of a GPU), STEPS (60), SKIP ("ddp links ..."). Results are lines of JSON
# in $OUT/scale.json and a table; PLATFORM=cpu and CONFIG="key=value ..." try it on XLA's host devices. NVLink multicast stays off.
set -u
bench=${BENCH:-$(cd "$(dirname "$0")" && pwd)}
packed=$(pwd)
out=${OUT:-$packed/out} work=${WORK:-/tmp/pinch-scale} platform=${PLATFORM:-cuda}
steps=${STEPS:-60} sizes=${SIZES:-base:64 large:32}
export NCCL_NVLS_ENABLE="${NCCL_NVLS_ENABLE:-0}"
mkdir -p "$out" "$work"
say() { echo "== $*" | tee -a "$out/scale.log"; }
skipped() { case " ${SKIP:-} " in *" $1 "*) return 0 ;; esac; return 1; }
have=${GPUS:-}
if [ "$platform" = cuda ]; then
	. "$bench/env.sh"
	count=$(nvidia-smi -L | wc -l)
	for n in 1 2 4 8; do [ -n "${GPUS:-}" ] || [ "$n" -gt "$count" ] || have="$have $n"; done
fi
for n in $have; do most=$n; done
ALL_LARGE=1 python3 "$bench/learn_unpack.py" "$packed" "$work" >>"$out/scale.log" 2>&1 || { say "unpacking failed"; exit 1; }
node=${NODE:-$work/pinch-node}

# train NAME DEVICES SIZE BATCH-OF-A-GPU [KEY=VALUE...] trains into $work/NAME.
train() {
	name=$1 devices=$2 size=$3 batch=$4
	shift 4
	# shellcheck disable=SC2086 # lists of words
	exec "$node" train pretrain --verbose data="$work/dataset" out="$work/$name" size="$size" engine=xla platform="$platform" devices="$devices" batch=$((batch * devices)) \
		cache_dir="$work/cache" vocabulary=0 steps="$steps" warmup=5 log_every=1 val_share=0 val_every=0 save_every=0 report_rows=0 replay_rows=0 \
		workers="${WORKERS:-$((8 + 6 * devices))}" ${CONFIG:-} "$@" >>"$out/$name.log" 2>&1
}

# run does that and appends what it measured to scale.json.
run() {
	say "$1: $3 on $2"
	(train "$@")
	rc=$?
	[ $rc = 0 ] || say "$1 ended with $rc: $(tail -n 1 "$out/$1.log")"
	python3 "$bench/scale_report.py" run "$work/$1" "$out/$1.log" "$1" "$3" "$2" $(($4 * $2)) >>"$out/scale.json"
	return $rc
}

skipped links || [ "$platform" != cuda ] || {
	say "GPUs and links"
	nvidia-smi --query-gpu=index,name,driver_version --format=csv,noheader | tee -a "$out/scale.log"
	nvidia-smi topo -m | tee -a "$out/scale.log"
	[ "$most" = 1 ] || python3 -m torch.distributed.run --nproc-per-node "$most" "$bench/scale_allreduce.py" | tee -a "$out/scale.json"
}

for sb in $sizes; do
	size=${sb%:*} batch=${sb#*:}
	for n in $have; do
		run "$size-$n" "$n" "$size" "$batch"
		"$node" train plan --gpus "$n" --json size="$size" batch=$((batch * n)) vocabulary=0 ${CONFIG:-} >>"$out/scale.json"
	done
	[ "$most" = 1 ] && continue
	# One global batch on one device and on all: the same losses.
	same=$((batch - batch % most))
	(steps=20 && run "$size-same-1" 1 "$size" "$same" deterministic=true && run "$size-same-$most" "$most" "$size" $((same / most)) deterministic=true)
	(export XLA_FLAGS="${XLA_FLAGS:-} --xla_gpu_enable_latency_hiding_scheduler=false" && run "$size-$most-serial" "$most" "$size" "$batch")
	for shard in zero1 fsdp; do run "$size-$most-$shard" "$most" "$size" "$batch" shard="$shard"; done
	skipped trace || [ "$platform" != cuda ] || {
		(steps=7 && export XLA_FLAGS="${XLA_FLAGS:-} --xla_dump_to=$work/dump --xla_dump_hlo_module_re=training_step" && run "$size-$most-trace" "$most" "$size" "$batch")
		python3 "$bench/scale_report.py" overlap "$work/dump" "$size" | tee -a "$out/scale.json"
	}
	skipped ddp || [ "$platform" != cuda ] || {
		say "PyTorch DDP: $size on $most"
		python3 -m torch.distributed.run --nproc-per-node "$most" "$bench/reference_torch.py" --size "$size" --batch "$batch" 2>"$out/ddp-$size.log" | tee -a "$out/scale.json"
	}
done

skipped kill || {
	first=${sizes%% *}
	say "kill and resume: $first on $most"
	size=${first%:*} batch=${first#*:}
	(train killed "$most" "$size" "$batch" save_every=5 keep=3) &
	while ! [ -e "$work/killed/checkpoints/latest" ] && kill -0 $! 2>/dev/null; do sleep 1; done
	kill -KILL $! 2>/dev/null
	wait
	run killed "$most" "$size" "$batch" save_every=5 keep=3 resume=true
}
python3 "$bench/scale_report.py" table "$out/scale.json" | tee -a "$out/scale.log"
