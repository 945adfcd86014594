// Package transfer moves datasets between a folder and a place that many share: a bucket of an S3 server, or a dataset repository of
// the Hugging Face Hub.
//
//	report, err := transfer.Pull(ctx, "hf://owner/cups", "cups", transfer.Options{Episodes: []int{0, 1, 2}})
//	report, err = transfer.Push(ctx, "cups", "s3://lab/cups", transfer.Options{})
//	report, err = transfer.Verify(ctx, "s3://lab/cups", "cups", transfer.Options{})
//
// Glossary:
//
//   - remote: a place, written s3://bucket/prefix or hf://owner/name[@revision] (also hf://datasets/owner/name);
//   - file: a path relative to the dataset's folder with its size and the hash that the remote knows: SHA-256, the SHA-1 of a git
//     blob, or the MD5 that S3 gives of an object sent in one piece;
//   - manifest: .pinch/manifest.json in a bucket, sizes and SHA-256 of all files, written last by Push.
//
// Everything can be interrupted and repeated: files that are there with the right hash are left alone, a download goes on at
// the byte where it stopped, an upload at the file. A file gets its name only when its hash is right. meta/info.json comes last in both
// directions, so an unfinished copy is no dataset and is never read as one.
//
// With Episodes, Pull brings all metadata and only the files that hold rows or pictures of those episodes.
package transfer
