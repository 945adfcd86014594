// Package modbus speaks the two Modbus functions that grippers use, over a serial line (RTU), over TCP, and RTU frames through a TCP socket (as
// tool connectors of robots forward them).
//
//	PDU := function u8 | data                                       big endian
//	RTU := unit u8 | PDU | crc u16 little endian                    crc: polynomial A001 reflected, start FFFF
//	TCP := transaction u16 | 0 u16 | length u16 | unit u8 | PDU     length counts unit and PDU
//
//	03, 04 read registers:   address u16, count u16      -> bytes u8, values u16...
//	10 write registers:      address, count, bytes u8, values -> address, count
//	a refusal is function | 80 and one byte, the exception
//
// Specification: Modbus Application Protocol V1.1b3, sections 6.3, 6.4, 6.12 and 7; Modbus over serial line V1.02, section 2.5.
package modbus

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Functions that this package knows.
const (
	ReadHolding   = 0x03
	ReadInput     = 0x04
	WriteMultiple = 0x10
)

// maxRegisters is the most registers of one request (6.3: 125, 6.12: 123).
const maxRegisters = 123

// Exception is a device's refusal. Source: section 7.
type Exception byte

// Error names the exception.
func (e Exception) Error() string {
	names := map[Exception]string{1: "illegal function", 2: "illegal data address", 3: "illegal data value", 4: "device failure", 6: "device busy"}
	if n, ok := names[e]; ok {
		return n
	}
	return fmt.Sprintf("exception %d", byte(e))
}

// ErrFrame marks bytes that are no valid answer.
var ErrFrame = errors.New("no valid Modbus frame")

// readPDU asks for registers.
func readPDU(function byte, addr, count uint16) []byte {
	b := binary.BigEndian.AppendUint16([]byte{function}, addr)
	return binary.BigEndian.AppendUint16(b, count)
}

// writePDU sets registers.
func writePDU(addr uint16, values []uint16) []byte {
	b := binary.BigEndian.AppendUint16([]byte{WriteMultiple}, addr)
	b = binary.BigEndian.AppendUint16(b, uint16(len(values)))
	b = append(b, byte(2*len(values)))
	for _, v := range values {
		b = binary.BigEndian.AppendUint16(b, v)
	}
	return b
}

// parseRead takes the values out of an answer to readPDU.
func parseRead(pdu []byte, function byte, count uint16) ([]uint16, error) {
	if err := checkAnswer(pdu, function); err != nil {
		return nil, err
	}
	if len(pdu) != 2+2*int(count) || int(pdu[1]) != 2*int(count) {
		return nil, fmt.Errorf("%w: answer of %d bytes to a request for %d registers", ErrFrame, len(pdu), count)
	}
	v := make([]uint16, count)
	for i := range v {
		v[i] = binary.BigEndian.Uint16(pdu[2+2*i:])
	}
	return v, nil
}

func checkAnswer(pdu []byte, function byte) error {
	switch {
	case len(pdu) < 2:
		return fmt.Errorf("%w: %d bytes", ErrFrame, len(pdu))
	case pdu[0] == function|0x80:
		return Exception(pdu[1])
	case pdu[0] != function:
		return fmt.Errorf("%w: answer to function %d, asked was %d", ErrFrame, pdu[0], function)
	}
	return nil
}

// answerLength is how long the PDU that begins with these bytes is, 0 when more are needed, -1 when none is that long.
func answerLength(pdu []byte) int {
	if len(pdu) < 2 {
		return 0
	}
	switch {
	case pdu[0]&0x80 != 0:
		return 2
	case pdu[0] == WriteMultiple:
		return 5
	case pdu[0] == ReadHolding || pdu[0] == ReadInput:
		return 2 + int(pdu[1])
	}
	return -1
}

// CRC is the checksum of RTU frames. Source: Modbus over serial line, 6.2.2.
func CRC(b []byte) uint16 {
	crc := uint16(0xFFFF)
	for _, c := range b {
		crc ^= uint16(c)
		for k := 0; k < 8; k++ {
			if crc&1 != 0 {
				crc = crc>>1 ^ 0xA001
			} else {
				crc >>= 1
			}
		}
	}
	return crc
}

// AppendRTU frames a PDU for a serial line.
func AppendRTU(b []byte, unit byte, pdu []byte) []byte {
	start := len(b)
	b = append(append(b, unit), pdu...)
	return binary.LittleEndian.AppendUint16(b, CRC(b[start:]))
}

// AppendTCP frames a PDU for TCP.
func AppendTCP(b []byte, transaction uint16, unit byte, pdu []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, transaction)
	b = append(b, 0, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(1+len(pdu)))
	return append(append(b, unit), pdu...)
}
