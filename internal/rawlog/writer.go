package rawlog

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/foxglove/mcap/go/mcap"
	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/atomicfile"
)

// File is what a Writer needs of a file; *os.File is one. Tests put a failing one in its place.
type File interface {
	io.Writer
	Sync() error
	Truncate(size int64) error
	Close() error
}

// WriterOptions sets the bounds of a Writer; the zero value is ready to use.
type WriterOptions struct {
	ChunkBytes int           // a chunk is written when it holds this much; default 1 MiB
	FlushEvery time.Duration // and at the latest after this time, followed by a sync; default 250 ms
	QueueBytes int           // Write waits while this much is not yet written; default 64 MiB (about 8 s of three cameras)
	Library    string        // name put in the header; default "pinch"
	// OpenFile creates the file; default os.OpenFile with O_CREATE|O_EXCL, so an existing log is never overwritten.
	OpenFile func(path string) (File, error)
}

func (o WriterOptions) filled() WriterOptions {
	if o.ChunkBytes <= 0 {
		o.ChunkBytes = 1 << 20
	}
	if o.FlushEvery <= 0 {
		o.FlushEvery = 250 * time.Millisecond
	}
	if o.QueueBytes <= 0 {
		o.QueueBytes = 64 << 20
	}
	if o.Library == "" {
		o.Library = "pinch"
	}
	if o.OpenFile == nil {
		o.OpenFile = createNew
	}
	return o
}

func createNew(path string) (File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
}

// WriterStats counts messages by how safe they are. Accepted >= Written >= Durable.
type WriterStats struct {
	Accepted uint64 // taken by Write
	Written  uint64 // given to the operating system: survives the death of the process
	Durable  uint64 // synced to the disk: survives a power cut
	Bytes    int64  // size of the file up to the last complete chunk
}

// Writer writes one MCAP file. It is safe for concurrent use. Memory is bounded by QueueBytes; when the disk is slower
// than the devices, Write waits. After the first failed write every call returns that failure, and the file ends
// with the last complete chunk.
type Writer struct {
	path string
	opt  WriterOptions
	wake chan struct{} // tells the flusher that a chunk is full or that someone waits for a sync
	sync chan struct{} // tells the syncer that something was written; closed by the flusher
	done chan struct{} // closed when both have left

	mu       sync.Mutex // guards everything below
	changed  *sync.Cond // stats, err or the queue went on
	channels []channelState
	schemas  map[string]uint16
	pending  *chunk   // being filled
	full     []*chunk // waiting for the flusher, oldest first
	fullSize int      // their bytes
	spare    []*chunk // empty, to be filled again
	stats    WriterStats
	wantSync bool
	closing  bool
	err      error

	out *output // used by the flusher; the syncer only syncs its file
}

type channelState struct {
	channel  *mcap.Channel
	schema   *mcap.Schema
	hasClock bool
	sequence uint32
}

