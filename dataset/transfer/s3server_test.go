package transfer

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/pinch-robotics/pinch/internal/testpeer"
)

var removeOptions = minio.RemoveObjectOptions{}

// s3Server starts moto's S3 server with a bucket called lab, and points the environment to it.
func s3Server(t *testing.T) {
	t.Helper()
	python := testpeer.Python(t, "moto", "flask")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	_, port, _ := net.SplitHostPort(address)
	cmd := exec.Command(python, "-m", "moto.server", "-H", "127.0.0.1", "-p", port)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := make(chan string, 1)
	go func() {
		var last []string
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			last = append(last, lines.Text())
		}
		said <- strings.Join(last[max(0, len(last)-5):], "\n")
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	t.Setenv("AWS_ENDPOINT_URL_S3", "http://"+address)
	t.Setenv("AWS_ACCESS_KEY_ID", "testing")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "testing")
	t.Setenv("AWS_REGION", "us-east-1")
	for try := 0; ; try++ {
		if res, err := http.Get("http://" + address + "/moto-api/"); err == nil {
			res.Body.Close()
			break
		}
		if try > 600 {
			t.Fatalf("the S3 server does not start: %s", <-said)
		}
		time.Sleep(100 * time.Millisecond)
	}
	b, err := openBucket("s3://lab", Options{}.fill())
	if err != nil {
		t.Fatal(err)
	}
	if err := b.client.MakeBucket(t.Context(), "lab", minio.MakeBucketOptions{}); err != nil {
		t.Fatal(fmt.Errorf("make bucket: %w", err))
	}
}
