"""The network of bench/gpu/model.go in PyTorch with torch.compile: float32 parameters, bfloat16 activations, fused AdamW, clipping and average.

reference_torch.py --size base --batch 64 [--dump DIR] [--precision float32] [--device cpu]
"""

import argparse
import contextlib
import os
import time

import numpy as np
import torch
import torch.nn.functional as F

from reference import *


def network(p, x, s, dt, rope_table):
    def linear(name, v):
        return F.linear(v, p[name + ".w"].to(dt).t(), p[name + ".b"].to(dt))

    def layernorm(v, gain=None, bias=None):
        return F.layer_norm(v.float(), v.shape[-1:], gain, bias, EPS).to(dt)

    def norm(name, v):
        return layernorm(v, p[name + ".gain"], p[name + ".bias"])

    def heads(v, n):
        return v.reshape(v.shape[0], v.shape[1], n, -1)

    def attend(q, k, v, mask, n):
        q, k, v = (heads(w, n).transpose(1, 2) for w in (q, k, v))
        if mask is not None:
            mask = mask[:, None].expand(-1, -1, q.shape[2], -1)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return y.transpose(1, 2).reshape(y.shape[0], y.shape[2], -1)

    def gelu(v):
        return F.gelu(v, approximate="tanh")

    def block(name, v, mask, n):
        y = norm(name + ".norm1", v)
        v = v + linear(name + ".o", attend(linear(name + ".q", y), linear(name + ".k", y), linear(name + ".v", y), mask, n))
        return v + linear(name + ".down", gelu(linear(name + ".up", norm(name + ".norm2", v))))

    def headnorm(name, v):
        w = heads(v, s.heads).float()
        w = w * torch.rsqrt((w * w).mean(-1, keepdim=True) + EPS) * p[name + ".headgain"]
        return w.reshape(v.shape).to(dt)

    b = x["tokens"].shape[0]
    v = (linear("vision.patch", x["images"].to(dt)).float() + p["vision.position"]).to(dt)
    for i in range(s.vision_depth):
        v = block(f"vision.{i}", v, None, s.vision_heads)
    v = norm("vision.norm", v).reshape(b * CAMERAS, s.side // MERGE, MERGE, s.side // MERGE, MERGE * s.vision_dim)
    v = v.transpose(2, 3).reshape(b, CAMERAS, s.patches // (MERGE * MERGE), -1)
    v = (linear("vision.out", v).float() + p["vision.camera"]).to(dt).reshape(b, -1, s.dim)

    t = (F.embedding(x["tokens"].long(), p["text.table"]).to(dt).float() + p["text.position"]).to(dt)
    for i in range(s.text_depth):
        t = block(f"text.{i}", t, x["text_mask"], s.text_heads)
    t = linear("text.out", norm("text.norm", t))
    state = linear("state.out", gelu(linear("state.in", x["state"].to(dt))))
    context = norm("context.norm", torch.cat([v, t, state], 1))

    cos, sin = rope_table

    def rope(w):
        first, second = heads(w, s.heads).float().chunk(2, -1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], -1).reshape(w.shape).to(dt)

    def modulate(y, shift, scale):
        return (layernorm(y).float() * (1 + scale.float()) + shift.float()).to(dt)

    def gate(a, g, y):
        return (a.float() + g.float() * y.float()).to(dt)

    a = linear("action.in", x["noisy"].to(dt))
    c = F.silu(linear("time.out", F.silu(linear("time.in", x["time"].to(dt)))))
    for i in range(s.depth):
        n = f"action.{i}"
        m = linear(n + ".modulation", c).chunk(9, -1)
        y = modulate(a, m[0], m[1])
        q, k = (rope(headnorm(n + f".self.{j}", linear(n + f".self.{j}", y))) for j in "qk")
        a = gate(a, m[2], linear(n + ".self.o", attend(q, k, linear(n + ".self.v", y), None, s.heads)))
        q = headnorm(n + ".cross.q", linear(n + ".cross.q", modulate(a, m[3], m[4])))
        k = headnorm(n + ".cross.k", linear(n + ".cross.k", context))
        a = gate(a, m[5], linear(n + ".cross.o", attend(q, k, linear(n + ".cross.v", context), x["context_mask"], s.heads)))
        a = gate(a, m[8], linear(n + ".down", gelu(linear(n + ".up", modulate(a, m[6], m[7])))))
    m = linear("action.final", c).chunk(2, -1)
    return linear("action.out", modulate(a, m[0], m[1]))


class Replica(torch.nn.Module):
    """The network as a module, for one process a GPU: `torchrun --nproc-per-node N reference_torch.py`. The batch is that of each process."""

    def __init__(self, p, loss_of):
        super().__init__()
        self.loss_of, self.names = loss_of, {k: k.replace(".", "__") for k in p}
        for k, v in p.items():
            self.register_parameter(self.names[k], v)

    def forward(self, x):
        return self.loss_of({k: getattr(self, n) for k, n in self.names.items()}, x)


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--size", default="nano")
    a.add_argument("--batch", type=int, default=64)
    a.add_argument("--steps", type=int, default=30)
    a.add_argument("--dump", default="")
    a.add_argument("--precision", default="bfloat16")
    a.add_argument("--device", default="cuda")
    a.add_argument("--eager", action="store_true")
    o = a.parse_args()
    s, dt = Size(o.size), getattr(torch, o.precision)
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    if world > 1:
        torch.distributed.init_process_group("nccl" if o.device == "cuda" else "gloo")
        if o.device == "cuda":
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    w, x = load(o.dump) if o.dump else (s.weights(np.random.default_rng(1)), s.data(np.random.default_rng(2 + rank), o.batch))
    decays = {k: d for k, (_, d) in s.shapes().items()}
    p = {k: torch.nn.Parameter(torch.from_numpy(np.array(v)).to(o.device)) for k, v in w.items()}
    x = {k: torch.from_numpy(np.array(v)).to(o.device) for k, v in x.items()}
    angle = np.arange(s.horizon)[:, None] * ROPE_BASE ** (-2 * np.arange(s.dim // s.heads // 2) / (s.dim // s.heads))
    table = [torch.tensor(f(angle), dtype=torch.float32, device=o.device)[None, :, None] for f in (np.cos, np.sin)]

    def loss_of(p, x):
        d = network(p, x, s, dt, table).float() - x["target"]
        weight = x["weight"][..., None]
        return (weight * d * d).sum() / (weight.sum() * ACTION_DIM)

    if world > 1:
        net = Replica(p, loss_of)
        whole = torch.nn.parallel.DistributedDataParallel(net, gradient_as_bucket_view=True, bucket_cap_mb=100)
        whole = whole if o.eager else torch.compile(whole)

        def f(_, x):
            return whole(x)
    else:
        f = loss_of if o.eager else torch.compile(loss_of)
    params = list(p.values())
    average = [v.detach().clone() for v in params]
    groups = [{"params": [v for k, v in p.items() if decays[k]], "weight_decay": DECAY}, {"params": [v for k, v in p.items() if not decays[k]], "weight_decay": 0.0}]
    opt = torch.optim.AdamW(groups, lr=RATE, betas=(BETA1, BETA2), eps=ADAM_EPS, fused=o.device == "cuda")
    kernels = contextlib.nullcontext()
    if o.device == "cuda":
        from torch.nn.attention import SDPBackend, sdpa_kernel
        kernels = sdpa_kernel([SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH], set_priority=True)

    def step():
        opt.zero_grad(set_to_none=True)
        loss = f(p, x)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(params, CLIP, foreach=True)
        opt.step()
        torch._foreach_lerp_(average, params, 1 - AVERAGE)
        return loss, norm

    def sync():
        if o.device == "cuda":
            torch.cuda.synchronize()

    with kernels:
        begin, losses = time.perf_counter(), []
        for n in range(5):
            losses += [float(v.detach()) for v in step()]
            if n == 0:
                first_s = time.perf_counter() - begin
        seconds, each = [], 10
        for _ in range(max(o.steps // each, 1)):
            sync()
            begin = time.perf_counter()
            for _ in range(each):
                step()
            sync()
            seconds.append((time.perf_counter() - begin) / each)
    peak = torch.cuda.max_memory_allocated() if o.device == "cuda" else 0
    if rank == 0:
        report("torch", o.size, s, world * x["tokens"].shape[0], seconds, devices=world, first_step_s=first_s, memory_gb=peak / 1e9, losses_and_norms=losses)
    if world > 1:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
