#!/bin/sh
# Packs a dataset of demonstrations and the training program for learn.sh: tables whole, frames of the two wrist cameras at the size they are trained
# at, as H.264 with full colour. Usage, from the repository's root, with build/bin/pinch-node built:
#
#	sh bench/gpu/learn_pack.sh DATASET FOLDER
#
# SIZE (default 128) is the side of the frames, CRF (default 16) their quality.
set -eu
data=$1 folder=$2 size=${SIZE:-128} crf=${CRF:-16}
node=${NODE:-build/bin/pinch-node}
here=$(dirname "$0")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$folder"
cp "$here/learn.sh" "$here/learn_unpack.py" "$here/env.sh" "$folder/"
tr "\n" " " <"$here/learn_recipe.txt" >"$folder/recipe"

# One step with each size makes the caches and their names; episodes that failed are left out, as in training.
"$node" train --data "$data" --out "$work/run" cache_dir="$work/cache" image_size="$size" size=nano arch.patch=16 arch.window=16 steps=1 warmup=0 val_rows=8 report_rows=0 replay_rows=0
"$node" train --data "$data" --out "$work/run224" cache_dir="$work/large" image_size=224 max_episodes=1 size=nano arch.patch=16 arch.window=16 batch=4 steps=1 warmup=0 val_rows=4 report_rows=0 replay_rows=0

python3 - "$work" "$folder" "$size" "$crf" <<'PY'
import glob, json, os, subprocess, sys
work, folder, size, crf = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
cameras = []
for path in sorted(glob.glob(os.path.join(work, "cache", "*", "*"))):
    name = os.path.basename(path)
    feature = name.rsplit("-", 1)[0]
    files = sorted(os.listdir(path))
    large = glob.glob(os.path.join(work, "large", "*", feature + "-*"))[0]
    video = feature + ".mp4"
    encode = subprocess.Popen(["ffmpeg", "-y", "-v", "error", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{size}x{size}", "-r", "10", "-i", "-", "-c:v", "libx264",
                               "-preset", "medium", "-crf", crf, "-pix_fmt", "yuv444p", "-threads", "2", os.path.join(folder, video)], stdin=subprocess.PIPE)
    episodes = []
    for f in files:
        pix = open(os.path.join(path, f), "rb").read()
        encode.stdin.write(pix)
        episodes.append([f, len(pix) // (size * size * 3)])
    encode.stdin.close()
    assert encode.wait() == 0
    cameras.append({"video": video, "folder": os.path.relpath(path, os.path.join(work, "cache")), "large_folder": os.path.relpath(large, os.path.join(work, "large")), "episodes": episodes})
json.dump({"size": size, "large": {"size": 224, "episodes": 45}, "cameras": cameras}, open(os.path.join(folder, "cameras.json"), "w"))
PY

# Tables are whole; the videos are there by name only, since their frames are in the cache.
cp -r "$data/meta" "$data/data" "$work/" 2>/dev/null
mkdir "$work/dataset" && mv "$work/meta" "$work/data" "$work/dataset/"
(cd "$data" && find videos -name '*.mp4') | while read -r f; do
	mkdir -p "$work/dataset/$(dirname "$f")" && : >"$work/dataset/$f"
done
tar -C "$work" -cJf "$folder/tables.tar.xz" dataset
go build -tags xla -trimpath -ldflags '-s -w' -o "$work/pinch-node" ./cmd/pinch-node
tar -C "$work" -cJf "$folder/program.tar.xz" pinch-node
ls -l "$folder"
