// Package rawlog is the log every recording and every trial is written to: one MCAP file
// (https://mcap.dev/spec, profile "ros2") that survives a killed process.
//
//	magic | Header | Schema, Channel ... | Chunk, MessageIndex ... | ... | DataEnd | summary | Footer | magic
//
// A Writer collects messages in memory and, a few times a second, appends them as one complete chunk and syncs the
// file, so at any moment the file on disk is a valid prefix: everything older than about half a second survives SIGKILL.
// A Reader reads complete files and cut ones alike; what it could not read it reports as a *Loss with the byte offset.
// Recover turns a cut file into a complete one.
//
//	w, err := rawlog.Create("demo_0.mcap", rawlog.WriterOptions{})
//	id, err := w.AddChannel("/joint_states", schema, map[string]string{rawlog.ClockKey: "rig"})
//	err = w.Write(id, hostNow, deviceTime, cdrBytes)
//	err = w.Close()
//
// Times: log_time is the host's receive time. publish_time is the raw device time on a channel whose metadata names a
// clock under ClockKey, and equals log_time on every other channel.
package rawlog
