package capture

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/atomicfile"
	"github.com/pinch-robotics/pinch/internal/meta"
	"github.com/pinch-robotics/pinch/internal/rawlog"
)

// recording is one open recording on disk: <out>/.<name>.recording until it is finished. Not safe for concurrent use.
type recording struct {
	out, name string
	dir       string // where it is now
	log       *rawlog.Writer
	channels  map[string]rawlog.ChannelID
	meta      meta.Recording
	start     frames.HostTime
	segment   *frames.HostTime // start of the open segment
	last      frames.HostTime  // of the last session event
}

func workingName(name string) string { return "." + name + ".recording" }

func logName(name string) string { return name + "_0.mcap" }

// createRecording makes the folder, the description so far and the log. Nothing is left behind when it fails.
func createRecording(out, name string, m meta.Recording, opt rawlog.WriterOptions) (*recording, error) {
	dir := filepath.Join(out, workingName(name))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, fmt.Errorf("start recording %s: %w", name, err)
	}
	m.Files = []meta.File{{Type: "mcap", Name: logName(name)}}
	err := meta.WriteDraft(dir, m)
	var log *rawlog.Writer
	if err == nil {
		log, err = rawlog.Create(filepath.Join(dir, logName(name)), opt)
	}
	if err == nil {
		err = atomicfile.SyncDir(out)
	}
	if err != nil {
		if log != nil {
			_ = log.Close()
		}
		_ = os.RemoveAll(dir)
		return nil, fmt.Errorf("start recording %s: %w", name, err)
	}
	return &recording{out: out, name: name, dir: dir, log: log, channels: map[string]rawlog.ChannelID{}, meta: m}, nil
}

// write logs one message, declaring its topic first if it is new.
func (r *recording) write(m *message) error {
	id, ok := r.channels[m.topic]
	if !ok {
		var err error
		if id, err = r.declare(m.topic, schemaOf(m.typeName), m.clock); err != nil {
			return err
		}
	}
	return r.log.Write(id, m.host, m.device, m.data)
}

func (r *recording) declare(topic string, schema rawlog.Schema, clock string) (rawlog.ChannelID, error) {
	var md map[string]string
	if clock != "" {
		md = map[string]string{rawlog.ClockKey: clock}
	}
	id, err := r.log.AddChannel(topic, schema, md)
	if err == nil {
		r.channels[topic] = id
	}
	return id, err
}

// writeJSON logs one of our own messages.
func (r *recording) writeJSON(topic string, schema rawlog.Schema, clock string, host frames.HostTime, device frames.DeviceTime, v any) error {
	id, ok := r.channels[topic]
	if !ok {
		var err error
		if id, err = r.declare(topic, schema, clock); err != nil {
			return err
		}
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write %s: %w", topic, err)
	}
	return r.log.Write(id, host, device, b)
}

// event logs a session event and keeps the description in step. Segment ends lie at least a nanosecond after their starts.
func (r *recording) event(e rawlog.SessionEvent, clock string, host frames.HostTime, device frames.DeviceTime) error {
	switch e.Event {
	case rawlog.EventStart:
		r.start = host
		r.meta.Episode.Label = e.Label
	case rawlog.EventSubtask:
		at := host
		r.segment = &at
	case rawlog.EventAccept, rawlog.EventReject:
		r.closeSegment(e, host)
	}
	r.last = host
	return r.writeJSON(rawlog.TopicSession, rawlog.SessionEventSchema, clock, host, device, e)
}

func (r *recording) closeSegment(e rawlog.SessionEvent, host frames.HostTime) {
	if r.segment == nil {
		return
	}
	start, end := meta.Seconds(int64(*r.segment)), meta.Seconds(int64(host))
	r.segment = nil
	if end <= start { // float seconds are 0.2 µs apart
		end = start + 1e-6
	}
	r.meta.AddSegment(e.Label, start, end, e.Success != nil && *e.Success)
}

// finish closes the log, writes meta.json and gives the folder its name; the recording is durable when it returns. It gives the
// folder's path. On failure everything logged stays in the working folder, from where recovery can finish it.
func (r *recording) finish(success bool) (string, error) {
	if err := r.log.Close(); err != nil {
		return "", fmt.Errorf("finish recording %s: %w", r.name, err)
	}
	r.meta.Episode.Success = success
	return publishFolder(r.out, r.name, r.dir, closeMeta(r.meta, r.start, r.last))
}

// closeMeta sets the episode's times.
func closeMeta(m meta.Recording, start, end frames.HostTime) meta.Recording {
	m.Episode.StartTime, m.Episode.EndTime = meta.Seconds(int64(start)), meta.Seconds(int64(end))
	if n := len(m.Segments); n > 0 { // the last segment's end may have been moved by a rounding step
		m.Episode.EndTime = max(m.Episode.EndTime, m.Segments[n-1].EndTime)
	}
	return m
}

// publishFolder writes the final meta.json and renames the working folder: the recording exists from that moment on.
func publishFolder(out, name, dir string, m meta.Recording) (string, error) {
	if err := meta.Write(dir, m); err != nil {
		return "", fmt.Errorf("finish recording %s: %w", name, err)
	}
	final := filepath.Join(out, name)
	if err := atomicfile.Rename(atomicfile.OS, dir, final); err != nil {
		return "", fmt.Errorf("finish recording %s: %w", name, err)
	}
	return final, nil
}

// discard closes the log and moves the folder out of sight. Nothing is deleted.
func (r *recording) discard() (string, error) {
	if err := r.log.Close(); err != nil {
		return "", fmt.Errorf("discard recording %s: %w", r.name, err)
	}
	return discardFolder(r.out, r.name, r.dir)
}

func discardFolder(out, name, dir string) (string, error) {
	bin := filepath.Join(out, meta.DiscardedDir)
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return "", fmt.Errorf("discard recording %s: %w", name, err)
	}
	to := filepath.Join(bin, name)
	if err := atomicfile.Rename(atomicfile.OS, dir, to); err != nil {
		return "", fmt.Errorf("discard recording %s: %w", name, err)
	}
	return to, nil
}
