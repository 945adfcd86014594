// Package urscript runs the part of Universal Robots' script language that a streaming program needs: functions, threads, while, if,
// assignments, lists, arithmetic and calls. A simulated controller gives it its built-in functions. Real programs are sent to it as text, so
// that the program which goes to a robot is the program that the tests run.
//
// Source: Universal Robots, "The URScript programming language".
package urscript

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

type token struct {
	kind string // "name", "number", "string", "op", "line", "end of text"
	text string
	line int
}

// lex cuts a program into tokens; a line end is a token.
func lex(src string) ([]token, error) {
	var out []token
	for n, line := range strings.Split(src, "\n") {
		rs := []rune(line)
		for i := 0; i < len(rs); {
			c := rs[i]
			switch {
			case c == '#':
				i = len(rs)
			case unicode.IsSpace(c):
				i++
			case unicode.IsLetter(c) || c == '_':
				j := i
				for j < len(rs) && (unicode.IsLetter(rs[j]) || unicode.IsDigit(rs[j]) || rs[j] == '_') {
					j++
				}
				out = append(out, token{"name", string(rs[i:j]), n + 1})
				i = j
			case unicode.IsDigit(c) || (c == '.' && i+1 < len(rs) && unicode.IsDigit(rs[i+1])):
				j := i
				for j < len(rs) && (unicode.IsDigit(rs[j]) || rs[j] == '.' || rs[j] == 'e' || ((rs[j] == '-' || rs[j] == '+') && rs[j-1] == 'e')) {
					j++
				}
				out = append(out, token{"number", string(rs[i:j]), n + 1})
				i = j
			case c == '"':
				j := i + 1
				for j < len(rs) && rs[j] != '"' {
					j++
				}
				if j == len(rs) {
					return nil, fmt.Errorf("line %d: string without end", n+1)
				}
				out = append(out, token{"string", string(rs[i+1 : j]), n + 1})
				i = j + 1
			default:
				op := string(c)
				if i+1 < len(rs) && strings.Contains("== != <= >=", op+string(rs[i+1])) && rs[i+1] == '=' {
					op += "="
				}
				if !slices.Contains(strings.Fields("( ) [ ] , : = == != < > <= >= + - * / %"), op) {
					return nil, fmt.Errorf("line %d: unknown sign %q", n+1, op)
				}
				out = append(out, token{"op", op, n + 1})
				i += len([]rune(op))
			}
		}
		out = append(out, token{"line", "", n + 1})
	}
	return append(out, token{"end of text", "", strings.Count(src, "\n") + 1}), nil
}

// stmt is one statement: kind tells which fields count.
type stmt struct {
	kind   string // "assign", "call", "while", "if", "return", "break", "halt", "join", "critical", "def"
	line   int
	name   string
	global bool
	value  *expr
	body   []stmt
	other  []stmt // of if: elif and else
	fn     *function
}

type function struct {
	name   string
	thread bool
	params []string
	body   []stmt
}

// expr is one expression.
type expr struct {
	kind string // "number", "string", "bool", "list", "name", "index", "call", "run", "not", "neg", or an operator
	line int
	num  float64
	text string
	args []*expr
	keys map[string]*expr // keyword arguments
}

type parser struct {
	t []token
	i int
}

// Program is a parsed script: one outer function.
type Program struct{ main *function }

// Parse reads a script. The error names the line.
func Parse(src string) (*Program, error) {
	t, err := lex(src)
	if err != nil {
		return nil, fmt.Errorf("URScript: %w", err)
	}
	p := &parser{t: t}
	p.lines()
	f, err := p.function()
	if err != nil {
		return nil, fmt.Errorf("URScript: %w", err)
	}
	p.lines()
	if p.peek().kind != "end of text" {
		return nil, fmt.Errorf("URScript: line %d: something follows the program", p.peek().line)
	}
	return &Program{f}, nil
}

func (p *parser) peek() token { return p.t[p.i] }
func (p *parser) next() token {
	t := p.t[p.i]
	if p.i < len(p.t)-1 {
		p.i++
	}
	return t
}

