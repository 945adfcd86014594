package loader

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/pinch-robotics/pinch/internal/atomicfile"
)

// s3Scheme begins the path of a dataset in a bucket.
const s3Scheme = "s3://"

// bucket are the files of a dataset below a prefix of an S3 bucket.
type bucket struct {
	client         *minio.Client
	bucket, prefix string // prefix without slashes at its ends
	fetched        *atomic.Int64
}

// openBucket finds the server of s3://bucket/prefix. The endpoint comes from AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL (default
// AWS itself), the region from AWS_REGION, credentials from the environment or ~/.aws/credentials; without any, requests
// are anonymous.
func openBucket(address string, fetched *atomic.Int64) (*bucket, error) {
	name, prefix, _ := strings.Cut(strings.TrimPrefix(address, s3Scheme), "/")
	if name == "" {
		return nil, fmt.Errorf("dataset %s: want s3://bucket/prefix", address)
	}
	endpoint := cmp.Or(os.Getenv("AWS_ENDPOINT_URL_S3"), os.Getenv("AWS_ENDPOINT_URL"), "https://s3.amazonaws.com")
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("S3 endpoint %q (AWS_ENDPOINT_URL): want http://host:port or https://host:port", endpoint)
	}
	client, err := minio.New(u.Host, &minio.Options{Secure: u.Scheme == "https", Region: cmp.Or(os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"), "us-east-1"),
		Creds: credentials.NewChainCredentials([]credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}})})
	if err != nil {
		return nil, fmt.Errorf("S3 endpoint %s: %w", endpoint, err)
	}
	return &bucket{client: client, bucket: name, prefix: strings.Trim(prefix, "/"), fetched: fetched}, nil
}

func (b *bucket) key(rel string) string { return path.Join(b.prefix, rel) }

func (b *bucket) name(rel string) string { return s3Scheme + b.bucket + "/" + b.key(rel) }

func (*bucket) remote() bool { return true }

func (b *bucket) list(ctx context.Context, folder string) ([]fileInfo, error) {
	var out []fileInfo
	root := b.key("")
	for o := range b.client.ListObjects(ctx, b.bucket, minio.ListObjectsOptions{Prefix: b.key(folder) + "/", Recursive: true}) {
		if o.Err != nil {
			return nil, fmt.Errorf("list %s: %w", b.name(folder), o.Err)
		}
		rel := strings.TrimPrefix(strings.TrimPrefix(o.Key, root), "/")
		if strings.HasSuffix(rel, "/") || strings.HasPrefix(path.Base(rel), ".") {
			continue
		}
		out = append(out, fileInfo{rel, o.Size, o.ETag})
	}
	return out, nil
}

func (b *bucket) open(ctx context.Context, rel string) (blob, error) {
	st, err := b.client.StatObject(ctx, b.bucket, b.key(rel), minio.StatObjectOptions{})
	if err != nil {
		return nil, b.fault(rel, err)
	}
	return &object{b, rel, st.Size, st.ETag}, nil
}

// fault names the file; an absent one is os.ErrNotExist.
func (b *bucket) fault(rel string, err error) error {
	if r := minio.ToErrorResponse(err); r.StatusCode == http.StatusNotFound {
		err = fmt.Errorf("%w (%w)", os.ErrNotExist, err)
	}
	return fmt.Errorf("read %s: %w", b.name(rel), err)
}

// object is one file of a bucket, read by ranges of the version that was opened.
type object struct {
	b     *bucket
	rel   string
	bytes int64
	etag  string
}

func (o *object) size() int64 { return o.bytes }

// attempts to read a range before an error is passed on; the client itself repeats what servers ask to repeat.
const attempts = 5

// ReadAt implements io.ReaderAt with one range request.
func (o *object) ReadAt(p []byte, off int64) (n int, err error) {
	if off >= o.bytes {
		return 0, io.EOF
	}
	want := min(int64(len(p)), o.bytes-off)
	for try := range attempts {
		if try > 0 {
			time.Sleep(time.Duration(try) * 100 * time.Millisecond)
		}
		if n, err = o.get(p[:want], off); err == nil {
			break
		}
	}
	if err != nil {
		return n, o.b.fault(o.rel, err)
	}
	o.b.fetched.Add(want)
	if want < int64(len(p)) {
		return n, io.EOF
	}
	return n, nil
}

func (o *object) get(p []byte, off int64) (int, error) {
	var opts minio.GetObjectOptions
	if err := errors.Join(opts.SetRange(off, off+int64(len(p))-1), opts.SetMatchETag(o.etag)); err != nil {
		return 0, err
	}
	core := minio.Core{Client: o.b.client}
	body, _, header, err := core.GetObject(context.Background(), o.b.bucket, o.b.key(o.rel), opts)
	if err != nil {
		return 0, err
	}
	defer body.Close()
	if got := header.Get("Content-Range"); !strings.HasPrefix(got, fmt.Sprintf("bytes %d-%d/", off, off+int64(len(p))-1)) {
		return 0, fmt.Errorf("asked for bytes %d to %d, the server answered %q: it does not know ranges", off, off+int64(len(p))-1, got)
	}
	return io.ReadFull(body, p)
}

// mirrorMeta brings the metadata of a dataset in a bucket into a local folder, only what changed, and removes what is gone.
// meta/info.json comes last, so an interrupted copy is no dataset.
func mirrorMeta(ctx context.Context, b files, dir string) error {
	remote, err := b.list(ctx, "meta")
	if err != nil {
		return err
	}
	const info = "meta/info.json"
	have, versions := map[string]string{}, filepath.Join(dir, "versions.json")
	if data, err := os.ReadFile(versions); err == nil {
		_ = json.Unmarshal(data, &have) // a broken list only costs another copy
	}
	now, changed, found := map[string]string{}, []fileInfo{}, false
	for _, f := range remote {
		now[f.path], found = f.version, found || f.path == info
		if have[f.path] != f.version {
			changed = append(changed, f)
		}
	}
	if !found {
		return fmt.Errorf("open dataset %s: it has no %s: %w", b.name(""), info, os.ErrNotExist)
	}
	if len(changed) == 0 && len(have) == len(now) {
		return nil
	}
	if err := os.RemoveAll(versions); err != nil {
		return err
	}
	for old := range have {
		if now[old] == "" {
			_ = os.Remove(filepath.Join(dir, filepath.FromSlash(old)))
		}
	}
	for _, last := range []bool{false, true} {
		for _, f := range changed {
			if (f.path == info) == last {
				if err := copyDown(ctx, b, f, filepath.Join(dir, filepath.FromSlash(f.path))); err != nil {
					return err
				}
			}
		}
	}
	data, err := json.Marshal(now)
	if err != nil {
		return err
	}
	return atomicfile.WriteFile(versions, data, 0o644)
}

func copyDown(ctx context.Context, b files, f fileInfo, to string) error {
	in, err := b.open(ctx, f.path)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return atomicfile.Write(atomicfile.OS, to, 0o644, func(w io.Writer) error {
		_, err := io.Copy(w, io.NewSectionReader(in, 0, in.size()))
		return err
	})
}
