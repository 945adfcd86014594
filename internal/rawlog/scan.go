package rawlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/foxglove/mcap/go/mcap"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// record is one MCAP record of the file's top level.
type record struct {
	op     mcap.OpCode
	offset int64 // of the opcode
	length int64 // of the content
}

func (r record) end() int64 { return r.offset + recordHeaderBytes + r.length }

// scanner walks the top level of a file and unpacks chunks. It trusts no number it reads.
type scanner struct {
	path string
	src  io.ReaderAt
	size int64
	zstd *zstd.Decoder // made when the first compressed chunk comes
	buf  []byte        // content of the last record
	raw  []byte        // unpacked chunk
}

func newScanner(path string, src io.ReaderAt, size int64) (*scanner, error) {
	head := make([]byte, len(mcap.Magic))
	if n, err := src.ReadAt(head, 0); n < len(head) || !bytes.Equal(head, mcap.Magic) {
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("read raw log %s: %w", path, err)
		}
		return nil, fmt.Errorf("read raw log %s: not an MCAP file (its first 8 bytes are not MCAP's)", path)
	}
	return &scanner{path: path, src: src, size: size}, nil
}

func (s *scanner) close() {
	if s.zstd != nil {
		s.zstd.Close()
	}
}

// next reads the record header at offset. A record that does not fit the file is a *Loss; io.EOF is the plain end.
func (s *scanner) next(offset int64) (record, error) {
	if offset == s.size {
		return record{}, io.EOF
	}
	var head [recordHeaderBytes]byte
	if s.size-offset < recordHeaderBytes {
		return record{}, s.cut(offset, "the file ends inside a record header")
	}
	if _, err := s.src.ReadAt(head[:], offset); err != nil {
		return record{}, fmt.Errorf("read raw log %s at byte %d: %w", s.path, offset, err)
	}
	r := record{op: mcap.OpCode(head[0]), offset: offset}
	length := binary.LittleEndian.Uint64(head[1:])
	if r.op == mcap.OpReserved {
		return r, s.cut(offset, "no record starts here")
	}
	if length > uint64(s.size-offset-recordHeaderBytes) {
		return r, s.cut(offset, "the file ends inside a "+r.op.String()+" record")
	}
	r.length = int64(length)
	return r, nil
}

func (s *scanner) cut(offset int64, reason string) *Loss {
	return &Loss{Path: s.path, Offset: offset, Bytes: s.size - offset, Reason: reason}
}

func (s *scanner) damaged(r record, reason string) *Loss {
	return &Loss{Path: s.path, Offset: r.offset, Bytes: r.end() - r.offset, Reason: reason}
}

// content reads the record's bytes; they are valid until the next call.
func (s *scanner) content(r record) ([]byte, error) {
	if r.length > maxTopRecordBytes {
		return nil, s.damaged(r, "a record of impossible size")
	}
	if int64(cap(s.buf)) < r.length {
		s.buf = make([]byte, r.length)
	}
	s.buf = s.buf[:r.length]
	if _, err := s.src.ReadAt(s.buf, r.offset+recordHeaderBytes); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read raw log %s at byte %d: %w", s.path, r.offset, err)
	}
	return s.buf, nil
}

// chunk unpacks the chunk record r and checks its CRC. The result is valid until the next call.
func (s *scanner) chunk(r record) (*mcap.Chunk, []byte, error) {
	b, err := s.content(r)
	if err != nil {
		return nil, nil, err
	}
	c, err := parseChunk(b)
	if err != nil {
		return nil, nil, s.damaged(r, "a damaged chunk ("+err.Error()+")")
	}
	if c.UncompressedSize > maxChunkBytes {
		return nil, nil, s.damaged(r, "a chunk of impossible size")
	}
	raw, err := s.unpack(c)
	if err != nil {
		return nil, nil, s.damaged(r, "a chunk that does not unpack ("+err.Error()+")")
	}
	if uint64(len(raw)) != c.UncompressedSize {
		return nil, nil, s.damaged(r, "a chunk of wrong size")
	}
	if c.UncompressedCRC != 0 && crc32.ChecksumIEEE(raw) != c.UncompressedCRC {
		return nil, nil, s.damaged(r, "a chunk whose checksum does not match")
	}
	return c, raw, nil
}

func (s *scanner) unpack(c *mcap.Chunk) ([]byte, error) {
	switch mcap.CompressionFormat(c.Compression) {
	case mcap.CompressionNone:
		return c.Records, nil
	case mcap.CompressionZSTD:
		var err error
		if s.zstd == nil {
			if s.zstd, err = zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxChunkBytes), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true)); err != nil {
				return nil, fmt.Errorf("start zstd: %w", err)
			}
		}
		s.raw, err = s.zstd.DecodeAll(c.Records, s.raw[:0])
		return s.raw, err
	case mcap.CompressionLZ4:
		buf := bytes.NewBuffer(s.raw[:0])
		_, err := io.Copy(buf, io.LimitReader(lz4.NewReader(bytes.NewReader(c.Records)), maxChunkBytes))
		s.raw = buf.Bytes()
		return s.raw, err
	}
	return nil, fmt.Errorf("unknown compression %q", c.Compression)
}

// parseChunk reads a chunk record's fields. (mcap.ParseChunk panics on a wrong length.)
func parseChunk(b []byte) (*mcap.Chunk, error) {
	const fixed = 8 + 8 + 8 + 4 + 4
	if len(b) < fixed {
		return nil, io.ErrUnexpectedEOF
	}
	le := binary.LittleEndian
	c := &mcap.Chunk{
		MessageStartTime: le.Uint64(b), MessageEndTime: le.Uint64(b[8:]),
		UncompressedSize: le.Uint64(b[16:]), UncompressedCRC: le.Uint32(b[24:]),
	}
	n := uint64(le.Uint32(b[28:]))
	b = b[fixed:]
	if uint64(len(b)) < n+8 {
		return nil, io.ErrUnexpectedEOF
	}
	c.Compression = string(b[:n])
	size := le.Uint64(b[n:])
	b = b[n+8:]
	if uint64(len(b)) < size {
		return nil, io.ErrUnexpectedEOF
	}
	c.Records = b[:size]
	return c, nil
}

// eachRecord calls f for every record inside an unpacked chunk.
func eachRecord(raw []byte, f func(op mcap.OpCode, body []byte) error) error {
	for len(raw) > 0 {
		if len(raw) < recordHeaderBytes {
			return io.ErrUnexpectedEOF
		}
		n := binary.LittleEndian.Uint64(raw[1:])
		if n > uint64(len(raw)-recordHeaderBytes) {
			return io.ErrUnexpectedEOF
		}
		if err := f(mcap.OpCode(raw[0]), raw[recordHeaderBytes:recordHeaderBytes+n]); err != nil {
			return err
		}
		raw = raw[recordHeaderBytes+n:]
	}
	return nil
}
