// Package npmsgpack reads and writes the msgpack dialect of openpi: maps, lists, text, numbers, and numpy arrays as maps with binary keys.
//
//	array  := map { bin "__ndarray__": true, bin "data": bin, bin "dtype": str, bin "shape": [int...] }     data in C order
//	scalar := map { bin "__npgeneric__": true, bin "data": number, bin "dtype": str }
//
// dtype is numpy's type text, "<f4" or "|u1". Object, void and complex types are refused, as are unknown dtypes, arrays whose data do not
// match their shape, and messages beyond Limits. Nothing in the format can run code; that is its point over pickle.
//
// Specification: openpi-client, msgpack_numpy.py.
package npmsgpack

import "errors"

// Limits bounds what Decode accepts; the zero value means Defaults.
type Limits struct {
	Bytes int // of a whole message
	Depth int // of nested maps and lists
	Items int // entries of one map or list
	Dims  int // of one array
}

// Defaults are roomy for two 640 x 480 images (1.8 MB) and tight against nonsense.
var Defaults = Limits{Bytes: 64 << 20, Depth: 16, Items: 1 << 16, Dims: 8}

var (
	// ErrTooLarge marks a message or a part of it beyond Limits.
	ErrTooLarge = errors.New("beyond the size limit")
	// ErrType marks a dtype that is refused: object, void, complex or unknown.
	ErrType = errors.New("array type is not accepted")
	// ErrMalformed marks bytes that are not this dialect.
	ErrMalformed = errors.New("malformed message")
)
