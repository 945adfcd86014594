package dynamixel

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Packets as the e-manual's page on protocol 2.0 prints them.
var published = []struct {
	name string
	p    Packet
	hex  string
}{
	{"ping 1", Packet{ID: 1, Instruction: Ping}, "FF FF FD 00 01 03 00 01 19 4E"},
	{"ping 1 status", Packet{ID: 1, Instruction: Status, Params: []byte{0x06, 0x04, 0x26}}, "FF FF FD 00 01 07 00 55 00 06 04 26 65 5D"},
	{"read present position", Packet{ID: 1, Instruction: Read, Params: []byte{0x84, 0x00, 0x04, 0x00}}, "FF FF FD 00 01 07 00 02 84 00 04 00 1D 15"},
	{"position 166", Packet{ID: 1, Instruction: Status, Params: []byte{0xA6, 0x00, 0x00, 0x00}}, "FF FF FD 00 01 08 00 55 00 A6 00 00 00 8C C0"},
	{"write goal position 512", Packet{ID: 1, Instruction: Write, Params: []byte{0x74, 0x00, 0x00, 0x02, 0x00, 0x00}},
		"FF FF FD 00 01 09 00 03 74 00 00 02 00 00 CA 89"},
	{"reboot", Packet{ID: 1, Instruction: Reboot}, "FF FF FD 00 01 03 00 08 2F 4E"},
	{"sync write", Packet{ID: Broadcast, Instruction: SyncWrite, Params: []byte{0x74, 0, 4, 0, 1, 0x96, 0, 0, 0, 2, 0xAA, 0, 0, 0}},
		"FF FF FD 00 FE 11 00 83 74 00 04 00 01 96 00 00 00 02 AA 00 00 00 82 87"},
	{"sync read", Packet{ID: Broadcast, Instruction: SyncRead, Params: []byte{0x84, 0, 4, 0, 1, 2}}, "FF FF FD 00 FE 09 00 82 84 00 04 00 01 02 CE FA"},
}

func TestPublishedPackets(t *testing.T) {
	for _, v := range published {
		want := unhex(t, v.hex)
		if got := Append(nil, v.p); !bytes.Equal(got, want) {
			t.Errorf("%s: bytes % X, want % X", v.name, got, want)
		}
		p, n, err := Split(want)
		if len(p.Params) == 0 {
			p.Params = nil
		}
		if err != nil || n != len(want) || !cmp.Equal(p, v.p) {
			t.Errorf("%s: %+v, %d bytes, %v", v.name, p, n, err)
		}
	}
}

// What the data holds never looks like a header: it is stuffed on the way out and comes back as it was.
func TestStuffing(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	letters := []byte{0xFF, 0xFF, 0xFD, 0x00, 0x55}
	for i := 0; i < 3000; i++ {
		params := make([]byte, rng.IntN(24))
		for k := range params {
			params[k] = letters[rng.IntN(len(letters))]
		}
		for _, ins := range []Instruction{Write, Status} {
			b := Append([]byte("xx"), Packet{ID: 7, Instruction: ins, Params: params})[2:]
			if at := bytes.Index(b[4:], []byte{0xFF, 0xFF, 0xFD, 0x00}); at >= 0 {
				t.Fatalf("% X has a header inside", b)
			}
			p, n, err := Split(b)
			if err != nil || n != len(b) || !bytes.Equal(p.Params, params) {
				t.Fatalf("% X from % X gives % X, %v", b, params, p.Params, err)
			}
		}
	}
	// One example by hand: FF FF FD in the data grows to FF FF FD FD, and the length with it.
	b := Append(nil, Packet{ID: 1, Instruction: Write, Params: []byte{0x74, 0, 0xFF, 0xFF, 0xFD, 0x10}})
	if !bytes.Equal(b[5:14], []byte{10, 0, 3, 0x74, 0, 0xFF, 0xFF, 0xFD, 0xFD}) {
		t.Errorf("stuffed packet % X", b)
	}
}

// Noise before a packet, a broken checksum, a lying length: each costs at most its own bytes, and the packet behind is found.
func TestSplitFindsThePacketBehindNoise(t *testing.T) {
	good := Append(nil, Packet{ID: 3, Instruction: Status, Params: []byte{1, 2}})
	broken := append([]byte(nil), good...)
	broken[9] ^= 1
	long := append([]byte(nil), good...)
	long[5], long[6] = 0xFF, 0xFF
	for name, b := range map[string][]byte{"noise": {9, 8, 0xFF, 0xFF}, "checksum": broken, "length": long, "header twice": {0xFF, 0xFF, 0xFD}} {
		in := append(append([]byte(nil), b...), good...)
		var got *Packet
		for faults := 0; got == nil; faults++ {
			p, n, err := Split(in)
			if err != nil && !errors.Is(err, ErrFrame) {
				t.Fatalf("%s: %v", name, err)
			}
			if faults > len(b)+3 || (n == 0 && err == nil) {
				t.Fatalf("%s: the packet is not found, left % X", name, in)
			}
			in = in[n:]
			if err == nil {
				got = &p
			}
		}
		if got.ID != 3 || !bytes.Equal(got.Params, []byte{1, 2}) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func FuzzSplit(f *testing.F) {
	for _, v := range published {
		f.Add(unhex(f, v.hex))
	}
	f.Add(Append(nil, Packet{ID: 1, Instruction: Write, Params: []byte{0xFF, 0xFF, 0xFD}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		for len(b) > 0 {
			p, n, err := Split(b)
			if n == 0 && err == nil {
				return
			}
			if n <= 0 || n > len(b) {
				t.Fatalf("used %d of %d bytes", n, len(b))
			}
			if err == nil {
				if again := Append(nil, p); !bytes.Equal(again, b[:n]) {
					t.Fatalf("% X encodes to % X", b[:n], again)
				}
			}
			b = b[n:]
		}
	})
}
