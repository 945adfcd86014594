// Package export writes episodes of a dataset as MCAP logs that other people's viewers open: Foxglove, and Rerun.
//
//	topic                   message                       what
//	/episode                foxglove.Log                  begin of each episode: its number, length, extra columns
//	/task                   foxglove.Log                  an instruction begins
//	/<text feature>         foxglove.Log                  the text changes
//	/<camera>               foxglove.CompressedVideo      H.264 as Annex B, AV1 as OBUs: the coded pictures of the dataset as they are
//	/<camera>               foxglove.CompressedImage      where the stream can not be taken as it is, and for picture files
//	/<pose feature>         foxglove.PoseInFrame          position and quaternion of each row
//	/tf                     foxglove.FrameTransforms      the same poses as transforms between frames
//	/<numeric feature>      pinch.<name>                  each element a field of its own (Foxglove)
//	/<numeric feature>      sensor_msgs/msg/JointState    names and positions (Rerun, which plots these)
//
// Dots of feature names become slashes. Row k of an episode lies k/fps after its first, in whole nanoseconds; episodes follow each
// other at a distance of a second, from the first one's start_ns on. Messages are Protocol Buffers with their descriptors in the
// log. The numbers are those of the rows, to the last bit.
package export
