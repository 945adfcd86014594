// Package video encodes, inspects and decodes the mp4 files of a dataset.
//
//   - Encoder: JPEG or RGB frames in, one mp4 out (H.264 or AV1, closed GOPs, no B-frames, constant rate, frame k at time k/fps, same
//     input same bytes), through the ffmpeg program; H.264 with build tag libav in this process, the same coded frames;
//   - Probe: codec, size, rate, frame times and key frames from the container alone, in pure Go;
//   - Index and Decoder: where the bytes of each frame lie, and pictures from those bytes alone, straight in the network's
//     geometry; through libav with build tag libav, else with a process of the ffmpeg program for each stretch;
//   - Reader: any frame of a file by number as RGB24; without the tag libav by decoding the file from its start;
//   - Cut: a range of frames as a new mp4 without re-encoding.
package video
