package capture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/folderlock"
	"github.com/pinch-robotics/pinch/internal/meta"
	"github.com/pinch-robotics/pinch/internal/rawlog"
)

// RecoverReport tells what Recover did, one entry per recording.
type RecoverReport struct{ Recordings []Recovered }

// Recovered is one finished recording.
type Recovered struct {
	Folder   string // where it is now
	Messages uint64 // readable messages
	Segments int
	// Unjudged: its last segment had no verdict; it is kept as a failed attempt.
	Unjudged bool
	// Discarded: no subtask had begun; the data is kept under .discarded.
	Discarded bool
	Losses    []rawlog.Loss // what could not be read
}

// Recover finishes every recording in the folder dir that a killed recorder left open: the log gets its index and footer, meta.json
// its segments from the log's session events, the folder its name. dir may also be one such folder, a finished recording's folder, or
// one .mcap file, whose log is then repaired, and meta.json with it. An attempt without a verdict is closed as failed at the last message. Recordings that
// are healthy are not touched. Running it twice, or killing it, does no harm.
func Recover(ctx context.Context, dir string) (RecoverReport, error) {
	var report RecoverReport
	st, err := os.Stat(dir)
	if err != nil {
		return report, fmt.Errorf("recover: %w", err)
	}
	if !st.IsDir() {
		return report, recoverLog(&report, dir)
	}
	dir = filepath.Clean(dir)
	name, one := workName(dir)
	out := dir
	if one {
		out = filepath.Dir(dir)
	}
	lock, err := folderlock.Take(out) // a recording under way is no crashed one
	if err != nil {
		return report, fmt.Errorf("recover: %w", err)
	}
	defer lock.Release()
	if one {
		return report, recoverOne(&report, out, name)
	}
	names, err := unfinished(dir)
	if err != nil {
		return report, err
	}
	var errs []error
	for _, name := range names {
		if ctx.Err() != nil {
			return report, ctx.Err()
		}
		errs = append(errs, recoverOne(&report, dir, name))
	}
	logs, err := filepath.Glob(filepath.Join(dir, "*.mcap"))
	if err != nil {
		return report, err
	}
	for _, l := range logs {
		errs = append(errs, recoverLog(&report, l))
	}
	return report, errors.Join(errs...)
}

// workName is the recording's name when dir is a working folder.
func workName(dir string) (string, bool) {
	base := filepath.Base(dir)
	name, ok := strings.CutSuffix(base, ".recording")
	return strings.TrimPrefix(name, "."), ok && strings.HasPrefix(name, ".")
}

// recoverLog repairs a finished recording's log, and the segments of the meta.json beside it when the log lost some: the two must
// agree. The description as it was stays in meta.json.before. A log without a session, or without a description, is repaired alone.
func recoverLog(report *RecoverReport, path string) error {
	dir := filepath.Dir(path)
	m, metaErr := meta.ReadDraft(dir)
	var s *storedSession
	r, err := rawlog.RecoverWith(path, func(r *rawlog.Reader) (added []rawlog.Added, err error) {
		if _, ok := r.Channel(rawlog.TopicSession); !ok || metaErr != nil {
			return nil, nil
		}
		if s, err = readSession(r); err != nil {
			return nil, err
		}
		return s.closeOpen()
	})
	if err != nil {
		return err
	}
	done := Recovered{Folder: dir, Messages: r.Messages, Losses: r.Losses, Segments: len(m.Segments)}
	changed := r.Changed
	if s != nil {
		done.Unjudged = s.unjudged
		if now := s.describe(m); len(now.Segments) > 0 && len(now.Segments) != len(m.Segments) {
			if err := replaceMeta(dir, now); err != nil {
				return fmt.Errorf("recover %s: %w", dir, err)
			}
			changed, done.Segments = true, len(now.Segments)
		}
	}
	if changed {
		report.Recordings = append(report.Recordings, done)
	}
	return nil
}

// replaceMeta writes meta.json anew and keeps what it was.
func replaceMeta(dir string, m meta.Recording) error {
	path := filepath.Join(dir, meta.FileName)
	if err := os.Link(path, path+".before"); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("keep the description as it was: %w", err)
	}
	return meta.Write(dir, m)
}

