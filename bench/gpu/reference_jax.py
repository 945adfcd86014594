"""The network of bench/gpu/model.go in JAX: float32 parameters, bfloat16 activations, AdamW, clipping and running average in one jitted step.

reference_jax.py --size base --batch 64 [--dump DIR] [--precision float32] [--attention cudnn|xla]
"""

import argparse
import functools
import time

import jax
import jax.numpy as jnp
import numpy as np

from reference import *


def network(p, x, s, dt, attention):
    f32 = jnp.float32

    def linear(name, v):
        return v @ p[name + ".w"].astype(dt) + p[name + ".b"].astype(dt)

    def layernorm(v, gain=None, bias=None):
        w = v.astype(f32)
        w = w - w.mean(-1, keepdims=True)
        w = w * jax.lax.rsqrt((w * w).mean(-1, keepdims=True) + EPS)
        if gain is not None:
            w = w * gain + bias
        return w.astype(dt)

    def norm(name, v):
        return layernorm(v, p[name + ".gain"], p[name + ".bias"])

    def heads(v, n):
        return v.reshape(v.shape[0], v.shape[1], n, -1)

    def attend(q, k, v, mask, n, masked_plain=True):
        q, k, v = heads(q, n), heads(k, n), heads(v, n)
        kind = attention if mask is None or not masked_plain else "xla"
        if mask is not None:
            mask = jnp.broadcast_to(mask[:, None], (mask.shape[0], 1, q.shape[1], k.shape[1]))
        y = jax.nn.dot_product_attention(q, k, v, mask=mask, implementation=kind)
        return y.reshape(y.shape[0], y.shape[1], -1)

    def block(name, v, mask, n):
        y = norm(name + ".norm1", v)
        v = v + linear(name + ".o", attend(linear(name + ".q", y), linear(name + ".k", y), linear(name + ".v", y), mask, n))
        y = jax.nn.gelu(linear(name + ".up", norm(name + ".norm2", v)))
        return v + linear(name + ".down", y)

    def headnorm(name, v):
        w = heads(v, s.heads).astype(f32)
        w = w * jax.lax.rsqrt((w * w).mean(-1, keepdims=True) + EPS) * p[name + ".headgain"]
        return w.reshape(v.shape).astype(dt)

    b = x["tokens"].shape[0]
    v = linear("vision.patch", x["images"].astype(dt))
    v = (v.astype(f32) + p["vision.position"]).astype(dt)
    for i in range(s.vision_depth):
        v = block(f"vision.{i}", v, None, s.vision_heads)
    v = norm("vision.norm", v).reshape(b * CAMERAS, s.side // MERGE, MERGE, s.side // MERGE, MERGE * s.vision_dim)
    v = v.transpose(0, 1, 3, 2, 4).reshape(b, CAMERAS, s.patches // (MERGE * MERGE), -1)
    v = (linear("vision.out", v).astype(f32) + p["vision.camera"]).astype(dt).reshape(b, -1, s.dim)

    t = (p["text.table"][x["tokens"]].astype(dt).astype(f32) + p["text.position"]).astype(dt)
    for i in range(s.text_depth):
        t = block(f"text.{i}", t, x["text_mask"], s.text_heads)
    t = linear("text.out", norm("text.norm", t))
    state = linear("state.out", jax.nn.gelu(linear("state.in", x["state"].astype(dt))))
    context = norm("context.norm", jnp.concatenate([v, t, state], 1))

    angle = np.arange(s.horizon)[:, None] * ROPE_BASE ** (-2 * np.arange(s.dim // s.heads // 2) / (s.dim // s.heads))
    cos, sin = jnp.asarray(np.cos(angle), f32)[None, :, None], jnp.asarray(np.sin(angle), f32)[None, :, None]

    def rope(w):
        first, second = jnp.split(heads(w, s.heads).astype(f32), 2, -1)
        y = jnp.concatenate([first * cos - second * sin, second * cos + first * sin], -1)
        return y.reshape(w.shape).astype(dt)

    def modulate(y, shift, scale):
        return (layernorm(y).astype(f32) * (1 + scale.astype(f32)) + shift.astype(f32)).astype(dt)

    def gate(a, g, y):
        return (a.astype(f32) + g.astype(f32) * y.astype(f32)).astype(dt)

    a = linear("action.in", x["noisy"].astype(dt))
    c = jax.nn.silu(linear("time.out", jax.nn.silu(linear("time.in", x["time"].astype(dt)))))
    for i in range(s.depth):
        n = f"action.{i}"
        m = jnp.split(linear(n + ".modulation", c), 9, -1)
        y = modulate(a, m[0], m[1])
        q = rope(headnorm(n + ".self.q", linear(n + ".self.q", y)))
        k = rope(headnorm(n + ".self.k", linear(n + ".self.k", y)))
        a = gate(a, m[2], linear(n + ".self.o", attend(q, k, linear(n + ".self.v", y), None, s.heads)))
        q = headnorm(n + ".cross.q", linear(n + ".cross.q", modulate(a, m[3], m[4])))
        k = headnorm(n + ".cross.k", linear(n + ".cross.k", context))
        a = gate(a, m[5], linear(n + ".cross.o", attend(q, k, linear(n + ".cross.v", context), x["context_mask"], s.heads, False)))
        y = jax.nn.gelu(linear(n + ".up", modulate(a, m[6], m[7])))
        a = gate(a, m[8], linear(n + ".down", y))
    m = jnp.split(linear("action.final", c), 2, -1)
    return linear("action.out", modulate(a, m[0], m[1]))


def loss_of(p, x, s, dt, attention):
    d = network(p, x, s, dt, attention).astype(jnp.float32) - x["target"]
    w = x["weight"][..., None]
    return (w * d * d).sum() / (w.sum() * ACTION_DIM)


def make_step(s, dt, attention):
    decays = {k: d for k, (_, d) in s.shapes().items()}

    def step(state, x):
        p, m, v, e, n = state
        loss, g = jax.value_and_grad(loss_of)(p, x, s, dt, attention)
        norm = jnp.sqrt(sum(jnp.sum(w * w) for w in g.values()))
        scale = jnp.where(norm > CLIP, CLIP / norm, 1.0)
        n = n + 1
        root2 = jnp.sqrt(1 - BETA2 ** n)
        size, eps = RATE * root2 / (1 - BETA1 ** n), ADAM_EPS * root2
        p1, m1, v1, e1 = {}, {}, {}, {}
        finite = jnp.isfinite(norm) & jnp.isfinite(loss)
        for k in p:
            d = g[k] * scale
            mk = BETA1 * m[k] + (1 - BETA1) * d
            vk = BETA2 * v[k] + (1 - BETA2) * d * d
            pk = (p[k] * (1 - RATE * DECAY) if decays[k] else p[k]) - size * mk / (jnp.sqrt(vk) + eps)
            ek = AVERAGE * e[k] + (1 - AVERAGE) * pk
            p1[k], m1[k] = jnp.where(finite, pk, p[k]), jnp.where(finite, mk, m[k])
            v1[k], e1[k] = jnp.where(finite, vk, v[k]), jnp.where(finite, ek, e[k])
        return (p1, m1, v1, e1, n), jnp.stack([loss, norm])

    return jax.jit(step, donate_argnums=0)


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--size", default="nano")
    a.add_argument("--batch", type=int, default=64)
    a.add_argument("--steps", type=int, default=30)
    a.add_argument("--dump", default="")
    a.add_argument("--precision", default="bfloat16")
    a.add_argument("--attention", default="cudnn")
    o = a.parse_args()
    s = Size(o.size)
    rng = np.random.default_rng(1)
    w, x = load(o.dump) if o.dump else (s.weights(rng), s.data(rng, o.batch))
    assert {k: v.shape for k, v in w.items()} == {k: v for k, (v, _) in s.shapes().items()}
    p = {k: jnp.array(v) for k, v in w.items()}
    x = {k: jnp.asarray(v) for k, v in x.items()}
    state = (p, {k: jnp.zeros_like(v) for k, v in p.items()}, {k: jnp.zeros_like(v) for k, v in p.items()}, {k: jnp.array(v) for k, v in w.items()}, jnp.zeros((), jnp.float32))
    begin = time.perf_counter()
    compiled = make_step(s, jnp.dtype(o.precision), o.attention).lower(state, x).compile()
    compile_s = time.perf_counter() - begin
    mem = compiled.memory_analysis()
    total = mem.argument_size_in_bytes + mem.output_size_in_bytes - mem.alias_size_in_bytes + mem.temp_size_in_bytes
    losses = []
    for _ in range(5):
        state, metrics = compiled(state, x)
        losses += [float(v) for v in metrics]
    groups, each = max(o.steps // 10, 1), 10
    seconds = []
    for _ in range(groups):  # ten steps in flight, so that dispatch is hidden
        begin = time.perf_counter()
        for _ in range(each):
            state, metrics = compiled(state, x)
        metrics.block_until_ready()
        seconds.append((time.perf_counter() - begin) / each)
    report("jax", o.size, s, x["tokens"].shape[0], seconds, compile_s=compile_s, memory_gb=total / 1e9, temporary_gb=mem.temp_size_in_bytes / 1e9,
           attention=o.attention, losses_and_norms=losses)


if __name__ == "__main__":
    main()
