package capture

import "github.com/pinch-robotics/pinch/internal/rawlog"

// command is what the operator wants.
type command int

const (
	cmdAccept command = iota + 1
	cmdReject
	cmdCancel
)

// sessionState is the state machine of one recording after another:
//
//	waiting    --accept-->  recording subtask 0
//	recording  --accept-->  the segment succeeded; next subtask at once, or, after the last one, saved and waiting
//	recording  --reject-->  the segment failed; the same subtask again
//	recording  --cancel-->  waiting; the open segment is dropped
//	waiting    --reject, cancel-->  nothing
//
// It is pure: commands in, events out. Source of the behaviour: yubi-core's task sequence.
type sessionState struct {
	task      Task
	recording bool
	subtask   int
	accepted  int    // segments accepted in this recording
	last      []bool // by subtask: the last attempt succeeded
}

// step is what one command does to a recording.
type step struct {
	begin  bool // a recording begins with this event
	events []rawlog.SessionEvent
	end    bool // the recording is over
	keep   bool // with end: something in it was accepted and it is saved; else it is discarded
}

func (s *sessionState) apply(c command) step {
	if !s.recording {
		if c != cmdAccept {
			return step{}
		}
		*s = sessionState{task: s.task, recording: true, last: make([]bool, len(s.task.Subtasks))}
		return step{begin: true, events: []rawlog.SessionEvent{{Event: rawlog.EventStart, Label: s.task.Name}, s.open()}}
	}
	switch c {
	case cmdAccept:
		return s.accept()
	case cmdReject:
		e := s.close(rawlog.EventReject, false)
		return step{events: []rawlog.SessionEvent{e, s.open()}}
	case cmdCancel:
		return s.stop("cancelled by the operator")
	}
	return step{}
}

func (s *sessionState) accept() step {
	e := s.close(rawlog.EventAccept, true)
	s.subtask++
	if s.subtask == len(s.task.Subtasks) {
		s.recording = false
		return step{events: []rawlog.SessionEvent{e}, end: true, keep: true}
	}
	return step{events: []rawlog.SessionEvent{e, s.open()}}
}

// stop ends the recording early. What was judged before is kept: a cancel drops only the open segment. A recording in which
// nothing was accepted is discarded.
func (s *sessionState) stop(reason string) step {
	if !s.recording {
		return step{}
	}
	s.recording = false
	e := rawlog.SessionEvent{Event: rawlog.EventCancel, Label: reason, Subtask: s.subtask}
	return step{events: []rawlog.SessionEvent{e}, end: true, keep: s.accepted > 0}
}

func (s *sessionState) open() rawlog.SessionEvent {
	return rawlog.SessionEvent{Event: rawlog.EventSubtask, Label: s.task.Subtasks[s.subtask], Subtask: s.subtask}
}

func (s *sessionState) close(event string, success bool) rawlog.SessionEvent {
	if success {
		s.accepted++
	}
	s.last[s.subtask] = success
	return rawlog.SessionEvent{Event: event, Label: s.task.Subtasks[s.subtask], Subtask: s.subtask, Success: &success}
}

// success: the last attempt of every subtask succeeded.
func (s *sessionState) success() bool {
	for _, ok := range s.last {
		if !ok {
			return false
		}
	}
	return len(s.last) > 0
}
