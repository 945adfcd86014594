// Package fci is the client's side of the Franka Control Interface: the bytes that a program exchanges with a Franka arm.
//
//	TCP 1337   requests and answers: connect, move, settings, error recovery; matched by a counter, answers may come in any order
//	UDP        the arm sends its state every millisecond; the program answers each with one command that carries the state's message id
//
// Everything is packed, little endian, IEEE 754. Joint vectors run from base to flange. Five versions of the interface are in the field:
//
//	version  arm and system          state bytes  command bytes  move bytes
//	5        Panda/FER 4.2.1+        2373         370            56
//	6        FR3 5.2.0+              2373         370            56
//	7        FR3 5.5.0+              2373         371            56
//	8, 9     FR3 5.7.0+, 5.7.2+      2373         371            56
//	10       FR3 5.9.0+              1377 (1233)  371            113
//
// Up to version 9 numbers of the state are float64, in version 10 they are float32 and, in all but the first releases, six
// accelerometer readings are added; so the layout follows from the version and the length of the datagram together.
//
// A Session is the TCP side. The datagrams have codecs that do not allocate (DecodeState, EncodeCommand) and no socket: the loop that must
// answer within a millisecond owns its own. Source: the vendor's published interface headers and documentation; this client is not the
// vendor's.
package fci
