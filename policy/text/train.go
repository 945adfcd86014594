package text

import (
	"cmp"
	"slices"
)

// word is a piece of the corpus with its number.
type word struct {
	ids   []int32
	count int
}

// Train makes a table of at most joins entries from texts and how often they occur. In each round the most frequent pair is joined;
// of equally frequent ones the pair with the smaller tokens, so the table is a function of the counts alone. It stops when no pair
// occurs twice: a join seen once says nothing about texts to come.
func Train(texts map[string]int, joins int) *Table {
	words := corpus(texts)
	t, _ := newTable(nil)      // no joins: no fault
	counts := map[pair]int{}   // how often a pair stands in the corpus
	where := map[pair][]int{}  // words that have (or had) the pair, each once or more
	add := func(w, sign int) { // counts the pairs of a word
		ids := words[w].ids
		for i := 0; i+1 < len(ids); i++ {
			p := pair{ids[i], ids[i+1]}
			counts[p] += sign * words[w].count
			if sign > 0 {
				where[p] = append(where[p], w)
			}
		}
	}
	for w := range words {
		add(w, 1)
	}
	for len(t.joins) < joins {
		best, ok := mostFrequent(counts)
		if !ok {
			break
		}
		id := int32(len(t.bytes))
		t.append(best)
		touched := where[best]
		slices.Sort(touched)
		for _, w := range slices.Compact(touched) {
			add(w, -1)
			words[w].ids = replace(words[w].ids, best, id)
			add(w, 1)
		}
		delete(counts, best)
		delete(where, best)
	}
	return t
}

// corpus cuts the texts into pieces and counts equal ones.
func corpus(texts map[string]int) []word {
	count := map[string]int{}
	for s, n := range texts {
		for _, p := range pieces(s) {
			count[p] += n
		}
	}
	names := make([]string, 0, len(count))
	for s := range count {
		names = append(names, s)
	}
	slices.Sort(names)
	words := make([]word, 0, len(names))
	for _, s := range names {
		w := word{count: count[s]}
		for i := range len(s) {
			w.ids = append(w.ids, int32(s[i]))
		}
		words = append(words, w)
	}
	return words
}

// mostFrequent gives the pair to join next; ok is false when none occurs twice.
func mostFrequent(counts map[pair]int) (best pair, ok bool) {
	top := 1
	for p, n := range counts {
		if n > top || ok && n == top && (cmp.Or(cmp.Compare(p[0], best[0]), cmp.Compare(p[1], best[1])) < 0) {
			best, top, ok = p, n, true
		}
	}
	return best, ok
}

// replace writes id in place of each p, from left to right, without overlap.
func replace(ids []int32, p pair, id int32) []int32 {
	out := ids[:0]
	for i := 0; i < len(ids); i++ {
		if i+1 < len(ids) && ids[i] == p[0] && ids[i+1] == p[1] {
			out = append(out, id)
			i++
		} else {
			out = append(out, ids[i])
		}
	}
	return out
}
