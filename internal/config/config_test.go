package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

type camera struct {
	Name   string  `yaml:"name"`
	URL    string  `yaml:"url"`
	RateHz float64 `yaml:"rate_hz"`
}

type Common struct {
	Seed int64 `yaml:"seed"`
}

type rig struct {
	Common  `yaml:",inline"`
	Title   string            `yaml:"title"`
	Cameras []camera          `yaml:"cameras"`
	Tracker camera            `yaml:"tracker"`
	Labels  map[string]camera `yaml:"labels"`
	Timeout time.Duration     `yaml:"timeout"`
	Pedal   *camera           `yaml:"pedal"`
}

func defaults() rig {
	return rig{
		Common: Common{Seed: 7}, Title: "default", Timeout: time.Second,
		Tracker: camera{Name: "quest", URL: "tcp://127.0.0.1:7000", RateHz: 72},
	}
}

func TestDecodeKeepsDefaultsThatTheFileDoesNotName(t *testing.T) {
	got := defaults()
	text := "title: two hands\ncameras:\n  - name: left\n    rate_hz: 60\ntracker:\n  url: tcp://10.0.0.2:7000\ntimeout: 2s\n"
	if err := Decode("rig.yaml", []byte(text), &got); err != nil {
		t.Fatal(err)
	}
	want := defaults()
	want.Title, want.Timeout = "two hands", 2*time.Second
	want.Cameras = []camera{{Name: "left", RateHz: 60}}
	want.Tracker.URL = "tcp://10.0.0.2:7000"
	if d := cmp.Diff(want, got, cmp.AllowUnexported(rig{})); d != "" {
		t.Error(d)
	}
}

func TestEmptyFileLeavesDefaults(t *testing.T) {
	for _, text := range []string{"", "# only a remark\n", "---\n"} {
		got := defaults()
		if err := Decode("rig.yaml", []byte(text), &got); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if d := cmp.Diff(defaults(), got, cmp.AllowUnexported(rig{})); d != "" {
			t.Errorf("%q: %s", text, d)
		}
	}
}

func TestFaultsNameFileLineAndFix(t *testing.T) {
	cases := []struct{ name, text, want string }{
		{"typing error at the top", "titel: x\n", `rig.yaml:1: unknown key "titel"; the nearest valid key is "title"`},
		{"inside a list", "title: a\ncameras:\n  - name: left\n    rate: 60\n",
			`rig.yaml:4: unknown key "rate" under cameras[0]; the nearest valid key is "name"`},
		{"inside a map", "labels:\n  one:\n    ulr: x\n", `rig.yaml:3: unknown key "ulr" under labels.one; the nearest valid key is "url"`},
		{"behind a pointer", "pedal:\n  nam: x\n", `rig.yaml:2: unknown key "nam" under pedal; the nearest valid key is "name"`},
		{"the first of two", "sede: 1\ntitel: x\n", `rig.yaml:1: unknown key "sede"; the nearest valid key is "seed"`},
		{"nothing near", "q: 1\n", `rig.yaml:1: unknown key "q"; valid keys are seed, title, cameras, tracker, labels, timeout, pedal`},
		{"wrong type", "title: a\nseed: many\n", "rig.yaml:2: "},
		{"twice the same key", "title: a\ntitle: b\n", "rig.yaml:2: "},
		{"not YAML", "title: [a\n", "rig.yaml:1: "},
		{"two documents", "title: a\n---\ntitle: b\n", "rig.yaml:3: a second document starts here; keep one document per file"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := defaults()
			err := Decode("rig.yaml", []byte(c.text), &got)
			var place *Error
			if !errors.As(err, &place) {
				t.Fatalf("got %v, want an *Error", err)
			}
			if !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("got  %s\nwant %s", err, c.want)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("an error of one line expected, got %q", err)
			}
		})
	}
}

func TestLoadNamesTheMissingFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none.yaml")
	v := defaults()
	if err := Load(path, &v); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v", err)
	}
}

