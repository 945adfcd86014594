"""Random windows through the official LeRobot loader, as its training script reads them: torch's DataLoader with worker processes,
the pictures resized to SIZE x SIZE. Prints one JSON object; memory is that of the main process and its workers together.

    python bench/peers/lerobot_windows.py DATASET --windows 64 --workers 2 --size 224
"""

import argparse
import json
import os
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import torch  # noqa: E402
from lerobot.datasets.lerobot_dataset import LeRobotDataset  # noqa: E402


def tree_memory_mb() -> float:
    """Proportional memory of this process and its children."""
    total, pids = 0, [os.getpid()]
    for pid in pids:
        try:
            with open(f"/proc/{pid}/smaps_rollup") as f:
                total += sum(int(line.split()[1]) for line in f if line.startswith("Pss:"))
            for task in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{task}/children") as f:
                    pids += [int(p) for p in f.read().split()]
        except OSError:
            pass
    return total * 1024 / 1e6


def tree_cpu_seconds() -> float:
    ticks, total, pids = os.sysconf("SC_CLK_TCK"), 0, [os.getpid()]
    for pid in pids:
        try:
            with open(f"/proc/{pid}/stat") as f:
                fields = f.read().rsplit(")", 1)[1].split()
            total += int(fields[11]) + int(fields[12])
            for task in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{task}/children") as f:
                    pids += [int(p) for p in f.read().split()]
        except OSError:
            pass
    return total / ticks


class Resize:
    def __init__(self, size):
        self.size = size

    def __call__(self, image):
        return torch.nn.functional.interpolate(image[None], (self.size, self.size), mode="bilinear", antialias=True)[0]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("dataset")
    p.add_argument("--windows", type=int, default=64)
    p.add_argument("--warm", type=int, default=16)
    p.add_argument("--batch", type=int, default=8)
    p.add_argument("--workers", type=int, default=2)
    p.add_argument("--size", type=int, default=224)
    p.add_argument("--backend", default=None, help="torchcodec (its default) or pyav")
    a = p.parse_args()
    ds = LeRobotDataset("local/bench", root=a.dataset, image_transforms=Resize(a.size), video_backend=a.backend,
                        delta_timestamps={"observation.state": [0.0], "action": [i / 30 for i in range(16)]})
    g = torch.Generator().manual_seed(1)
    order = torch.randperm(len(ds), generator=g)[: a.warm + a.windows].tolist()
    loader = torch.utils.data.DataLoader(ds, batch_size=a.batch, sampler=order, num_workers=a.workers, prefetch_factor=2, persistent_workers=True)
    seen, pictures, start, cpu, memory = 0, 0, 0.0, 0.0, 0.0
    for batch in loader:
        if seen >= a.warm:
            pictures += sum(v.shape[0] for k, v in batch.items() if k.startswith("observation.images") and not k.endswith("is_pad"))
        memory = max(memory, tree_memory_mb())
        seen += a.batch
        if seen == a.warm:
            start, cpu = time.monotonic(), tree_cpu_seconds()
    seconds, cpu = time.monotonic() - start, tree_cpu_seconds() - cpu
    print(json.dumps({"backend": ds.video_backend if hasattr(ds, "video_backend") else a.backend, "pictures": pictures, "seconds": seconds, "cpu_seconds": cpu,
                      "pictures_per_second": pictures / seconds, "pictures_per_cpu_second": pictures / cpu, "peak_memory_mb": memory}))


if __name__ == "__main__":
    main()
