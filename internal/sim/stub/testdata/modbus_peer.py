"""Drives the Robotiq stub with pymodbus, over a serial line or TCP, and prints what it saw as one JSON object."""
import json
import sys
import time

from pymodbus.client import ModbusSerialClient, ModbusTcpClient

kind, where = sys.argv[1], sys.argv[2]
if kind == "rtu":
    client = ModbusSerialClient(where, baudrate=115200, timeout=2)
else:
    host, port = where.split(":")
    client = ModbusTcpClient(host, port=int(port), timeout=2)
assert client.connect()
UNIT = {"device_id": 9}


def status():
    r = client.read_holding_registers(0x07D0, count=3, **UNIT)
    assert not r.isError(), r
    return r.registers


out = {"Before": status()[0]}
assert not client.write_registers(0x03E8, [0x0100, 0, 0], **UNIT).isError()
while status()[0] >> 12 & 3 != 3:
    time.sleep(0.02)
out["Activated"] = status()[0]
assert not client.write_registers(0x03E8, [0x0900, 200, 0xFFFF], **UNIT).isError()
time.sleep(1)
out["AtPosition"], out["Echo"], last = status()
out["Count"] = last >> 8
out["Input"] = client.read_input_registers(0x07D2, count=1, **UNIT).registers[0] >> 8
wrong = client.read_holding_registers(0x1000, count=1, **UNIT)
out["Exception"] = wrong.exception_code
client.close()
print(json.dumps(out))
