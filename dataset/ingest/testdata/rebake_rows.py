"""Rows of a YUBI recording by rebake's documented rules, computed with the mcap library and numpy alone.

Usage: rebake_rows.py LOG META FPS. Prints JSON: for each segment its ticks and the columns named below.
"""
import json
import sys

import numpy as np
from mcap.reader import make_reader
from mcap_ros2.decoder import DecoderFactory

log, meta, fps = sys.argv[1], json.load(open(sys.argv[2])), int(sys.argv[3])
bounds, joints, pictures, tf = {}, [], {"left": [], "right": [], "center": []}, {}
topics = {"/left_camera/image_raw/compressed": "left", "/right_camera/image_raw/compressed": "right",
          "/camera/camera/color/image_raw/compressed": "center"}
factory = DecoderFactory()
with open(log, "rb") as f:
    for schema, channel, message in make_reader(f).iter_messages(log_time_order=True):
        t = message.log_time
        first, last = bounds.get(channel.topic, (t, t))
        bounds[channel.topic] = (min(first, t), max(last, t))
        if channel.topic in topics:
            pictures[topics[channel.topic]].append(t)
        if channel.topic not in ("/tf", "/tf_static", "/joint_states"):
            continue
        m = factory.decoder_for(channel.message_encoding, schema)(message.data)
        if channel.topic == "/joint_states":
            joints.append((t, list(m.position)))
            continue
        for x in m.transforms:
            p, q = x.transform.translation, x.transform.rotation
            quat = np.array([q.x, q.y, q.z, q.w])
            tf.setdefault(x.child_frame_id, []).append(
                (t, x.header.frame_id, np.array([p.x, p.y, p.z]), quat / np.linalg.norm(quat)))

tf_times = np.unique([s[0] for samples in tf.values() for s in samples])
start = max([b[0] for b in bounds.values()] + [min(s[0] for s in samples) for samples in tf.values()])
end = max(b[1] for b in bounds.values())
ticks = np.arange(start, end + 1, 10**9 // fps)


def mul(a, b):
    ax, ay, az, aw = a
    bx, by, bz, bw = b
    return np.array([aw * bx + ax * bw + ay * bz - az * by, aw * by - ax * bz + ay * bw + az * bx,
                     aw * bz + ax * by - ay * bx + az * bw, aw * bw - ax * bx - ay * by - az * bz])


def conj(q):
    return q * np.array([-1, -1, -1, 1])


def rotate(q, v):
    return mul(mul(q, np.append(v, 0)), conj(q))[:3]


def held(samples, t):
    i = np.searchsorted([s[0] for s in samples], t, side="right") - 1
    return samples[i]


def up(frame):
    out = [frame]
    while out[-1] in tf:
        out.append(tf[out[-1]][0][1])
    return out


def chain(parent, child, t):
    a, b = up(parent), up(child)
    top = next(f for f in b if f in a)
    newest = tf_times[np.searchsorted(tf_times, t, side="right") - 1]
    fresh = False
    parts = []
    for way in (a[:a.index(top)], b[:b.index(top)]):
        p, q = np.zeros(3), np.array([0.0, 0, 0, 1])
        for f in reversed(way):
            at, _, fp, fq = held(tf[f], t)
            p, q = p + rotate(q, fp), mul(q, fq)
            fresh |= bool(at == newest)
        parts.append((p, q))
    (pa, qa), (pb, qb) = parts
    return rotate(conj(qa), pb - pa), mul(conj(qa), qb), fresh


def delta(a, b):
    qb = b[1] if np.dot(a[1], b[1]) >= 0 else -b[1]
    return np.concatenate([rotate(conj(a[1]), b[0] - a[0]), mul(conj(a[1]), qb)])


def fresh_of(stamps):
    i = np.searchsorted(stamps, ticks, side="right") - 1
    return [bool(k == 0 or i[k] != i[k - 1]) for k in range(len(ticks))]


pairs = {"left_hand_root": ("quest_origin", "left_hand_root"), "left_left_finger_tip": ("quest_origin", "left_left_finger_tip_link"),
         "hand_to_hand": ("left_hand_root", "right_hand_root"), "right_controller": ("quest_origin", "quest_right_controller")}
poses = {n: [chain(p, c, t) for t in ticks] for n, (p, c) in pairs.items()}
angles = [held(joints, t)[1] for t in ticks]
camera_fresh = {n: fresh_of(s) for n, s in pictures.items()}
joint_fresh = fresh_of([j[0] for j in joints])
out = []
for s in meta["segments"]:
    keep = [k for k, t in enumerate(ticks) if int(s["start_time"] * 1e9) <= t <= int(s["end_time"] * 1e9)]
    row = {"ticks": [int(ticks[k]) for k in keep], "joints": [angles[k] for k in keep],
           "next_joints": [angles[min(k + 1, len(ticks) - 1)] for k in keep], "joints_fresh": [joint_fresh[k] for k in keep],
           "camera_fresh": {n: [f[k] for k in keep] for n, f in camera_fresh.items()}}
    for n, p in poses.items():
        row[n] = {"absolute": [np.concatenate(p[k][:2]).tolist() for k in keep],
                  "relative": [(delta(p[k - 1], p[k]) if k else np.array([0, 0, 0, 0, 0, 0, 1.0])).tolist() for k in keep],
                  "fresh": [p[k][2] for k in keep]}
    out.append(row)
print(json.dumps(out))
