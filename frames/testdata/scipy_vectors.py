"""Writes scipy_vectors.json: rotations by SciPy's scipy.spatial.transform, an independent implementation. Written with SciPy 1.16."""
import json

import numpy as np
from scipy.spatial.transform import Rotation, Slerp

rng = np.random.default_rng(20261130)
out = []
for i in range(40):
    a, b = Rotation.random(2, random_state=rng)
    if i % 4 == 0:  # near and at half turns, and near the identity
        a = Rotation.from_rotvec(rng.normal(size=3) * [1e-7, 1e-3, 1, np.pi][i // 4 % 4])
    t = float(rng.random())
    v = rng.normal(size=3)
    rpy = rng.uniform(-3, 3, 3)
    out.append({
        "a": a.as_quat().tolist(), "b": b.as_quat().tolist(), "matrix": a.as_matrix().tolist(), "rotvec": a.as_rotvec().tolist(),
        "product": (a * b).as_quat().tolist(), "v": v.tolist(), "rotated": a.apply(v).tolist(),
        "t": t, "slerp": Slerp([0, 1], Rotation.concatenate([a, b]))(t).as_quat().tolist(),
        "rpy": rpy.tolist(), "from_rpy": Rotation.from_euler("xyz", rpy).as_quat().tolist(),
    })
json.dump(out, open("scipy_vectors.json", "w"), indent=0)
