"""Sizes, names and counts that the JAX and PyTorch references share; bench/gpu/model.go is the original."""

import json
import math
import os

import numpy as np

SIZES = {  # image, patch, vision (dim, depth, heads), vocab, text (tokens, dim, depth, heads), action (dim, depth, heads, horizon)
    "nano": (32, 8, 32, 1, 2, 64, 8, 16, 1, 2, 32, 2, 2, 8),
    "small": (224, 16, 384, 12, 6, 8192, 32, 384, 4, 6, 384, 8, 6, 32),
    "base": (224, 16, 768, 12, 12, 16384, 48, 512, 6, 8, 768, 12, 12, 32),
    "large": (224, 16, 1024, 24, 16, 32768, 64, 768, 8, 12, 1280, 20, 20, 50),
}
CAMERAS, STATE_TOKENS, STATE_DIM, ACTION_DIM, TIME_DIM, MERGE, EPS, ROPE_BASE = 2, 2, 32, 20, 256, 2, 1e-5, 10000.0
BETA1, BETA2, ADAM_EPS, CLIP, RATE, DECAY, AVERAGE = 0.9, 0.95, 1e-8, 1.0, 1e-4, 0.01, 0.999
PEAK = 790e12


class Size:
    def __init__(self, name):
        (self.image, self.patch, self.vision_dim, self.vision_depth, self.vision_heads, self.vocab, self.text_tokens, self.text_dim,
         self.text_depth, self.text_heads, self.dim, self.depth, self.heads, self.horizon) = SIZES[name]
        self.side = self.image // self.patch
        self.patches = self.side * self.side
        self.patch_dim = self.patch * self.patch * 3
        self.context = CAMERAS * self.patches // (MERGE * MERGE) + self.text_tokens + STATE_TOKENS

    def shapes(self):
        """Name to shape and whether weight decay applies."""
        p = {}

        def linear(name, i, o):
            p[name + ".w"], p[name + ".b"] = ((i, o), True), ((o,), False)

        def norm(name, d):
            p[name + ".gain"], p[name + ".bias"] = ((d,), False), ((d,), False)

        def block(name, d):
            norm(name + ".norm1", d), norm(name + ".norm2", d)
            for x in ".q", ".k", ".v", ".o":
                linear(name + x, d, d)
            linear(name + ".up", d, 4 * d), linear(name + ".down", 4 * d, d)

        v, t, d = self.vision_dim, self.text_dim, self.dim
        linear("vision.patch", self.patch_dim, v)
        p["vision.position"] = ((self.patches, v), False)
        for i in range(self.vision_depth):
            block(f"vision.{i}", v)
        norm("vision.norm", v), linear("vision.out", MERGE * MERGE * v, d)
        p["vision.camera"] = ((CAMERAS, 1, d), False)
        p["text.table"], p["text.position"] = ((self.vocab, t), False), ((self.text_tokens, t), False)
        for i in range(self.text_depth):
            block(f"text.{i}", t)
        norm("text.norm", t), linear("text.out", t, d)
        linear("state.in", STATE_DIM, d), linear("state.out", d, d)
        norm("context.norm", d)
        linear("action.in", ACTION_DIM, d), linear("time.in", TIME_DIM, d), linear("time.out", d, d)
        for i in range(self.depth):
            n = f"action.{i}"
            linear(n + ".modulation", d, 9 * d)
            for part in ".self", ".cross":
                for x in ".q", ".k", ".v", ".o":
                    linear(n + part + x, d, d)
                for x in ".q", ".k":
                    p[n + part + x + ".headgain"] = ((d // self.heads,), False)
            linear(n + ".up", d, 4 * d), linear(n + ".down", 4 * d, d)
        linear("action.final", d, 2 * d), linear("action.out", d, ACTION_DIM)
        return p

    def weights(self, rng):
        w = {}
        for name, (shape, decay) in self.shapes().items():
            std = 1 / math.sqrt(shape[0]) if decay else 0.02
            w[name] = (std * rng.standard_normal(shape) + (1 if name.endswith("gain") else 0)).astype(np.float32)
        return w

    def data(self, rng, batch):
        def normal(*shape):
            return rng.standard_normal(shape, dtype=np.float32)

        text = np.arange(self.text_tokens)[None] < rng.integers(self.text_tokens // 4, self.text_tokens, (batch, 1))
        context = np.ones((batch, self.context), bool)
        at = self.context - STATE_TOKENS - self.text_tokens
        context[:, at:at + self.text_tokens] = text
        return {
            "images": normal(batch * CAMERAS, self.patches, self.patch_dim),
            "tokens": rng.integers(0, self.vocab, (batch, self.text_tokens), dtype=np.int32),
            "text_mask": text[:, None], "context_mask": context[:, None],
            "state": normal(batch, STATE_TOKENS, STATE_DIM), "noisy": normal(batch, self.horizon, ACTION_DIM),
            "time": normal(batch, self.horizon, TIME_DIM), "target": normal(batch, self.horizon, ACTION_DIM),
            "weight": (rng.random((batch, self.horizon)) < 0.875).astype(np.float32),
        }

    def flops(self):
        """Per sample and training step, as in model.go."""
        def block(tokens, keys, d):
            return tokens * 12 * d * d + 2 * tokens * keys * d

        n, t, h, c, d = self.patches, self.text_tokens, self.horizon, self.context, self.dim
        s = CAMERAS * (n * self.patch_dim * self.vision_dim + self.vision_depth * block(n, n, self.vision_dim) + n * self.vision_dim * d)
        s += self.text_depth * block(t, t, self.text_dim) + t * self.text_dim * d
        s += STATE_TOKENS * (STATE_DIM * d + d * d)
        s += self.depth * (h * 23 * d * d + 2 * c * d * d + 2 * h * h * d + 2 * h * c * d)
        s += h * (TIME_DIM * d + d * d + 2 * d * d + 2 * ACTION_DIM * d)
        return 6 * s


def load(folder):
    """Weights and batch that `gpu dump` wrote."""
    with open(os.path.join(folder, "names.json")) as f:
        names = json.load(f)
    out = []
    for key, file in ("Weights", "weights.bin"), ("Batch", "batch.bin"):
        raw, at, part = open(os.path.join(folder, file), "rb").read(), 0, {}
        for e in names[key]:
            dt = np.dtype(e["DType"])
            n = int(np.prod(e["Shape"]))
            part[e["Name"]] = np.frombuffer(raw, dt, n, at).reshape(e["Shape"])
            at += n * dt.itemsize
        assert at == len(raw), file
        out.append(part)
    return out


def report(program, name, size, batch, seconds, **more):
    times = sorted(seconds)
    median = times[len(times) // 2]
    print(json.dumps({"program": program, "size": name, "batch": batch, "median_ms": 1e3 * median, "min_ms": 1e3 * times[0], "max_ms": 1e3 * times[-1],
                      "samples_per_s": batch / median, "tflop_per_sample": size.flops() / 1e12, "mfu": batch * size.flops() / median / PEAK, **more}))
