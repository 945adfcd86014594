"""Drives the xArm stub with UFACTORY's xArm-Python-SDK and prints what it saw as one JSON object on the last line."""
import json
import sys
import time

from xarm.wrapper import XArmAPI

arm = XArmAPI(sys.argv[1], is_radian=True, report_type="real", check_robot_sn=False, forbid_uds=True)
out = {"Connected": arm.connected, "Version": arm.version}
arm.clean_error()
out["Enable"] = arm.motion_enable(True)
out["Mode"] = arm.set_mode(1)
out["State"] = arm.set_state(0)
time.sleep(0.3)
code, q = arm.get_servo_angle(is_radian=True)
out["Q"] = q
code, pose = arm.get_position(is_radian=True)
out["Pose"] = pose
codes = []
for i in range(60):
    target = list(q)
    target[0] += 0.002 * (i + 1)
    codes.append(arm.set_servo_angle_j(target, is_radian=True))
    time.sleep(0.004)
out["Codes"] = sorted(set(codes))
time.sleep(0.3)
out["Moved"] = arm.get_servo_angle(is_radian=True)[1][0] - q[0]
out["Reported"] = arm.angles[0] - q[0]
# A jump: the controller stops with its error.
target = list(q)
target[0] += 0.12
target[6] += 0.5
out["Jump"] = arm.set_servo_angle_j(target, is_radian=True)
time.sleep(0.2)
out["Errors"] = arm.get_err_warn_code()[1]
out["AfterClean"] = [arm.clean_error(), arm.get_err_warn_code()[1][0]]
arm.disconnect()
print(json.dumps(out))
