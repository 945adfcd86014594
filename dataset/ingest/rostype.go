package ingest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pinch-robotics/pinch/internal/wire/cdr"
)

// A rig map may take numbers out of messages of any type: the log's own schema says how to read them.
//
// Specification: ROS 2 interface definitions (.msg) as MCAP's "ros2msg" encoding holds them: the definition, then, each after a line of
// '=' and a line "MSG: package/Type", the definitions it uses; CDR encoding of the messages.

// rosTypes are the definitions of one schema by "package/Type".
type rosTypes map[string][]rosField

// rosField is one field of a message.
type rosField struct {
	name, kind string // kind: a primitive of ROS, or package/Type
	list       bool
	fixed      int // length of an array of fixed size; 0: the message tells
}

// maxNesting ends definitions that contain themselves.
const maxNesting = 16

// parseRosTypes reads a schema; root is the type's name, such as geometry_msgs/msg/PoseStamped.
func parseRosTypes(root, text string) (rosTypes, error) {
	types := rosTypes{}
	name := shortType(root)
	var body []string
	finish := func() (err error) {
		types[name], err = parseRosFields(name, body)
		return err
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "======"):
			if err := finish(); err != nil {
				return nil, err
			}
			name, body = "", nil
		case strings.HasPrefix(line, "MSG:") && name == "":
			name = shortType(strings.TrimSpace(strings.TrimPrefix(line, "MSG:")))
		default:
			body = append(body, line)
		}
	}
	return types, finish()
}

// shortType drops the "msg" of package/msg/Type.
func shortType(s string) string { return strings.Replace(s, "/msg/", "/", 1) }

func parseRosFields(owner string, lines []string) (out []rosField, err error) {
	for _, line := range lines {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) < 2 || strings.Contains(words[1], "=") || (len(words) > 2 && strings.HasPrefix(words[2], "=")) {
			continue // empty, a comment, or a constant
		}
		f := rosField{name: words[1], kind: words[0]}
		if base, rest, ok := strings.Cut(f.kind, "["); ok {
			f.kind, f.list = base, true
			if size := strings.TrimSuffix(rest, "]"); size != "" && !strings.HasPrefix(size, "<=") {
				if f.fixed, err = strconv.Atoi(size); err != nil || f.fixed < 1 {
					return nil, fmt.Errorf("message type %s: field %s has length %q", owner, f.name, size)
				}
			}
		}
		f.kind, _, _ = strings.Cut(f.kind, "<=") // bounded strings
		if !slices.Contains(rosPrimitives, f.kind) {
			f.kind = fullType(owner, f.kind)
		}
		out = append(out, f)
	}
	return out, nil
}

var rosPrimitives = []string{"bool", "byte", "char", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64", "string"}

// fullType resolves the name of a type used by owner.
func fullType(owner, kind string) string {
	switch {
	case kind == "time" || kind == "duration":
		return "builtin_interfaces/" + strings.ToUpper(kind[:1]) + kind[1:]
	case kind == "Header":
		return "std_msgs/Header"
	case strings.Contains(kind, "/"):
		return shortType(kind)
	}
	pack, _, _ := strings.Cut(owner, "/")
	return pack + "/" + kind
}

// rosValue is a decoded field: number, text, or parts, in the order of the definition or of the list.
type rosValue struct {
	number float64
	text   string
	parts  []rosPart
	leaf   bool
}

type rosPart struct {
	name string // of a field; empty in a list
	rosValue
}

// decode reads one message of a type.
func (t rosTypes) decode(root string, data []byte) (rosValue, error) {
	r := cdr.NewReader(data)
	v, err := t.message(r, shortType(root), 0)
	if err == nil {
		err = r.Err()
	}
	return v, err
}

func (t rosTypes) message(r *cdr.Reader, kind string, depth int) (v rosValue, err error) {
	fields, ok := t[kind]
	if !ok {
		return v, fmt.Errorf("the log's schema does not define %s", kind)
	}
	if depth > maxNesting {
		return v, fmt.Errorf("message type %s contains itself", kind)
	}
	if len(fields) == 0 {
		_ = r.Uint8() // an empty structure is one byte
	}
	for _, f := range fields {
		x, err := t.field(r, f, depth)
		if err != nil {
			return v, err
		}
		v.parts = append(v.parts, rosPart{f.name, x})
	}
	return v, r.Err()
}

func (t rosTypes) field(r *cdr.Reader, f rosField, depth int) (v rosValue, err error) {
	if !f.list {
		return t.value(r, f.kind, depth)
	}
	n := f.fixed
	if n == 0 {
		if f.kind == "uint8" || f.kind == "byte" || f.kind == "char" { // pictures and the like: no row holds them
			r.Octets()
			return v, r.Err()
		}
		n = r.Count(1)
	}
	for range n {
		x, err := t.value(r, f.kind, depth)
		if err != nil {
			return v, err
		}
		v.parts = append(v.parts, rosPart{"", x})
	}
	return v, r.Err()
}

func (t rosTypes) value(r *cdr.Reader, kind string, depth int) (v rosValue, err error) {
	v.leaf = true
	switch kind {
	case "bool", "byte", "char", "uint8":
		v.number = float64(r.Uint8())
	case "int8":
		v.number = float64(int8(r.Uint8()))
	case "int16":
		v.number = float64(int16(r.Uint16()))
	case "uint16":
		v.number = float64(r.Uint16())
	case "int32":
		v.number = float64(r.Int32())
	case "uint32":
		v.number = float64(r.Uint32())
	case "int64":
		v.number = float64(int64(r.Uint64()))
	case "uint64":
		v.number = float64(r.Uint64())
	case "float32":
		v.number = float64(r.Float32())
	case "float64":
		v.number = r.Float64()
	case "string":
		v.text, v.leaf = r.String(), false
	default:
		return t.message(r, kind, depth+1)
	}
	return v, r.Err()
}

// at follows a path such as pose.position.x, data[3] or pose.
func (v rosValue) at(path string) (rosValue, error) {
	for _, step := range strings.Split(path, ".") {
		name, rest, indexed := strings.Cut(step, "[")
		i := slices.IndexFunc(v.parts, func(p rosPart) bool { return p.name == name })
		if i < 0 {
			var there []string
			for _, p := range v.parts {
				there = append(there, p.name)
			}
			return v, fmt.Errorf("no field %q; the message has %s there", name, strings.Join(there, ", "))
		}
		v = v.parts[i].rosValue
		if !indexed {
			continue
		}
		n, err := strconv.Atoi(strings.TrimSuffix(rest, "]"))
		if err != nil || n < 0 {
			return v, fmt.Errorf("%q is no index", step)
		}
		if n >= len(v.parts) {
			return v, fmt.Errorf("%s has %d elements", name, len(v.parts))
		}
		v = v.parts[n].rosValue
	}
	return v, nil
}

// numbers lists the numbers of a value with their names below it, in order. Texts are left out.
func (v rosValue) numbers(name string, out []named) []named {
	if v.leaf {
		return append(out, named{name, v.number})
	}
	for i, p := range v.parts {
		below := p.name
		if below == "" {
			below = strconv.Itoa(i)
		}
		if name != "" {
			below = name + "." + below
		}
		out = p.numbers(below, out)
	}
	return out
}

type named struct {
	name  string
	value float64
}

// texts lists the strings of a list.
func (v rosValue) texts() (out []string) {
	for _, p := range v.parts {
		out = append(out, p.text)
	}
	return out
}

// errNoNumbers is the error for a path that leads to nothing a row could hold.
var errNoNumbers = errors.New("holds no number")
