package program

import (
	"strconv"
	"strings"
)

// maxEpisode is the largest episode that a list may name, so that a slip of the finger does not fill the memory.
const maxEpisode = 1_000_000

// ParseEpisodes reads a list of episodes such as 1,5,7-9. Empty gives nil: all.
func ParseEpisodes(list string) ([]int, error) {
	if list == "" {
		return nil, nil
	}
	var out []int
	for _, part := range strings.Split(list, ",") {
		first, last, isRange := strings.Cut(strings.TrimSpace(part), "-")
		from, err := strconv.Atoi(first)
		to := from
		if err == nil && isRange {
			to, err = strconv.Atoi(last)
		}
		if err != nil || from < 0 || to < from {
			return nil, Usage("--episodes: %q is no episode or range; write for instance 1,5,7-9", part)
		}
		if to > maxEpisode {
			return nil, Usage("--episodes: %q goes beyond episode %d", part, maxEpisode)
		}
		for e := from; e <= to; e++ {
			out = append(out, e)
		}
	}
	return out, nil
}
