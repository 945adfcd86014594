// Package imaging holds the one image path from camera to network.
//
// Glossary:
//   - RGB: 8-bit red, green, blue samples, interleaved, row major, no padding between rows (height x width x 3).
//   - geometry: which part of a camera image the network sees and at which size. It is computed in integers only, so
//     every platform gives the same bytes, and it has a hash that travels in the checkpoint.
//   - squash: the whole image is scaled to the target size, each axis with its own factor.
//   - centre crop: the largest centred part with the target's aspect ratio is kept, then scaled.
//   - area resize: an output pixel is the exact mean of the source area it covers, rounded half up.
//
// The smallest useful program:
//
//	img, err := imaging.DecodeJPEG(data)
//	g := imaging.Geometry{Mode: imaging.Squash, Width: 64, Height: 64}
//	small, err := g.Apply(img)
//
// The cache of the loader, the trainer, the policy server and the robot all call [Geometry.Apply]; nothing else resizes.
// JPEG files are decoded by OpenCV behind the build tag opencv and by the standard library otherwise. The two decoders
// use different inverse transforms and chroma filters and differ by a few levels; the geometry after them does not.
package imaging