func TestSetWalksStructsListsMapsAndPointers(t *testing.T) {
	got := defaults()
	got.Cameras = []camera{{Name: "left"}, {Name: "right"}}
	err := Set(&got, "title=a=b", "seed=9", "cameras.1.rate_hz=30", "cameras[0].url=rtsp://h/1", "labels.top.name=t", "pedal.name=p", "timeout=250ms")
	if err != nil {
		t.Fatal(err)
	}
	want := defaults()
	want.Title, want.Seed, want.Timeout = "a=b", 9, 250*time.Millisecond
	want.Cameras = []camera{{Name: "left", URL: "rtsp://h/1"}, {Name: "right", RateHz: 30}}
	want.Labels = map[string]camera{"top": {Name: "t"}}
	want.Pedal = &camera{Name: "p"}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(rig{})); d != "" {
		t.Error(d)
	}
}

func TestSetRefusesWithTheFix(t *testing.T) {
	for in, want := range map[string]string{
		"title":             `set "title": want key=value`,
		"trcker.url=x":      `nearest valid key is "tracker"`,
		"cameras.3.name=x":  "cameras has entries 0 to -1",
		"seed.low=1":        "seed is a single value",
		"tracker.rate_hz=q": "set tracker.rate_hz=q",
	} {
		v := defaults()
		if err := Set(&v, in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", in, err, want)
		}
	}
}

type checked struct {
	N int `yaml:"n"`
}

func (c *checked) Validate() error {
	if c.N < 1 {
		return errors.New("n: want at least 1")
	}
	return nil
}

func TestValidateRunsAfterDecoding(t *testing.T) {
	if err := Decode("a.yaml", []byte("n: 0\n"), &checked{}); err == nil || err.Error() != "a.yaml: n: want at least 1" {
		t.Errorf("got %v", err)
	}
	if err := Set(&checked{N: 1}, "n=-1"); err == nil || !strings.Contains(err.Error(), "want at least 1") {
		t.Errorf("got %v", err)
	}
}

// The distances were counted by hand, edit by edit.
func TestEditDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"rate", "", 4}, {"titel", "title", 1}, {"kitten", "sitting", 3}, {"rate_hz", "ratehz", 1}, {"abcd", "badc", 2}} {
		if got := editDistance(c.a, c.b); got != c.want {
			t.Errorf("%q to %q: got %d, want %d", c.a, c.b, got, c.want)
		}
		if got := editDistance(c.b, c.a); got != c.want {
			t.Errorf("%q to %q: got %d, want %d", c.b, c.a, got, c.want)
		}
	}
}

// What Marshal writes, Decode reads back, and unset parts stay unset.
func TestMarshalIsReadBack(t *testing.T) {
	want := defaults()
	want.Cameras = []camera{{Name: "left", URL: "rtsp://h/left", RateHz: 59.94}}
	want.Labels = map[string]camera{"one": {Name: "a: b"}}
	text, err := Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "rate_hz: 59.94") {
		t.Errorf("text:\n%s", text)
	}
	var got rig
	if err := Decode("rig.yaml", text, &got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(rig{})); d != "" {
		t.Error(d)
	}
}

// level has a text form of its own, in which it is not for us to look for keys.
type level struct{ Percent int }

func (l *level) UnmarshalText(text []byte) error {
	_, err := fmt.Sscanf(string(text), "%d%%", &l.Percent)
	return err
}

func TestTypesWithATextFormDecodeThemselves(t *testing.T) {
	var got struct {
		Fill level            `yaml:"fill"`
		By   map[string]level `yaml:"by"`
	}
	if err := Decode("a.yaml", []byte("fill: 40%\nby:\n  left: 7%\n"), &got); err != nil || got.Fill.Percent != 40 || got.By["left"].Percent != 7 {
		t.Errorf("got %+v, %v", got, err)
	}
}
