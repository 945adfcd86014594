package deploy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/pinch-robotics/pinch/internal/wire/armlink"
)

// rtspText answers every RTSP request: with the session description to DESCRIBE, with an empty 200 to all others. An empty description
// leaves DESCRIBE without an answer.
func rtspText(t *testing.T, sdp string) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serveText(c, sdp)
		}
	}()
	return "rtsp://" + l.Addr().String() + "/left"
}

func serveText(c net.Conn, sdp string) {
	defer c.Close()
	in, method, cseq := bufio.NewScanner(c), "", ""
	for in.Scan() {
		line := strings.TrimSpace(in.Text())
		if v, ok := strings.CutPrefix(line, "CSeq: "); ok {
			cseq = v
		} else if m, _, ok := strings.Cut(line, " rtsp://"); ok {
			method = m
		}
		switch {
		case line != "":
		case method != "DESCRIBE":
			fmt.Fprintf(c, "RTSP/1.0 200 OK\r\nCSeq: %s\r\nPublic: DESCRIBE\r\n\r\n", cseq)
		case sdp != "":
			fmt.Fprintf(c, "RTSP/1.0 200 OK\r\nCSeq: %s\r\nContent-Type: application/sdp\r\nContent-Length: %d\r\n\r\n%s", cseq, len(sdp), sdp)
		}
	}
}

// A camera that sends nothing we read is an error at once: waiting for it would never end.
func TestWristCameraOfAnotherKindIsRefused(t *testing.T) {
	url := rtspText(t, "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=sound\r\nt=0 0\r\nm=audio 0 RTP/AVP 0\r\na=control:0\r\n")
	failed := make(chan error, 1)
	go func() {
		_, err := openRTSP(context.Background(), armlink.CameraInfo{Name: "left", URL: url, Kind: "mjpeg"}, 0)
		failed <- err
	}()
	select {
	case err := <-failed:
		if err == nil || !strings.Contains(err.Error(), "neither Motion-JPEG nor H.264") || !strings.Contains(err.Error(), url) {
			t.Errorf("error %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("opening the camera hangs")
	}
}

// The context of Connect also ends the opening of a camera that does not answer.
func TestConnectGivesUpOnASilentCamera(t *testing.T) {
	url := rtspText(t, "")
	f, err := NewFake(FakeOptions{Greet: func(h *armlink.Hello) { h.Cameras[0].URL, h.Cameras[0].Kind = url, "mjpeg" }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_, err = Connect(ctx, DefaultCell(), ConnectOptions{Conn: f.Conn()})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want the context's", err)
	}
	f.Wait()
}

// A finger angle that is not finite is the cell's fault and must not reach a policy.
func TestStateThatIsNotFiniteIsRefused(t *testing.T) {
	f, err := NewFake(FakeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := Connect(context.Background(), DefaultCell(), ConnectOptions{Conn: f.Conn(), OpenCamera: f.OpenCamera})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for name, spoil := range map[string]func(a *armlink.ArmState){
		"left arm reports joint 3":      func(a *armlink.ArmState) { a.Q[2] = math.NaN() },
		"left arm reports its fingers":  func(a *armlink.ArmState) { a.GripperRad = math.NaN() },
		"left arm reports its fingers ": func(a *armlink.ArmState) { a.GripperCmdRad = math.Inf(1) },
	} {
		st := s.state
		st.Arms = append([]armlink.ArmState(nil), st.Arms...)
		spoil(&st.Arms[0])
		if err := s.take(&st); !errors.Is(err, ErrCellLost) || !strings.Contains(err.Error(), strings.TrimSpace(name)) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
