"""Compares the policies of two folders of `pinch eval run` with the same task, trials and seed, condition by condition.

Usage: learn_paired.py EVAL EVAL. Means with 95 % BCa bootstrap intervals (Efron 1987, 20,000 resamples by seed 1), the mean difference with its own,
and the two-sided sign-flip test (Fisher; 200,000 random assignments).
"""

import glob
import json
import os
import sys
from statistics import NormalDist

import numpy as np


def scores(folder):
    out = {}
    for path in glob.glob(os.path.join(folder, "trials", "policy", "**", "trial.json"), recursive=True):
        t = json.load(open(path))
        if t["counts"]:
            assert t["condition"] not in out, path
            out[t["condition"]] = t["score"]
    return out


def bca(x, rng):
    n, normal = len(x), NormalDist()
    if np.all(x == x[0]):
        return x[0], x[0], x[0]
    means = np.sort(x[rng.integers(0, n, (20_000, n))].mean(1))
    below = (np.mean(means < x.mean()) + np.mean(means <= x.mean())) / 2
    z0 = normal.inv_cdf(min(max(below, 1e-6), 1 - 1e-6))
    left = (x.sum() - x) / (n - 1)
    d = left.mean() - left
    a = (d**3).sum() / (6 * (d**2).sum() ** 1.5)
    ends = []
    for share in 0.025, 0.975:
        z = z0 + normal.inv_cdf(share)
        ends.append(np.quantile(means, normal.cdf(z0 + z / (1 - a * z))))
    return x.mean(), *ends


first, second = (scores(f) for f in sys.argv[1:3])
both = sorted(first.keys() & second.keys(), key=lambda c: int(c.rsplit("-", 1)[1]))
if set(first) != set(second):
    print(f"only the {len(both)} conditions that both have met count ({len(first)} and {len(second)} there)")
rng = np.random.default_rng(1)
a, b = (np.array([s[c] for c in both]) for s in (first, second))
for name, x in (sys.argv[1], a), (sys.argv[2], b):
    print("{}: {:.2f} [{:.2f}, {:.2f}], {} of {} complete".format(name, *bca(x, rng), int((x == 1).sum()), len(x)))
print("first minus second, paired: {:.2f} [{:.2f}, {:.2f}]".format(*bca(a - b, rng)))
d = a - b
flips = (rng.choice([-1, 1], (200_000, len(d))) * d).sum(1)
print(f"sign-flip test, two-sided: p = {(1 + np.sum(np.abs(flips) >= abs(d.sum()) - 1e-9)) / (len(flips) + 1):.3f}")
