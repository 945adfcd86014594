package transfer

import (
	"context"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"os"
	"strings"
)

// Kinds of hashes that remotes know of a file.
const (
	SHA256  = "sha256"
	GitBlob = "git" // SHA-1 of "blob <size>", a zero byte and the content
	MD5     = "md5" // ETag of an S3 object that was sent in one piece
)

// Hash is a hash in lower-case hex; an empty Kind means that the remote knows none.
type Hash struct{ Kind, Hex string }

// newHash makes the hash function of a kind for a file of this size.
func newHash(kind string, size int64) hash.Hash {
	switch kind {
	case GitBlob:
		h := sha1.New()
		fmt.Fprintf(h, "blob %d\x00", size)
		return h
	case MD5:
		return md5.New()
	}
	return sha256.New()
}

// hashFile hashes a file.
func hashFile(ctx context.Context, path, kind string) (Hash, error) {
	f, err := os.Open(path)
	if err != nil {
		return Hash{}, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return Hash{}, err
	}
	h := newHash(kind, st.Size())
	if _, err := io.Copy(h, &interruptible{ctx, f}); err != nil {
		return Hash{}, fmt.Errorf("read %s: %w", path, err)
	}
	return Hash{kind, hex.EncodeToString(h.Sum(nil))}, nil
}

// interruptible ends a copy when its context does.
type interruptible struct {
	ctx context.Context
	r   io.Reader
}

func (i *interruptible) Read(p []byte) (int, error) {
	if err := i.ctx.Err(); err != nil {
		return 0, err
	}
	return i.r.Read(p)
}

// etagHash is what an S3 ETag says: an MD5, unless the object was sent in parts or encrypted.
func etagHash(etag string) Hash {
	etag = strings.ToLower(strings.Trim(etag, `"`))
	if raw, err := hex.DecodeString(etag); err != nil || len(raw) != md5.Size {
		return Hash{}
	}
	return Hash{MD5, etag}
}
