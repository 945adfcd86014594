package rawlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"

	"github.com/foxglove/mcap/go/mcap"
	"github.com/pinch-robotics/pinch/frames"
)

// Reader reads one MCAP file: ours, a ROS 2 recording, complete or cut off. It is not safe for concurrent use.
type Reader struct {
	file *os.File
	scan *scanner
	info Info
	dict dictionary
}

// Open reads the structure of a log. A file that is cut or damaged still opens: Info lists what is lost. Files without MCAP's
// first bytes are refused.
func Open(path string) (*Reader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open raw log: %w", err)
	}
	r, err := newReader(path, f)
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return r, nil
}

func newReader(path string, f *os.File) (*Reader, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("open raw log: %w", err)
	}
	s, err := newScanner(path, f, st.Size())
	if err != nil {
		return nil, err
	}
	r := &Reader{file: f, scan: s, dict: newDictionary()}
	r.info = Info{Path: path, Bytes: st.Size()}
	if err := r.survey(); err != nil {
		s.close()
		return nil, err
	}
	return r, nil
}

// Info tells the channels, the time span and what is lost. The slices belong to the Reader.
func (r *Reader) Info() Info { return r.info }

// Channel finds a channel by topic.
func (r *Reader) Channel(topic string) (Channel, bool) {
	for _, c := range r.info.Channels {
		if c.Topic == topic {
			return c, true
		}
	}
	return Channel{}, false
}

// Close closes the file.
func (r *Reader) Close() error {
	r.scan.close()
	return r.file.Close()
}

// Messages gives every readable message in file order (the order of arrival), only of the named topics when some are named.
// A part that cannot be read is yielded as a *Loss error in its place; a caller that goes on gets the messages after it.
// Any other error ends the iteration.
func (r *Reader) Messages(topics ...string) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		want := func(c *Channel) bool { return len(topics) == 0 || slices.Contains(topics, c.Topic) }
		err := r.walk(want, func(m Message) bool { return yield(m, nil) }, func(l *Loss) bool { return yield(Message{}, l) })
		if err != nil && !errors.Is(err, errStop) {
			yield(Message{}, err)
		}
	}
}

var errStop = errors.New("iteration stopped")

// survey fills Info. All chunks are unpacked, because only that finds damage and counts what is really there.
func (r *Reader) survey() error {
	seen := map[*Channel]*tally{}
	err := r.walk(nil, func(m Message) bool {
		t := seen[m.Channel]
		if t == nil {
			t = &tally{start: m.LogTime, end: m.LogTime}
			seen[m.Channel] = t
		}
		t.add(m)
		return true
	}, func(l *Loss) bool {
		r.info.Losses = append(r.info.Losses, *l)
		return true
	})
	if err != nil {
		return err
	}
	for _, id := range r.dict.order {
		c := r.dict.channels[id]
		if t := seen[c]; t != nil {
			c.Messages, c.Missing, c.Start, c.End = t.messages, t.missing, t.start, t.end
			if r.info.Messages == 0 || t.start < r.info.Start {
				r.info.Start = t.start
			}
			if r.info.Messages == 0 || t.end > r.info.End {
				r.info.End = t.end
			}
			r.info.Messages += t.messages
		}
		r.info.Channels = append(r.info.Channels, *c)
	}
	return nil
}

// tally counts the messages of one channel.
type tally struct {
	messages, missing uint64
	start, end        frames.HostTime
	last              uint32 // sequence number
}

func (t *tally) add(m Message) {
	if t.messages > 0 && m.Sequence > t.last+1 && t.last != ^uint32(0) {
		t.missing += uint64(m.Sequence - t.last - 1)
	}
	t.messages++
	t.last = m.Sequence
	t.start, t.end = min(t.start, m.LogTime), max(t.end, m.LogTime)
}

// walk visits the file from front to back. want nil means all channels.
func (r *Reader) walk(want func(*Channel) bool, onMessage func(Message) bool, onLoss func(*Loss) bool) error {
	offset := int64(len(mcap.Magic))
	for {
		rec, err := r.scan.next(offset)
		if errors.Is(err, io.EOF) {
			return r.noFooter(offset, onLoss)
		}
		if err == nil {
			var done bool
			if done, err = r.visit(rec, want, onMessage); done {
				return r.checkEnd(rec, onLoss)
			}
		}
		var loss *Loss
		switch {
		case errors.As(err, &loss):
			if !onLoss(loss) {
				return errStop
			}
			if loss.Offset+loss.Bytes >= r.scan.size {
				return nil
			}
		case err != nil:
			return err
		}
		offset = rec.end()
	}
}