// Create starts a new log at path, with the file and its header already on the disk when it returns. It refuses to
// overwrite an existing file. The caller must Close the Writer.
func Create(path string, opt WriterOptions) (*Writer, error) {
	opt = opt.filled()
	f, err := opt.OpenFile(path)
	if err != nil {
		return nil, fmt.Errorf("create raw log: %w", err)
	}
	out, err := newOutput(path, f, opt.Library)
	if err == nil {
		err = atomicfile.SyncDir(filepath.Dir(path))
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	w := &Writer{
		path: path, opt: opt, out: out,
		wake: make(chan struct{}, 1), sync: make(chan struct{}, 1), done: make(chan struct{}),
		schemas: map[string]uint16{}, pending: newChunk(),
	}
	w.stats.Bytes = out.good
	w.changed = sync.NewCond(&w.mu)
	synced := make(chan struct{})
	go w.syncLoop(synced)
	go w.flushLoop(synced)
	return w, nil
}

// AddChannel declares a topic. schema.Encoding decides the message encoding; metadata[ClockKey] names the clock of the
// publish times. It fails when the topic is already declared.
func (w *Writer) AddChannel(topic string, schema Schema, metadata map[string]string) (ChannelID, error) {
	if topic == "" || schema.Name == "" {
		return 0, fmt.Errorf("add channel %q to raw log %s: topic and schema name must not be empty", topic, w.path)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.channels {
		if c.channel.Topic == topic {
			return 0, fmt.Errorf("add channel %q to raw log %s: the topic is already declared", topic, w.path)
		}
	}
	if len(w.channels) >= 1<<16-1 {
		return 0, fmt.Errorf("add channel %q to raw log %s: too many channels", topic, w.path)
	}
	s := w.schemaLocked(schema)
	c := &mcap.Channel{
		ID: uint16(len(w.channels) + 1), SchemaID: s.ID, Topic: topic,
		MessageEncoding: schema.MessageEncoding(), Metadata: copyMap(metadata),
	}
	w.channels = append(w.channels, channelState{channel: c, schema: s, hasClock: metadata[ClockKey] != ""})
	w.pending.declare(s, c)
	return ChannelID(c.ID), nil
}

func (w *Writer) schemaLocked(s Schema) *mcap.Schema {
	key := s.Name + "\x00" + s.Encoding
	id, ok := w.schemas[key]
	if !ok {
		id = uint16(len(w.schemas) + 1)
		w.schemas[key] = id
	}
	return &mcap.Schema{ID: id, Name: s.Name, Encoding: s.Encoding, Data: s.Data}
}

// Write appends one message; it copies data. deviceTime is kept only on channels that name a clock, the others get
// publish_time = log_time. It waits while QueueBytes are unwritten and fails once the log has failed or is closed.
func (w *Writer) Write(id ChannelID, logTime frames.HostTime, deviceTime frames.DeviceTime, data []byte) error {
	if logTime < 0 || deviceTime < 0 {
		return fmt.Errorf("write to raw log %s: time before the epoch (host %d, device %d)", w.path, logTime, deviceTime)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.err == nil && !w.closing && w.fullSize+len(w.pending.records) > 0 && w.fullSize+len(w.pending.records)+len(data) > w.opt.QueueBytes {
		w.changed.Wait()
	}
	if w.err != nil {
		return w.err
	}
	if w.closing {
		return fmt.Errorf("write to raw log %s: %w", w.path, os.ErrClosed)
	}
	if id == 0 || int(id) > len(w.channels) {
		return fmt.Errorf("write to raw log %s: unknown channel %d", w.path, id)
	}
	c := &w.channels[id-1]
	publish := uint64(logTime)
	if c.hasClock {
		publish = uint64(deviceTime)
	}
	w.pending.add(uint16(id), c.sequence, uint64(logTime), publish, data)
	c.sequence++
	w.stats.Accepted++
	if len(w.pending.records) >= w.opt.ChunkBytes {
		w.turnLocked()
		poke(w.wake)
	}
	return nil
}

// turnLocked puts the pending chunk into the queue and begins another.
func (w *Writer) turnLocked() {
	if w.pending.empty() {
		return
	}
	w.full = append(w.full, w.pending)
	w.fullSize += len(w.pending.records)
	w.pending = newChunk()
	if n := len(w.spare); n > 0 {
		w.pending, w.spare = w.spare[n-1], w.spare[:n-1]
	}
}

// Stats tells how many messages are accepted, written and durable.
func (w *Writer) Stats() WriterStats {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stats
}

// Err is the failure that stopped the log, or nil.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Sync returns when every message accepted before the call is on the disk, or with the failure that prevents it.
func (w *Writer) Sync() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	target := w.stats.Accepted
	for w.err == nil && w.stats.Durable < target { // Close, when it comes meanwhile, makes them durable too
		w.wantSync = true
		poke(w.wake)
		w.changed.Wait()
	}
	return w.err
}

// Close writes what is left and the summary, syncs and closes the file. After a failure it only closes the file, which then
// ends with the last complete chunk (see Recover), and returns that failure. Closing twice is harmless.
func (w *Writer) Close() error {
	w.mu.Lock()
	w.closing = true
	w.changed.Broadcast()
	w.mu.Unlock()
	poke(w.wake)
	<-w.done
	return w.Err()
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// flushLoop writes the chunks. It leaves after Close, when the syncer has left.
func (w *Writer) flushLoop(synced <-chan struct{}) {
	defer close(w.done)
	tick := time.NewTicker(w.opt.FlushEvery)
	defer tick.Stop()
	for {
		timed := false
		select {
		case <-tick.C:
			timed = true
		case <-w.wake:
		}
		w.mu.Lock()
		closing, due := w.closing, timed || w.wantSync || w.closing
		w.wantSync = false
		if due {
			w.turnLocked()
		}
		w.mu.Unlock()
		w.flush()
		if closing {
			close(w.sync)
			<-synced
			w.finish()
			return
		}
		if due {
			poke(w.sync)
		}
	}
}

// flush writes the queued chunks one after the other.
func (w *Writer) flush() {
	for {
		w.mu.Lock()
		if w.err != nil || len(w.full) == 0 {
			w.mu.Unlock()
			return
		}
		c := w.full[0]
		w.mu.Unlock()
		err := w.out.writeChunk(c)
		w.mu.Lock()
		w.full, w.fullSize = w.full[1:], w.fullSize-len(c.records)
		if err == nil {
			w.stats.Written += c.messages
		} else if w.err == nil {
			w.err = err
		}
		w.stats.Bytes = w.out.good
		c.reset()
		if len(w.spare) < 2 {
			w.spare = append(w.spare, c)
		}
		w.changed.Broadcast()
		w.mu.Unlock()
	}
}

// syncLoop makes what is written durable. It runs beside the flusher, because a sync may take seconds on a busy disk and
// what the killed process had accepted in that time must have been written all the same.
func (w *Writer) syncLoop(done chan<- struct{}) {
	defer close(done)
	for range w.sync {
		w.mu.Lock()
		failed, covered := w.err != nil, w.stats.Written
		current := w.stats.Durable == covered
		w.mu.Unlock()
		var err error
		if !failed && !current {
			err = w.out.sync()
		}
		w.mu.Lock()
		if w.err == nil {
			if w.err = err; err == nil {
				w.stats.Durable = covered
			}
		}
		w.changed.Broadcast()
		w.mu.Unlock()
	}
}

func (w *Writer) finish() {
	w.mu.Lock()
	failed := w.err != nil
	w.mu.Unlock()
	err := w.out.close(!failed)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		if w.err = err; err == nil {
			w.stats.Durable = w.stats.Written
		}
	}
	w.stats.Bytes = w.out.good
	w.changed.Broadcast()
}

func copyMap(m map[string]string) map[string]string {
	out := make(map[string]string, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}

// chunk collects the records of one MCAP chunk and their index.
type chunk struct {
	schemas    []*mcap.Schema
	channels   []*mcap.Channel
	records    []byte
	index      map[uint16]*mcap.MessageIndex
	order      []uint16 // channels of index in order of first use, so that equal input gives equal files
	counts     map[uint16]uint64
	messages   uint64
	start, end uint64 // smallest and largest log time
}

func newChunk() *chunk {
	return &chunk{index: map[uint16]*mcap.MessageIndex{}, counts: map[uint16]uint64{}}
}

func (c *chunk) empty() bool { return c.messages == 0 && len(c.channels) == 0 }

func (c *chunk) declare(s *mcap.Schema, ch *mcap.Channel) {
	c.schemas = append(c.schemas, s)
	c.channels = append(c.channels, ch)
}

func (c *chunk) add(id uint16, sequence uint32, logTime, publishTime uint64, data []byte) {
	idx := c.index[id]
	if idx == nil {
		idx = &mcap.MessageIndex{ChannelID: id}
		c.index[id] = idx
	}
	if idx.IsEmpty() {
		c.order = append(c.order, id)
	}
	idx.Add(logTime, uint64(len(c.records)))
	b := append(c.records, byte(mcap.OpMessage))
	b = binary.LittleEndian.AppendUint64(b, uint64(messageHeaderBytes+len(data)))
	b = binary.LittleEndian.AppendUint16(b, id)
	b = binary.LittleEndian.AppendUint32(b, sequence)
	b = binary.LittleEndian.AppendUint64(b, logTime)
	b = binary.LittleEndian.AppendUint64(b, publishTime)
	c.records = append(b, data...)
	if c.messages == 0 || logTime < c.start {
		c.start = logTime
	}
	c.end = max(c.end, logTime)
	c.messages++
	c.counts[id]++
}

func (c *chunk) indexes() []*mcap.MessageIndex {
	out := make([]*mcap.MessageIndex, 0, len(c.order))
	for _, id := range c.order {
		out = append(out, c.index[id])
	}
	return out
}

func (c *chunk) reset() {
	c.schemas, c.channels, c.records, c.order = c.schemas[:0], c.channels[:0], c.records[:0], c.order[:0]
	for id, idx := range c.index {
		idx.Reset()
		delete(c.counts, id)
	}
	c.messages, c.start, c.end = 0, 0, 0
}