// recoverOne finishes one working folder.
func recoverOne(report *RecoverReport, out, name string) error {
	dir := filepath.Join(out, workingName(name))
	m, err := meta.ReadDraft(dir)
	if err != nil {
		return fmt.Errorf("recover recording %s: %w", name, err)
	}
	var s *storedSession
	rec, err := rawlog.RecoverWith(filepath.Join(dir, logName(name)), func(r *rawlog.Reader) ([]rawlog.Added, error) {
		s, err = readSession(r)
		if err != nil {
			return nil, err
		}
		return s.closeOpen()
	})
	if err != nil {
		return fmt.Errorf("recover recording %s: %w", name, err)
	}
	done := Recovered{Messages: rec.Messages, Losses: rec.Losses, Unjudged: s.unjudged}
	m = s.describe(m)
	done.Segments = len(m.Segments)
	if len(m.Segments) == 0 {
		done.Discarded = true
		done.Folder, err = discardFolder(out, name, dir)
	} else {
		done.Folder, err = publishFolder(out, name, dir, m)
	}
	if err == nil {
		report.Recordings = append(report.Recordings, done)
	}
	return err
}

// storedSession is what a log knows of its session.
type storedSession struct {
	events   []storedEvent
	clock    string // of the session events
	end      instant
	unjudged bool
}

type storedEvent struct {
	rawlog.SessionEvent
	host    frames.HostTime
	publish int64
}

// readSession collects the session events and the latest times of a log.
func readSession(r *rawlog.Reader) (*storedSession, error) {
	s := &storedSession{}
	if c, ok := r.Channel(rawlog.TopicSession); ok {
		s.clock = c.Clock()
	}
	for m, err := range r.Messages() {
		var loss *rawlog.Loss
		if errors.As(err, &loss) {
			continue
		}
		if err != nil {
			return nil, err
		}
		s.end.host = max(s.end.host, m.LogTime)
		if d, ok := m.DeviceTime(); ok && m.Channel.Clock() == s.clock {
			s.end.device = max(s.end.device, d)
		}
		if m.Channel.Topic != rawlog.TopicSession {
			continue
		}
		e := storedEvent{host: m.LogTime, publish: m.PublishTime}
		if err := json.Unmarshal(m.Data, &e.SessionEvent); err != nil {
			return nil, fmt.Errorf("%s: %w", rawlog.TopicSession, err)
		}
		s.events = append(s.events, e)
	}
	return s, nil
}

// open is the subtask event that has no verdict yet, or nil.
func (s *storedSession) open() *storedEvent {
	var open *storedEvent
	for i := range s.events {
		switch s.events[i].Event {
		case rawlog.EventSubtask:
			open = &s.events[i]
		case rawlog.EventAccept, rawlog.EventReject, rawlog.EventCancel:
			open = nil
		}
	}
	return open
}

// closeOpen adds the reject event of an attempt without verdict.
func (s *storedSession) closeOpen() ([]rawlog.Added, error) {
	open := s.open()
	if open == nil {
		return nil, nil
	}
	failed := false
	e := rawlog.SessionEvent{Event: rawlog.EventReject, Label: open.Label, Subtask: open.Subtask, Success: &failed}
	b, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	a := rawlog.Added{
		Topic: rawlog.TopicSession, Schema: rawlog.SessionEventSchema, LogTime: max(s.end.host, open.host+1), PublishTime: int64(max(s.end.host, open.host+1)), Data: b,
	}
	if s.clock != "" {
		a.Metadata = map[string]string{rawlog.ClockKey: s.clock}
		a.PublishTime = max(int64(s.end.device), open.publish+1)
	}
	s.events = append(s.events, storedEvent{e, a.LogTime, a.PublishTime})
	s.unjudged = true
	return []rawlog.Added{a}, nil
}

// describe fills the segments and the episode from the events, as the recorder would have.
func (s *storedSession) describe(m meta.Recording) meta.Recording {
	r := recording{meta: m}
	r.meta.Labels, r.meta.Segments = []string{}, []meta.Segment{}
	last := map[int]bool{}
	for _, e := range s.events {
		switch e.Event {
		case rawlog.EventStart:
			r.start = e.host
			r.meta.Episode.Label = e.Label
		case rawlog.EventSubtask:
			at := e.host
			r.segment = &at
			last[e.Subtask] = false
		case rawlog.EventAccept, rawlog.EventReject:
			r.closeSegment(e.SessionEvent, e.host)
			last[e.Subtask] = e.Event == rawlog.EventAccept
		case rawlog.EventCancel:
			r.segment = nil
		}
		r.last = e.host
	}
	r.meta.Episode.Success = len(last) > 0 && !s.unjudged
	for _, ok := range last {
		r.meta.Episode.Success = r.meta.Episode.Success && ok
	}
	return closeMeta(r.meta, r.start, r.last)
}
