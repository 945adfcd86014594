package ingest

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/pinch-robotics/pinch/internal/rawlog"
)

// Lost says what of a log cannot be read.
type Lost struct {
	// Parts is the number of unreadable places, Bytes their size, FileBytes the size of the log.
	Parts     int   `json:"parts"`
	Bytes     int64 `json:"bytes"`
	FileBytes int64 `json:"file_bytes"`
	// Messages are those that sequence numbers show to be missing between readable ones, by topic. Writers that do not number their
	// messages, and what was lost at the end, do not show.
	Messages map[string]uint64 `json:"messages,omitempty"`
	// Reasons counts the places by what is wrong with them.
	Reasons map[string]int `json:"reasons"`
	// First is the place of the first one, in bytes from the start of the log.
	First int64 `json:"first"`
}

// lostOf sums up what a reader could not read; nil when the log is whole.
func lostOf(info rawlog.Info) *Lost {
	if len(info.Losses) == 0 {
		return nil
	}
	l := &Lost{Parts: len(info.Losses), FileBytes: info.Bytes, First: info.Losses[0].Offset, Messages: map[string]uint64{}, Reasons: map[string]int{}}
	for _, x := range info.Losses {
		l.Bytes += x.Bytes
		l.Reasons[x.Reason]++
	}
	for _, c := range info.Channels {
		if c.Missing > 0 {
			l.Messages[c.Topic] = c.Missing
		}
	}
	return l
}

// String is one line for people.
func (l *Lost) String() string {
	first, n := "", 0
	for reason, count := range l.Reasons {
		if count > n || (count == n && reason < first) {
			first, n = reason, count
		}
	}
	missing := uint64(0)
	for _, m := range l.Messages {
		missing += m
	}
	text := fmt.Sprintf("%d parts of the log are unreadable, %d of %d bytes, the first at byte %d; %d times: %s", l.Parts, l.Bytes, l.FileBytes, l.First, n, first)
	if l.Parts == 1 {
		text = fmt.Sprintf("%s at byte %d, %d of %d bytes unreadable", first, l.First, l.Bytes, l.FileBytes)
	}
	if missing > 0 {
		text += fmt.Sprintf("; at least %d messages on %d topics are missing", missing, len(l.Messages))
	}
	return text
}

// losses refuses a log that is cut or damaged, or notes and warns of it, once, when salvaging.
func (s *survey) losses(info rawlog.Info) error {
	s.lost = lostOf(info)
	switch {
	case s.lost == nil:
		return nil
	case !s.salvage:
		return &lossError{&info.Losses[0]}
	}
	s.warnings = append(s.warnings, s.lost.String())
	return nil
}

// lossError refuses a log that is not whole.
type lossError struct{ loss *rawlog.Loss }

func (e *lossError) Error() string {
	return fmt.Sprintf("%s at byte %d, %d bytes unreadable; run `pinch record --recover %s` and ingest again, or run `pinch ingest --salvage` to take what can be read",
		e.loss.Reason, e.loss.Offset, e.loss.Bytes, filepath.Dir(e.loss.Path))
}

func (e *lossError) Unwrap() error { return e.loss }

func isLoss(err error) bool {
	var l *rawlog.Loss
	return errors.As(err, &l)
}
