package text

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"unicode"
	"unicode/utf8"
)

// bytesCount is the number of tokens that are single bytes.
const bytesCount = 256

// pair are two tokens that stand side by side.
type pair [2]int32

// Table is a trained list of joins. Safe for concurrent use.
type Table struct {
	joins []pair
	rank  map[pair]int32 // join to its place
	bytes [][]byte       // of each token
}

// newTable builds a table from joins in the order of training. It fails if a join speaks of a token that does not exist yet, or twice of
// one pair.
func newTable(joins []pair) (*Table, error) {
	t := &Table{rank: map[pair]int32{}}
	for i := range bytesCount {
		t.bytes = append(t.bytes, []byte{byte(i)})
	}
	for k, p := range joins {
		for _, id := range p {
			if id < 0 || int(id) >= len(t.bytes) {
				return nil, fmt.Errorf("join %d is of token %d, but there are only %d before it", k, id, len(t.bytes))
			}
		}
		if _, dup := t.rank[p]; dup {
			return nil, fmt.Errorf("join %d of tokens %d and %d is there twice", k, p[0], p[1])
		}
		t.append(p)
	}
	return t, nil
}

func (t *Table) append(p pair) {
	t.rank[p] = int32(len(t.joins))
	t.joins = append(t.joins, p)
	t.bytes = append(t.bytes, append(append([]byte{}, t.bytes[p[0]]...), t.bytes[p[1]]...))
}

// Joins is the number of tokens beyond the bytes.
func (t *Table) Joins() int { return len(t.joins) }

// Hash identifies the table.
func (t *Table) Hash() string {
	sum := sha256.Sum256(t.Marshal())
	return hex.EncodeToString(sum[:16])
}

// file is the form on disk.
type file struct {
	Format string `json:"format"`
	Joins  []pair `json:"joins"`
}

const format = "pinch-byte-pairs-v1"

// Marshal writes the table as JSON; equal tables give equal bytes.
func (t *Table) Marshal() []byte {
	text, err := json.Marshal(file{format, append([]pair{}, t.joins...)})
	if err != nil {
		panic(err) // integers always marshal
	}
	return append(text, '\n')
}

// Unmarshal reads what Marshal wrote.
func Unmarshal(data []byte) (*Table, error) {
	var f file
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("read vocabulary: %w", err)
	}
	if f.Format != format {
		return nil, fmt.Errorf("read vocabulary: field format is %q, want %q", f.Format, format)
	}
	t, err := newTable(f.Joins)
	if err != nil {
		return nil, fmt.Errorf("read vocabulary: %w", err)
	}
	return t, nil
}

// Encode gives the tokens of a text.
func (t *Table) Encode(s string) []int32 {
	var out []int32
	for _, p := range pieces(s) {
		out = t.join(out, p)
	}
	return out
}

// join appends the tokens of one piece: of all pairs side by side the one that was joined first in training is joined, until none is
// left. Pieces are words, so the quadratic walk is short.
func (t *Table) join(out []int32, piece string) []int32 {
	at := len(out)
	for i := range len(piece) {
		out = append(out, int32(piece[i]))
	}
	for {
		best, where := int32(-1), 0
		for i := at; i+1 < len(out); i++ {
			if r, ok := t.rank[pair{out[i], out[i+1]}]; ok && (best < 0 || r < best) {
				best, where = r, i
			}
		}
		if best < 0 {
			return out
		}
		out[where] = bytesCount + best
		out = append(out[:where+1], out[where+2:]...)
	}
}

// Decode gives the text of tokens. Tokens outside the table are left out.
func (t *Table) Decode(ids []int32) string {
	var out []byte
	for _, id := range ids {
		if id >= 0 && int(id) < len(t.bytes) {
			out = append(out, t.bytes[id]...)
		}
	}
	return string(out)
}

// pieces cuts a text where no join may cross: before a space, a digit, and where letters and other signs meet. A space begins the
// piece that follows it.
func pieces(s string) []string {
	var out []string
	start, before := 0, none
	for i, r := range s {
		now := kindOf(r)
		if i > 0 && (now == space || now == digit || before == digit || before != space && now != before) {
			out = append(out, s[start:i])
			start = i
		}
		before = now
	}
	if start < len(s) {
		out = append(out, s[start:])
	}
	return out
}

type kind int

const (
	none kind = iota
	letter
	digit
	space
	sign
)

func kindOf(r rune) kind {
	switch {
	case r == ' ':
		return space
	case unicode.IsDigit(r):
		return digit
	case unicode.IsLetter(r) || unicode.IsMark(r) || r == utf8.RuneError:
		return letter
	}
	return sign
}
