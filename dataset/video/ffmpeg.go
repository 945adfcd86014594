package video

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
)

// program is a running ffmpeg with its last messages.
type program struct {
	cmd    *exec.Cmd
	stderr tail
}

// ffmpeg prepares the program; messages of level error only, no console.
func ffmpeg(ctx context.Context, args ...string) (*program, error) {
	path, err := exec.LookPath("ffmpeg")
	if err != nil {
		return nil, fmt.Errorf("the ffmpeg program is not installed (apt-get install ffmpeg): %w", err)
	}
	p := &program{cmd: exec.CommandContext(ctx, path, append([]string{"-hide_banner", "-loglevel", "error", "-nostdin", "-y"}, args...)...)}
	p.cmd.Stderr = &p.stderr
	return p, nil
}

// noSpace is what ffmpeg prints on a full disk; it may even go on and end with status 0.
const noSpace = "No space left on device"

// fail adds what the program said to an error. A full disk, of which ffmpeg makes many words, wraps syscall.ENOSPC.
func (p *program) fail(err error) error {
	if err == nil {
		return nil
	}
	if strings.Contains(p.stderr.String(), noSpace) {
		return fmt.Errorf("the disk is full, free some space and try again: %w", syscall.ENOSPC)
	}
	if said := p.stderr.String(); said != "" {
		return fmt.Errorf("ffmpeg: %s: %w", said, err)
	}
	return fmt.Errorf("ffmpeg: %w", err)
}

func run(ctx context.Context, args ...string) error {
	p, err := ffmpeg(ctx, args...)
	if err != nil {
		return err
	}
	return p.fail(p.cmd.Run())
}

// tail keeps the last bytes written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

const tailSize = 2048

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if len(t.buf) > tailSize {
		t.buf = append([]byte(nil), t.buf[len(t.buf)-tailSize:]...)
	}
	return len(p), nil
}

// String is the text on one line.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.FieldsFunc(string(bytes.TrimSpace(t.buf)), func(r rune) bool { return r == '\n' || r == '\r' })
	if len(lines) > 4 {
		lines = lines[len(lines)-4:]
	}
	return strings.Join(lines, "; ")
}

var _ io.Writer = (*tail)(nil)
