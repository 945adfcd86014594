package export

import (
	"context"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/foxglove/mcap/go/mcap"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/internal/atomicfile"
)

// Viewer is the program that a log is meant for. Both open either; they differ in what they plot by themselves.
type Viewer string

// The viewers. Foxglove plots any numeric field of a message, Rerun the positions of ROS joint states.
const (
	Foxglove Viewer = "foxglove"
	Rerun    Viewer = "rerun"
)

// Options choose what Write writes.
type Options struct {
	Viewer Viewer
	// Episodes by number, in the order in which they follow each other; nil for all whose rows are there.
	Episodes []int
	// Progress is called after each episode; may be nil.
	Progress func(done, total int)
}

// Result says what was written.
type Result struct {
	Episodes []int
	Messages uint64
	// Notes say where pictures were encoded anew, and what was left out, once each.
	Notes []string
}

// gapNs lies between the last row of an episode and the first of the next.
const gapNs = int64(1e9)

// Write writes episodes of the dataset at root as one MCAP log at out, whole or not at all.
func Write(ctx context.Context, root, out string, o Options) (*Result, error) {
	d, err := dataset.Open(root)
	if err != nil {
		return nil, err
	}
	if o.Viewer != Foxglove && o.Viewer != Rerun {
		return nil, fmt.Errorf("export %s: viewer %q is neither %s nor %s", root, o.Viewer, Foxglove, Rerun)
	}
	x := &exporter{d: d, o: o, r: &Result{}, channels: map[string]*mcap.Channel{}, schemas: map[string]*mcap.Schema{}, frames: framesOf(d)}
	if err := x.choose(); err != nil {
		return nil, fmt.Errorf("export %s: %w", root, err)
	}
	err = atomicfile.Write(atomicfile.OS, out, 0o644, func(w io.Writer) error { return x.write(ctx, w) })
	if err != nil {
		return nil, fmt.Errorf("export %s: %w", root, err)
	}
	return x.r, nil
}

type exporter struct {
	d        *dataset.Dataset
	o        Options
	r        *Result
	w        *mcap.Writer
	channels map[string]*mcap.Channel
	schemas  map[string]*mcap.Schema
	frames   frameNames
	sequence map[uint16]uint32
	streams  []stream // of the episode at hand
	closers  []func()
}

// stream writes what there is to say at row r, whose time is ns.
type stream func(r int, ns int64) error

func (x *exporter) choose() error {
	if x.o.Episodes != nil {
		for _, e := range x.o.Episodes {
			if _, err := x.d.Episode(e); err != nil {
				return err
			}
		}
		x.r.Episodes = x.o.Episodes
		return nil
	}
	for e := range x.d.All() {
		if _, err := dataset.ReadColumn[float64](x.d, dataset.FrameIndex, e.Index); err == nil {
			x.r.Episodes = append(x.r.Episodes, e.Index)
		}
	}
	if len(x.r.Episodes) == 0 {
		return fmt.Errorf("no episode's rows are there")
	}
	return nil
}

func (x *exporter) note(format string, a ...any) {
	if n := fmt.Sprintf(format, a...); !slices.Contains(x.r.Notes, n) {
		x.r.Notes = append(x.r.Notes, n)
	}
}

func (x *exporter) write(ctx context.Context, w io.Writer) (err error) {
	x.w, err = mcap.NewWriter(w, &mcap.WriterOptions{Chunked: true, ChunkSize: 1 << 20, Compression: mcap.CompressionZSTD, IncludeCRC: true, OverrideLibrary: true})
	if err != nil {
		return err
	}
	x.sequence = map[uint16]uint32{}
	if err := x.w.WriteHeader(&mcap.Header{Library: "pinch"}); err != nil {
		return err
	}
	base := int64(0)
	for i, index := range x.r.Episodes {
		e, err := x.d.Episode(index)
		if err != nil {
			return err
		}
		if start, ok := e.Extra["start_ns"].(int64); ok && start > 0 && i == 0 {
			base = start
		}
		if err := x.episode(ctx, e, base); err != nil {
			return fmt.Errorf("episode %d: %w", index, err)
		}
		base = x.at(base, e.Length) + gapNs
		if x.o.Progress != nil {
			x.o.Progress(i+1, len(x.r.Episodes))
		}
	}
	x.r.Messages = x.w.Statistics.MessageCount
	return x.w.Close()
}

// at is the time of a row.
func (x *exporter) at(base int64, row int) int64 { return base + int64(row)*1e9/int64(x.d.Info().FPS) }

