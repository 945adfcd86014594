"""The tiny policy's training step in PyTorch on the processor: the network, shapes and recipe of `pinch train` with its built-in values, random data.

Usage: train_torch.py [--steps 20] [--threads 2] [--compile]. Prints one line of JSON. policy/network.go and policy/action.go are the original.
"""

import argparse
import json
import resource
import time

import torch
import torch.nn.functional as F
from torch import nn

BATCH, DRAWS, HORIZON, ACTION, STATE, TOKENS, VOCAB = 64, 8, 16, 20, 14, 64, 257
CAMERAS, PATCHES, PATCH = 2, 16, 16 * 16 * 3
VISION, VISION_DEPTH, VISION_HEADS, TEXT, TEXT_HEADS, DIM, DEPTH, HEADS, TIME = 96, 3, 4, 32, 2, 64, 2, 4, 32


def heads(x, n):
    return x.unflatten(-1, (n, -1)).transpose(-3, -2)


def attend(q, k, v, n, mask=None):
    y = F.scaled_dot_product_attention(heads(q, n), heads(k, n), heads(v, n), attn_mask=None if mask is None else mask[:, None])
    return y.transpose(-3, -2).flatten(-2)


class Block(nn.Module):
    def __init__(self, d, n, hidden):
        super().__init__()
        self.n = n
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))
        self.up, self.down = nn.Linear(d, hidden), nn.Linear(hidden, d)

    def forward(self, x, mask=None):
        y = self.norm1(x)
        x = x + self.o(attend(self.q(y), self.k(y), self.v(y), self.n, mask))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class ActionBlock(nn.Module):
    def __init__(self):
        super().__init__()
        for name in "sq", "sk", "sv", "so", "cq", "ck", "cv", "co":
            setattr(self, name, nn.Linear(DIM, DIM))
        self.up, self.down = nn.Linear(DIM, 3 * DIM), nn.Linear(3 * DIM, DIM)
        self.offset = nn.Parameter(torch.zeros(9, DIM))

    def forward(self, x, valid, mod, context):
        m = [(a + b)[:, None] for a, b in zip(mod, self.offset)]

        def modulated(j):
            return F.layer_norm(x, (DIM,)) * (1 + m[j + 1]) + m[j]

        y = modulated(0)
        x = x + m[2] * self.so(attend(self.sq(y), self.sk(y), self.sv(y), HEADS, valid))
        q = self.cq(modulated(3)).reshape(BATCH, DRAWS * HORIZON, DIM)
        y = attend(q, self.ck(context), self.cv(context), HEADS).reshape(x.shape)
        x = x + m[5] * self.co(y)
        return x + m[8] * self.down(F.gelu(self.up(modulated(6)), approximate="tanh"))


