"""Loads datasets with the official lerobot package, and runs its merge, split and delete on them. Prints JSON.

Usage: lerobot_peer.py load ROOT...         for each: rows, episodes, tasks, sums of numbers, grey of every frame
       lerobot_peer.py load/N ROOT...       the same of every Nth row
       lerobot_peer.py tools OUT ROOT ROOT  merge both, split and delete the first; prints the folders that it made
"""
import json
import logging
import sys

import numpy as np
import torch
from lerobot.datasets.lerobot_dataset import LeRobotDataset

logging.disable(logging.WARNING)


def open_set(root):
    return LeRobotDataset("pinch/test", root=root, video_backend="pyav")


def load(root, nth):
    d = open_set(root)
    tasks = list(d.meta.tasks.values()) if isinstance(d.meta.tasks, dict) else list(d.meta.tasks.index)  # 0.3, 0.4
    out = {"version": str(d.meta.info["codebase_version"]), "rows": len(d), "episodes": d.num_episodes, "tasks": tasks, "sums": {}, "grey": {}}
    sums = {}
    for i in range(0, len(d), nth):
        item = d[i]
        assert item["index"].item() == i
        assert isinstance(item["task"], str) and item["task"] in out["tasks"], item["task"]
        for k, v in item.items():
            if isinstance(v, torch.Tensor) and k in d.meta.video_keys:
                e, r = item["episode_index"].item(), item["frame_index"].item()
                out["grey"].setdefault(k, []).append([e, r, float(v.mean()) * 255])
            elif isinstance(v, torch.Tensor):
                sums[k] = sums.get(k, 0.0) + float(v.double().sum())
    out["sums"] = sums
    assert set(d.meta.stats) >= set(d.meta.video_keys), "no statistics of pictures"
    for name in d.meta.stats:  # what a policy takes for its normalisation
        assert np.isfinite(np.asarray(d.meta.stats[name]["mean"])).all(), name
    return out


verb, _, every = sys.argv[1].partition("/")
if verb == "load":
    print(json.dumps([load(r, int(every or 1)) for r in sys.argv[2:]]))
else:
    from lerobot.datasets.dataset_tools import delete_episodes, merge_datasets, split_dataset

    out, a, b = sys.argv[2:]
    first, second = open_set(a), open_set(b)
    merge_datasets([first, second], "pinch/merged", output_dir=f"{out}/merged")
    n = first.num_episodes
    split_dataset(first, {"one": list(range(n - 1)), "two": [n - 1]}, output_dir=f"{out}/split")
    delete_episodes(first, [1], output_dir=f"{out}/deleted", repo_id="pinch/deleted")
    print(json.dumps([f"{out}/merged", f"{out}/split/one", f"{out}/split/two", f"{out}/deleted"]))
