"""Reads a dataset by the rules of LeRobot's loader (v3.0) with datasets, pyarrow and av, and prints what it saw as JSON."""
import glob
import json
import sys

import av
import datasets
import numpy as np
import pyarrow.parquet as pq

root = sys.argv[1]
info = json.load(open(root + "/meta/info.json"))
stats = json.load(open(root + "/meta/stats.json"))

# The loader: every parquet file in path order, cast to the features of info.json.
files = sorted(glob.glob(root + "/data/*/*.parquet"))
columns = {}
for key, ft in info["features"].items():
    if ft["dtype"] == "video":
        continue
    value = datasets.Value(ft["dtype"])
    columns[key] = value if ft["shape"] == [1] else datasets.Sequence(value, length=ft["shape"][0])
rows = datasets.Dataset.from_parquet(files, features=datasets.Features(columns), cache_dir=sys.argv[2], keep_in_memory=True)
rows = rows.to_dict()  # plain numbers: the numpy format would round float64 to float32

episodes = pq.read_table(sorted(glob.glob(root + "/meta/episodes/*/*.parquet"))).to_pylist()
assert [e["episode_index"] for e in episodes] == list(range(info["total_episodes"]))
assert rows["index"] == list(range(info["total_frames"]))

# Aggregation: a feature whose name says image has statistics in the shape of a picture's, all others at least one dimension.
for key in info["features"]:
    for name, v in stats[key].items():
        a = np.array(v)
        assert a.ndim >= 1 and np.isfinite(a).all(), (key, name, v)
        if name == "count":
            assert a.shape == (1,), (key, name)
        elif "image" in key:
            assert a.shape in ((3, 1, 1), (1, 1, 1)), (key, name, a.shape)

videos = {}
for e in episodes:
    for key, ft in info["features"].items():
        if ft["dtype"] != "video":
            continue
        path = root + "/" + info["video_path"].format(
            video_key=key, chunk_index=e[f"videos/{key}/chunk_index"], file_index=e[f"videos/{key}/file_index"])
        start = e[f"videos/{key}/from_timestamp"]
        with av.open(path) as c:
            pts, means, kinds = [], [], []
            for f in c.decode(video=0):
                pts.append(float(f.pts * f.time_base))
                means.append(float(f.to_ndarray(format="rgb24").mean()))
                kinds.append(f.pict_type.name if hasattr(f.pict_type, "name") else str(f.pict_type))
        first, n = e["dataset_from_index"], e["length"]
        for i in range(n):
            query = np.float32(start) + np.float32(rows["timestamp"][first + i])
            assert abs(query - np.float32(pts[round(start * info["fps"]) + i])) <= 1e-4, (key, i)
        assert "B" not in kinds, kinds
        videos.setdefault(key, []).append(means)

print(json.dumps({
    "lengths": [e["length"] for e in episodes],
    "tasks": [e["tasks"] for e in episodes],
    "success": [e["success"] for e in episodes],
    "left": rows["observation.pose.left_hand_root.absolute"],
    "next": rows["action.next.pose.left_hand_root.relative"],
    "joints": rows["observation.joint_states"],
    "tick": rows["observation.capture_time.row"],
    "grey": videos["observation.image.left"],
}))
