package urscript

import (
	"errors"
	"fmt"
	"math"
	"sync"
)

// Value is float64, bool, string or []Value.
type Value any

// Call is one call of a built-in function.
type Call struct {
	Name string
	Args []Value
	Keys map[string]Value
	// Wait lets other threads run while f blocks.
	Wait func(f func())
}

// Builtin carries out the controller's functions. known is false for a name it does not have.
type Builtin func(c Call) (v Value, known bool, err error)

// ErrHalt ends a program from inside a built-in function.
var ErrHalt = errors.New("the program is halted")

// maxWork is how many statements a thread may run without a call that takes time; a real controller ends such a program ("infinite loop").
const maxWork = 20_000

type machine struct {
	builtin Builtin

	mu      sync.Mutex // one thread runs at a time; the rest is guarded by it
	globals map[string]Value
	funcs   map[string]*function
	handles int
	threads map[float64]chan struct{}
	failed  error
	wg      sync.WaitGroup
}

// frame is one call on one thread.
type frame struct {
	locals   map[string]Value
	isGlobal map[string]bool
	work     *int
}

type returned struct{ v Value }

var errBreak = errors.New("break outside a loop")

func (r *returned) Error() string { return "return outside a function" }

// Run carries the program out and returns when its main function and all threads have ended: nil, ErrHalt or a run-time error with its line.
func (p *Program) Run(b Builtin) error {
	m := &machine{builtin: b, globals: map[string]Value{}, funcs: map[string]*function{}, threads: map[float64]chan struct{}{}}
	m.mu.Lock()
	err := m.thread(p.main)
	if err != nil && m.failed == nil {
		m.failed = err
	} else if m.failed == nil {
		m.failed = ErrHalt // the main function's end ends the threads
	}
	ended := err == nil
	m.mu.Unlock()
	m.wg.Wait()
	if ended && errors.Is(m.failed, ErrHalt) {
		return nil
	}
	return m.failed
}

// thread runs a function's body as a thread's own; the machine is locked.
func (m *machine) thread(f *function) error {
	work := 0
	err := m.block(f.body, &frame{locals: map[string]Value{}, isGlobal: map[string]bool{}, work: &work})
	var r *returned
	if errors.As(err, &r) {
		return nil
	}
	return err
}

func (m *machine) block(body []stmt, f *frame) error {
	for i := range body {
		if m.failed != nil {
			return m.failed
		}
		if *f.work++; *f.work > maxWork {
			return fmt.Errorf("URScript: line %d: a thread runs without pause (infinite loop)", body[i].line)
		}
		if err := m.statement(&body[i], f); err != nil {
			return err
		}
	}
	return nil
}

func (m *machine) statement(s *stmt, f *frame) error {
	switch s.kind {
	case "def":
		m.funcs[s.fn.name] = s.fn
		return nil
	case "critical":
		return nil // one thread runs at a time anyway
	case "halt":
		return ErrHalt
	case "break":
		return errBreak
	case "while":
		return m.while(s, f)
	case "if":
		v, err := m.truth(s.value, f)
		if err != nil {
			return err
		}
		if v {
			return m.block(s.body, f)
		}
		return m.block(s.other, f)
	}
	v, err := m.eval(s.value, f)
	if err != nil {
		return err
	}
	switch s.kind {
	case "assign":
		_, global := m.globals[s.name]
		_, local := f.locals[s.name]
		if s.global || (global && !local) {
			m.globals[s.name] = v
		} else {
			f.locals[s.name] = v
		}
	case "return":
		return &returned{v}
	case "join":
		h, _ := v.(float64)
		done := m.threads[h]
		if done == nil {
			return fmt.Errorf("URScript: line %d: join of no thread", s.line)
		}
		m.wait(f, func() { <-done })
	}
	return nil
}

func (m *machine) while(s *stmt, f *frame) error {
	for {
		v, err := m.truth(s.value, f)
		if err != nil {
			return err
		}
		if !v {
			return nil
		}
		if *f.work++; *f.work > maxWork {
			return fmt.Errorf("URScript: line %d: a thread runs without pause (infinite loop)", s.line)
		}
		if err := m.block(s.body, f); err == errBreak { //nolint:errorlint // never wrapped
			return nil
		} else if err != nil {
			return err
		}
	}
}

// wait lets other threads run while g blocks.
func (m *machine) wait(f *frame, g func()) {
	*f.work = 0
	m.mu.Unlock()
	g()
	m.mu.Lock()
}

func (m *machine) truth(e *expr, f *frame) (bool, error) {
	v, err := m.eval(e, f)
	if err != nil {
		return false, err
	}
	b, ok := v.(bool)
	if !ok {
		return false, fmt.Errorf("URScript: line %d: a condition is %T, no bool", e.line, v)
	}
	return b, nil
}

