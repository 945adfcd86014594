package loader

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/xml"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// stub is an S3 server over a folder, as strict as it must be: listings in pages, ranges, conditions. It counts and fails on demand.
type stub struct {
	root   string
	bytes  atomic.Int64 // sent of objects below data/ and videos/
	gets   atomic.Int64
	broken bool // the first request for each range is answered with 503, or without the range and cut short
	tried  sync.Map
}

func (s *stub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if bucket != "demos" {
		http.Error(w, "no such bucket", http.StatusNotFound)
		return
	}
	if key == "" {
		s.list(w, r)
		return
	}
	data, err := os.ReadFile(filepath.Join(s.root, filepath.FromSlash(key)))
	if err != nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	etag := fmt.Sprintf("%q", fmt.Sprintf("%x", md5.Sum(data)))
	if want := r.Header.Get("If-Match"); want != "" && strings.Trim(want, `"`) != strings.Trim(etag, `"`) {
		w.WriteHeader(http.StatusPreconditionFailed)
		return
	}
	w.Header().Set("ETag", etag)
	if r.Method == http.MethodGet {
		n := s.gets.Add(1)
		if _, again := s.tried.LoadOrStore(key+r.Header.Get("Range"), true); s.broken && !again {
			if n%2 == 0 {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			w.Header().Set("Last-Modified", time.Unix(1e9, 0).UTC().Format(http.TimeFormat))
			w.Header().Set("Content-Length", strconv.Itoa(len(data))) // and then less
			_, _ = w.Write(data[:len(data)/3])
			return
		}
		if !strings.Contains(key, "meta/") {
			w = &counting{w, &s.bytes}
		}
	}
	http.ServeContent(w, r, "", time.Unix(1e9, 0), bytes.NewReader(data))
}

type counting struct {
	http.ResponseWriter
	n *atomic.Int64
}

func (c *counting) Write(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	return c.ResponseWriter.Write(p)
}

func (s *stub) list(w http.ResponseWriter, r *http.Request) {
	const page = 3
	type content struct {
		Key, ETag string
		Size      int64
	}
	var out struct {
		XMLName               xml.Name `xml:"ListBucketResult"`
		Name                  string
		IsTruncated           bool
		NextContinuationToken string
		Contents              []content
	}
	out.Name = "demos"
	var keys []string
	_ = filepath.Walk(s.root, func(path string, st os.FileInfo, err error) error {
		if err == nil && !st.IsDir() {
			rel, _ := filepath.Rel(s.root, path)
			if key := filepath.ToSlash(rel); strings.HasPrefix(key, r.URL.Query().Get("prefix")) && key > r.URL.Query().Get("continuation-token") {
				keys = append(keys, key)
			}
		}
		return nil
	})
	slices.Sort(keys)
	for _, key := range keys[:min(page, len(keys))] {
		data, _ := os.ReadFile(filepath.Join(s.root, filepath.FromSlash(key)))
		out.Contents = append(out.Contents, content{key, fmt.Sprintf("%q", fmt.Sprintf("%x", md5.Sum(data))), int64(len(data))})
		out.NextContinuationToken = key
	}
	out.IsTruncated = len(keys) > page
	_ = xml.NewEncoder(w).Encode(out)
}

func useServer(t *testing.T, url string) {
	t.Helper()
	for k, v := range map[string]string{"AWS_ENDPOINT_URL": url, "AWS_ENDPOINT_URL_S3": "", "AWS_ACCESS_KEY_ID": "tester", "AWS_SECRET_ACCESS_KEY": "secret-of-tester", "AWS_REGION": "us-east-1"} {
		t.Setenv(k, v)
	}
}

// put makes a bucket folder of a dataset with some metadata beside it.
func put(t *testing.T, lengths ...int) (local, root string) {
	t.Helper()
	local, root = flat(t, lengths...).Root(), t.TempDir()
	if err := os.CopyFS(filepath.Join(root, "laundry", "v1"), os.DirFS(local)); err != nil {
		t.Fatal(err)
	}
	return local, root
}

const bucketSet = "s3://demos/laundry/v1"

// From a bucket come the same batches as from the disk, though the server fails now and then.
func TestBucketGivesTheSameBatches(t *testing.T) {
	local, root := put(t, 6, 9, 4)
	server := &stub{root: root}
	h := httptest.NewServer(server)
	defer h.Close()
	useServer(t, h.URL)
	want := stream(t, windows(t, Single(local), nil), 0, steps(6))
	cache := t.TempDir()
	inCache := func(c *Config) { c.CacheDir = cache }
	server.broken = true
	if got := stream(t, windows(t, Single(bucketSet), inCache), 0, steps(6)); !reflect.DeepEqual(got, want) {
		t.Error("other batches from a bucket")
	}
	server.broken = false
	gets := server.gets.Load()
	l := windows(t, Single(bucketSet), inCache)
	if n := server.gets.Load() - gets; n != 0 {
		t.Errorf("opening again read %d objects", n)
	}
	if _, err := l.Batch(context.Background(), 0); err != nil {
		t.Fatal(err)
	}
	// What changes in the bucket while the set is open is an error, not another picture.
	video := filepath.Join(root, "laundry", "v1", "videos", "cam", "chunk-000", "file-001.mp4")
	data, err := os.ReadFile(video)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(video, append(data, 0), 0o644); err != nil {
		t.Fatal(err)
	}
	failed := false
	for step := range steps(6) {
		if _, err := l.Batch(context.Background(), step+1); err != nil {
			failed = true
			for _, part := range []string{bucketSet, "episode 1, frame", `camera "cam"`, "file-001.mp4"} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not say %s", err, part)
				}
			}
		}
	}
	if !failed {
		t.Error("a file that was replaced was read on")
	}
}

