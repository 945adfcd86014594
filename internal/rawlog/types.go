package rawlog

import (
	"fmt"

	"github.com/pinch-robotics/pinch/frames"
)

// ClockKey is the channel metadata key that names the device clock of publish_time.
const ClockKey = "pinch.clock"

// Encodings used in our logs (MCAP registry of well-known encodings).
const (
	EncodingCDR        = "cdr"        // message encoding of ROS 2 messages
	EncodingJSON       = "json"       // message encoding of our own events
	SchemaROS2         = "ros2msg"    // schema encoding: .msg text with its dependencies
	SchemaJSONSchema   = "jsonschema" // schema encoding of JSON messages
	profileROS2        = "ros2"
	maxChunkBytes      = 512 << 20 // a larger chunk is taken for damage, not allocated
	maxTopRecordBytes  = 512 << 20
	recordHeaderBytes  = 9  // opcode u8, length u64
	messageHeaderBytes = 22 // channel u16, sequence u32, log_time u64, publish_time u64
)

// Schema describes the messages of a channel.
type Schema struct {
	Name     string // "sensor_msgs/msg/JointState"
	Encoding string // SchemaROS2 or SchemaJSONSchema
	Data     []byte // the definition text
}

// MessageEncoding is the message encoding that goes with the schema's encoding: "json" for JSON schemas, else "cdr".
func (s Schema) MessageEncoding() string {
	if s.Encoding == SchemaJSONSchema {
		return EncodingJSON
	}
	return EncodingCDR
}

// ChannelID is a channel's number inside one file.
type ChannelID uint16

// Channel is one stream of messages of a log.
type Channel struct {
	ID              ChannelID
	Topic           string
	MessageEncoding string // "cdr" or "json"
	Schema          Schema
	Metadata        map[string]string
	Messages        uint64 // number of readable messages in the file
	// Start and End are the least and the greatest log time of its readable messages; 0 without messages.
	Start, End frames.HostTime
	// Missing is how many messages the sequence numbers show to be lost between readable ones; 0 for writers that do not count.
	Missing uint64
}

// Clock is the name of the device clock in which the channel's publish times are given; "" means that they are host times.
func (c Channel) Clock() string { return c.Metadata[ClockKey] }

// Message is one logged message. Data belongs to the reader and is valid until the iteration goes on; copy it to keep it.
type Message struct {
	Channel     *Channel
	Sequence    uint32 // counts per channel from 0, so a gap means lost messages
	LogTime     frames.HostTime
	PublishTime int64 // nanoseconds; see DeviceTime
	Data        []byte
}

// DeviceTime is the publish time on the channel's device clock; ok is false when the channel names no clock.
func (m Message) DeviceTime() (t frames.DeviceTime, ok bool) {
	if m.Channel == nil || m.Channel.Clock() == "" {
		return 0, false
	}
	return frames.DeviceTime(m.PublishTime), true
}

// Loss is a part of a log file that could not be read. It is an error, so a strict caller just stops at it.
type Loss struct {
	Path   string
	Offset int64  // first unreadable byte
	Bytes  int64  // number of unreadable bytes; 0 when only the closing summary is missing
	Reason string // what is wrong with them
}

// Error tells the file, the place, what is lost and the fix.
func (l *Loss) Error() string {
	return fmt.Sprintf("raw log %s: %s at byte %d, %d bytes unreadable; `pinch record --recover %s` keeps everything else",
		l.Path, l.Reason, l.Offset, l.Bytes, l.Path)
}

// Info is what a Reader knows about a file after opening it.
type Info struct {
	Path     string
	Bytes    int64  // size of the file
	Profile  string // "ros2" for ROS recordings and ours
	Library  string // the program that wrote the file
	Channels []Channel
	Messages uint64
	Start    frames.HostTime // smallest log time; 0 when there are no messages
	End      frames.HostTime // largest log time
	Complete bool            // the file has its footer: the writer closed it
	Losses   []Loss          // what is damaged or cut; empty for a healthy file
}