func (p *parser) lines() {
	for p.peek().kind == "line" {
		p.next()
	}
}

func (p *parser) is(text string) bool {
	t := p.peek()
	return (t.kind == "op" || t.kind == "name") && t.text == text
}

func (p *parser) want(text string) error {
	if t := p.next(); t.text != text || t.kind == "string" {
		return fmt.Errorf("line %d: %q where %q is wanted", t.line, t.text, text)
	}
	return nil
}

// function reads def or thread up to its end.
func (p *parser) function() (*function, error) {
	t := p.next()
	if t.text != "def" && t.text != "thread" {
		return nil, fmt.Errorf("line %d: %q where def or thread is wanted", t.line, t.text)
	}
	f := &function{thread: t.text == "thread", name: p.next().text}
	if err := p.want("("); err != nil {
		return nil, err
	}
	for !p.is(")") {
		f.params = append(f.params, p.next().text)
		if p.is(",") {
			p.next()
		} else if !p.is(")") {
			return nil, fmt.Errorf("line %d: %q in a list of parameters", p.peek().line, p.peek().text)
		}
	}
	p.next()
	if err := p.want(":"); err != nil {
		return nil, err
	}
	var err error
	f.body, err = p.block()
	if err != nil {
		return nil, err
	}
	return f, p.want("end")
}

