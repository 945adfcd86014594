package rawlog

import (
	"errors"
	"fmt"
	"os"

	"github.com/foxglove/mcap/go/mcap"
	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/atomicfile"
)

// Recovery tells what Recover did.
type Recovery struct {
	Path     string
	Changed  bool   // false: the file was complete and healthy, nothing was touched
	Messages uint64 // messages in the file now
	Losses   []Loss // what could not be kept
	Damaged  string // where the original was put, when bytes in its middle were unreadable; else ""
}

// Recover makes a cut or damaged log a complete MCAP file with index and footer, keeping every readable message with its
// channel, sequence number and times. It writes a temporary file beside the log, syncs it and renames it over the log, so the
// log is never in a worse state than before. When more than an unfinished tail is unreadable, the original is kept as
// <name>.damaged. MCAP attachments and metadata records (we write none) are not carried over.
func Recover(path string) (Recovery, error) { return RecoverWith(path, nil) }

// Added is a message that RecoverWith appends to a log.
type Added struct {
	Topic       string
	Schema      Schema            // used when the log does not have the topic
	Metadata    map[string]string // likewise
	LogTime     frames.HostTime
	PublishTime int64
	Data        []byte
}

// RecoverWith is Recover, and also appends what amend returns after looking at the readable part; then the log is rewritten even when it
// is healthy. amend may be nil.
func RecoverWith(path string, amend func(*Reader) ([]Added, error)) (Recovery, error) {
	r, err := Open(path)
	if err != nil {
		return Recovery{}, fmt.Errorf("recover: %w", err)
	}
	defer r.Close()
	var added []Added
	if amend != nil {
		if added, err = amend(r); err != nil {
			return Recovery{}, fmt.Errorf("recover %s (it is untouched): %w", path, err)
		}
	}
	rec := Recovery{Path: path, Messages: r.info.Messages + uint64(len(added))}
	if r.info.Complete && len(r.info.Losses) == 0 && len(added) == 0 {
		return rec, nil
	}
	for _, l := range r.info.Losses {
		if l.Bytes > 0 {
			rec.Losses = append(rec.Losses, l)
		}
	}
	tmp := path + ".recover.tmp"
	if err := rewrite(r, tmp, added); err != nil {
		_ = os.Remove(tmp)
		return Recovery{}, fmt.Errorf("recover %s (it is untouched): %w", path, err)
	}
	if middleLost(r) {
		rec.Damaged = path + ".damaged"
		if err := os.Link(path, rec.Damaged); err != nil && !errors.Is(err, os.ErrExist) {
			_ = os.Remove(tmp)
			return Recovery{}, fmt.Errorf("recover %s (it is untouched): keep the original: %w", path, err)
		}
	}
	if err := atomicfile.Rename(atomicfile.OS, tmp, path); err != nil {
		if errors.Is(err, atomicfile.ErrNotDurable) {
			rec.Changed = true
			return rec, fmt.Errorf("recover %s: %w", path, err)
		}
		_ = os.Remove(tmp)
		return Recovery{}, fmt.Errorf("recover %s (it is untouched): %w", path, err)
	}
	rec.Changed = true
	return rec, nil
}

// middleLost is true when unreadable bytes are followed by readable ones, which a killed writer does not leave behind.
func middleLost(r *Reader) bool {
	for _, l := range r.info.Losses {
		if l.Bytes > 0 && l.Offset+l.Bytes < r.scan.size {
			return true
		}
	}
	return false
}

// rewrite copies every readable message of r, and then added, to a new file at tmp.
func rewrite(r *Reader, tmp string, added []Added) error {
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	out, err := newOutput(tmp, f, r.info.Library)
	if err != nil {
		_ = f.Close()
		return err
	}
	err = copyMessages(r, out, added)
	return errors.Join(err, out.close(err == nil))
}

func copyMessages(r *Reader, out *output, added []Added) error {
	c := newChunk()
	declareAll(r, c)
	counts := map[uint16]uint32{}
	limit := WriterOptions{}.filled().ChunkBytes
	for m, err := range r.Messages() {
		var loss *Loss
		if errors.As(err, &loss) {
			continue
		}
		if err != nil {
			return err
		}
		counts[uint16(m.Channel.ID)] = m.Sequence + 1
		c.add(uint16(m.Channel.ID), m.Sequence, uint64(m.LogTime), uint64(m.PublishTime), m.Data)
		if len(c.records) >= limit {
			if err := out.writeChunk(c); err != nil {
				return err
			}
			c.reset()
		}
	}
	for _, a := range added {
		id := channelFor(r, c, a)
		c.add(id, counts[id], uint64(a.LogTime), uint64(a.PublishTime), a.Data)
		counts[id]++
	}
	return out.writeChunk(c)
}

// channelFor finds the channel of an added message, declaring it when the log does not have the topic.
func channelFor(r *Reader, c *chunk, a Added) uint16 {
	top, topSchema := uint16(0), uint16(0)
	for _, ch := range r.info.Channels {
		if ch.Topic == a.Topic {
			return uint16(ch.ID)
		}
		top = max(top, uint16(ch.ID))
	}
	for i, ch := range c.channels { // an earlier added message may have declared it
		if ch.Topic == a.Topic {
			return ch.ID
		}
		top, topSchema = max(top, ch.ID), max(topSchema, c.schemas[i].ID)
	}
	s := &mcap.Schema{ID: max(topSchema, uint16(len(r.info.Channels))) + 1, Name: a.Schema.Name, Encoding: a.Schema.Encoding, Data: a.Schema.Data}
	c.declare(s, &mcap.Channel{
		ID: top + 1, SchemaID: s.ID, Topic: a.Topic, MessageEncoding: a.Schema.MessageEncoding(), Metadata: a.Metadata,
	})
	return top + 1
}

// declareAll puts the declarations of all channels before the first message.
func declareAll(r *Reader, c *chunk) {
	schemas := map[string]*mcap.Schema{}
	for _, ch := range r.info.Channels {
		s := schemas[ch.Schema.Name]
		if s == nil {
			s = &mcap.Schema{ID: uint16(len(schemas) + 1), Name: ch.Schema.Name, Encoding: ch.Schema.Encoding, Data: ch.Schema.Data}
			schemas[ch.Schema.Name] = s
		}
		c.declare(s, &mcap.Channel{
			ID: uint16(ch.ID), SchemaID: s.ID, Topic: ch.Topic, MessageEncoding: ch.MessageEncoding, Metadata: ch.Metadata,
		})
	}
}
