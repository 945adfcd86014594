package loader

import (
	"context"
	"sync"
	"time"
)

// Stream makes batches in worker goroutines and hands them out in order. Create it with Start; Close it always.
type Stream[T any] struct {
	next   chan chan result[T]
	cancel context.CancelFunc
	done   sync.WaitGroup
	waited time.Duration
}

type result[T any] struct {
	batch T
	err   error
}

// Start calls make for batch numbers first, first+1, ... below end in the given number of workers, at most ahead batches in
// front of the consumer. make must depend on its argument only and be safe for concurrent use.
func Start[T any](ctx context.Context, workers, ahead, first, end int, make_ func(ctx context.Context, batch int) (T, error)) *Stream[T] {
	ctx, cancel := context.WithCancel(ctx)
	s := &Stream[T]{next: make(chan chan result[T], max(ahead, 1)), cancel: cancel}
	type job struct {
		batch int
		out   chan result[T]
	}
	jobs := make(chan job)
	s.done.Go(func() { // the dispatcher owns both channels
		defer close(s.next)
		defer close(jobs)
		for b := first; b < end; b++ {
			out := make(chan result[T], 1) // buffered, so a worker never waits for the consumer
			select {
			case s.next <- out:
			case <-ctx.Done():
				return
			}
			select {
			case jobs <- job{b, out}:
			case <-ctx.Done():
				out <- result[T]{err: ctx.Err()}
				return
			}
		}
	})
	for range max(workers, 1) {
		s.done.Go(func() {
			for j := range jobs {
				batch, err := make_(ctx, j.batch)
				j.out <- result[T]{batch, err}
			}
		})
	}
	return s
}

// Next gives the following batch. ok is false after the last one; after an error the stream should be closed.
func (s *Stream[T]) Next() (batch T, ok bool, err error) {
	start := time.Now()
	defer func() { s.waited += time.Since(start) }()
	out, ok := <-s.next
	if !ok {
		return batch, false, nil
	}
	r := <-out
	return r.batch, true, r.err
}

// Waited is how long Next has waited in total: the loader's share of the training time.
func (s *Stream[T]) Waited() time.Duration { return s.waited }

// Close stops the workers and waits until they have left.
func (s *Stream[T]) Close() {
	s.cancel()
	for range s.next { // free a dispatcher that waits for room
	}
	s.done.Wait()
}