// episode opens a stream for each thing to write and goes through the rows, so that the log is in order of time and nothing but the
// numbers of the episode is held in memory.
func (x *exporter) episode(ctx context.Context, e dataset.EpisodeMeta, base int64) error {
	defer func() {
		for _, f := range x.closers {
			f()
		}
		x.streams, x.closers = nil, nil
	}()
	if err := x.texts(e); err != nil {
		return err
	}
	for _, f := range x.d.Features() {
		var err error
		switch {
		case isIndex(f.Name):
		case f.DType.Visual():
			err = x.pictures(e, f)
		case f.DType.Numeric():
			err = x.numbers(e, f)
		}
		if err != nil {
			return fmt.Errorf("feature %q: %w", f.Name, err)
		}
	}
	if err := x.transforms(e); err != nil {
		return err
	}
	for r := range e.Length {
		if err := ctx.Err(); err != nil {
			return err
		}
		for _, write := range x.streams {
			if err := write(r, x.at(base, r)); err != nil {
				return fmt.Errorf("row %d: %w", r, err)
			}
		}
	}
	return nil
}

func isIndex(name string) bool {
	return slices.ContainsFunc(dataset.DefaultFeatures(), func(f dataset.Feature) bool { return f.Name == name })
}

// topic of a feature.
func topic(name string) string { return path.Join("/", strings.ReplaceAll(name, ".", "/")) }

// channel declares a topic once, its schema too. full names the message; definition is made when it is needed. A topic has one kind of
// message: where an episode needs another (a camera whose stream changes), that one's name is put behind it.
func (x *exporter) channel(topic, full, schemaEncoding, messageEncoding string, definition func() ([]byte, error)) (uint16, error) {
	s := x.schemas[full]
	if c := x.channels[topic]; c != nil && (s == nil || s.ID != c.SchemaID) {
		topic = path.Join(topic, full[strings.LastIndexAny(full, "./")+1:])
	}
	if c := x.channels[topic]; c != nil {
		return c.ID, nil
	}
	if s == nil {
		data, err := definition()
		if err != nil {
			return 0, err
		}
		s = &mcap.Schema{ID: uint16(len(x.schemas) + 1), Name: full, Encoding: schemaEncoding, Data: data}
		if err := x.w.WriteSchema(s); err != nil {
			return 0, err
		}
		x.schemas[full] = s
	}
	c := &mcap.Channel{ID: uint16(len(x.channels) + 1), SchemaID: s.ID, Topic: topic, MessageEncoding: messageEncoding, Metadata: map[string]string{}}
	if err := x.w.WriteChannel(c); err != nil {
		return 0, err
	}
	x.channels[topic] = c
	return c.ID, nil
}

// proto declares a topic whose messages are Protocol Buffers.
func (x *exporter) proto(topic, full string, fields []field) (uint16, error) {
	return x.channel(topic, full, "protobuf", "protobuf", func() ([]byte, error) { return descriptors(full, fields) })
}

func (x *exporter) foxglove(topic, name string) (uint16, error) {
	full := "foxglove." + name
	return x.proto(topic, full, messages[full])
}

// put writes one message.
func (x *exporter) put(channel uint16, ns int64, data []byte) error {
	x.sequence[channel]++
	return x.w.WriteMessage(&mcap.Message{ChannelID: channel, Sequence: x.sequence[channel] - 1, LogTime: uint64(ns), PublishTime: uint64(ns), Data: data})
}

func (x *exporter) add(s stream) { x.streams = append(x.streams, s) }

// texts writes what is said of the episode, its instructions, and features of text where they change.
func (x *exporter) texts(e dataset.EpisodeMeta) error {
	id, err := x.foxglove("/episode", "Log")
	if err != nil {
		return err
	}
	said := fmt.Sprintf("episode %d: %d rows", e.Index, e.Length)
	for _, name := range slices.Sorted(maps.Keys(e.Extra)) {
		said += fmt.Sprintf("\n%s: %v", name, e.Extra[name])
	}
	x.add(func(r int, ns int64) error {
		if r > 0 {
			return nil
		}
		return x.put(id, ns, encodeLog(ns, "episode", said))
	})
	tasks, err := x.d.RowTasks(e.Index)
	if err != nil {
		x.note("episode %d: instructions left out: %v", e.Index, err)
	} else if err := x.changes("/task", "instruction", tasks); err != nil {
		return err
	}
	for _, f := range x.d.Features() {
		if f.DType != dataset.String || f.Dim() != 1 {
			continue
		}
		v, err := dataset.ReadColumn[string](x.d, f.Name, e.Index)
		if err != nil {
			return err
		}
		if err := x.changes(topic(f.Name), f.Name, v); err != nil {
			return err
		}
	}
	return nil
}

func (x *exporter) changes(topic, name string, texts []string) error {
	id, err := x.foxglove(topic, "Log")
	if err != nil {
		return err
	}
	x.add(func(r int, ns int64) error {
		if r > 0 && texts[r] == texts[r-1] {
			return nil
		}
		return x.put(id, ns, encodeLog(ns, name, texts[r]))
	})
	return nil
}
