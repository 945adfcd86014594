package config

// Nearest returns the choice with the smallest edit distance to word, the first of equals. ok is false when none is near: more
// than half of the longer name would have to change, so that a suggestion would only mislead.
func Nearest(word string, choices []string) (nearest string, ok bool) {
	best := -1
	for _, c := range choices {
		d := editDistance(word, c)
		if d > max(len(word), len(c))/2 || (best >= 0 && d >= best) {
			continue
		}
		nearest, best = c, d
	}
	return nearest, best >= 0
}

// editDistance is the number of insertions, deletions, replacements and swaps of neighbours between two names (the restricted
// Damerau-Levenshtein distance), counted in bytes: keys are ASCII.
func editDistance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			replace := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			rows[i][j] = min(replace, rows[i-1][j]+1, rows[i][j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
