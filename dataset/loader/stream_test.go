package loader

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

func TestStreamDeliversInOrder(t *testing.T) {
	s := Start(context.Background(), 4, 3, 5, 45, func(_ context.Context, n int) (int, error) {
		if n%7 == 0 {
			runtime.Gosched() // let later ones finish first
		}
		return n * n, nil
	})
	defer s.Close()
	for n := 5; n < 45; n++ {
		got, ok, err := s.Next()
		if !ok || err != nil || got != n*n {
			t.Fatalf("batch %d: %d %v %v", n, got, ok, err)
		}
	}
	if _, ok, _ := s.Next(); ok {
		t.Error("a batch after the last")
	}
}

func TestStreamRunsOnlySoFarAhead(t *testing.T) {
	var made atomic.Int32
	s := Start(context.Background(), 2, 3, 0, 1000, func(context.Context, int) (int, error) { return int(made.Add(1)), nil })
	if _, _, err := s.Next(); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		runtime.Gosched()
	}
	s.Close()
	if n := made.Load(); n > 10 { // taken 1, room for 3, 2 in work, 1 in hand, some slack while closing
		t.Errorf("%d batches made for one taken", n)
	}
}

func TestStreamPassesErrorsAndStops(t *testing.T) {
	fault := errors.New("bad row")
	s := Start(context.Background(), 2, 2, 0, 100, func(_ context.Context, n int) (int, error) {
		if n == 3 {
			return 0, fault
		}
		return n, nil
	})
	for n := range 4 {
		_, ok, err := s.Next()
		if !ok || (n == 3) != errors.Is(err, fault) {
			t.Fatalf("batch %d: %v %v", n, ok, err)
		}
	}
	s.Close()
}

func TestCloseLeavesNoGoroutine(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 20 {
		ctx, cancel := context.WithCancel(context.Background())
		s := Start(ctx, 3, 2, 0, 1000, func(context.Context, int) (int, error) { return 0, nil })
		_, _, _ = s.Next()
		cancel()
		s.Close()
	}
	deadline := time.Now().Add(5 * time.Second)
	for runtime.NumGoroutine() > before && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	if n := runtime.NumGoroutine(); n > before {
		t.Errorf("%d goroutines before, %d after", before, n)
	}
}
