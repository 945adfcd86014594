// Package program is what the four command-line programs share: the root command, the mapping of errors to exit statuses, the
// interrupt, and the way from `pinch` to its helpers.
//
// A verb is one file under cmd/internal/verbs. It has an options struct, AddFlags, checkFlags and run(ctx, opts), and no logic
// of its own. It returns errors; only Main turns them into a message and a status.
package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// Exit statuses of all programs.
const (
	StatusDone        = 0
	StatusError       = 1
	StatusUsage       = 2
	StatusFound       = 3
	StatusInterrupted = 130 // as a shell reports SIGINT
)

// ExitHelp ends the long help of a verb.
const ExitHelp = `
Exit status:
  0    done
  1    an error; the message says what it hit and what to do
  2    wrong usage: flags, arguments or a configuration file
  130  interrupted; what was saved before is complete`

// ExitHelpFound ends the long help of a verb that looks for faults.
const ExitHelpFound = `
Exit status:
  0    done, nothing wrong
  1    an error; the message says what it hit and what to do
  2    wrong usage: flags, arguments or a configuration file
  3    done, and faults were found
  130  interrupted`

// UsageError is a fault in the command line itself.
type UsageError struct{ Err error }

// Error is the fault.
func (e UsageError) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e UsageError) Unwrap() error { return e.Err }

// Usage makes a UsageError.
func Usage(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

// ErrFound says that a check ran to its end and found faults, which are printed already.
var ErrFound = errors.New("faults were found")

// Version is the program's version, set by the linker for releases.
var Version = "development"

// Main runs a program's root command with its verbs and ends the process. The first interrupt cancels the context that verbs
// get; a second one ends the process at once.
func Main(root *cobra.Command) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // from here on the default action is back
	root.SetContext(ctx)
	os.Exit(Run(ctx, root, os.Stderr))
}

// Run executes the root command and returns the exit status; an error becomes one line on stderr.
func Run(ctx context.Context, root *cobra.Command, stderr io.Writer) int {
	err := root.ExecuteContext(ctx)
	status := Status(ctx, err)
	switch status {
	case StatusDone, StatusFound:
	case StatusInterrupted:
		fmt.Fprintf(stderr, "%s: interrupted%s\n", root.Name(), advice(err))
	case StatusUsage:
		fmt.Fprintf(stderr, "%s: %v\n", root.Name(), err)
		fmt.Fprintf(stderr, "Run `%s --help` for the usage.\n", strings.TrimSpace(usagePath(root)))
	default:
		fmt.Fprintf(stderr, "%s: %v\n", root.Name(), err)
	}
	return status
}

// advice is what an interrupted verb says after "context canceled;": how to go on.
func advice(err error) string {
	if _, text, ok := strings.Cut(err.Error(), context.Canceled.Error()+"; "); ok {
		return "; " + text
	}
	return ""
}

// usagePath is the command line up to the verb, for the help hint.
func usagePath(root *cobra.Command) string {
	cmd, _, err := root.Find(os.Args[1:])
	if err != nil || cmd == nil {
		return root.Name()
	}
	return cmd.CommandPath()
}

// Status maps an error to an exit status.
func Status(ctx context.Context, err error) int {
	var usage UsageError
	switch {
	case err == nil:
		return StatusDone
	case errors.Is(err, ErrFound):
		return StatusFound
	case errors.As(err, &usage):
		return StatusUsage
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return StatusInterrupted
	}
	return StatusError
}

// Root makes the root command of a program.
func Root(name, short, long string, verbs ...*cobra.Command) *cobra.Command {
	root := &cobra.Command{
		Use: name, Short: short, Long: long, Version: Version,
		SilenceErrors: true, SilenceUsage: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return unknownVerb(cmd, args[0])
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return UsageError{err} })
	root.CompletionOptions.HiddenDefaultCmd = true
	for _, v := range verbs {
		Add(root, v)
	}
	return root
}

// Add puts a verb under a parent and makes its argument errors usage errors.
func Add(parent, verb *cobra.Command) {
	if check := verb.Args; check != nil {
		verb.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return UsageError{fmt.Errorf("%s: %w", cmd.CommandPath(), err)}
			}
			return nil
		}
	}
	parent.AddCommand(verb)
}

// Group makes a command that only holds others, such as `dataset`.
func Group(use, short string, verbs ...*cobra.Command) *cobra.Command {
	group := &cobra.Command{
		Use: use, Short: short,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fmt.Errorf("say what to do: %s", strings.Join(verbNames(cmd), ", "))
			}
			return unknownVerb(cmd, args[0])
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	for _, v := range verbs {
		Add(group, v)
	}
	return group
}
