package text

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

var instructions = map[string]int{
	"put the red cup on the tray": 40, "put the green cup on the tray": 31, "open the drawer and take out the 3 spoons": 12,
	"fold the towel twice": 25, "カップをトレイに置く": 9, "stelle die tasse auf das tablett": 14, "поставь чашку на поднос": 8,
}

func TestEveryTextComesBack(t *testing.T) {
	table := Train(instructions, 200)
	texts := []string{"", " ", "a", "put the cup", "unseen wörds 🙂 and 12345 signs?!", "ひらがな", "\x00\x01", "  two  spaces  "}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var b strings.Builder
		for range rng.IntN(30) {
			b.WriteRune(rune(rng.IntN(0x2FFF) + 1))
		}
		texts = append(texts, b.String())
	}
	for s := range instructions {
		texts = append(texts, s)
	}
	for _, s := range texts {
		if !utf8.ValidString(s) {
			continue
		}
		if got := table.Decode(table.Encode(s)); got != s {
			t.Errorf("%q came back as %q", s, got)
		}
	}
}

func TestTrainedTextIsShort(t *testing.T) {
	table := Train(instructions, 200)
	s := "put the red cup on the tray"
	if n := len(table.Encode(s)); n > len(strings.Fields(s))+1 {
		t.Errorf("%q has %d tokens, want about one for each word: %v", s, n, table.Encode(s))
	}
}

// slowTrain counts all pairs anew in each round.
func slowTrain(texts map[string]int, joins int) []pair {
	words := corpus(texts)
	var out []pair
	for len(out) < joins {
		counts := map[pair]int{}
		for _, w := range words {
			for i := 0; i+1 < len(w.ids); i++ {
				counts[pair{w.ids[i], w.ids[i+1]}] += w.count
			}
		}
		best, top := pair{}, 1
		for p, n := range counts {
			if n > top || n == top && n > 1 && (p[0] < best[0] || p[0] == best[0] && p[1] < best[1]) {
				best, top = p, n
			}
		}
		if top < 2 {
			break
		}
		for i := range words {
			words[i].ids = replace(words[i].ids, best, int32(bytesCount+len(out)))
		}
		out = append(out, best)
	}
	return out
}

// slowEncode applies the joins one after another in the order of training.
func slowEncode(t *Table, s string) []int32 {
	var out []int32
	for _, p := range pieces(s) {
		var ids []int32
		for i := range len(p) {
			ids = append(ids, int32(p[i]))
		}
		for k, j := range t.joins {
			ids = replace(ids, j, int32(bytesCount+k))
		}
		out = append(out, ids...)
	}
	return out
}

func TestAgainstSlowTwins(t *testing.T) {
	table := Train(instructions, 150)
	if want := slowTrain(instructions, 150); !slices.Equal(table.joins, want) {
		t.Fatalf("joins %v, want %v", table.joins, want)
	}
	for s := range instructions {
		if got, want := table.Encode(s), slowEncode(table, s); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", s, got, want)
		}
	}
}

func TestTableSurvivesItsFile(t *testing.T) {
	a := Train(instructions, 80)
	b, err := Unmarshal(a.Marshal())
	if err != nil || b.Hash() != a.Hash() || b.Joins() != 80 {
		t.Fatalf("%v, %d joins, hashes %s and %s", err, b.Joins(), a.Hash(), b.Hash())
	}
	for name, text := range map[string]string{
		"not JSON": "{", "other format": `{"format":"x","joins":[]}`, "token from the future": `{"format":"pinch-byte-pairs-v1","joins":[[256,1]]}`,
		"twice": `{"format":"pinch-byte-pairs-v1","joins":[[1,2],[1,2]]}`, "negative": `{"format":"pinch-byte-pairs-v1","joins":[[-1,2]]}`,
	} {
		if _, err := Unmarshal([]byte(text)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func FuzzEncode(f *testing.F) {
	table := Train(instructions, 150)
	f.Add("put the cup")
	f.Fuzz(func(t *testing.T, s string) {
		if got := table.Decode(table.Encode(s)); got != s {
			t.Errorf("%q came back as %q", s, got)
		}
	})
}
