package config

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
)

// checkKeys walks the document beside the Go type it will fill and returns an Error for the first key, in file order, that no
// field takes. The YAML library's strict mode finds such keys too, but in random order and without saying what is valid.
func checkKeys(name string, body ast.Node, v any) error {
	return (&keyChecker{file: name}).walk("", body, reflect.TypeOf(v))
}

type keyChecker struct{ file string }

func (c *keyChecker) walk(path string, n ast.Node, t reflect.Type) error {
	n = unwrap(n)
	if n == nil || decodesItself(t) {
		return nil
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
		if decodesItself(t) {
			return nil
		}
	}
	switch t.Kind() {
	case reflect.Struct:
		return c.walkStruct(path, n, t)
	case reflect.Map:
		return c.eachEntry(n, func(key string, e *ast.MappingValueNode) error {
			return c.walk(join(path, key), e.Value, t.Elem())
		})
	case reflect.Slice, reflect.Array:
		seq, ok := n.(*ast.SequenceNode)
		if !ok {
			return nil // the decoder says what is wrong
		}
		for i, item := range seq.Values {
			if err := c.walk(fmt.Sprintf("%s[%d]", path, i), item, t.Elem()); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *keyChecker) walkStruct(path string, n ast.Node, t reflect.Type) error {
	fields := fieldsOf(t)
	return c.eachEntry(n, func(key string, e *ast.MappingValueNode) error {
		if key == "<<" {
			return nil // a merge; the anchor's keys were checked where it stands
		}
		f, ok := fields.byName[key]
		if !ok {
			return &Error{c.file, lineOf(e.Key), unknownKey(key, path, fields.names)}
		}
		return c.walk(join(path, key), e.Value, f.Type)
	})
}

func (c *keyChecker) eachEntry(n ast.Node, visit func(string, *ast.MappingValueNode) error) error {
	switch m := n.(type) {
	case *ast.MappingNode:
		for _, e := range m.Values {
			if err := visit(keyText(e), e); err != nil {
				return err
			}
		}
	case *ast.MappingValueNode:
		return visit(keyText(m), m)
	}
	return nil
}

func keyText(e *ast.MappingValueNode) string {
	if s, ok := e.Key.(*ast.StringNode); ok {
		return s.Value
	}
	return strings.Trim(e.Key.String(), `"'`)
}

// unwrap removes anchors and tags; an alias gives nil, since its target was walked where it is defined.
func unwrap(n ast.Node) ast.Node {
	for {
		switch w := n.(type) {
		case *ast.AnchorNode:
			n = w.Value
		case *ast.TagNode:
			n = w.Value
		case *ast.AliasNode, *ast.NullNode, nil:
			return nil
		default:
			return n
		}
	}
}

var (
	bytesUnmarshaler     = reflect.TypeFor[yaml.BytesUnmarshaler]()
	interfaceUnmarshaler = reflect.TypeFor[yaml.InterfaceUnmarshaler]()
	textUnmarshaler      = reflect.TypeFor[interface{ UnmarshalText([]byte) error }]()
)

// decodesItself reports whether a type has its own YAML or text form, whose keys are not ours to judge.
func decodesItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(bytesUnmarshaler) || p.Implements(interfaceUnmarshaler) || p.Implements(textUnmarshaler)
}

// field is one YAML key of a struct: its type and its index path through inline structs.
type field struct {
	Type  reflect.Type
	Index []int
}

// structFields lists the YAML keys of a struct in declaration order.
type structFields struct {
	names  []string
	byName map[string]field
}

func fieldsOf(t reflect.Type) structFields {
	out := structFields{byName: map[string]field{}}
	out.add(t, nil)
	return out
}

func (s *structFields) add(t reflect.Type, prefix []int) {
	for i := range t.NumField() {
		f := t.Field(i)
		index := append(append([]int{}, prefix...), i)
		name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		inline := strings.Contains(","+options+",", ",inline,")
		switch {
		case name == "-" || !f.IsExported():
			continue
		case inline && indirect(f.Type).Kind() == reflect.Struct:
			s.add(indirect(f.Type), index)
			continue
		case name == "":
			name = strings.ToLower(f.Name) // the library's rule for fields without a tag
		}
		if _, dup := s.byName[name]; !dup {
			s.names = append(s.names, name)
		}
		s.byName[name] = field{f.Type, index}
	}
}

func indirect(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// unknownKey says which key is wrong, where, and what is right.
func unknownKey(key, path string, valid []string) string {
	where := ""
	if path != "" {
		where = " under " + path
	}
	if near, ok := Nearest(key, valid); ok {
		return fmt.Sprintf("unknown key %q%s; the nearest valid key is %q", key, where, near)
	}
	return fmt.Sprintf("unknown key %q%s; valid keys are %s", key, where, strings.Join(valid, ", "))
}
