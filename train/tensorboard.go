package train

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"time"
)

// events writes a TensorBoard event file: records of length, masked CRC-32C of the length, an Event message, and its masked CRC-32C.
// Source: TensorFlow, lib/io/record_writer.h and util/event.proto, framework/summary.proto.
type events struct{ file *os.File }

// Field numbers and wire types of the messages.
const (
	eventWallTime, eventStep, eventVersion, eventSummary = 1, 2, 3, 5
	summaryValue                                         = 1
	valueTag, valueSimple, valueImage                    = 1, 2, 4
	imageHeight, imageWidth, imageColours, imageBytes    = 1, 2, 3, 4

	wireVarint, wire64, wireBytes, wire32 = 0, 1, 2, 5
)

// scalar is one named number.
type scalar struct {
	tag   string
	value float64
}

// newEvents begins a file of its own in a folder; a resumed run's file stands beside the first, which TensorBoard reads as one run.
func newEvents(dir string, now time.Time, step int) (*events, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("write TensorBoard events: %w", err)
	}
	// TensorBoard reads files in the order of their names, and looks for the word tfevents.
	path := filepath.Join(dir, fmt.Sprintf("events.out.tfevents.%010d.step%09d.pinch", now.Unix(), step))
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("write TensorBoard events: %w", err)
	}
	e := &events{f}
	return e, e.record(append(head(now, 0), field(eventVersion, []byte("brain.Event:2"))...))
}

// scalars writes the numbers of a step.
func (e *events) scalars(now time.Time, step int, list []scalar) error {
	var summary []byte
	for _, s := range list {
		value := field(valueTag, []byte(s.tag))
		value = binary.AppendUvarint(value, valueSimple<<3|wire32)
		value = binary.LittleEndian.AppendUint32(value, math.Float32bits(float32(s.value)))
		summary = append(summary, field(summaryValue, value)...)
	}
	return e.record(append(head(now, step), field(eventSummary, summary)...))
}

// picture writes a PNG of a step.
func (e *events) picture(now time.Time, step int, tag string, width, height int, png []byte) error {
	var image []byte
	for _, v := range []struct{ number, value int }{{imageHeight, height}, {imageWidth, width}, {imageColours, 3}} {
		image = binary.AppendUvarint(image, uint64(v.number<<3|wireVarint))
		image = binary.AppendUvarint(image, uint64(v.value))
	}
	image = append(image, field(imageBytes, png)...)
	value := append(field(valueTag, []byte(tag)), field(valueImage, image)...)
	return e.record(append(head(now, step), field(eventSummary, field(summaryValue, value))...))
}

func (e *events) close() error {
	if e == nil {
		return nil
	}
	return e.file.Close()
}

// head is an Event's wall time and step.
func head(now time.Time, step int) []byte {
	b := binary.AppendUvarint(nil, eventWallTime<<3|wire64)
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(float64(now.UnixNano())/1e9))
	b = binary.AppendUvarint(b, eventStep<<3|wireVarint)
	return binary.AppendUvarint(b, uint64(step))
}

// field is a message or string with its number and length.
func field(number int, data []byte) []byte {
	b := binary.AppendUvarint(nil, uint64(number<<3|wireBytes))
	b = binary.AppendUvarint(b, uint64(len(data)))
	return append(b, data...)
}

func (e *events) record(data []byte) error {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(data)))
	b = binary.LittleEndian.AppendUint32(b, maskedCRC(b))
	b = append(b, data...)
	b = binary.LittleEndian.AppendUint32(b, maskedCRC(data))
	if _, err := e.file.Write(b); err != nil {
		return fmt.Errorf("write TensorBoard events: %w", err)
	}
	return nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// maskedCRC is the CRC-32C turned right by 15 bits plus a constant, so that a checksum over data with checksums in it stays one.
func maskedCRC(data []byte) uint32 {
	c := crc32.Checksum(data, castagnoli)
	return (c>>15 | c<<17) + 0xa282ead8
}

// scalars are the numbers of a log line under TensorBoard's tags.
func (p point) scalars() []scalar {
	if p.ValLoss != nil {
		list := []scalar{{"loss/validation", *p.ValLoss}}
		if p.Replay != nil {
			list = append(list, scalar{"replay/policy", p.Replay.Policy}, scalar{"replay/hold", p.Replay.Hold}, scalar{"replay/within", p.Replay.Within})
		}
		return list
	}
	return []scalar{{"loss/train", p.Loss}, {"gradient/norm", p.GradNorm}, {"rate", p.Rate}, {"epoch", p.Epoch}, {"speed/samples_per_second", p.SamplesPerSecond},
		{"speed/loader_share", p.LoaderShare}, {"speed/tflops", p.TFLOPS}, {"speed/mfu", p.MFU}, {"data/clip_share", p.ClipShare}}
}