// block reads statements up to end, elif or else.
func (p *parser) block() ([]stmt, error) {
	var out []stmt
	for {
		p.lines()
		if p.is("end") || p.is("elif") || p.is("else") {
			return out, nil
		}
		if p.peek().kind == "end of text" {
			return nil, fmt.Errorf("line %d: a block without end", p.peek().line)
		}
		s, err := p.statement()
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
}

func (p *parser) statement() (stmt, error) {
	t := p.peek()
	s := stmt{line: t.line, kind: t.text}
	var err error
	switch t.text {
	case "def", "thread":
		s.kind = "def"
		s.fn, err = p.function()
		return s, err
	case "while":
		p.next()
		if s.value, err = p.condition(); err != nil {
			return s, err
		}
		if s.body, err = p.block(); err != nil {
			return s, err
		}
		return s, p.want("end")
	case "if":
		return p.branch()
	case "break", "halt":
		p.next()
		return s, nil
	case "enter_critical", "exit_critical":
		p.next()
		s.kind = "critical"
		return s, nil
	case "return", "join", "kill":
		p.next()
		s.value, err = p.expression(0)
		return s, err
	case "global", "local":
		p.next()
		s.global = t.text == "global"
	}
	if p.peek().kind == "name" && p.i+1 < len(p.t) && p.t[p.i+1].text == "=" && p.t[p.i+1].kind == "op" {
		s.kind, s.name = "assign", p.next().text
		p.next()
		s.value, err = p.expression(0)
		return s, err
	}
	s.kind = "call"
	s.value, err = p.expression(0)
	return s, err
}

func (p *parser) condition() (*expr, error) {
	e, err := p.expression(0)
	if err != nil {
		return nil, err
	}
	return e, p.want(":")
}

// branch reads if or elif with what follows it.
func (p *parser) branch() (stmt, error) {
	s := stmt{kind: "if", line: p.next().line}
	var err error
	if s.value, err = p.condition(); err != nil {
		return s, err
	}
	if s.body, err = p.block(); err != nil {
		return s, err
	}
	switch {
	case p.is("elif"):
		inner, err := p.branch()
		s.other = []stmt{inner}
		return s, err
	case p.is("else"):
		p.next()
		if err := p.want(":"); err != nil {
			return s, err
		}
		if s.other, err = p.block(); err != nil {
			return s, err
		}
	}
	return s, p.want("end")
}

// levels says how strongly operators bind.
var levels = map[string]int{"or": 1, "and": 2, "==": 3, "!=": 3, "<": 3, ">": 3, "<=": 3, ">=": 3, "+": 4, "-": 4, "*": 5, "/": 5, "%": 5}

// expression reads operators of at least that level.
func (p *parser) expression(level int) (*expr, error) {
	left, err := p.unary()
	if err != nil {
		return nil, err
	}
	for {
		t := p.peek()
		l := levels[t.text]
		if l == 0 || l <= level || t.kind == "string" {
			return left, nil
		}
		p.next()
		right, err := p.expression(l)
		if err != nil {
			return nil, err
		}
		left = &expr{kind: t.text, line: t.line, args: []*expr{left, right}}
	}
}

func (p *parser) unary() (*expr, error) {
	t := p.peek()
	if t.kind != "string" && (t.text == "-" || t.text == "not") {
		p.next()
		read := p.unary
		if t.text == "not" { // weaker than comparisons
			read = func() (*expr, error) { return p.expression(levels["and"]) }
		}
		arg, err := read()
		return &expr{kind: map[string]string{"-": "neg", "not": "not"}[t.text], line: t.line, args: []*expr{arg}}, err
	}
	if t.kind == "name" && t.text == "run" {
		p.next()
		call, err := p.unary()
		if err == nil && call.kind != "call" {
			err = fmt.Errorf("line %d: run wants a thread", t.line)
		}
		return &expr{kind: "run", line: t.line, args: []*expr{call}}, err
	}
	return p.postfix()
}

func (p *parser) postfix() (*expr, error) {
	e, err := p.primary()
	if err != nil {
		return nil, err
	}
	for p.is("[") {
		p.next()
		i, err := p.expression(0)
		if err != nil {
			return nil, err
		}
		if err := p.want("]"); err != nil {
			return nil, err
		}
		e = &expr{kind: "index", line: e.line, args: []*expr{e, i}}
	}
	return e, nil
}

func (p *parser) primary() (*expr, error) {
	t := p.next()
	e := &expr{kind: t.kind, line: t.line, text: t.text}
	switch {
	case t.kind == "number":
		v, err := strconv.ParseFloat(t.text, 64)
		e.num = v
		return e, err
	case t.kind == "string":
		return e, nil
	case t.text == "(":
		inner, err := p.expression(0)
		if err != nil {
			return nil, err
		}
		return inner, p.want(")")
	case t.text == "[":
		return p.list(e)
	case t.kind == "name" && t.text == "p" && p.is("["):
		p.next()
		return p.list(e)
	case t.text == "True" || t.text == "False":
		e.kind, e.num = "bool", map[string]float64{"True": 1}[t.text]
		return e, nil
	case t.kind == "name" && p.is("("):
		p.next()
		return p.call(e)
	case t.kind == "name":
		return e, nil
	}
	return nil, fmt.Errorf("line %d: %q where a value is wanted", t.line, t.text)
}

func (p *parser) list(e *expr) (*expr, error) {
	e.kind = "list"
	for !p.is("]") {
		v, err := p.expression(0)
		if err != nil {
			return nil, err
		}
		e.args = append(e.args, v)
		if p.is(",") {
			p.next()
		} else if !p.is("]") {
			return nil, fmt.Errorf("line %d: %q in a list", p.peek().line, p.peek().text)
		}
	}
	p.next()
	return e, nil
}

func (p *parser) call(e *expr) (*expr, error) {
	e.kind, e.keys = "call", map[string]*expr{}
	for !p.is(")") {
		key := ""
		if p.peek().kind == "name" && p.t[p.i+1].text == "=" && p.t[p.i+1].kind == "op" {
			key = p.next().text
			p.next()
		}
		v, err := p.expression(0)
		if err != nil {
			return nil, err
		}
		if key != "" {
			e.keys[key] = v
		} else {
			e.args = append(e.args, v)
		}
		if p.is(",") {
			p.next()
		} else if !p.is(")") {
			return nil, fmt.Errorf("line %d: %q among arguments", p.peek().line, p.peek().text)
		}
	}
	p.next()
	return e, nil
}
