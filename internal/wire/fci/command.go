package fci

import (
	"encoding/binary"
	"math"
)

// MaxDatagram is enough for every state datagram of the supported versions.
const MaxDatagram = 2700

// EncodeJointPosition writes the command of a joint position motion into dst, which has to have v.CommandBytes bytes, and returns it. id is
// the message id of the state that is answered, q the positions (rad); finished says that the motion ends with them.
//
//	id u64 | q_c 7 | dq_c 7 | O_T_EE_c 16 | O_dP_EE_c 6 | elbow_c 2 (float64) | valid_elbow u8 | motion finished u8 | tau_J_d 7 | (v7+) torque finished u8
func EncodeJointPosition(v Version, dst []byte, id uint64, q *Joints, finished bool) []byte {
	dst = dst[:v.CommandBytes()]
	clear(dst)
	binary.LittleEndian.PutUint64(dst, id)
	for j, p := range q {
		binary.LittleEndian.PutUint64(dst[8+8*j:], math.Float64bits(p))
	}
	if finished {
		dst[8+8*(7+7+16+6+2)+1] = 1
	}
	return dst
}
