// Package camera reads RTSP cameras: Motion-JPEG and H.264, over TCP unless told otherwise.
//
// The capture time of a frame comes from RTP header extension 1 on its first packet, a 64-bit NTP value, when the camera sends one; else
// only the time of receipt is known. (RTCP sender reports are not used: the first one comes 10 s after the start, and the
// library in use misreads their fractions.) A frame that lost a packet is marked bad, and so is every H.264 frame after it up to the
// next IDR, because a decoder would show them damaged.
package camera

import (
	"encoding/binary"
	"fmt"

	"github.com/pinch-robotics/pinch/frames"
)

// Codec is how a camera's frames are packed.
type Codec int

// The codecs read here.
const (
	MJPEG Codec = iota + 1
	H264
)

// String is the codec's name as the raw log's messages give it: "jpeg" or "h264".
func (c Codec) String() string {
	switch c {
	case MJPEG:
		return "jpeg"
	case H264:
		return "h264"
	}
	return fmt.Sprintf("Codec(%d)", int(c))
}

// Frame is one image of one camera.
type Frame struct {
	Codec    Codec
	Data     []byte            // a JPEG, or an H.264 access unit as Annex B; belongs to the receiver; may be nil when Bad
	Device   frames.DeviceTime // capture time on the camera's clock
	Timed    bool              // Device is set
	Received frames.HostTime   // when the first packet of the frame arrived
	Key      bool              // decodes by itself: every JPEG; an IDR, with SPS and PPS before it
	Bad      bool              // packets are missing, in this frame or in one it depends on; not for use
}

// CaptureExtension is the id of the RTP header extension that carries the capture time.
const CaptureExtension = 1

// ntpToUnix is the distance of the epochs 1900 and 1970 in seconds. RFC 5905, section 6.
const ntpToUnix = 2208988800

// NTPBytes is a device time as a 64-bit NTP value: seconds since 1900 (u32) and the fraction in 1/2^32 s (u32), big-endian. The fraction is
// rounded up so that FromNTP gives back the same nanosecond. Times are good from 0 to the year 2106.
func NTPBytes(t frames.DeviceTime) [8]byte {
	sec, ns := uint64(t)/1e9, uint64(t)%1e9
	fraction := (ns<<32 + 1e9 - 1) / 1e9
	var b [8]byte
	binary.BigEndian.PutUint32(b[:], uint32(sec+ntpToUnix)) // wraps in 2036 into era 1, which FromNTP knows
	binary.BigEndian.PutUint32(b[4:], uint32(fraction))
	return b
}

// FromNTP is the inverse of NTPBytes; ok is false when b has not 8 bytes. Seconds before 1970 are taken for the era after 2036.
func FromNTP(b []byte) (t frames.DeviceTime, ok bool) {
	if len(b) != 8 {
		return 0, false
	}
	sec := int64(binary.BigEndian.Uint32(b)) - ntpToUnix
	if sec < 0 {
		sec += 1 << 32
	}
	fraction := uint64(binary.BigEndian.Uint32(b[4:]))
	return frames.DeviceTime(sec*1e9 + int64(fraction*1e9>>32)), true
}
