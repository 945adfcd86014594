#!/bin/sh
# Compares pinch's loader with bare libav and, given the Python of an environment with lerobot 0.4, with the official loader, on the
# same datasets, in turns. Usage: loader.sh PINCH-NODE FOLDER [PYTHON]
set -eu
pinch=$1 dir=$2 python=${3:-}
here=$(dirname "$0")
rounds=${ROUNDS:-3}
left=observation.images.left right=observation.images.right

mkdir -p "$dir"
# shellcheck disable=SC2046 # one word for each flag
cc -O2 "$here/bare_libav.c" -o "$dir/bare_libav" $(pkg-config --cflags --libs libavformat libavcodec libavutil libswscale)
for codec in h264 av1; do
	set_=$dir/$codec
	[ -d "$set_" ] || "$pinch" bench loader-data "$set_" --codec "$codec" --episodes 4
	windows() { "$pinch" dataset windows "$set_" --batch 32 --json "$@"; }
	windows --camera $left,$right --column observation.state --steps 8 --warm 1 --workers 1 --list "$dir/list" >/dev/null
	i=0
	while [ $i -lt "$rounds" ]; do
		i=$((i + 1))
		printf '%s bare libav, decode only: ' "$codec"; "$dir/bare_libav" "$dir/list"
		printf '%s bare libav, to 224x224: ' "$codec"; "$dir/bare_libav" "$dir/list" rgb
		printf '%s pinch, one worker: ' "$codec"; windows --camera $left,$right --column observation.state --steps 8 --warm 1 --workers 1
		printf '%s pinch, two workers: ' "$codec"; windows --camera $left,$right --column observation.state --steps 16 --warm 1 --workers 2
		[ -z "$python" ] || { printf '%s lerobot, two workers: ' "$codec"; "$python" "$here/lerobot_windows.py" "$set_" --windows 192 2>/dev/null; }
	done
done
windows --camera $left,$right --steps 100 --workers 1 --frame-cache 2 --fill >/dev/null
printf 'frame cache, one worker: '; windows --camera $left,$right --steps 100 --workers 1 --frame-cache 2 --fill
printf 'numbers of 16 rows, two features, one worker: '
windows --column observation.state,action --offsets 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15 --steps 1000 --workers 1
