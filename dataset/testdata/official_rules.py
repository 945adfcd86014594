"""Loads a LeRobot v3.0 folder with the libraries and by the rules of the official loader, and prints what it saw as JSON.

Usage: official_rules.py ROOT [every-nth-row]
Any broken rule ends with an AssertionError. Needs datasets, pyarrow, pandas, numpy and av.
"""
import glob
import json
import os
import sys

import av
import datasets
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

root = sys.argv[1]
nth = int(sys.argv[2]) if len(sys.argv) > 2 else 1
info = json.load(open(os.path.join(root, "meta/info.json")))

# info.json
assert info["codebase_version"] == "v3.0"
assert type(info["fps"]) is int and info["fps"] > 0
assert list(info["features"])[-5:] == ["timestamp", "frame_index", "episode_index", "index", "task_index"]
for name, ft in info["features"].items():
    assert "/" not in name
    if ft["dtype"] == "video":
        assert ft["names"] == ["height", "width", "channels"] and len(ft["shape"]) == 3, name

# features as the loader builds them, passed explicitly
hf = {}
for name, ft in info["features"].items():
    if ft["dtype"] == "video":
        continue
    if ft["shape"] == [1]:
        hf[name] = datasets.Value(ft["dtype"])
    else:
        hf[name] = datasets.Sequence(length=ft["shape"][0], feature=datasets.Value(ft["dtype"]))
features = datasets.Features(hf)
data_paths = sorted(glob.glob(os.path.join(root, "data/*/*.parquet")))
rows = datasets.Dataset.from_parquet([str(p) for p in data_paths], features=features)
assert rows.features == features
# ... and as the streaming reader and the viewer take them, from the files alone
alone = datasets.Dataset.from_parquet([str(p) for p in data_paths])
assert alone.features == features, (alone.features, features)

# storage details
for p in data_paths:
    f = pq.ParquetFile(p)
    assert f.metadata.num_row_groups in (1, len(set(f.read(["episode_index"])["episode_index"].to_pylist())))
    for field in f.schema_arrow:
        ft = info["features"][field.name]
        if ft["shape"] == [1]:
            assert not pa.types.is_nested(field.type), field
        else:
            assert pa.types.is_fixed_size_list(field.type) and field.type.list_size == ft["shape"][0], field
        assert pq.read_table(p)[field.name].null_count == 0

# episodes and tasks
ep_paths = sorted(glob.glob(os.path.join(root, "meta/episodes/*/*.parquet")))
schemas = {str(pq.read_schema(p).remove_metadata()) for p in ep_paths}
assert len(schemas) == 1, "episode files differ in their columns"
episodes = datasets.Dataset.from_parquet([str(p) for p in ep_paths])
tasks = pd.read_parquet(os.path.join(root, "meta/tasks.parquet"))
assert list(tasks.columns) == ["task_index"] and tasks["task_index"].tolist() == list(range(len(tasks)))
assert all(isinstance(t, str) for t in tasks.index) and tasks.index.is_unique
raw = pq.read_schema(os.path.join(root, "meta/tasks.parquet"))
assert raw.field("__index_level_0__").type == pa.string() and raw.field("task_index").type == pa.int64()
assert len(episodes) == info["total_episodes"] and len(tasks) == info["total_tasks"]
assert len(rows) == info["total_frames"]
assert set(rows.unique("episode_index")) == set(range(info["total_episodes"]))

table = rows.with_format("numpy")
index = np.asarray(table["index"][:])
assert (index == np.arange(len(rows))).all()
frame, epi = np.asarray(table["frame_index"][:]), np.asarray(table["episode_index"][:])
stamp = np.asarray(table["timestamp"][:])
assert stamp.dtype == np.float32
assert (stamp == (frame / info["fps"]).astype(np.float32)).all()

kinds = {}
for i, e in enumerate(episodes):
    assert e["episode_index"] == i and e["dataset_to_index"] - e["dataset_from_index"] == e["length"]
    if i:
        assert e["dataset_from_index"] == episodes[i - 1]["dataset_to_index"]
    assert os.path.exists(os.path.join(root, info["data_path"].format(chunk_index=e["data/chunk_index"], file_index=e["data/file_index"])))
    used = {tasks.iloc[t].name for t in set(rows[e["dataset_from_index"]:e["dataset_to_index"]]["task_index"])}
    assert set(e["tasks"]) == used, (e["tasks"], used)

