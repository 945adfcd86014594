// Package cdr reads and writes the Common Data Representation in which ROS 2 logs its messages.
//
//	byte 0..3   0x00, kind, two option bytes
//	byte 4..    the fields in order; alignment is counted from byte 4
//
// kind 0x01 is little-endian XCDR1, the one that ROS 2 writes and the only one that Writer writes; Reader also reads
// big-endian and plain XCDR2, where 8-byte values align to 4. A string is its length with the closing NUL (uint32), the bytes
// and the NUL; a sequence is its count (uint32) and the elements; an empty sequence adds no padding of its own.
// Specification: OMG DDS-RTPS 2.5 section 10, OMG DDS-XTypes 1.3 section 7.4.
package cdr

import "errors"

// Kinds of encapsulation (the second byte) that Reader understands.
const (
	kindBig       = 0x00
	kindLittle    = 0x01
	kindBig2Old   = 0x06
	kindLittle2Od = 0x07
	kindBig2      = 0x10
	kindLittle2   = 0x11

	headBytes = 4
)

// Errors of Reader.Err; both come wrapped with the byte offset.
var (
	ErrShort   = errors.New("message ends too early")
	ErrInvalid = errors.New("invalid value")
)
