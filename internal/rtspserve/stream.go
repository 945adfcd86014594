package rtspserve

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/bluenviron/gortsplib/v4"
	"github.com/bluenviron/gortsplib/v4/pkg/description"
	"github.com/bluenviron/gortsplib/v4/pkg/format/rtph264"
	"github.com/bluenviron/gortsplib/v4/pkg/format/rtpmjpeg"
	"github.com/pion/rtp"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/device/camera"
)

// Stream is one camera of a Server. Frames must be written from one goroutine.
type Stream struct {
	server *Server
	name   string
	lib    *gortsplib.ServerStream
	media  *description.Media
	mjpeg  *rtpmjpeg.Encoder
	h264   *rtph264.Encoder

	mu       sync.Mutex
	dropNext int // that many of the coming packets are lost
}

// URL is the address a reader connects to.
func (s *Stream) URL() string { return "rtsp://" + s.server.addr + "/" + s.name }

// WriteJPEG sends one baseline JPEG (standard Huffman tables, sides multiples of 8 and at most 2040 pixels: RFC 2435) captured at
// time at. It waits while a reader has no room for the whole frame, so no packet is dropped; ctx ends the wait.
func (s *Stream) WriteJPEG(ctx context.Context, jpeg []byte, at frames.DeviceTime) error {
	if s.mjpeg == nil {
		return fmt.Errorf("camera %s: not a Motion-JPEG stream", s.name)
	}
	packets, err := s.mjpeg.Encode(jpeg)
	if err != nil {
		return fmt.Errorf("camera %s: JPEG for RTP: %w", s.name, err)
	}
	return s.send(ctx, packets, at)
}

// WriteH264 sends one access unit, given as NAL units without start codes, captured at time at. It waits as WriteJPEG does.
func (s *Stream) WriteH264(ctx context.Context, nalus [][]byte, at frames.DeviceTime) error {
	if s.h264 == nil {
		return fmt.Errorf("camera %s: not an H.264 stream", s.name)
	}
	packets, err := s.h264.Encode(nalus)
	if err != nil {
		return fmt.Errorf("camera %s: H.264 for RTP: %w", s.name, err)
	}
	return s.send(ctx, packets, at)
}

func (s *Stream) send(ctx context.Context, packets []*rtp.Packet, at frames.DeviceTime) error {
	if len(packets) > roomPackets {
		return fmt.Errorf("camera %s: a frame of %d packets is larger than the queue of %d", s.name, len(packets), roomPackets)
	}
	ntp := camera.NTPBytes(at)
	if err := packets[0].SetExtension(camera.CaptureExtension, ntp[:]); err != nil {
		return fmt.Errorf("camera %s: %w", s.name, err)
	}
	if err := s.waitRoom(ctx, len(packets)); err != nil {
		return err
	}
	ticks := uint32(uint64(at/1e9)*90000 + uint64(at%1e9)*90000/1e9) // 90 kHz, wraps as RTP wants
	for _, p := range packets {
		p.Timestamp = ticks
		if s.drop() {
			continue
		}
		if err := s.lib.WritePacketRTP(s.media, p); err != nil {
			return fmt.Errorf("camera %s: send: %w", s.name, err)
		}
	}
	return nil
}

func (s *Stream) drop() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dropNext > 0 {
		s.dropNext--
		return true
	}
	return false
}

// DropPackets makes the stream lose the next n packets, as a bad network does.
func (s *Stream) DropPackets(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropNext = n
}

// waitRoom waits until every reader's queue has room for n packets, and books them.
func (s *Stream) waitRoom(ctx context.Context, n int) error {
	for {
		if s.book(n) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pollEvery):
		}
	}
}

func (s *Stream) book(n int) bool {
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	for _, r := range s.server.readers {
		if r.stream == s && outstanding(r)+uint64(n) > roomPackets {
			return false
		}
	}
	for _, r := range s.server.readers {
		if r.stream == s {
			r.queued += uint64(n)
		}
	}
	return true
}

// outstanding is the number of packets that are not yet written to the reader's connection.
func outstanding(r *reader) uint64 {
	sent := r.conn.packets.Load()
	if sent >= r.queued {
		return 0
	}
	return r.queued - sent
}

// Flush returns when everything written so far has been given to the readers' connections.
func (s *Stream) Flush(ctx context.Context) error {
	for {
		s.server.mu.Lock()
		behind := false
		for _, r := range s.server.readers {
			behind = behind || (r.stream == s && outstanding(r) > 0)
		}
		s.server.mu.Unlock()
		if !behind {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pollEvery):
		}
	}
}
