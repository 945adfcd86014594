package rawlog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/foxglove/mcap/go/mcap"
	"github.com/pinch-robotics/pinch/frames"
)

var testSchema = Schema{Name: "std_msgs/msg/Bool", Encoding: SchemaROS2, Data: []byte("bool data\n")}

// entry is one message as the tests know it.
type entry struct {
	topic   string
	log     frames.HostTime
	publish int64
	data    string
}

// testMessages alternate between a clocked channel with random bytes (which do not compress) and one without clock.
func testMessages(n int) []entry {
	rng := rand.New(rand.NewPCG(1, 2))
	out := make([]entry, n)
	for i := range out {
		b := make([]byte, rng.IntN(200))
		for k := range b {
			b[k] = byte(rng.Uint32())
		}
		out[i] = entry{"/plain", frames.HostTime(1e18 + i*1e6), int64(1e18 + i*1e6), string(b)}
		if i%3 > 0 {
			out[i].topic, out[i].publish = "/clocked", int64(1000e9+i*7)
		}
	}
	return out
}

// writeLog writes the messages; it syncs after each step messages, which closes a chunk.
func writeLog(t testing.TB, path string, ms []entry, opt WriterOptions, step int) {
	t.Helper()
	w, err := Create(path, opt)
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]ChannelID{}
	for i, m := range ms {
		if ids[m.topic] == 0 {
			var md map[string]string
			if m.topic == "/clocked" {
				md = map[string]string{ClockKey: "rig"}
			}
			if ids[m.topic], err = w.AddChannel(m.topic, testSchema, md); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Write(ids[m.topic], m.log, frames.DeviceTime(m.publish), []byte(m.data)); err != nil {
			t.Fatal(err)
		}
		if step > 0 && i%step == step-1 {
			if err := w.Sync(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if s := w.Stats(); s.Accepted != uint64(len(ms)) || s.Durable != uint64(len(ms)) {
		t.Errorf("after Close: %+v, want %d accepted and durable", s, len(ms))
	}
}

// readLog reads what can be read, and the losses.
func readLog(t testing.TB, path string, topics ...string) (got []entry, losses []Loss, info Info) {
	t.Helper()
	r, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for m, err := range r.Messages(topics...) {
		var loss *Loss
		if errors.As(err, &loss) {
			losses = append(losses, *loss)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, entry{m.Channel.Topic, m.LogTime, m.PublishTime, string(m.Data)})
	}
	return got, losses, r.Info()
}

func equalEntries(a, b []entry) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func TestLogReadsBackExactly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.mcap")
	want := testMessages(500)
	writeLog(t, path, want, WriterOptions{ChunkBytes: 4000}, 0)
	got, losses, info := readLog(t, path)
	if !equalEntries(got, want) || len(losses) != 0 || !info.Complete || info.Profile != "ros2" || info.Messages != 500 {
		t.Errorf("%d of 500 messages, losses %v, info %+v", len(got), losses, info)
	}
	if info.Start != want[0].log || info.End != want[499].log {
		t.Errorf("span %d to %d", info.Start, info.End)
	}
	for _, c := range info.Channels {
		if wantClock := map[string]string{"/plain": "", "/clocked": "rig"}[c.Topic]; c.Clock() != wantClock || string(c.Schema.Data) != "bool data\n" || c.MessageEncoding != "cdr" {
			t.Errorf("channel %+v", c)
		}
	}
	one, _, _ := readLog(t, path, "/plain")
	for _, m := range one {
		if m.topic != "/plain" || m.publish != int64(m.log) {
			t.Fatalf("filtered reading gave %+v", m)
		}
	}
	if len(one) != 167 {
		t.Errorf("%d messages of /plain, want 167", len(one))
	}
}

// The library's own reader, which trusts the index, sees the same messages in order of log time.
func TestIndexIsRight(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.mcap")
	want := testMessages(300)
	writeLog(t, path, want, WriterOptions{ChunkBytes: 3000}, 0)
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := mcap.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	info, err := r.Info()
	if err != nil {
		t.Fatal(err)
	}
	if info.Statistics.MessageCount != 300 || info.Statistics.ChannelCount != 2 || len(info.ChunkIndexes) < 5 {
		t.Errorf("statistics %+v, %d chunks", info.Statistics, len(info.ChunkIndexes))
	}
	it, err := r.Messages(mcap.UsingIndex(true), mcap.InOrder(mcap.LogTimeOrder), mcap.WithTopics([]string{"/clocked"}))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, w := range want {
		if w.topic != "/clocked" {
			continue
		}
		_, _, m, err := it.NextInto(nil)
		if err != nil || m.LogTime != uint64(w.log) || m.PublishTime != uint64(w.publish) || string(m.Data) != w.data || m.Sequence != uint32(n) {
			t.Fatalf("message %d: %v %+v", n, err, m)
		}
		n++
	}
}

// A file cut at any byte gives exactly the messages of its complete chunks, and recovery makes a healthy file of them.
func TestCutAnywhereKeepsWholeChunks(t *testing.T) {
	dir := t.TempDir()
	full := filepath.Join(dir, "full.mcap")
	want := testMessages(40)
	writeLog(t, full, want, WriterOptions{}, 8) // five chunks
	b, err := os.ReadFile(full)
	if err != nil {
		t.Fatal(err)
	}
	last := 0
	for cut := 30; cut < len(b); cut += 37 {
		path := filepath.Join(dir, fmt.Sprintf("cut%d.mcap", cut))
		if err := os.WriteFile(path, b[:cut], 0o644); err != nil {
			t.Fatal(err)
		}
		got, losses, info := readLog(t, path)
		if len(got)%8 != 0 || !equalEntries(got, want[:len(got)]) || len(got) < last {
			t.Fatalf("cut at %d: %d messages", cut, len(got))
		}
		last = len(got)
		if info.Complete || len(losses) != 1 || losses[0].Offset > int64(cut) || (losses[0].Bytes > 0 && losses[0].Offset+losses[0].Bytes != int64(cut)) {
			t.Fatalf("cut at %d: complete %v, losses %+v", cut, info.Complete, losses)
		}
		rec, err := Recover(path)
		if err != nil || !rec.Changed || rec.Messages != uint64(len(got)) || rec.Damaged != "" {
			t.Fatalf("cut at %d: recover: %v %+v", cut, err, rec)
		}
		again, losses, info := readLog(t, path)
		if !equalEntries(again, got) || len(losses) != 0 || !info.Complete {
			t.Fatalf("cut at %d: after recovery %d messages, losses %v", cut, len(again), losses)
		}
		if rec, err := Recover(path); err != nil || rec.Changed {
			t.Fatalf("cut at %d: second recovery: %v %+v", cut, err, rec)
		}
		_ = os.Remove(path)
	}
	if last != 40 {
		t.Errorf("the last cut gave %d messages, want all 40", last)
	}
}

// A flipped byte in the middle loses one chunk, is found by its checksum, and recovery keeps the original.
func TestDamagedChunkIsReportedAndSkipped(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.mcap")
	want := testMessages(40)
	writeLog(t, path, want, WriterOptions{}, 8)
	b, _ := os.ReadFile(path)
	spot := bytes.Index(b, []byte(want[20].data)) // in the third chunk, which holds plain bytes
	if spot < 0 {
		t.Fatal("the chunk is compressed; choose other data")
	}
	b[spot+5] ^= 0x40
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	got, losses, info := readLog(t, path)
	wantLeft := append(append([]entry{}, want[:16]...), want[24:]...)
	if !equalEntries(got, wantLeft) || len(losses) != 1 || !info.Complete || !strings.Contains(losses[0].Reason, "checksum") {
		t.Errorf("%d messages, losses %+v", len(got), losses)
	}
	if l := losses[0]; l.Offset >= int64(spot) || l.Offset+l.Bytes <= int64(spot) {
		t.Errorf("loss %+v does not cover byte %d", l, spot)
	}
	rec, err := Recover(path)
	if err != nil || rec.Damaged != path+".damaged" || rec.Messages != 32 {
		t.Fatalf("recover: %v %+v", err, rec)
	}
	kept, _ := os.ReadFile(rec.Damaged)
	if !bytes.Equal(kept, b) {
		t.Error("the damaged original was not kept as it was")
	}
	if got, losses, _ := readLog(t, path); !equalEntries(got, wantLeft) || len(losses) != 0 {
		t.Errorf("after recovery: %d messages, losses %v", len(got), losses)
	}
}

func TestRecoverWithAppendsMessages(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.mcap")
	writeLog(t, path, testMessages(10), WriterOptions{}, 0)
	add := []Added{
		{Topic: "/plain", LogTime: 5, PublishTime: 5, Data: []byte("x")},
		{Topic: TopicSession, Schema: SessionEventSchema, Metadata: map[string]string{ClockKey: "rig"}, LogTime: 6, PublishTime: 7, Data: []byte(`{}`)},
	}
	rec, err := RecoverWith(path, func(r *Reader) ([]Added, error) { return add, nil })
	if err != nil || !rec.Changed || rec.Messages != 12 {
		t.Fatalf("%v %+v", err, rec)
	}
	got, _, info := readLog(t, path)
	if len(got) != 12 || got[10] != (entry{"/plain", 5, 5, "x"}) || got[11] != (entry{TopicSession, 6, 7, "{}"}) {
		t.Errorf("got %+v", got[10:])
	}
	if c := info.Channels[2]; c.Topic != TopicSession || c.MessageEncoding != "json" || c.Clock() != "rig" || c.Schema.Name != "pinch.SessionEvent" {
		t.Errorf("channel %+v", c)
	}
}

// limitedFile fails like a full disk after some bytes, writing what still fits.
type limitedFile struct {
	*os.File
	room int
	err  error
}

func (f *limitedFile) Write(b []byte) (int, error) {
	if len(b) > f.room {
		n, _ := f.File.Write(b[:f.room])
		f.room = 0
		return n, f.err
	}
	f.room -= len(b)
	return f.File.Write(b)
}

// slowSync is a file whose Sync waits until it is let go.
type slowSync struct {
	File
	let <-chan struct{}
}

func (f slowSync) Sync() error {
	<-f.let
	return f.File.Sync()
}

// A Sync that is overtaken by Close still returns only when its messages are on the disk.
func TestSyncKeepsItsWordWhileTheLogCloses(t *testing.T) {
	let := make(chan struct{}, 1)
	let <- struct{}{} // for the header
	w, err := Create(filepath.Join(t.TempDir(), "a.mcap"), WriterOptions{OpenFile: func(p string) (File, error) {
		f, err := os.Create(p)
		return slowSync{f, let}, err
	}})
	if err != nil {
		t.Fatal(err)
	}
	id, err := w.AddChannel("/a", testSchema, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(id, 1, 0, []byte("x")); err != nil {
		t.Fatal(err)
	}
	durable, closed := make(chan uint64, 1), make(chan error, 1)
	go func() {
		if err := w.Sync(); err != nil {
			t.Error(err)
		}
		durable <- w.Stats().Durable
	}()
	go func() { closed <- w.Close() }()
	select {
	case n := <-durable:
		t.Fatalf("Sync returned with %d durable while the disk had not answered", n)
	case <-time.After(50 * time.Millisecond):
	}
	close(let)
	if n := <-durable; n != 1 {
		t.Errorf("after Sync %d messages are durable, want 1", n)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// On a full disk there is one clear error, every complete chunk stays readable, and the file ends with it.
func TestFullDiskKeepsWhatWasSaved(t *testing.T) {
	for room := 300; room < 12000; room += 701 {
		path := filepath.Join(t.TempDir(), "a.mcap")
		w, err := Create(path, WriterOptions{OpenFile: func(p string) (File, error) {
			f, err := os.Create(p)
			return &limitedFile{f, room, syscall.ENOSPC}, err
		}})
		if err != nil {
			t.Fatal(err)
		}
		id, err := w.AddChannel("/a", testSchema, nil)
		if err != nil {
			t.Fatal(err)
		}
		want := testMessages(200)
		synced := 0
		var failure error
		for i, m := range want {
			if failure = w.Write(id, m.log, 0, []byte(m.data)); failure != nil {
				break
			}
			if i%8 == 7 {
				if failure = w.Sync(); failure != nil {
					break
				}
				synced = i + 1
			}
		}
		if !errors.Is(failure, syscall.ENOSPC) || !strings.Contains(failure.Error(), "disk is full") || !strings.Contains(failure.Error(), path) {
			t.Fatalf("room %d: error %v", room, failure)
		}
		if err := w.Close(); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("room %d: Close gives %v", room, err)
		}
		if d := w.Stats().Durable; d != uint64(synced) {
			t.Errorf("room %d: %d durable, want %d", room, d, synced)
		}
		got, losses, _ := readLog(t, path)
		if len(got) != synced || len(losses) != 1 || losses[0].Bytes != 0 {
			t.Errorf("room %d: %d messages, want %d; losses %+v", room, len(got), synced, losses)
		}
	}
}

func TestExistingLogIsNeverOverwritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.mcap")
	if err := os.WriteFile(path, []byte("precious"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(path, WriterOptions{}); !errors.Is(err, os.ErrExist) {
		t.Errorf("error %v, want one that says the file exists", err)
	}
	if b, _ := os.ReadFile(path); string(b) != "precious" {
		t.Error("the file was touched")
	}
}

// slowFile blocks writes until released.
type slowFile struct {
	*os.File
	gate chan struct{}
}

func (f *slowFile) Write(b []byte) (int, error) {
	if len(b) > 10_000 {
		<-f.gate
	}
	return f.File.Write(b)
}

// While the disk stands still, Write takes no more than QueueBytes and then waits.
func TestMemoryIsBounded(t *testing.T) {
	gate := make(chan struct{})
	path := filepath.Join(t.TempDir(), "a.mcap")
	w, err := Create(path, WriterOptions{ChunkBytes: 100_000, QueueBytes: 300_000, FlushEvery: time.Millisecond, OpenFile: func(p string) (File, error) {
		f, err := os.Create(p)
		return &slowFile{f, gate}, err
	}})
	if err != nil {
		t.Fatal(err)
	}
	id, err := w.AddChannel("/a", testSchema, nil)
	if err != nil {
		t.Fatal(err)
	}
	noise := make([]byte, 20_000)
	for i := range noise {
		noise[i] = byte(rand.Uint32())
	}
	const n = 100 // 2 MB, more than both buffers
	done := make(chan error, 1)
	go func() {
		for i := range n {
			if err := w.Write(id, frames.HostTime(i), 0, noise); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	deadline := time.Now().Add(time.Second)
	for time.Now().Before(deadline) && w.Stats().Accepted < n {
		time.Sleep(10 * time.Millisecond)
	}
	if a := w.Stats().Accepted; a > 15 { // 300 kB
		t.Errorf("%d messages of 20 kB were taken while the disk stood still", a)
	}
	close(gate)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got, _, _ := readLog(t, path); len(got) != n {
		t.Errorf("%d messages, want %d", len(got), n)
	}
}

func TestMisuseIsRefused(t *testing.T) {
	w, err := Create(filepath.Join(t.TempDir(), "a.mcap"), WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	id, err := w.AddChannel("/a", testSchema, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.AddChannel("/a", testSchema, nil); err == nil {
		t.Error("a topic could be declared twice")
	}
	if err := w.Write(id+1, 0, 0, nil); err == nil {
		t.Error("an unknown channel was written to")
	}
	if err := w.Write(id, -1, 0, nil); err == nil {
		t.Error("a time before the epoch was written")
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.Write(id, 1, 0, nil); !errors.Is(err, os.ErrClosed) {
		t.Errorf("writing after Close gives %v", err)
	}
	if err := w.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

func TestOtherFilesAreRefused(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"empty": "", "text": "this is not a log, but it is long enough", "short": "\x89MC"} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "not an MCAP file") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzOpen: no input may crash the reader or make it allocate what the input only claims.
func FuzzOpen(f *testing.F) {
	path := filepath.Join(f.TempDir(), "seed.mcap")
	writeLog(f, path, testMessages(12), WriterOptions{}, 4)
	b, _ := os.ReadFile(path)
	f.Add(b)
	f.Add(b[:len(b)/2])
	f.Add(append([]byte{}, mcap.Magic...))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := newScanner("fuzz", bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		defer s.close()
		r := &Reader{scan: s, dict: newDictionary(), info: Info{Path: "fuzz"}}
		if err := r.survey(); err != nil && !errors.Is(err, io.EOF) {
			t.Fatalf("survey of bytes in memory cannot fail: %v", err)
		}
		n := uint64(0)
		for _, err := range r.Messages() {
			if err == nil {
				n++
			}
		}
		if n != r.info.Messages {
			t.Errorf("two passes over the same bytes: %d and %d messages", r.info.Messages, n)
		}
	})
}

func BenchmarkWrite(b *testing.B) {
	w, err := Create(filepath.Join(b.TempDir(), "a.mcap"), WriterOptions{})
	if err != nil {
		b.Fatal(err)
	}
	id, _ := w.AddChannel("/a", testSchema, nil)
	frame := make([]byte, 40_000)
	for i := range frame {
		frame[i] = byte(rand.Uint32())
	}
	b.SetBytes(int64(len(frame)))
	b.ReportAllocs()
	for b.Loop() {
		if err := w.Write(id, 1, 0, frame); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
}
