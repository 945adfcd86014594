"""Loads a LeRobot folder (v2.1 or v3.0) with datasets, pyarrow and av as the official loader does, and compares times and counts.

Usage: load.py ROOT. Prints "rows N frames M"; any broken rule ends with an AssertionError.
"""
import glob
import json
import os
import sys

import av
import datasets
import numpy as np
import pyarrow.parquet as pq

root = sys.argv[1]
info = json.load(open(os.path.join(root, "meta/info.json")))
fps = info["fps"]
assert isinstance(fps, int)
hf = {}
for name, ft in info["features"].items():
    if ft["dtype"] == "video":
        continue
    value = datasets.Value(ft["dtype"])
    hf[name] = value if ft["shape"] == [1] else datasets.Sequence(length=ft["shape"][0], feature=value)
paths = sorted(glob.glob(os.path.join(root, "data/*/*.parquet")))
rows = datasets.Dataset.from_parquet(paths, features=datasets.Features(hf))
assert len(rows) == info["total_frames"]
assert rows["index"][:] == list(range(len(rows)))
stamps = np.asarray(rows["timestamp"][:], dtype=np.float32)
if info["codebase_version"].startswith("v3"):
    episodes = []
    for p in sorted(glob.glob(os.path.join(root, "meta/episodes/*/*.parquet"))):
        episodes += pq.read_table(p).to_pylist()
else:
    episodes, start = [], 0
    for line in open(os.path.join(root, "meta/episodes.jsonl")):
        e = json.loads(line)
        e["dataset_from_index"], start = start, start + e["length"]
        episodes.append(e)
assert [e["episode_index"] for e in episodes] == list(range(info["total_episodes"]))
frames = 0
for name, ft in info["features"].items():
    if ft["dtype"] != "video":
        continue
    for e in episodes:
        i = e["episode_index"]
        if info["codebase_version"].startswith("v3"):
            path = info["video_path"].format(video_key=name, chunk_index=e[f"videos/{name}/chunk_index"], file_index=e[f"videos/{name}/file_index"])
            start = e[f"videos/{name}/from_timestamp"]
            assert round(e[f"videos/{name}/to_timestamp"] * fps) - round(start * fps) == e["length"]
        else:
            path, start = info["video_path"].format(video_key=name, episode_chunk=i // info["chunks_size"], episode_index=i), 0.0
        with av.open(os.path.join(root, path)) as c:
            times = np.array([float(f.pts * f.time_base) for f in c.decode(video=0)], dtype=np.float32)
        query = np.float32(start) + stamps[e["dataset_from_index"]:e["dataset_from_index"] + e["length"]]
        assert np.abs(times[:, None] - query[None, :]).min(axis=0).max() <= 1e-4, (name, i)
        frames += len(query)
print("rows", len(rows), "frames", frames)
