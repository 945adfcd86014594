package transfer

import (
	"bytes"
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
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"golang.org/x/sync/errgroup"
)

// manifestFile holds the hashes of a bucket's files.
const manifestFile = ".pinch/manifest.json"

// manifest is the form of manifestFile.
type manifest struct {
	Format int             `json:"format"` // 1
	Files  []manifestEntry `json:"files"`
}

type manifestEntry struct {
	Path   string `json:"path"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// bucket is a prefix of an S3 bucket.
type bucket struct {
	client       *minio.Client
	name, prefix string // prefix without slashes at its ends
	workers      int
}

// openBucket finds the server of s3://bucket/prefix. The endpoint comes from AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL (default AWS
// itself), the region from AWS_REGION, credentials from the environment or ~/.aws/credentials; without any, requests are anonymous.
func openBucket(address string, o Options) (*bucket, error) {
	name, prefix, _ := strings.Cut(strings.TrimPrefix(address, "s3://"), "/")
	if name == "" {
		return nil, fmt.Errorf("remote %s: want s3://bucket/prefix", address)
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
	return &bucket{client: client, name: name, prefix: strings.Trim(prefix, "/"), workers: o.Workers}, nil
}

func (b *bucket) String() string { return "s3://" + path.Join(b.name, b.prefix) }

func (b *bucket) key(rel string) string { return path.Join(b.prefix, rel) }

// fault says what an S3 error means for the person at the keyboard.
func (b *bucket) fault(act string, err error) error {
	r := minio.ToErrorResponse(err)
	switch {
	case r.Code == "NoSuchBucket":
		return fmt.Errorf("%s: bucket %s does not exist; make it, or correct the address: %w", act, b.name, errors.Join(errAbsent, err))
	case r.StatusCode == http.StatusForbidden || r.StatusCode == http.StatusUnauthorized || r.Code == "AccessDenied":
		return fmt.Errorf("%s: the server refuses; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY of somebody who may do this: %w", act, err)
	case r.StatusCode >= 500 || r.StatusCode == http.StatusTooManyRequests || r.StatusCode == 0:
		return transient(fmt.Errorf("%s: %w", act, err))
	}
	return fmt.Errorf("%s: %w", act, err)
}

func (b *bucket) list(ctx context.Context) (files []File, version string, err error) {
	known, err := b.manifest(ctx)
	if err != nil {
		return nil, "", err
	}
	root := b.prefix
	if root != "" {
		root += "/"
	}
	for o := range b.client.ListObjects(ctx, b.name, minio.ListObjectsOptions{Prefix: root, Recursive: true}) {
		if o.Err != nil {
			return nil, "", b.fault("list "+b.String(), o.Err)
		}
		rel := strings.TrimPrefix(o.Key, root)
		if rel == "" || strings.HasSuffix(rel, "/") || strings.HasPrefix(rel, ".") || strings.Contains(rel, "/.") {
			continue
		}
		if err := safePath(rel); err != nil {
			return nil, "", err
		}
		f := File{Path: rel, Size: o.Size, Hash: etagHash(o.ETag)}
		if e, ok := known[rel]; ok && e.Size == o.Size { // else it was changed by somebody who does not keep the manifest
			f.Hash = Hash{SHA256, e.SHA256}
		}
		files = append(files, f)
	}
	return files, "", nil
}

// safePath refuses names that would leave the folder.
func safePath(rel string) error {
	if path.Clean("/"+rel) != "/"+rel || strings.ContainsAny(rel, "\\\x00") {
		return fmt.Errorf("the remote has a file named %q, which is no path inside a folder", rel)
	}
	return nil
}

// manifest reads the hashes that Push left; a bucket without them has none.
func (b *bucket) manifest(ctx context.Context) (map[string]manifestEntry, error) {
	o, err := b.client.GetObject(ctx, b.name, b.key(manifestFile), minio.GetObjectOptions{})
	if err != nil {
		return nil, b.fault("read "+manifestFile, err)
	}
	defer o.Close()
	data, err := io.ReadAll(o)
	if r := minio.ToErrorResponse(err); err != nil && r.Code == "NoSuchKey" {
		return nil, nil
	}
	if err != nil {
		return nil, b.fault("read "+manifestFile, err)
	}
	var m manifest
	if err := json.Unmarshal(data, &m); err != nil || m.Format != 1 {
		return nil, fmt.Errorf("%s/%s is no manifest of format 1 (%v); remove it and push again", b, manifestFile, err)
	}
	out := map[string]manifestEntry{}
	for _, e := range m.Files {
		out[e.Path] = e
	}
	return out, nil
}

// objectBody is an object, or the rest of one.
type objectBody struct {
	io.ReadCloser
	start int64
}

func (o objectBody) from() int64 { return o.start }

func (b *bucket) get(ctx context.Context, f File, from int64) (body, error) {
	var opts minio.GetObjectOptions
	if from > 0 {
		if err := opts.SetRange(from, f.Size-1); err != nil {
			return nil, err
		}
	}
	core := minio.Core{Client: b.client}
	r, _, _, err := core.GetObject(ctx, b.name, b.key(f.Path), opts)
	if err != nil {
		return nil, b.fault("read", err)
	}
	return objectBody{r, from}, nil
}

func (b *bucket) push(ctx context.Context, files, keep []local, remove []string, done func(local)) (string, error) {
	var last []local
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(b.workers)
	for _, f := range files {
		if f.path == infoFile {
			last = append(last, f)
			continue
		}
		g.Go(func() error { return b.put(gctx, f, done) })
	}
	if err := g.Wait(); err != nil {
		return "", err
	}
	for _, p := range remove {
		if err := b.client.RemoveObject(ctx, b.name, b.key(p), minio.RemoveObjectOptions{}); err != nil {
			return "", b.fault("remove "+p, err)
		}
	}
	if err := b.putManifest(ctx, append(append([]local{}, files...), keep...)); err != nil {
		return "", err
	}
	for _, f := range last {
		if err := b.put(ctx, f, done); err != nil {
			return "", err
		}
	}
	return "", nil
}

// put sends one file; the client sends large ones in parts and repeats those that fail.
func (b *bucket) put(ctx context.Context, f local, done func(local)) error {
	in, err := os.Open(f.file)
	if err != nil {
		return err
	}
	defer in.Close()
	_, err = b.client.PutObject(ctx, b.name, b.key(f.path), in, f.size, minio.PutObjectOptions{
		ContentType: "application/octet-stream", UserMetadata: map[string]string{"sha256": f.sha256}, SendContentMd5: true})
	if err != nil {
		return b.fault("send "+f.path, err)
	}
	done(f)
	return nil
}

func (b *bucket) putManifest(ctx context.Context, all []local) error {
	m := manifest{Format: 1}
	for _, f := range all {
		m.Files = append(m.Files, manifestEntry{f.path, f.size, f.sha256})
	}
	data, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return err
	}
	_, err = b.client.PutObject(ctx, b.name, b.key(manifestFile), bytes.NewReader(data), int64(len(data)), minio.PutObjectOptions{ContentType: "application/json", SendContentMd5: true})
	if err != nil {
		return b.fault("send "+manifestFile, err)
	}
	return nil
}
