package transfer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// errAbsent: the remote does not exist yet, or is empty.
var errAbsent = errors.New("there is nothing there")

// errTransient marks faults that may be gone at the next try.
var errTransient = errors.New("a passing fault")

// attempts is how often a passing fault is met before it counts.
const attempts = 5

func transient(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("%w (%w)", err, errTransient)
}

// backoff is the pause before try n+1: half a second, doubled each time.
func backoff(n int) time.Duration { return 500 * time.Millisecond << min(n, 6) }

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// openRemote reads an address.
func openRemote(address string, o Options) (remote, error) {
	switch {
	case strings.HasPrefix(address, "s3://"):
		return openBucket(address, o)
	case strings.HasPrefix(address, "hf://"):
		return openHub(address, o)
	}
	return nil, fmt.Errorf("remote %q: want s3://bucket/prefix or hf://owner/name[@revision]", address)
}
