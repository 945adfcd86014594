package rawlog

import (
	"errors"
	"fmt"
	"hash/crc32"
	"syscall"

	"github.com/foxglove/mcap/go/mcap"
	"github.com/klauspost/compress/zstd"
)

// output is the file end of a log: it writes complete chunks and remembers where the last one ended. Not safe for concurrent use.
type output struct {
	path    string
	file    File
	mcap    *mcap.Writer
	zstd    *zstd.Encoder // made with the first chunk
	packed  []byte
	schemas map[uint16]bool
	good    int64 // end of the last complete chunk
}

func newOutput(path string, f File, library string) (*output, error) {
	m, err := mcap.NewWriter(f, &mcap.WriterOptions{Chunked: false, IncludeCRC: true, OverrideLibrary: true})
	if err != nil {
		return nil, describe(path, err)
	}
	o := &output{path: path, file: f, mcap: m, schemas: map[uint16]bool{}}
	if err := m.WriteHeader(&mcap.Header{Profile: profileROS2, Library: library}); err != nil {
		return nil, describe(path, err)
	}
	o.good = int64(m.Offset())
	return o, o.sync()
}

// writeChunk appends the chunk's declarations, its records and their indexes. On failure the file is cut back to
// the last complete chunk.
func (o *output) writeChunk(c *chunk) error {
	if err := o.tryWriteChunk(c); err != nil {
		_ = o.file.Truncate(o.good)
		_ = o.file.Sync()
		return describe(o.path, err)
	}
	o.good = int64(o.mcap.Offset())
	return nil
}

func (o *output) tryWriteChunk(c *chunk) error {
	for i, ch := range c.channels {
		if s := c.schemas[i]; !o.schemas[s.ID] {
			if err := o.mcap.WriteSchema(s); err != nil {
				return err
			}
			o.schemas[s.ID] = true
		}
		if err := o.mcap.WriteChannel(ch); err != nil {
			return err
		}
	}
	if c.messages == 0 {
		return nil
	}
	stats := o.mcap.Statistics
	if stats.MessageCount == 0 {
		stats.MessageStartTime = c.start
	}
	records, compression := o.compress(c.records)
	err := o.mcap.WriteChunkWithIndexes(&mcap.Chunk{
		MessageStartTime: c.start, MessageEndTime: c.end,
		UncompressedSize: uint64(len(c.records)), UncompressedCRC: crc32.ChecksumIEEE(c.records),
		Compression: string(compression), Records: records,
	}, c.indexes())
	if err != nil {
		return err
	}
	stats.MessageCount += c.messages
	for id, n := range c.counts {
		stats.ChannelMessageCounts[id] += n
	}
	return nil
}

// compress packs the records; JPEG and H.264 do not shrink, and then the plain bytes are kept.
func (o *output) compress(records []byte) ([]byte, mcap.CompressionFormat) {
	if o.zstd == nil {
		// One encoder goroutine: the log shares the machine with the cameras' readers. These options cannot fail.
		o.zstd, _ = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	}
	o.packed = o.zstd.EncodeAll(records, o.packed[:0])
	if len(o.packed) >= len(records)-len(records)/16 {
		return records, mcap.CompressionNone
	}
	return o.packed, mcap.CompressionZSTD
}

func (o *output) sync() error {
	if err := o.file.Sync(); err != nil {
		return describe(o.path, err)
	}
	return nil
}

// close writes the summary when the log is healthy, syncs and closes the file.
func (o *output) close(healthy bool) error {
	var err error
	if healthy {
		if err = o.mcap.Close(); err == nil {
			o.good = int64(o.mcap.Offset())
		} else {
			_ = o.file.Truncate(o.good)
		}
	}
	if o.zstd != nil {
		_ = o.zstd.Close()
	}
	err = errors.Join(err, o.file.Sync(), o.file.Close())
	if err != nil {
		return describe(o.path, err)
	}
	return nil
}

// describe says what a failed write means to the person at the rig.
func describe(path string, err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("write raw log %s: the disk is full; everything up to the last complete chunk is kept: "+
			"free some space, then run `pinch record --recover` on its folder: %w", path, err)
	}
	return fmt.Errorf("write raw log %s: %w", path, err)
}
