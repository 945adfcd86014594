package modbus

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Requests and answers as printed in the manuals of Robotiq's 2F and Hand-E grippers.
func TestPublishedFrames(t *testing.T) {
	for _, v := range []struct {
		name string
		got  []byte
		hex  string
	}{
		{"open at full speed and force", AppendRTU(nil, 9, writePDU(0x03E8, []uint16{0x0900, 0x0000, 0xFFFF})), "09 10 03 E8 00 03 06 09 00 00 00 FF FF 72 19"},
		{"its answer", AppendRTU(nil, 9, []byte{0x10, 0x03, 0xE8, 0, 3}), "09 10 03 E8 00 03 01 30"},
		{"read status, function 4", AppendRTU(nil, 9, readPDU(ReadInput, 0x07D0, 3)), "09 04 07 D0 00 03 B1 CE"},
		{"read status, function 3", AppendRTU(nil, 9, readPDU(ReadHolding, 0x07D0, 3)), "09 03 07 D0 00 03 04 0E"},
		{"status over TCP", AppendTCP(nil, 0xD605, 2, readPDU(ReadInput, 0, 3)), "D6 05 00 00 00 06 02 04 00 00 00 03"},
		{"activation over TCP", AppendTCP(nil, 0x4533, 2, readPDU(ReadHolding, 0x07D0, 1)), "45 33 00 00 00 06 02 03 07 D0 00 01"},
	} {
		if want := unhex(t, v.hex); !bytes.Equal(v.got, want) {
			t.Errorf("%s: % X, want % X", v.name, v.got, want)
		}
	}
	c := Client{framing: RTU, unit: 9, in: unhex(t, "09 04 06 F9 00 00 00 0D 00 17 AA")}
	pdu, err := c.take()
	if err != nil {
		t.Fatal(err)
	}
	if v, err := parseRead(pdu, ReadInput, 3); err != nil || !slices.Equal(v, []uint16{0xF900, 0, 0x0D00}) {
		t.Errorf("status %04x, %v", v, err)
	}
}

// line is a device whose answers a test writes down; Read gives them in pieces of one byte.
type line struct {
	answers [][]byte
	now     []byte
}

func (l *line) Write(b []byte) (int, error) {
	if len(l.answers) > 0 {
		l.now, l.answers = l.answers[0], l.answers[1:]
	}
	return len(b), nil
}

func (l *line) Read(b []byte) (int, error) {
	if len(l.now) == 0 {
		time.Sleep(time.Millisecond)
		return 0, nil
	}
	b[0], l.now = l.now[0], l.now[1:]
	return 1, nil
}

func (l *line) Close() error                       { return nil }
func (l *line) SetReadTimeout(time.Duration) error { return nil }
func (l *line) ResetInputBuffer() error            { return nil }

func TestFaultsOfAnswers(t *testing.T) {
	good := AppendRTU(nil, 9, []byte{3, 2, 0x12, 0x34})
	broken := append([]byte(nil), good...)
	broken[3] ^= 4
	var exception Exception
	for name, c := range map[string]struct {
		answer []byte
		is     func(error) bool
	}{
		"exception":      {AppendRTU(nil, 9, []byte{0x83, 2}), func(err error) bool { return errors.As(err, &exception) && exception == 2 }},
		"checksum":       {broken, func(err error) bool { return errors.Is(err, ErrFrame) }},
		"another unit":   {AppendRTU(nil, 8, []byte{3, 2, 0, 0}), func(err error) bool { return errors.Is(err, ErrFrame) }},
		"another size":   {AppendRTU(nil, 9, []byte{3, 4, 0, 0, 0, 0}), func(err error) bool { return errors.Is(err, ErrFrame) }},
		"other function": {AppendRTU(nil, 9, []byte{4, 2, 0, 0}), func(err error) bool { return errors.Is(err, ErrFrame) }},
		"silence":        {nil, func(err error) bool { return errors.Is(err, ErrSilent) }},
		"cut short":      {good[:4], func(err error) bool { return errors.Is(err, ErrSilent) }},
	} {
		_, err := NewClient(&line{answers: [][]byte{c.answer}}, RTU, 9, 50*time.Millisecond).Read(ReadHolding, 0x10, 1)
		if err == nil || !c.is(err) || !strings.Contains(err.Error(), "0010") {
			t.Errorf("%s: %v", name, err)
		}
	}
	v, err := NewClient(&line{answers: [][]byte{good}}, RTU, 9, 500*time.Millisecond).Read(ReadHolding, 0x10, 1)
	if err != nil || v[0] != 0x1234 {
		t.Errorf("good answer: %04x, %v", v, err)
	}
	if err := NewClient(&line{answers: [][]byte{AppendRTU(nil, 9, []byte{0x10, 0, 1, 0, 9})}}, RTU, 9, 100*time.Millisecond).Write(1, 5); !errors.Is(err, ErrFrame) {
		t.Errorf("an echo of another request: %v", err)
	}
}

// A late answer over TCP, to an earlier request, is not taken for the present one.
func TestLateAnswerIsSkipped(t *testing.T) {
	late := AppendTCP(nil, 1, 9, []byte{3, 2, 0xAA, 0xAA})
	now := AppendTCP(nil, 2, 9, []byte{3, 2, 0x00, 0x07})
	c := NewClient(&line{answers: [][]byte{nil, append(late, now...)}}, TCP, 9, 300*time.Millisecond)
	if _, err := c.Read(ReadHolding, 0, 1); !errors.Is(err, ErrSilent) {
		t.Fatalf("first: %v", err)
	}
	if v, err := c.Read(ReadHolding, 0, 1); err != nil || v[0] != 7 {
		t.Errorf("second: %04x, %v", v, err)
	}
}

type memory struct{ regs [16]uint16 }

func (m *memory) Read(_ byte, addr, n uint16) ([]uint16, Exception) {
	if int(addr)+int(n) > len(m.regs) {
		return nil, 2
	}
	return m.regs[addr : addr+n], 0
}

func (m *memory) Write(addr uint16, v []uint16) Exception {
	if int(addr)+len(v) > len(m.regs) {
		return 2
	}
	copy(m.regs[addr:], v)
	return 0
}

// Neither side of the codec may crash or read beyond its bytes, whatever arrives.
func FuzzBothSides(f *testing.F) {
	f.Add(AppendRTU(nil, 9, writePDU(1, []uint16{2, 3})))
	f.Add(AppendRTU(nil, 9, []byte{3, 2, 0x12, 0x34}))
	f.Add(AppendTCP(nil, 1, 9, readPDU(ReadHolding, 0, 2)))
	f.Fuzz(func(t *testing.T, b []byte) {
		var out bytes.Buffer
		ServeRTU(struct {
			io.Reader
			io.Writer
		}{bytes.NewReader(b), &out}, 9, &memory{})
		ServeTCP(struct {
			io.Reader
			io.Writer
		}{bytes.NewReader(b), &out}, 9, &memory{})
		for _, framing := range []Framing{RTU, TCP} {
			c := Client{framing: framing, unit: 9, transaction: 1, in: append([]byte(nil), b...)}
			if pdu, err := c.take(); err == nil && pdu != nil {
				_, _ = parseRead(pdu, ReadHolding, 1)
			}
		}
	})
}
