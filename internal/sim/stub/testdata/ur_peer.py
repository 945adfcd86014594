"""Reads the simulated controller with ur_rtde and moves its speed slider; prints what it saw as one JSON object."""
import json
import sys
import time

from rtde_io import RTDEIOInterface
from rtde_receive import RTDEReceiveInterface

ip = sys.argv[1]
r = RTDEReceiveInterface(ip)
out = {"Q": r.getActualQ(), "Pose": r.getActualTCPPose(), "RobotMode": r.getRobotMode(), "SafetyMode": r.getSafetyMode(),
       "Runtime": r.getRuntimeState(), "T0": r.getTimestamp()}
io = RTDEIOInterface(ip)
assert io.setSpeedSlider(0.5)
for _ in range(400):
    if r.getTargetSpeedFraction() == 0.5:
        break
    time.sleep(0.01)
out["Slider"] = r.getTargetSpeedFraction()
out["T1"] = r.getTimestamp()
out["Connected"] = r.isConnected()
# Another client that wants the slider: the controller says IN_USE.
try:
    RTDEIOInterface(ip)
    out["Second"] = "accepted"
except Exception as e:  # noqa: BLE001
    out["Second"] = str(e)
print(json.dumps(out))
sys.stdout.flush()
import os  # noqa: E402
os._exit(0)
