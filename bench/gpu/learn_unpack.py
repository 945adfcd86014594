"""Unpacks what learn_pack.sh made: program, tables of the dataset, and the frames of both cameras into the trainer's cache.

Usage: learn_unpack.py PACKED WORK. With ALL_LARGE=1 every episode gets the second size too.
"""

import json
import os
import sys
import tarfile
import time
from concurrent.futures import ThreadPoolExecutor

import cv2
import numpy as np


def frames(path, size):
    """All frames of a video, RGB."""
    video = cv2.VideoCapture(path)
    while True:
        ok, bgr = video.read()
        if not ok:
            return
        assert bgr.shape == (size, size, 3), bgr.shape
        yield cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB)


def unpack_camera(packed, work, camera, size, large):
    """Writes one file for each episode, as the trainer's cache has them; large is a second size, for the first episodes only."""
    folder = os.path.join(work, "cache", camera["folder"])
    os.makedirs(folder, exist_ok=True)
    big = os.path.join(work, "cache", camera["large_folder"])
    os.makedirs(big, exist_ok=True)
    source, count = frames(os.path.join(packed, camera["video"]), size), 0
    for n, (name, length) in enumerate(camera["episodes"]):
        pix = np.stack([next(source) for _ in range(length)])
        pix.tofile(os.path.join(folder, name))
        count += length
        if n < large["episodes"] or os.environ.get("ALL_LARGE"):
            np.stack([cv2.resize(f, (large["size"], large["size"])) for f in pix]).tofile(os.path.join(big, name))
    assert next(source, None) is None, "more frames than rows"
    return count


def main(packed, work):
    began = time.time()
    for name in "program.tar.xz", "tables.tar.xz":
        with tarfile.open(os.path.join(packed, name)) as tar:
            tar.extractall(work, filter="data")
    with open(os.path.join(packed, "cameras.json")) as f:
        index = json.load(f)
    with ThreadPoolExecutor(len(index["cameras"])) as pool:
        counts = list(pool.map(lambda c: unpack_camera(packed, work, c, index["size"], index["large"]), index["cameras"]))
    print(f"{sum(counts)} frames of {index['size']} pixels unpacked in {time.time() - began:.1f} s")


main(*sys.argv[1:])
