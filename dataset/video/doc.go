// Package video encodes, inspects and decodes the mp4 files of a dataset.
//
//   - Encoder: JPEG or RGB frames in, one mp4 out, through the ffmpeg program (H.264 or AV1, closed GOPs, no B-frames,
//     constant rate, frame k at time k/fps, same input same bytes);
//   - Probe: codec, size, rate, frame times and key frames from the container alone, in pure Go;
//   - Reader: any frame by number as RGB24, through libav with build tag libav; without the tag by decoding the whole file
//     with the ffmpeg program;
//   - Cut: a range of frames as a new mp4 without re-encoding.
package video