func (r *Reader) noFooter(offset int64, onLoss func(*Loss) bool) error {
	if !onLoss(&Loss{Path: r.info.Path, Offset: offset, Reason: "the recording was not closed (no footer)"}) {
		return errStop
	}
	return nil
}

// checkEnd looks for the closing magic after the footer.
func (r *Reader) checkEnd(footer record, onLoss func(*Loss) bool) error {
	tail := make([]byte, len(mcap.Magic))
	if n, _ := r.scan.src.ReadAt(tail, footer.end()); n == len(tail) && bytes.Equal(tail, mcap.Magic) {
		r.info.Complete = true
		return nil
	}
	return r.noFooter(footer.offset, onLoss)
}

// visit handles one top-level record and tells whether it was the footer.
func (r *Reader) visit(rec record, want func(*Channel) bool, onMessage func(Message) bool) (done bool, err error) {
	switch rec.op {
	case mcap.OpFooter:
		return true, nil
	case mcap.OpChunk:
		return false, r.visitChunk(rec, want, onMessage)
	case mcap.OpHeader, mcap.OpSchema, mcap.OpChannel, mcap.OpMessage:
		b, err := r.scan.content(rec)
		if err != nil {
			return false, err
		}
		return false, r.inner(rec, rec.op, b, want, onMessage)
	}
	return false, nil
}

func (r *Reader) visitChunk(rec record, want func(*Channel) bool, onMessage func(Message) bool) error {
	_, raw, err := r.scan.chunk(rec)
	if err != nil {
		return err
	}
	return eachRecordOr(r.scan, rec, raw, func(op mcap.OpCode, body []byte) error {
		return r.inner(rec, op, body, want, onMessage)
	})
}

// eachRecordOr turns a broken inner record into a Loss of the whole chunk record.
func eachRecordOr(s *scanner, rec record, raw []byte, f func(mcap.OpCode, []byte) error) error {
	err := eachRecord(raw, f)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return s.damaged(rec, "a chunk with a broken record inside")
	}
	return err
}

func (r *Reader) inner(rec record, op mcap.OpCode, body []byte, want func(*Channel) bool, onMessage func(Message) bool) error {
	switch op {
	case mcap.OpHeader:
		h, err := mcap.ParseHeader(body)
		if err != nil {
			return r.scan.damaged(rec, "a damaged header")
		}
		r.info.Profile, r.info.Library = h.Profile, h.Library
	case mcap.OpSchema, mcap.OpChannel:
		if err := r.dict.add(op, body); err != nil {
			return r.scan.damaged(rec, err.Error())
		}
	case mcap.OpMessage:
		return r.message(rec, body, want, onMessage)
	}
	return nil
}

func (r *Reader) message(rec record, body []byte, want func(*Channel) bool, onMessage func(Message) bool) error {
	if len(body) < messageHeaderBytes {
		return r.scan.damaged(rec, "a message record that is too short")
	}
	le := binary.LittleEndian
	c := r.dict.channels[le.Uint16(body)]
	if c == nil {
		return r.scan.damaged(rec, fmt.Sprintf("a message of the undeclared channel %d", le.Uint16(body)))
	}
	if want != nil && !want(c) {
		return nil
	}
	m := Message{
		Channel: c, Sequence: le.Uint32(body[2:]), LogTime: frames.HostTime(le.Uint64(body[6:])),
		PublishTime: int64(le.Uint64(body[14:])), Data: body[messageHeaderBytes:],
	}
	if !onMessage(m) {
		return errStop
	}
	return nil
}

// dictionary holds the schemas and channels met so far.
type dictionary struct {
	schemas  map[uint16]Schema
	channels map[uint16]*Channel
	order    []uint16
}

func newDictionary() dictionary {
	return dictionary{schemas: map[uint16]Schema{}, channels: map[uint16]*Channel{}}
}

func (d *dictionary) add(op mcap.OpCode, body []byte) error {
	if op == mcap.OpSchema {
		s, err := mcap.ParseSchema(body)
		if err != nil {
			return errors.New("a damaged schema record")
		}
		d.schemas[s.ID] = Schema{Name: s.Name, Encoding: s.Encoding, Data: bytes.Clone(s.Data)}
		return nil
	}
	c, err := mcap.ParseChannel(body)
	if err != nil {
		return errors.New("a damaged channel record")
	}
	if d.channels[c.ID] != nil {
		return nil // repeated in every chunk by some writers
	}
	d.channels[c.ID] = &Channel{
		ID: ChannelID(c.ID), Topic: c.Topic, MessageEncoding: c.MessageEncoding, Schema: d.schemas[c.SchemaID], Metadata: c.Metadata,
	}
	d.order = append(d.order, c.ID)
	return nil
}
