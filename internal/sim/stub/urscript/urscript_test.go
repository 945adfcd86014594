package urscript

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

// run carries out a program whose say(...) calls are written down.
func run(t *testing.T, src string) ([]Value, error) {
	t.Helper()
	p, err := Parse(src)
	if err != nil {
		return nil, err
	}
	var said []Value
	err = p.Run(func(c Call) (Value, bool, error) {
		switch c.Name {
		case "say":
			said = append(said, c.Args...)
			if v, ok := c.Keys["more"]; ok {
				said = append(said, v)
			}
			return 0.0, true, nil
		case "pause":
			c.Wait(func() {})
			return 0.0, true, nil
		case "stop":
			return nil, true, ErrHalt
		}
		return nil, false, nil
	})
	return said, err
}

func TestLanguage(t *testing.T) {
	for name, c := range map[string]struct {
		src  string
		want []Value
	}{
		"arithmetic":  {"def m():\n say(1 + 2 * 3 - 8 / 4, -2 * 3, 7 % 4, (1 + 2) * 3)\nend", []Value{5.0, -6.0, 3.0, 9.0}},
		"comparisons": {"def m():\n say(1 < 2 and not 3 >= 4 or False, 1 == 1.0, \"a\" != \"b\")\nend", []Value{true, true, true}},
		"lists":       {"def m():\n a = [1, 2, 3]\n b = a + [1, 1, 1] * 2\n say(b[0], b[2], p[0, 1][1])\nend", []Value{3.0, 5.0, 1.0}},
		"while":       {"def m():\n i = 0\n while True:\n  i = i + 1\n  if i == 3:\n   break\n  end\n end\n say(i)\nend", []Value{3.0}},
		"branches":    {"def m():\n x = 2\n if x == 1:\n  say(1)\n elif x == 2:\n  say(22)\n else:\n  say(3)\n end\nend", []Value{22.0}},
		"functions":   {"def m():\n def twice(x):\n  return x * 2\n end\n say(twice(4), more=twice(1.5e1))\nend", []Value{8.0, 30.0}},
		"globals":     {"def m():\n global a = 1\n def set():\n  a = 5\n  local b = 9\n end\n set()\n say(a) # comment\nend", []Value{5.0}},
		"threads": {"def m():\n global n = 0\n thread w():\n  while n < 3:\n   n = n + 1\n   pause()\n  end\n end\n h = run w()\n join h\n say(n)\nend",
			[]Value{3.0}},
	} {
		got, err := run(t, c.src)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, %v, want %v", name, got, err, c.want)
		}
	}
}

func TestFaultsNameTheLine(t *testing.T) {
	for src, want := range map[string]string{
		"def m():\n say(1\nend":                      "line 2",
		"def m():\n x = 1":                           "without end",
		"def m():\n say(y)\nend":                     "line 2: variable y",
		"def m():\n nosuch(1)\nend":                  "there is no function nosuch",
		"def m():\n a = [1]\n say(a[1])\nend":        "line 3",
		"def m():\n while True:\n  x = 1\n end\nend": "infinite loop",
		"def m():\n if 1:\n  x = 1\n end\nend":       "no bool",
		"def m():\n say(\"a)\nend":                   "string without end",
		"def m():\n say(1) ! 2\nend":                 "unknown sign",
		"def m():\n x = 1 / 0\nend":                  "line 2",
		"def m():\nend\nsay(1)":                      "follows the program",
		"def m():\n h = run nobody()\nend":           "no thread nobody",
	} {
		if _, err := run(t, src); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", src, err, want)
		}
	}
}

func TestHaltEndsAllThreads(t *testing.T) {
	_, err := run(t, "def m():\n thread w():\n  while True:\n   pause()\n  end\n end\n run w()\n pause()\n stop()\nend")
	if !errors.Is(err, ErrHalt) {
		t.Errorf("error %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("def m():\n a = [1, 2]\n while a[0] < 3:\n  a = a + [1, 1]\n end\nend")
	f.Fuzz(func(t *testing.T, src string) {
		if p, err := Parse(src); err == nil && p.main == nil {
			t.Errorf("%q parses to nothing", src)
		}
	})
}
