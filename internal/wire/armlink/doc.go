// Package armlink is the protocol between the executor (client) and the process that owns the arms (server): a real-time arm process, or
// the simulated cell, which speaks the same bytes.
//
// The client sends trajectory segments, never 1 kHz points: the server interpolates, limits and, when segments stop, ramps down by itself
// (package armrt). Times are nanoseconds of the server's clock, which both sides use for everything.
//
//	frame  := length u32 little endian | kind u8 | body          length counts kind and body
//	body   := one msgpack map, keys as in the structs of this package; a joint vector is an array of 7 floats
//
//	client                                server
//	  |  <------------------------- Hello   once, first
//	  |  <------------------------- State   every Hello.PeriodNS of the server's clock
//	  |  Segment -->                        any time; replaces the plan from its first knot on
//	  |  Stop --> ... Recover -->           a stopped arm moves again only after Recover
//	  |  Advance -->                        lock-step only: permission to let time pass up to Advance.UntilNS
//	  |  <------------------------- State   ... the State with TNS >= UntilNS ends the grant
//	  |  SetScene --> <------------ Scene   simulated cell only
//	  |  QueryTruth --> <---------- Truth   simulated cell only
//	  |  <------------------------- Fault   a message was refused; the connection stays open
//
// Lock-step: between grants the server's clock stands still, so a client that is slow loses nothing and equal seeds give equal runs.
// Camera frames travel beside this link over RTSP with their capture time in the same clock; a client that needs the frame captured at t
// waits for it after the grant that contains t.
package armlink

// Version is the protocol version sent in Hello. History: 1 first.
const Version = 1

// MaxFrame is the largest accepted frame in bytes (kind and body).
const MaxFrame = 1 << 20
