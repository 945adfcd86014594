package fciserve

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Commands over TCP by their numbers in version 10; wireNumber translates others.
const (
	cmdConnect = iota
	cmdMove
	cmdStopMove
	cmdSetCollisionBehavior
	cmdSetJointImpedance
	cmdSetCartesianImpedance
	cmdSetGuidingMode
	cmdSetEEToK
	cmdSetNEToEE
	cmdSetLoad
	cmdAutomaticErrorRecovery
	cmdGetRobotModel
	cmdGetCartesianLimit // version 5
	cmdSetFilters        // version 5
	cmdLoadModelLibrary  // to version 9
	cmdUnknown
)

// commandTables give for each wire number of a version the command.
var commandTables = map[int][]int{
	5: {cmdConnect, cmdMove, cmdStopMove, cmdGetCartesianLimit, cmdSetCollisionBehavior, cmdSetJointImpedance, cmdSetCartesianImpedance,
		cmdSetGuidingMode, cmdSetEEToK, cmdSetNEToEE, cmdSetLoad, cmdSetFilters, cmdAutomaticErrorRecovery, cmdLoadModelLibrary},
	6: {cmdConnect, cmdMove, cmdStopMove, cmdSetCollisionBehavior, cmdSetJointImpedance, cmdSetCartesianImpedance, cmdSetGuidingMode,
		cmdSetEEToK, cmdSetNEToEE, cmdSetLoad, cmdAutomaticErrorRecovery, cmdLoadModelLibrary},
	8: {cmdConnect, cmdMove, cmdStopMove, cmdSetCollisionBehavior, cmdSetJointImpedance, cmdSetCartesianImpedance, cmdSetGuidingMode,
		cmdSetEEToK, cmdSetNEToEE, cmdSetLoad, cmdAutomaticErrorRecovery, cmdLoadModelLibrary, cmdGetRobotModel},
	10: {cmdConnect, cmdMove, cmdStopMove, cmdSetCollisionBehavior, cmdSetJointImpedance, cmdSetCartesianImpedance, cmdSetGuidingMode,
		cmdSetEEToK, cmdSetNEToEE, cmdSetLoad, cmdAutomaticErrorRecovery, cmdGetRobotModel},
}

func commandOf(version int, wire uint32) int {
	table := commandTables[map[int]int{5: 5, 6: 6, 7: 6, 8: 8, 9: 8, 10: 10}[version]]
	if int(wire) >= len(table) {
		return cmdUnknown
	}
	return table[wire]
}

// payloadBytes is the length of a request's payload.
func payloadBytes(version, cmd int) int {
	switch cmd {
	case cmdConnect:
		return 4
	case cmdMove:
		if version >= 10 {
			return 113
		}
		return 56
	case cmdSetCollisionBehavior:
		return 416
	case cmdSetJointImpedance:
		return 56
	case cmdSetCartesianImpedance:
		return 48
	case cmdSetGuidingMode:
		return 7
	case cmdSetEEToK, cmdSetNEToEE:
		return 128
	case cmdSetLoad:
		return 104
	case cmdGetCartesianLimit:
		return 4
	case cmdSetFilters:
		return 40
	case cmdLoadModelLibrary:
		return 2
	}
	return 0
}

// Offsets of a version 10 state, in bytes.
const (
	s10OTEE      = 8
	s10OTEEd     = 72
	s10FTEE      = 136
	s10EETK      = 200
	s10FTNE      = 264
	s10NETEE     = 328
	s10MEE       = 392
	s10MLoad     = 444
	s10Elbow     = 496
	s10ElbowD    = 504
	s10TauJ      = 512
	s10Q         = 596
	s10QD        = 624
	s10DQ        = 652
	s10DQD       = 680
	s10DDQD      = 708
	s10Contact   = 736
	s10Collision = 788
	s10TauExt    = 840
	s10ODDPO     = 940
	s10OTEEc     = 976
	s10Theta     = 1088
	s10DTheta    = 1116
	s10Modes     = 1288
	s10Errors    = 1290
	s10Reflex    = 1331
	s10RobotMode = 1372
	s10Rate      = 1373
	s10Bytes     = 1377
)

