"""Drives the servo stub with ROBOTIS' dynamixel-sdk and prints what it saw as one JSON object."""
import json
import sys
import time

from dynamixel_sdk import COMM_SUCCESS, GroupSyncRead, GroupSyncWrite, PacketHandler, PortHandler

ID = 1
port = PortHandler(sys.argv[1])
assert port.openPort() and port.setBaudRate(1000000)
servo = PacketHandler(2.0)


def patient(call, *args):
    """A busy machine may answer late; the SDK's own time-out is a few milliseconds."""
    for _ in range(200):
        answer = call(port, *args)
        result = answer[-2]
        if result == COMM_SUCCESS:
            return answer
        time.sleep(0.005)
    raise SystemExit("no answer to %s%s: %s" % (call.__name__, args, servo.getTxRxResult(result)))


def signed(v):
    return v - (1 << 32) if v >= 1 << 31 else v


out = {"Model": patient(servo.ping, ID)[0]}
patient(servo.write1ByteTxRx, ID, 11, 5)
patient(servo.write1ByteTxRx, ID, 64, 1)
out["ModeLocked"] = patient(servo.write1ByteTxRx, ID, 11, 3)[-1]
patient(servo.write1ByteTxRx, ID, 64, 0)
patient(servo.write2ByteTxRx, ID, 38, 500)
patient(servo.write1ByteTxRx, ID, 64, 1)
out["LimitRefused"] = patient(servo.write2ByteTxRx, ID, 102, 501)[-1]
assert patient(servo.write2ByteTxRx, ID, 102, 200)[-1] == 0

write = GroupSyncWrite(port, servo, 116, 4)
read = GroupSyncRead(port, servo, 132, 4)
assert read.addParam(ID)


def go(position):
    write.clearParam()
    assert write.addParam(ID, list(position.to_bytes(4, "little", signed=True)))
    assert write.txPacket() == COMM_SUCCESS
    for _ in range(400):
        if read.txRxPacket() == COMM_SUCCESS:
            assert read.isAvailable(ID, 132, 4)
            at = signed(read.getData(ID, 132, 4))
            if abs(at - position) <= 1:
                return at
        time.sleep(0.005)
    raise SystemExit("did not reach %d" % position)


out["Moved"] = go(1600)
out["Sync"] = bool(read.isAvailable(ID, 132, 4))
out["Negative"] = go(-300)  # FF FF in the data: stuffing
patient(servo.write1ByteTxRx, ID, 98, 5)
time.sleep(0.4)
out["Tripped"] = patient(servo.read1ByteTxRx, ID, 98)[0]
out["AfterTrip"] = patient(servo.write4ByteTxRx, ID, 116, 100)[-1]
out["Cleared"] = patient(servo.write1ByteTxRx, ID, 98, 0)[-1]
out["Final"] = signed(patient(servo.read4ByteTxRx, ID, 132)[0])
port.closePort()
print(json.dumps(out))
