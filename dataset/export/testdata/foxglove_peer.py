"""Reads an MCAP log as Foxglove does: with the mcap library, by the schemas in the log, and with PyAV for the pictures. Prints JSON.

Usage: foxglove_peer.py FILE
"""
import io
import json
import sys

import av
import numpy as np
from foxglove_schemas_protobuf import CompressedImage_pb2, CompressedVideo_pb2, FrameTransforms_pb2, Log_pb2, PoseInFrame_pb2
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from mcap.reader import make_reader
from mcap_ros2.decoder import DecoderFactory

OFFICIAL = {m.DESCRIPTOR.full_name: m for m in (CompressedImage_pb2.CompressedImage, CompressedVideo_pb2.CompressedVideo,
            FrameTransforms_pb2.FrameTransforms, Log_pb2.Log, PoseInFrame_pb2.PoseInFrame)}


def shape(d):
    """The fields of a message and of those in it."""
    return {f.number: (f.name, f.type, f.message_type.full_name if f.message_type else "", shape(f.message_type) if f.message_type else None,
                       sorted((v.name, v.number) for v in f.enum_type.values) if f.enum_type else None) for f in d.fields}


def message_class(schema):
    files = descriptor_pb2.FileDescriptorSet.FromString(schema.data)
    pool = descriptor_pool.DescriptorPool()
    for f in files.file:  # in order: a file that others need stands before them
        pool.Add(f)
    cls = message_factory.GetMessageClass(pool.FindMessageTypeByName(schema.name))
    if schema.name in OFFICIAL:
        assert shape(cls.DESCRIPTOR) == shape(OFFICIAL[schema.name].DESCRIPTOR), schema.name
        return OFFICIAL[schema.name]
    assert not schema.name.startswith("foxglove."), schema.name
    return cls


def numbers(m):
    return [m.x, m.y, m.z] + ([m.w] if hasattr(m, "w") else [])


class Camera:
    """Decodes one stream, a message at a time: each has to give one picture."""

    def __init__(self):
        self.codec = None

    def grey(self, m):
        if self.codec is None:
            self.codec = av.CodecContext.create({"h264": "h264", "av1": "libdav1d"}[m.format], "r")
            self.codec.thread_count = 1
            self.codec.flags |= av.codec.context.Flags.low_delay
        frames = self.codec.decode(av.Packet(m.data))
        assert len(frames) == 1, f"{len(frames)} pictures in a message"
        return float(frames[0].to_ndarray(format="gray").mean())


out = {"channels": {}, "profile": ""}
with open(sys.argv[1], "rb") as f:
    reader = make_reader(f)
    summary = reader.get_summary()
    out["messages"] = summary.statistics.message_count
    classes, cameras, last = {}, {}, 0
    ros = DecoderFactory()
    for schema, channel, message in reader.iter_messages(log_time_order=False):
        assert message.log_time >= last, "messages are not in order of time"
        last = message.log_time
        c = out["channels"].setdefault(channel.topic, {"schema": schema.name, "times": [], "values": [], "names": []})
        c["times"].append(message.log_time)
        if schema.encoding == "ros2msg":
            m = ros.decoder_for(channel.message_encoding, schema)(message.data)
            assert m.header.stamp.sec * 10**9 + m.header.stamp.nanosec == message.log_time
            c["names"], value = list(m.name), list(m.position)
            assert len(m.velocity) == len(m.effort) == 0
        else:
            assert (schema.encoding, channel.message_encoding) == ("protobuf", "protobuf")
            if schema.id not in classes:
                classes[schema.id] = message_class(schema)
            m = classes[schema.id].FromString(message.data)
            stamp = m.transforms[0].timestamp if schema.name.endswith("Transforms") else m.timestamp
            assert stamp.seconds * 10**9 + stamp.nanos == message.log_time
            if schema.name == "foxglove.Log":
                assert m.level == 2
                value = [m.name, m.message]
            elif schema.name == "foxglove.CompressedVideo":
                value = [m.frame_id, m.format, cameras.setdefault(channel.topic, Camera()).grey(m)]
            elif schema.name == "foxglove.CompressedImage":
                with av.open(io.BytesIO(m.data), format=m.format + "_pipe") as p:
                    value = [m.frame_id, m.format, float(next(p.decode(video=0)).to_ndarray(format="gray").mean())]
            elif schema.name == "foxglove.PoseInFrame":
                value = [m.frame_id, numbers(m.pose.position) + numbers(m.pose.orientation)]
            elif schema.name == "foxglove.FrameTransforms":
                value = [[t.parent_frame_id, t.child_frame_id, numbers(t.translation) + numbers(t.rotation)] for t in m.transforms]
            else:
                fields = [d.name for d in m.DESCRIPTOR.fields if d.name != "timestamp"]
                c["names"], value = fields, [getattr(m, n) for n in fields]
        c["values"].append(value)
print(json.dumps(out))
