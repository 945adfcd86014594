"""Runs the module that TestJAX wrote through JAX's own XLA, and the same network written in JAX; prints both distances as JSON.

jax_peer.py FOLDER   FOLDER has module.mlir, names.json ([name, shape, dtype] of arguments and results in order), arguments.bin, results.bin
"""

import json
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax._src import xla_bridge
from jax._src.lib import xla_client

folder, precision = sys.argv[1], sys.argv[2]
names = json.load(open(folder + "/names.json"))


def read(file, entries):
    raw, at, out = open(f"{folder}/{file}", "rb").read(), 0, {}
    for name, shape, dt in entries:
        n = int(np.prod(shape)) if shape else 1
        out[name] = np.frombuffer(raw, dt, n, at).reshape(shape or ())
        at += n * np.dtype(dt).itemsize
    assert at == len(raw), file
    return out


args, want = read("arguments.bin", names["arguments"]), read("results.bin", names["results"])


def run_module():
    backend = xla_bridge.get_backend("cpu")
    devices = xla_client.DeviceList(tuple(backend.local_devices()[:1]))
    exe = backend.compile_and_load(open(folder + "/module.mlir").read(), devices, xla_client.CompileOptions())
    return [np.asarray(o) for o in exe.execute([backend.buffer_from_pyval(v, backend.local_devices()[0]) for v in args.values()])]


A = jnp.bfloat16 if precision == "bfloat16" else jnp.float32
HI = jax.lax.Precision.HIGHEST


def linear(x, w, b=None):
    y = jnp.matmul(x.astype(A), w.astype(A), precision=HI)
    return y if b is None else y + b.astype(A)


def norm(x, centre, gain=None, bias=None):
    w = x.astype(jnp.float32)
    w = w - w.mean(-1, keepdims=True) if centre else w
    w = w * jax.lax.rsqrt((w * w).mean(-1, keepdims=True) + 1e-5)
    return (w if gain is None else w * gain + bias).astype(A)


def attention(q, k, v, mask, heads):
    q, k, v = (w.reshape(w.shape[0], w.shape[1], heads, -1) for w in (q, k, v))
    s = jnp.einsum("bthd,bshd->bhts", q, k, precision=HI, preferred_element_type=jnp.float32) / np.sqrt(q.shape[-1])
    if mask is not None:
        s = jnp.where(mask[:, None], s, -jnp.inf)
        open_rows = mask.any(-1)[:, None, :, None]
        p = jnp.where(open_rows, jax.nn.softmax(jnp.where(open_rows, s, 0.0), -1), 0.0)
    else:
        p = jax.nn.softmax(s, -1)
    return jnp.einsum("bhts,bshd->bthd", p.astype(A), v, precision=HI).reshape(q.shape[0], q.shape[1], -1)


def rope(x, heads, base):
    b, t, d = x.shape
    w = x.reshape(b, t, heads, 2, d // heads // 2).astype(jnp.float32)
    angle = np.arange(t)[:, None] * base ** (-2 * np.arange(d // heads // 2) / (d // heads))
    c, s = jnp.asarray(np.cos(angle), jnp.float32)[None, :, None], jnp.asarray(np.sin(angle), jnp.float32)[None, :, None]
    one, two = w[:, :, :, 0], w[:, :, :, 1]
    return jnp.stack([one * c - two * s, two * c + one * s], 3).reshape(b, t, d).astype(A)


def loss(p, x):
    b, d = x["ids"].shape[0], 16
    v = linear(x["images"], p["patch.w"], p["patch.b"])
    v = attention(v, v, jax.nn.gelu(v.astype(jnp.float32)).astype(A), None, 2).reshape(b, -1, d)
    context = norm(jnp.concatenate([v, p["table"][x["ids"]].astype(A)], 1), True, p["norm.gain"], p["norm.bias"])
    c = jax.nn.silu(linear(x["time"], p["time.w"]).astype(jnp.float32)).astype(A)
    shift, scale, gate = jnp.split(c.astype(jnp.float32), 3, -1)
    a = linear(x["noisy"], p["in.w"])
    m = (norm(a, False).astype(jnp.float32) * (1 + scale) + shift).astype(A)
    q = rope(linear(m, p["q.w"]), 2, 100.0)
    a = (a + gate * attention(q, context, context, x["mask"], 2)).astype(A)
    e = linear(a, p["out.w"], p["out.b"]).astype(jnp.float32) - x["target"]
    w = x["weight"][..., None]
    return (w * e * e).sum() / (w.sum() * 5)


def distance(a, b):
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    return float(np.linalg.norm(a - b) / max(np.linalg.norm(b), 1e-12))


params = [n for n, _, _ in names["results"][1:]]
value, grads = jax.value_and_grad(loss)({k: jnp.asarray(args[k]) for k in params}, {k: v for k, v in args.items() if k not in params})
module = run_module()
out = {"module": {}, "network": {}}
for i, (name, w) in enumerate(want.items()):
    out["module"][name] = distance(module[i], w)
    out["network"][name] = distance(value if i == 0 else grads[name], w)
print(json.dumps(out))
