// Package config reads the project's YAML files strictly.
//
// A caller passes a pointer to a struct that already holds the defaults; what the file says replaces them, field by field. A
// key that no field takes is an error that names the file, the line and the nearest valid key, because a key with a typing
// error would otherwise leave its default in force without a word. Command lines add `key=value` assignments after the file.
//
//	rig := capture.DefaultRig()
//	if err := config.Load("rig.yaml", &rig); err != nil { ... }
//	if err := config.Set(&rig, "cameras.0.rate_hz=60"); err != nil { ... }
package config

import (
	"errors"
	"fmt"
	"os"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Error is a fault in a configuration file, with its place.
type Error struct {
	File    string // as the caller named it
	Line    int    // counted from 1; 0 when the fault has no line
	Message string
}

// Error formats the fault as file:line: message, as compilers do, so that editors can jump to it.
func (e *Error) Error() string {
	if e.Line == 0 {
		return e.File + ": " + e.Message
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Message)
}

// Validator is implemented by configurations that check themselves after decoding. The error should start with the key.
type Validator interface {
	Validate() error
}

// Load reads the YAML file at path over the defaults in v, a pointer to a struct. After an error v is not to be used.
func Load(path string, v any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	return Decode(path, data, v)
}

// Decode reads YAML text over the defaults in v, a pointer to a struct; name is the file's name in errors. A text without a
// document leaves the defaults. If v is a Validator, Validate runs last.
func Decode(name string, data []byte, v any) error {
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		return located(name, err)
	}
	body, err := onlyDocument(name, file)
	if err != nil {
		return err
	}
	if body != nil {
		if err := checkKeys(name, body, v); err != nil {
			return err
		}
		if err := yaml.NodeToValue(body, v, yaml.Strict()); err != nil {
			return located(name, err)
		}
	}
	return validate(name, v)
}

// Marshal writes v as YAML in the form that Decode reads: the resolved configuration kept beside a result.
func Marshal(v any) ([]byte, error) {
	return yaml.Marshal(v)
}

// onlyDocument returns the body of the file's one document, or nil when there is none.
func onlyDocument(name string, file *ast.File) (ast.Node, error) {
	var body ast.Node
	for _, doc := range file.Docs {
		if doc == nil || doc.Body == nil || doc.Body.Type() == ast.NullType || doc.Body.Type() == ast.CommentType {
			continue
		}
		if body != nil {
			return nil, &Error{name, lineOf(doc.Body), "a second document starts here; keep one document per file"}
		}
		body = doc.Body
	}
	return body, nil
}

// located turns a YAML library error into an Error with its line.
func located(name string, err error) error {
	var withToken yaml.Error
	if !errors.As(err, &withToken) {
		return &Error{File: name, Message: err.Error()}
	}
	line := 0
	if tk := withToken.GetToken(); tk != nil && tk.Position != nil {
		line = tk.Position.Line
	}
	return &Error{name, line, withToken.GetMessage()}
}

func validate(name string, v any) error {
	checked, ok := v.(Validator)
	if !ok {
		return nil
	}
	if err := checked.Validate(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func lineOf(n ast.Node) int {
	if tk := n.GetToken(); tk != nil && tk.Position != nil {
		return tk.Position.Line
	}
	return 0
}
