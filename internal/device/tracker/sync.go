package tracker

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"time"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/device"
)

// The clock exchange: the host sends byte 1 and its time, the device answers byte 2, the host's time again and its own time;
// numbers are little-endian u64 nanoseconds without padding.
const (
	syncRequestBytes = 1 + 8
	syncReplyBytes   = 1 + 8 + 8
	syncRequest      = 1
	syncReply        = 2
)

// AppendSyncRequest appends the request with the host's time.
func AppendSyncRequest(dst []byte, t1 frames.HostTime) []byte {
	return binary.LittleEndian.AppendUint64(append(dst, syncRequest), uint64(t1))
}

// ParseSyncRequest reads a request.
func ParseSyncRequest(b []byte) (t1 uint64, err error) {
	if len(b) != syncRequestBytes || b[0] != syncRequest {
		return 0, fmt.Errorf("clock request: %d bytes, want 9 that start with 1", len(b))
	}
	return binary.LittleEndian.Uint64(b[1:]), nil
}

// AppendSyncReply appends the answer to a request of time t1 from a device whose clock reads now.
func AppendSyncReply(dst []byte, t1 uint64, now frames.DeviceTime) []byte {
	dst = binary.LittleEndian.AppendUint64(append(dst, syncReply), t1)
	return binary.LittleEndian.AppendUint64(dst, uint64(now))
}

// parseSyncReply turns an answer that was received at t4 into a sample. Answers to other requests than t1 are refused.
func parseSyncReply(b []byte, t1, t4 frames.HostTime) (frames.ClockSample, error) {
	if len(b) != syncReplyBytes || b[0] != syncReply {
		return frames.ClockSample{}, fmt.Errorf("clock reply: %d bytes, want 17 that start with 2", len(b))
	}
	if echo := frames.HostTime(binary.LittleEndian.Uint64(b[1:])); echo != t1 {
		return frames.ClockSample{}, fmt.Errorf("clock reply: answers another request")
	}
	now := binary.LittleEndian.Uint64(b[9:])
	if now > 1<<63-1 || t4 < t1 {
		return frames.ClockSample{}, fmt.Errorf("clock reply: impossible time")
	}
	rtt := t4.Sub(t1)
	return frames.ClockSample{Device: frames.DeviceTime(now), Host: t1.Add(rtt / 2), RoundTrip: rtt}, nil
}

// exchange asks for the device's time every period until ctx ends. Lost answers cost nothing: the next request follows.
func exchange(ctx context.Context, address string, period time.Duration, clock device.Clock, got func(frames.ClockSample)) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "udp", address)
	if err != nil {
		return device.Explain("clock exchange with "+address, err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	for ctx.Err() == nil {
		askOnce(ctx, conn, period, clock, got)
		select {
		case <-ctx.Done():
		case <-time.After(period):
		}
	}
	return nil
}

func askOnce(ctx context.Context, conn net.Conn, wait time.Duration, clock device.Clock, got func(frames.ClockSample)) {
	t1 := clock()
	if _, err := conn.Write(AppendSyncRequest(nil, t1)); err != nil {
		return
	}
	if ctx.Err() == nil {
		_ = conn.SetReadDeadline(time.Now().Add(wait))
	}
	buf := make([]byte, 64)
	for ctx.Err() == nil {
		n, err := conn.Read(buf)
		if err != nil {
			return
		}
		if s, err := parseSyncReply(buf[:n], t1, clock()); err == nil {
			got(s)
			return
		}
	}
}