func TestBucketErrors(t *testing.T) {
	_, root := put(t, 6)
	h := httptest.NewServer(&stub{root: root})
	defer h.Close()
	useServer(t, h.URL)
	cfg := Config{Batch: 1, CacheDir: t.TempDir(), Columns: []Columns{{"x", nil}}}
	for want, path := range map[string]string{"want s3://bucket/prefix": "s3://", "has no meta/info.json": "s3://demos/nothing", "no such bucket": "s3://other/x"} {
		if l, err := New(context.Background(), Single(path), cfg); err == nil || !strings.Contains(strings.ToLower(err.Error()), want) && !strings.Contains(err.Error(), "does not exist") {
			if err == nil {
				_ = l.Close()
			}
			t.Errorf("%s: %v", path, err)
		}
	}
	t.Setenv("AWS_ENDPOINT_URL", "localhost:1")
	if _, err := New(context.Background(), Single(bucketSet), cfg); err == nil || !strings.Contains(err.Error(), "AWS_ENDPOINT_URL") {
		t.Errorf("an endpoint without scheme: %v", err)
	}
}

// Only what windows need is read: the index of each video, the groups of their frames, the pages of their columns.
func TestBucketReadsOnlyWhatAWindowNeeds(t *testing.T) {
	_, root := put(t, 40)
	video := filepath.Join(root, "laundry", "v1", "videos", "cam", "chunk-000", "file-000.mp4")
	data, err := os.ReadFile(video)
	if err != nil {
		t.Fatal(err)
	}
	const ballast = 8 << 20 // other bytes of a large file: the index stands in front, what follows is not for this window
	if err := os.WriteFile(video, append(data, free(ballast)...), 0o644); err != nil {
		t.Fatal(err)
	}
	server := &stub{root: root}
	h := httptest.NewServer(server)
	defer h.Close()
	useServer(t, h.URL)
	l := windows(t, Single(bucketSet), func(c *Config) { c.Batch, c.Images[0].Offsets = 1, []int{0} })
	opened := server.bytes.Load()
	if _, err := l.Batch(context.Background(), 0); err != nil {
		t.Fatal(err)
	}
	if n := server.bytes.Load() - opened; n > 4*blockSize+int64(len(data)) {
		t.Errorf("one window of a file of %d MB read %d bytes", ballast>>20, n)
	}
	before := l.Stats().Fetched
	if _, err := l.Batch(context.Background(), 1); err != nil {
		t.Fatal(err)
	}
	if n := l.Stats().Fetched - before; n == 0 || n > int64(len(data))/4 {
		t.Errorf("the next window read %d of %d bytes", n, len(data))
	}
}

// free is an mp4 box that players skip.
func free(n int) []byte {
	b := make([]byte, n)
	b[0], b[1], b[2], b[3] = byte(n>>24), byte(n>>16), byte(n>>8), byte(n)
	copy(b[4:], "free")
	return b
}

// The same against a real server, Versity's S3 gateway (Apache-2.0): `go install github.com/versity/versitygw/cmd/versitygw@latest`.
// It takes minutes to compile, so no run requires it.
func TestBucketOfARealServer(t *testing.T) {
	program, err := exec.LookPath("versitygw")
	if err != nil {
		t.Skip("no program versitygw on the PATH; run `go install github.com/versity/versitygw/cmd/versitygw@latest`")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	cmd := exec.Command(program, "--port", address, "--access", "tester", "--secret", "secret-of-tester", "posix", "--sidecar", t.TempDir(), t.TempDir())
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	useServer(t, "http://"+address)
	client, err := minio.New(address, &minio.Options{Creds: credentials.NewStaticV4("tester", "secret-of-tester", ""), Region: "us-east-1"})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	for try := 0; ; try++ {
		if err = client.MakeBucket(ctx, "demos", minio.MakeBucketOptions{Region: "us-east-1"}); err == nil {
			break
		}
		if try == 300 {
			t.Fatalf("the server does not answer: %v\n%s", err, said.String())
		}
		time.Sleep(100 * time.Millisecond)
	}
	local := flat(t, 6, 9, 4).Root()
	err = filepath.Walk(local, func(path string, st os.FileInfo, err error) error {
		if err != nil || st.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(local, path)
		_, err = client.FPutObject(ctx, "demos", "laundry/v1/"+filepath.ToSlash(rel), path, minio.PutObjectOptions{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	want := stream(t, windows(t, Single(local), nil), 0, steps(6))
	l := windows(t, Single(bucketSet), nil)
	if got := stream(t, l, 0, steps(6)); !reflect.DeepEqual(got, want) {
		t.Error("other batches from a real server")
	}
	if l.Stats().Fetched == 0 {
		t.Error("nothing was read from the bucket")
	}
}
