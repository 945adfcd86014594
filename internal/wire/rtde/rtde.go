// Package rtde speaks Universal Robots' Real-Time Data Exchange: the state of a controller at up to 500 Hz over TCP port 30004.
//
//	package := size u16 | type u8 | payload                      big endian; size counts itself and the type
//	V request protocol version: u16                    -> u8 ok
//	v controller version                               -> major, minor, bugfix, build u32
//	O set up outputs: frequency f64, names with commas -> recipe u8, types with commas
//	I set up inputs: names with commas                 -> recipe u8, types with commas
//	S start, P pause                                   -> u8 ok
//	U data: recipe u8, values                          both ways
//	M message: length u8, text, length u8, source, level u8
//
// The controller closes a connection that does not take its packages. Specification: Universal Robots, "Real-Time Data Exchange (RTDE)
// guide", protocol version 2.
package rtde

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strings"
)

// Kind is the type of a package.
type Kind byte

// The package types of protocol version 2.
const (
	RequestVersion    Kind = 'V'
	ControllerVersion Kind = 'v'
	TextMessage       Kind = 'M'
	Data              Kind = 'U'
	SetupOutputs      Kind = 'O'
	SetupInputs       Kind = 'I'
	Start             Kind = 'S'
	Pause             Kind = 'P'
)

// ProtocolVersion is the one this package speaks.
const ProtocolVersion = 2

// maxSize bounds a package; the field has 16 bits, real ones stay below 2.5 kB.
const maxSize = math.MaxUint16

// Type is the type of one variable.
type Type string

// The types that exist, with their bytes.
var sizes = map[Type]int{"BOOL": 1, "UINT8": 1, "UINT32": 4, "INT32": 4, "UINT64": 8, "DOUBLE": 8, "VECTOR3D": 24, "VECTOR6D": 48,
	"VECTOR6INT32": 24, "VECTOR6UINT32": 24}

// Size is how many bytes a value takes, 0 for a word that is no type: IN_USE, NOT_FOUND.
func (t Type) Size() int { return sizes[t] }

// Append adds one package to b.
func Append(b []byte, k Kind, payload []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(3+len(payload)))
	return append(append(b, byte(k)), payload...)
}

// ReadPackage reads one package into buf, which grows as needed; the payload is valid until the next call.
func ReadPackage(r io.Reader, buf *[]byte) (Kind, []byte, error) {
	var head [3]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	size := int(binary.BigEndian.Uint16(head[:]))
	if size < 3 {
		return 0, nil, fmt.Errorf("read RTDE package: size %d; the peer does not speak RTDE", size)
	}
	if cap(*buf) < size {
		*buf = make([]byte, size, maxSize)
	}
	payload := (*buf)[:size-3]
	if _, err := io.ReadFull(r, payload); err != nil {
		return 0, nil, fmt.Errorf("read RTDE package of %d bytes: %w", size, err)
	}
	return Kind(head[2]), payload, nil
}

// Recipe is an agreed list of variables.
type Recipe struct {
	ID     byte
	Names  []string
	Types  []Type
	offset []int // of each value in a data package's payload
	size   int
}

// NewRecipe pairs names with the types the controller stated. The error names the variables that it does not have or that another client has
// taken.
func NewRecipe(id byte, names []string, types string) (Recipe, error) {
	r := Recipe{ID: id, Names: names, size: 1}
	words := strings.Split(types, ",")
	if len(words) != len(names) {
		return r, fmt.Errorf("controller states %d types for %d variables", len(words), len(names))
	}
	var faults []string
	for i, w := range words {
		t := Type(strings.TrimSpace(w))
		if t.Size() == 0 {
			faults = append(faults, fmt.Sprintf("%s: %s", names[i], t))
		}
		r.Types = append(r.Types, t)
		r.offset = append(r.offset, r.size)
		r.size += t.Size()
	}
	if len(faults) > 0 {
		return r, fmt.Errorf("controller refuses variables (%s)", strings.Join(faults, ", "))
	}
	return r, nil
}

// Index is the place of a variable, -1 when the recipe lacks it.
func (r *Recipe) Index(name string) int {
	for i, n := range r.Names {
		if n == name {
			return i
		}
	}
	return -1
}

// Check refuses a data payload that is not of this recipe.
func (r *Recipe) Check(payload []byte) error {
	if len(payload) != r.size || payload[0] != r.ID {
		return fmt.Errorf("RTDE data package of %d bytes is not of recipe %d, which has %d", len(payload), r.ID, r.size)
	}
	return nil
}

// Float reads a DOUBLE.
func (r *Recipe) Float(payload []byte, i int) float64 {
	return math.Float64frombits(binary.BigEndian.Uint64(payload[r.offset[i]:]))
}

// Vec6 reads a VECTOR6D.
func (r *Recipe) Vec6(payload []byte, i int) (v [6]float64) {
	for k := range v {
		v[k] = math.Float64frombits(binary.BigEndian.Uint64(payload[r.offset[i]+8*k:]))
	}
	return v
}

// Int reads a BOOL, UINT8, UINT32, INT32 or UINT64.
func (r *Recipe) Int(payload []byte, i int) int64 {
	b := payload[r.offset[i]:]
	switch r.Types[i] {
	case "UINT32":
		return int64(binary.BigEndian.Uint32(b))
	case "INT32":
		return int64(int32(binary.BigEndian.Uint32(b)))
	case "UINT64":
		return int64(binary.BigEndian.Uint64(b))
	}
	return int64(b[0])
}

// AppendValue adds one value of type t: numbers as float64 or integers, vectors as slices of float64.
func AppendValue(b []byte, t Type, v []float64) []byte {
	n := map[Type]int{"VECTOR3D": 3, "VECTOR6D": 6, "VECTOR6INT32": 6, "VECTOR6UINT32": 6}[t]
	if n == 0 {
		n = 1
	}
	for k := 0; k < n; k++ {
		x := 0.0
		if k < len(v) {
			x = v[k]
		}
		switch t {
		case "BOOL", "UINT8":
			b = append(b, byte(x))
		case "UINT32", "VECTOR6UINT32":
			b = binary.BigEndian.AppendUint32(b, uint32(x))
		case "INT32", "VECTOR6INT32":
			b = binary.BigEndian.AppendUint32(b, uint32(int32(x)))
		case "UINT64":
			b = binary.BigEndian.AppendUint64(b, uint64(x))
		default:
			b = binary.BigEndian.AppendUint64(b, math.Float64bits(x))
		}
	}
	return b
}
