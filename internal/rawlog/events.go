package rawlog

// Topics of our own messages, which are JSON.
const (
	TopicSession = "/pinch/session" // SessionEvent
	TopicClock   = "/pinch/clock"   // ClockSample
)

// SessionEvent is a message of TopicSession; its publish time is the time of the event on the channel's clock. A recording reads
// start, then per attempt subtask and accept or reject; cancel ends it early. Segments that touch have equal times.
type SessionEvent struct {
	Event   string `json:"event"`             // one of the Event constants
	Label   string `json:"label"`             // start: the task; subtask, accept, reject: the subtask's prompt; cancel: the reason
	Subtask int    `json:"subtask"`           // subtask, accept, reject: number of the subtask in the task, from 0
	Success *bool  `json:"success,omitempty"` // accept: true, reject: false; else absent
}

// Values of SessionEvent.Event.
const (
	EventStart   = "start"
	EventSubtask = "subtask"
	EventAccept  = "accept"
	EventReject  = "reject"
	EventCancel  = "cancel"
	EventFault   = "fault" // a device fault began during the recording; Label says which. Not an end.
)

// ClockSample is a message of TopicClock: one exchange with a device clock.
type ClockSample struct {
	Clock       string `json:"clock"`         // name of the clock, as in channel metadata
	DeviceNS    int64  `json:"device_ns"`     // the device's answer
	HostNS      int64  `json:"host_ns"`       // middle of the host's send and receive times
	RoundTripNS int64  `json:"round_trip_ns"` // between them
}

// Schemas of our own messages.
var (
	SessionEventSchema = Schema{Name: "pinch.SessionEvent", Encoding: SchemaJSONSchema, Data: []byte(`{"type":"object","required":["event","label"],"properties":{` +
		`"event":{"type":"string","enum":["start","subtask","accept","reject","cancel","fault"]},"label":{"type":"string"},` +
		`"subtask":{"type":"integer"},"success":{"type":"boolean"}}}`)}
	ClockSampleSchema = Schema{Name: "pinch.ClockSample", Encoding: SchemaJSONSchema, Data: []byte(`{"type":"object","required":["clock","device_ns","host_ns","round_trip_ns"],` +
		`"properties":{"clock":{"type":"string"},"device_ns":{"type":"integer"},"host_ns":{"type":"integer"},"round_trip_ns":{"type":"integer"}}}`)}
)
