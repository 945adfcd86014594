package program

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pinch-robotics/pinch/internal/config"
)

// unknownVerb names the nearest verb, or all of them.
func unknownVerb(cmd *cobra.Command, word string) error {
	names := verbNames(cmd)
	if near, ok := config.Nearest(word, names); ok {
		return UsageError{fmt.Errorf("unknown verb %q; the nearest is %q", word, near)}
	}
	return UsageError{fmt.Errorf("unknown verb %q; there are %s", word, strings.Join(names, ", "))}
}

func verbNames(cmd *cobra.Command) []string {
	var names []string
	for _, c := range cmd.Commands() {
		if !c.Hidden && c.Name() != "help" && c.Name() != "completion" {
			names = append(names, c.Name())
		}
	}
	return names
}
