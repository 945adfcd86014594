package program

import (
	"io"
	"log/slog"

	"github.com/spf13/pflag"
)

// LogFlags choose how much a verb logs.
type LogFlags struct {
	Verbose bool
	Quiet   bool
}

// AddFlags adds --verbose and --quiet.
func (l *LogFlags) AddFlags(f *pflag.FlagSet) {
	f.BoolVarP(&l.Verbose, "verbose", "v", false, "log also what goes well")
	f.BoolVarP(&l.Quiet, "quiet", "q", false, "log errors only")
}

// Logger writes warnings to w, more or less with the flags. Times are left out: terminals and service managers add them.
func (l LogFlags) Logger(w io.Writer) *slog.Logger {
	level := slog.LevelWarn
	switch {
	case l.Quiet:
		level = slog.LevelError
	case l.Verbose:
		level = slog.LevelInfo
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}
