package modbus

import (
	"encoding/binary"
	"io"
)

// Device answers requests: the server side, for simulated devices. Read and Write return an exception, 0 for none.
type Device interface {
	Read(function byte, addr, count uint16) ([]uint16, Exception)
	Write(addr uint16, values []uint16) Exception
}

// ServeRTU answers requests to a unit on a serial line until the line closes.
func ServeRTU(line io.ReadWriter, unit byte, d Device) {
	var in []byte
	buf := make([]byte, 512)
	for {
		n, err := line.Read(buf)
		if err != nil {
			return
		}
		in = append(in, buf[:n]...)
		for {
			length := requestLength(in)
			if length < 0 || len(in) > 512 {
				in = in[:0] // noise: a real device waits for the next pause
				break
			}
			if length == 0 || len(in) < length {
				break
			}
			frame := in[:length]
			if frame[0] == unit && binary.LittleEndian.Uint16(frame[length-2:]) == CRC(frame[:length-2]) {
				if pdu := Answer(d, frame[1:length-2]); pdu != nil {
					if _, err := line.Write(AppendRTU(nil, unit, pdu)); err != nil {
						return
					}
				}
			}
			in = in[:copy(in, in[length:])]
		}
	}
}

// requestLength is the length of the RTU request that begins here, 0 when more bytes are needed, -1 for an unknown function.
func requestLength(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case ReadHolding, ReadInput:
		return 8
	case WriteMultiple:
		if len(b) < 7 {
			return 0
		}
		return 9 + int(b[6])
	}
	return -1
}

// ServeTCP answers requests on one connection until it closes.
func ServeTCP(conn io.ReadWriter, unit byte, d Device) {
	head := make([]byte, 7)
	for {
		if _, err := io.ReadFull(conn, head); err != nil {
			return
		}
		length := int(binary.BigEndian.Uint16(head[4:]))
		if length < 2 || length > 254 {
			return
		}
		pdu := make([]byte, length-1)
		if _, err := io.ReadFull(conn, pdu); err != nil {
			return
		}
		if head[6] != unit {
			continue
		}
		if answer := Answer(d, pdu); answer != nil {
			if _, err := conn.Write(AppendTCP(nil, binary.BigEndian.Uint16(head), unit, answer)); err != nil {
				return
			}
		}
	}
}

// Answer carries out one request; nil for bytes that are none.
func Answer(d Device, pdu []byte) []byte {
	if len(pdu) < 1 {
		return nil
	}
	refuse := func(e Exception) []byte { return []byte{pdu[0] | 0x80, byte(e)} }
	switch pdu[0] {
	case ReadHolding, ReadInput:
		if len(pdu) != 5 {
			return refuse(3)
		}
		count := binary.BigEndian.Uint16(pdu[3:])
		if count < 1 || count > 125 {
			return refuse(3)
		}
		values, e := d.Read(pdu[0], binary.BigEndian.Uint16(pdu[1:]), count)
		if e != 0 {
			return refuse(e)
		}
		out := []byte{pdu[0], byte(2 * len(values))}
		for _, v := range values {
			out = binary.BigEndian.AppendUint16(out, v)
		}
		return out
	case WriteMultiple:
		if len(pdu) < 6 || len(pdu) != 6+int(pdu[5]) || int(pdu[5]) != 2*int(binary.BigEndian.Uint16(pdu[3:])) {
			return refuse(3)
		}
		var values []uint16
		for i := 6; i < len(pdu); i += 2 {
			values = append(values, binary.BigEndian.Uint16(pdu[i:]))
		}
		if e := d.Write(binary.BigEndian.Uint16(pdu[1:]), values); e != 0 {
			return refuse(e)
		}
		return append([]byte(nil), pdu[:5]...)
	}
	return refuse(1)
}
