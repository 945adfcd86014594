"""A minimal policy server: openpi-client's own msgpack code and websockets, as openpi's server is made, with a policy that answers at once."""
import asyncio

import numpy as np
import websockets
from openpi_client import msgpack_numpy

CHUNK = np.zeros((16, 16), np.float32)
CHUNK[:, 6] = CHUNK[:, 13] = 1


async def handle(ws):
    packer = msgpack_numpy.Packer()
    await ws.send(packer.pack({"action_dim": 16, "rate_hz": 30.0, "pose_reference": "body", "pose_timing": "next"}))
    async for frame in ws:
        obs = msgpack_numpy.unpackb(frame)
        assert obs["observation.image.left"].shape == (480, 640, 3)
        await ws.send(packer.pack({"actions": CHUNK, "server_timing": {"infer_ms": 0.0}}))


async def main():
    async with websockets.serve(handle, "127.0.0.1", 0, compression=None, max_size=None) as server:
        print(server.sockets[0].getsockname()[1], flush=True)
        await asyncio.get_running_loop().create_future()


asyncio.run(main())