// Versions 5 to 9 have the same order without the accelerometers (144 bytes from 1144 on) and 8 bytes for each number.
const (
	s5Modes = 8 + (1144-8)*2
	s5Bytes = s5Modes + 2 + 41 + 41 + 1 + 8
)

// snapshot is what a state datagram shows.
type snapshot struct {
	id                       uint64
	q, dq, tau               [7]float64
	qd, dqd, ddqd            [7]float64
	tauExt                   [7]float64
	contact, collision       [7]float64
	oTee, oTeeD              [16]float64 // column-major
	fTee, fTne, neTee, eeTk  [16]float64
	mLoad                    float64
	motion, controller, mode byte
	errors, reflex           [41]bool
	rate                     float64
}

// encode writes the snapshot as version v lays it out, into dst.
func (s *snapshot) encode(v int, dst []byte) []byte {
	wide := v < 10
	n := s10Bytes
	if wide {
		n = s5Bytes
	}
	dst = dst[:n]
	clear(dst)
	binary.LittleEndian.PutUint64(dst, s.id)
	put := func(at int, vs ...float64) {
		for i, x := range vs {
			if wide {
				binary.LittleEndian.PutUint64(dst[8+2*(at-8)+8*i:], math.Float64bits(x))
			} else {
				binary.LittleEndian.PutUint32(dst[at+4*i:], math.Float32bits(float32(x)))
			}
		}
	}
	put(s10OTEE, s.oTee[:]...)
	put(s10OTEEd, s.oTeeD[:]...)
	put(s10OTEEc, s.oTeeD[:]...)
	put(s10FTEE, s.fTee[:]...)
	put(s10EETK, s.eeTk[:]...)
	put(s10FTNE, s.fTne[:]...)
	put(s10NETEE, s.neTee[:]...)
	put(s10MLoad, s.mLoad)
	put(s10Elbow, s.q[2], -1)
	put(s10ElbowD, s.qd[2], -1)
	put(s10TauJ, s.tau[:]...)
	put(s10Q, s.q[:]...)
	put(s10QD, s.qd[:]...)
	put(s10DQ, s.dq[:]...)
	put(s10DQD, s.dqd[:]...)
	put(s10DDQD, s.ddqd[:]...)
	put(s10Contact, s.contact[:]...)
	put(s10Collision, s.collision[:]...)
	put(s10TauExt, s.tauExt[:]...)
	put(s10ODDPO, 0, 0, -9.81)
	put(s10Theta, s.q[:]...)
	put(s10DTheta, s.dq[:]...)
	at := s10Modes
	if wide {
		at = s5Modes
	}
	dst[at], dst[at+1] = s.motion, s.controller
	for i := range s.errors {
		if s.errors[i] {
			dst[at+2+i] = 1
		}
		if s.reflex[i] {
			dst[at+2+41+i] = 1
		}
	}
	dst[at+84] = s.mode
	if wide {
		binary.LittleEndian.PutUint64(dst[at+85:], math.Float64bits(s.rate))
	} else {
		binary.LittleEndian.PutUint32(dst[at+85:], math.Float32bits(float32(s.rate)))
	}
	return dst
}

// command is a client's datagram.
type command struct {
	id       uint64
	qc, dqc  [7]float64
	finished bool
}

func parseCommand(version int, b []byte) (c command, err error) {
	want := 371
	if version < 7 {
		want = 370
	}
	if len(b) != want {
		return c, fmt.Errorf("command datagram of %d bytes, version %d has %d", len(b), version, want)
	}
	c.id = binary.LittleEndian.Uint64(b)
	for j := range c.qc {
		c.qc[j] = math.Float64frombits(binary.LittleEndian.Uint64(b[8+8*j:]))
		c.dqc[j] = math.Float64frombits(binary.LittleEndian.Uint64(b[64+8*j:]))
	}
	if b[312] > 1 || b[313] > 1 {
		return c, fmt.Errorf("command datagram: flags %d and %d, want 0 or 1", b[312], b[313])
	}
	c.finished = b[313] == 1
	return c, nil
}

// message frames an answer.
func message(wire, id uint32, payload ...byte) []byte {
	b := binary.LittleEndian.AppendUint32(nil, wire)
	b = binary.LittleEndian.AppendUint32(b, id)
	b = binary.LittleEndian.AppendUint32(b, uint32(12+len(payload)))
	return append(b, payload...)
}
