"""NCCL's all-reduce bandwidth on the GPUs of a node: torchrun --nproc-per-node N scale_allreduce.py. One line of JSON; bus bandwidth as in nccl-tests:
bytes / time * 2 (n - 1) / n."""

import json
import os
import time

import torch
import torch.distributed as dist

dist.init_process_group("nccl")
rank, n = dist.get_rank(), dist.get_world_size()
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
out = {}
for mb in 1, 16, 64, 256, 1024:
    x = torch.ones(mb << 18, device="cuda")
    times = []
    for i in range(15):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        dist.all_reduce(x)
        torch.cuda.synchronize()
        if i >= 5:
            times.append(time.perf_counter() - begin)
    out[f"{mb} MiB"] = round((mb << 20) / sorted(times)[len(times) // 2] * 2 * (n - 1) / n / 1e9, 1)
if rank == 0:
    print(json.dumps({"program": "all-reduce", "gpus": n, "bus_gb_per_s": out}))
dist.destroy_process_group()