class Tiny(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch, self.position = nn.Linear(PATCH, VISION), nn.Parameter(0.02 * torch.randn(PATCHES, VISION))
        self.vision = nn.ModuleList(Block(VISION, VISION_HEADS, 3 * VISION) for _ in range(VISION_DEPTH))
        self.vision_norm, self.vision_out = nn.LayerNorm(VISION), nn.Linear(VISION, DIM)
        self.camera = nn.Parameter(0.02 * torch.randn(CAMERAS, 1, DIM))
        self.table, self.text_position = nn.Embedding(VOCAB, TEXT), nn.Parameter(0.02 * torch.randn(TOKENS, TEXT))
        self.text, self.text_norm, self.text_out = Block(TEXT, TEXT_HEADS, 2 * TEXT), nn.LayerNorm(TEXT), nn.Linear(TEXT, DIM)
        self.state_in, self.state_out = nn.Linear(STATE, DIM), nn.Linear(DIM, DIM)
        self.context_norm, self.summary_norm, self.summary = nn.LayerNorm(DIM), nn.LayerNorm(DIM), nn.Linear(DIM, DIM)
        self.action_in, self.action_position = nn.Linear(ACTION, DIM), nn.Parameter(0.02 * torch.randn(HORIZON, DIM))
        self.time_in, self.time_out, self.modulation = nn.Linear(TIME, DIM), nn.Linear(DIM, DIM), nn.Linear(DIM, 9 * DIM)
        self.blocks = nn.ModuleList(ActionBlock() for _ in range(DEPTH))
        self.final, self.out = nn.Linear(DIM, 2 * DIM), nn.Linear(DIM, ACTION)

    def forward(self, b):
        x = (self.patch(b["patches"]).reshape(BATCH * CAMERAS, PATCHES, VISION)) + self.position
        for block in self.vision:
            x = block(x)
        x = self.vision_out(self.vision_norm(x)).reshape(BATCH, CAMERAS, PATCHES, DIM) + self.camera
        x = x.reshape(BATCH, CAMERAS * PATCHES, DIM)
        s = self.state_out(F.gelu(self.state_in(b["state"]), approximate="tanh"))
        t = self.text_norm(self.text(self.table(b["tokens"]) + self.text_position, b["token_mask"]))
        t = self.text_out((t * b["token_pool"]).sum(1))
        context = self.context_norm(torch.cat([x, s[:, None], t[:, None]], 1))
        summary = self.summary(self.summary_norm(x.mean(1) + s + t))
        a = self.action_in(b["noisy"]).reshape(BATCH * DRAWS, HORIZON, DIM) + self.action_position
        c = F.silu(self.time_out(F.silu(self.time_in(b["time"]))) + summary[:, None]).reshape(BATCH * DRAWS, DIM)
        mod = self.modulation(c).chunk(9, -1)
        for block in self.blocks:
            a = block(a, b["attend"], mod, context)
        shift, scale = self.final(c)[:, None].chunk(2, -1)
        v = self.out(F.layer_norm(a, (DIM,)) * (1 + scale) + shift).reshape(BATCH, DRAWS * HORIZON, ACTION)
        w = b["weight"][..., None]
        return (w * (v - b["target"]) ** 2).sum() / (w.sum() * ACTION)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=20)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--compile", action="store_true")
    o = p.parse_args()
    torch.set_num_threads(o.threads)
    torch.manual_seed(1)
    idle = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    net = Tiny()
    matrices = [w for n, w in net.named_parameters() if w.ndim == 2 and n.endswith(".weight") and n != "table.weight"]
    rest = [w for w in net.parameters() if all(w is not m for m in matrices)]
    adam = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.01}, {"params": rest, "weight_decay": 0}], lr=2e-3, betas=(0.9, 0.95), fused=True)
    average = [w.detach().clone() for w in net.parameters()]
    rows = DRAWS * HORIZON
    b = {"patches": torch.randn(BATCH, CAMERAS * PATCHES, PATCH), "state": torch.randn(BATCH, STATE), "tokens": torch.randint(0, VOCAB, (BATCH, TOKENS)),
         "token_mask": (torch.arange(TOKENS) < 24).expand(BATCH, 1, TOKENS), "token_pool": (torch.arange(TOKENS) < 24).float().div(24).expand(BATCH, TOKENS)[..., None],
         "noisy": torch.randn(BATCH, rows, ACTION), "time": torch.randn(BATCH, DRAWS, TIME), "target": torch.randn(BATCH, rows, ACTION),
         "weight": torch.ones(BATCH, rows), "attend": torch.ones(BATCH * DRAWS, 1, HORIZON, dtype=torch.bool)}
    loss_of = torch.compile(net) if o.compile else net
    times = []
    for n in range(o.steps + 3):
        if n == 3:
            spent = time.process_time()
        start = time.perf_counter()
        adam.zero_grad(set_to_none=True)
        loss = loss_of(b)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        adam.step()
        with torch.no_grad():
            torch._foreach_lerp_(average, list(net.parameters()), 0.001)
        times.append(time.perf_counter() - start)
    spent = (time.process_time() - spent) / o.steps
    times = sorted(times[3:])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"program": "torch " + torch.__version__ + (" compiled" if o.compile else ""), "parameters": sum(w.numel() for w in net.parameters()), "loss": loss.item(),
                      "median_ms": 1e3 * times[len(times) // 2], "samples_per_s": BATCH / times[len(times) // 2], "processor_ms": 1e3 * spent, "peak_mb": peak / 1024, "before_the_network_mb": idle / 1024}))


main()
