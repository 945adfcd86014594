// Package capture records demonstrations: it connects to the devices of a handheld rig, follows the operator's pedal, and writes
// one durable raw log and one meta.json per recording.
//
//	cameras  (RTSP)  ┐
//	encoders (text)  ├─ sources ─► merger ─► session ─► recorder ─► <out>/<name>/<name>_0.mcap, meta.json
//	tracker  (JSON)  │   (drivers)  (order)   (pedal,     (raw log)
//	pedal  (events)  ┘                         gate)
//
// Glossary:
//
//	rig        the devices, their addresses and frames, and the task: rig.yaml, type Rig
//	recording  one folder, from the first accept press to the last judgement
//	segment    one attempt at one subtask, ended by accept or reject
//	shared clock  several devices that name the same clock are merged by device time, so that the same device data gives the
//	           same recording whatever the scheduling; all others are taken in order of arrival
//	shown, logged, durable  how safe a message is: seen by the program, handed to the operating system, synced to the disk
//
// The smallest useful program:
//
//	result, err := capture.Record(ctx, capture.Options{RigFile: "rig.yaml", Out: "recordings", Console: os.Stdout})
package capture
