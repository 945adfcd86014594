"""Reads an MCAP log, or a dataset, with Rerun's own importer and prints what its viewer gets to see. Prints JSON.

Usage: rerun_peer.py FILE.mcap    components by entity, in order of time
       rerun_peer.py --dataset ROOT EPISODE
"""
import json
import sys

import pyarrow as pa
from rerun.chunk import McapReader

if sys.argv[1] == "--dataset":
    from rerun.experimental import LeRobotReader

    chunks = LeRobotReader(sys.argv[2]).stream(int(sys.argv[3])).to_chunks()
else:
    chunks = McapReader(sys.argv[1]).stream().to_chunks()


def plain(v):
    if isinstance(v, (list, tuple)):
        return [plain(x) for x in v]
    if isinstance(v, bytes):
        return len(v)
    return v


rows = {}
for chunk in chunks:
    batch = chunk.to_record_batch()
    times = None
    for name in batch.schema.names:
        if name in ("message_log_time", "frame_index"):
            times = pa.array(batch.column(name)).cast(pa.int64()).to_pylist()
    if times is None:
        continue
    for name in batch.schema.names:
        if ":" not in name or name.startswith("Mcap"):
            continue
        column = batch.column(name)
        if name == "VideoStream:sample":
            column = pa.array([None if x is None else [len(x[0])] for x in column.to_pylist()])
        rows.setdefault(str(chunk.entity_path), {}).setdefault(name, []).extend(zip(times, plain(column.to_pylist())))
for entity in rows.values():
    for name, values in entity.items():
        values.sort(key=lambda v: v[0])
        entity[name] = {"times": [t for t, _ in values], "values": [v for _, v in values]}
print(json.dumps(rows))