# statistics: shapes by the rule of the merge tool, numbers by numpy
stats = json.load(open(os.path.join(root, "meta/stats.json")))


def validate(name, parts):
    for key, value in parts.items():
        v = np.array(value)
        assert v.ndim >= 1, (name, key)
        if key == "count":
            assert v.shape == (1,), (name, key, v.shape)
        elif "image" in name:
            assert v.shape in ((3, 1, 1), (1, 1, 1)), (name, key, v.shape)
        assert np.isfinite(v.astype(float)).all(), (name, key)


for name, ft in info["features"].items():
    if ft["dtype"] == "string":
        assert name not in stats
        continue
    assert set(stats[name]) == {"min", "max", "mean", "std", "count", "q01", "q10", "q50", "q90", "q99"}, name
    validate(name, stats[name])
    flag = ft["dtype"] != "video" and "image" in name  # 0.4 wants three channels, and no statistics of single episodes
    if flag:
        assert np.array(stats[name]["min"]).shape == (3, 1, 1) and not any(c.startswith(f"stats/{name}/") for c in episodes.column_names), name
    for e in episodes if not flag else []:
        validate(name, {k: e[f"stats/{name}/{k}"] for k in stats[name]})
    if ft["dtype"] == "video":
        continue
    for rowset, have in [(slice(None), stats[name])] + [
        (slice(e["dataset_from_index"], e["dataset_to_index"]), {k: e[f"stats/{name}/{k}"] for k in stats[name]}) for e in episodes if not flag
    ]:
        v = np.asarray(rows[rowset][name], dtype=np.float64).reshape(-1, ft["shape"][0])
        scale = np.maximum(1, np.abs(v).max())
        want = {"min": v.min(0), "max": v.max(0), "mean": v.mean(0), "std": v.std(0)}
        want.update({f"q{int(q * 100):02d}": np.quantile(v, q, axis=0) for q in (0.01, 0.1, 0.5, 0.9, 0.99)})
        for k, w in want.items():
            got = np.array(have[k], dtype=np.float64).reshape(-1)
            assert np.allclose(got, w, rtol=1e-9, atol=1e-9 * scale), (name, k, got, w)
        assert have["count"] == [len(v)]

# video: the query of the loader, decoded with PyAV, within its tolerance of 1e-4 s in float32
grey, decoded = {}, 0
for name, ft in info["features"].items():
    if ft["dtype"] != "video":
        continue
    grey[name] = []
    for e in episodes:
        path = os.path.join(root, info["video_path"].format(video_key=name, chunk_index=e[f"videos/{name}/chunk_index"], file_index=e[f"videos/{name}/file_index"]))
        start, end = e[f"videos/{name}/from_timestamp"], e[f"videos/{name}/to_timestamp"]
        assert round(end * info["fps"]) - round(start * info["fps"]) == e["length"]
        with av.open(path) as c:
            s = c.streams.video[0]
            assert s.codec_context.name.replace("lib", "").replace("dav1d", "av1") in (ft["info"]["video.codec"], "aom-av1"), s.codec_context.name
            assert s.average_rate == info["fps"] and s.frames >= e["length"]
            assert [s.height, s.width] == ft["shape"][:2]
            frames = [(float(f.pts * s.time_base), f) for f in c.decode(s)]
        times = np.array([t for t, _ in frames], dtype=np.float32)
        for r in range(0, e["length"], nth):
            query = np.float32(start + stamp[e["dataset_from_index"] + r].item())
            best = int(np.abs(times - query).argmin())
            assert abs(times[best] - query) <= 1e-4, (name, e["episode_index"], r, query, times[best])
            assert best == round(start * info["fps"]) + r
            grey[name].append([e["episode_index"], r, float(frames[best][1].to_ndarray(format="rgb24").mean())])
            decoded += 1

print(json.dumps({"rows": len(rows), "episodes": len(episodes), "decoded": decoded, "grey": grey,
                  "columns": episodes.column_names, "tasks": list(tasks.index)}))