func (m *machine) eval(e *expr, f *frame) (Value, error) {
	switch e.kind {
	case "number":
		return e.num, nil
	case "bool":
		return e.num == 1, nil
	case "string":
		return e.text, nil
	case "name":
		if v, ok := f.locals[e.text]; ok {
			return v, nil
		}
		if v, ok := m.globals[e.text]; ok {
			return v, nil
		}
		return nil, fmt.Errorf("URScript: line %d: variable %s is not defined", e.line, e.text)
	case "call":
		return m.call(e, f)
	case "run":
		return m.run(e.args[0])
	case "and", "or":
		a, err := m.truth(e.args[0], f)
		if err != nil || a == (e.kind == "or") {
			return a, err
		}
		return m.truth(e.args[1], f)
	}
	args, err := m.all(e.args, f)
	if err != nil {
		return nil, err
	}
	if e.kind == "list" {
		return args, nil
	}
	v, ok := operate(e.kind, args)
	if !ok {
		return nil, fmt.Errorf("URScript: line %d: %s of %v", e.line, e.kind, args)
	}
	return v, nil
}

func (m *machine) all(es []*expr, f *frame) ([]Value, error) {
	out := make([]Value, 0, len(es))
	for _, a := range es {
		v, err := m.eval(a, f)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

// run starts a thread and gives its handle.
func (m *machine) run(e *expr) (Value, error) {
	fn := m.funcs[e.text]
	if fn == nil || !fn.thread {
		return nil, fmt.Errorf("URScript: line %d: there is no thread %s", e.line, e.text)
	}
	m.handles++
	h, done := float64(m.handles), make(chan struct{})
	m.threads[h] = done
	m.wg.Add(1)
	go func() {
		defer m.wg.Done()
		defer close(done)
		m.mu.Lock()
		defer m.mu.Unlock()
		if err := m.thread(fn); err != nil && m.failed == nil {
			m.failed = err
		}
	}()
	return h, nil
}

func (m *machine) call(e *expr, f *frame) (Value, error) {
	args, err := m.all(e.args, f)
	if err != nil {
		return nil, err
	}
	if fn := m.funcs[e.text]; fn != nil && !fn.thread {
		if len(args) != len(fn.params) {
			return nil, fmt.Errorf("URScript: line %d: %s wants %d arguments", e.line, e.text, len(fn.params))
		}
		inner := &frame{locals: map[string]Value{}, work: f.work}
		for i, p := range fn.params {
			inner.locals[p] = args[i]
		}
		err := m.block(fn.body, inner)
		var r *returned
		if errors.As(err, &r) {
			return r.v, nil
		}
		return 0.0, err
	}
	keys := map[string]Value{}
	for k, a := range e.keys {
		if keys[k], err = m.eval(a, f); err != nil {
			return nil, err
		}
	}
	v, known, err := m.builtin(Call{Name: e.text, Args: args, Keys: keys, Wait: func(g func()) { m.wait(f, g) }})
	switch {
	case !known:
		return nil, fmt.Errorf("URScript: line %d: there is no function %s", e.line, e.text)
	case err != nil && !errors.Is(err, ErrHalt):
		return nil, fmt.Errorf("URScript: line %d: %s: %w", e.line, e.text, err)
	case err == nil && m.failed != nil:
		return nil, m.failed
	}
	return v, err
}

// operate applies an operator; ok is false for values it is not defined for.
func operate(op string, a []Value) (Value, bool) {
	switch op {
	case "not":
		b, ok := a[0].(bool)
		return !b, ok
	case "neg":
		x, ok := a[0].(float64)
		return -x, ok
	case "index":
		l, ok := a[0].([]Value)
		i, ok2 := a[1].(float64)
		if !ok || !ok2 || i < 0 || int(i) >= len(l) {
			return nil, false
		}
		return l[int(i)], true
	case "==", "!=":
		eq, ok := equal(a[0], a[1])
		return eq == (op == "=="), ok
	}
	if l, ok := a[0].([]Value); ok {
		return elementwise(op, l, a[1])
	}
	x, ok := a[0].(float64)
	y, ok2 := a[1].(float64)
	if !ok || !ok2 {
		return nil, false
	}
	switch op {
	case "+":
		return x + y, true
	case "-":
		return x - y, true
	case "*":
		return x * y, true
	case "/":
		return x / y, y != 0
	case "%":
		return math.Mod(x, y), y != 0
	case "<":
		return x < y, true
	case ">":
		return x > y, true
	case "<=":
		return x <= y, true
	case ">=":
		return x >= y, true
	}
	return nil, false
}

// elementwise applies an operator to a list and a list of the same length, or a number.
func elementwise(op string, l []Value, b Value) (Value, bool) {
	out := make([]Value, len(l))
	r, list := b.([]Value)
	if list && len(r) != len(l) {
		return nil, false
	}
	for i := range l {
		y := b
		if list {
			y = r[i]
		}
		v, ok := operate(op, []Value{l[i], y})
		if !ok {
			return nil, false
		}
		out[i] = v
	}
	return out, true
}

func equal(a, b Value) (eq, ok bool) {
	switch x := a.(type) {
	case float64:
		y, ok := b.(float64)
		return x == y, ok
	case bool:
		y, ok := b.(bool)
		return x == y, ok
	case string:
		y, ok := b.(string)
		return x == y, ok
	}
	return false, false
}
