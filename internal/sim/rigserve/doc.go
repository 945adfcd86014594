// Package rigserve serves the simulated handheld rig through the wire protocols of the real one, so that the recorder under test is
// the recorder of the lab.
//
//	simulated devices          protocol                                                     port
//	wrist cameras              RTSP, Motion-JPEG, capture time in RTP header extension 1     free
//	centre camera              RTSP, H.264 (no B-frames, parameter sets at each IDR)         same
//	encoders                   serial text of the firmware on a pseudo terminal
//	tracker                    JSON lines over TCP, clock exchange over UDP                 free
//	pedal                      Linux input events on a Unix socket
//
// Every device keeps the one clock of the cell. The server writes a rig file for the recorder, waits until the recorder is connected to
// every device, and plays the samples: as fast as the recorder takes them (nothing is dropped; each write waits for room) or in step with
// real time. After the last episode it closes the pedal, which ends the recorder's session.
package rigserve
