"""Loads a LeRobot v2.1 folder with the libraries and by the rules of the official loader of that version (lerobot 0.3.3).

Usage: official_v21_rules.py ROOT [every-nth-row]
Any broken rule ends with an AssertionError. Needs datasets, pyarrow, numpy and av.
"""
import glob
import json
import os
import sys

import av
import datasets
import numpy as np

root = sys.argv[1]
nth = int(sys.argv[2]) if len(sys.argv) > 2 else 1
info = json.load(open(os.path.join(root, "meta/info.json")))
read = lambda p: [json.loads(line) for line in open(os.path.join(root, p))]
assert info["codebase_version"] == "v2.1" and type(info["fps"]) is int
episodes = {e["episode_index"]: e for e in read("meta/episodes.jsonl")}
tasks = {t["task_index"]: t["task"] for t in read("meta/tasks.jsonl")}
stats = {s["episode_index"]: s["stats"] for s in read("meta/episodes_stats.jsonl")}
n = info["total_episodes"]
assert sorted(episodes) == sorted(stats) == list(range(n)) and sorted(tasks) == list(range(info["total_tasks"]))
cameras = [k for k, f in info["features"].items() if f["dtype"] == "video"]
assert info["total_videos"] == n * len(cameras) and info["total_chunks"] == (n + info["chunks_size"] - 1) // info["chunks_size"]
assert info["splits"] == {"train": f"0:{n}"}

# statistics are validated and aggregated when the metadata are loaded
for one in stats.values():
    for key, parts in one.items():
        assert key in info["features"]
        for k, v in parts.items():
            v = np.array(v)
            assert v.ndim > 0, (key, k)
            if k == "count":
                assert v.shape == (1,), (key, k)
            elif "image" in key:
                assert v.shape == (3, 1, 1), (key, k, v.shape)
for key in info["features"]:
    means = np.stack([np.array(stats[i][key]["mean"]) for i in range(n)])
    counts = np.stack([np.array(stats[i][key]["count"]) for i in range(n)])
    assert np.isfinite(means).all() and (counts > 0).all()

# rows: every file through the library, the features from the files alone
paths = [os.path.join(root, info["data_path"].format(episode_chunk=i // info["chunks_size"], episode_index=i)) for i in range(n)]
assert sorted(glob.glob(os.path.join(root, "data/*/*.parquet"))) == paths
rows = datasets.Dataset.from_parquet(paths)
want = {}
for key, f in info["features"].items():
    if f["dtype"] == "video":
        continue
    want[key] = datasets.Value(f["dtype"]) if f["shape"] == [1] else datasets.Sequence(length=f["shape"][0], feature=datasets.Value(f["dtype"]))
assert rows.features == datasets.Features(want), rows.features
assert len(rows) == info["total_frames"] == sum(e["length"] for e in episodes.values())
stamp = np.asarray(rows["timestamp"][:], dtype=np.float32)
episode = np.asarray(rows["episode_index"][:])
assert (np.asarray(rows["index"][:]) == np.arange(len(rows))).all()
for i in range(n):  # the check of the time steps
    mine = stamp[episode == i]
    assert len(mine) == episodes[i]["length"] and np.all(np.abs(np.diff(mine) - 1 / info["fps"]) <= 1e-4)
    used = {tasks[t] for t in np.asarray(rows["task_index"][:])[episode == i]}
    assert used == set(episodes[i]["tasks"])

for camera in cameras:
    for i in range(n):
        path = os.path.join(root, info["video_path"].format(episode_chunk=i // info["chunks_size"], episode_index=i, video_key=camera))
        with av.open(path) as c:
            s = c.streams.video[0]
            assert s.average_rate == info["fps"]
            times = np.array([float(f.pts * s.time_base) for f in c.decode(s)], dtype=np.float32)
        assert len(times) == episodes[i]["length"]
        for q in stamp[episode == i][::nth]:
            assert np.abs(times - q).min() <= 1e-4, (camera, i, q)
print("ok")
