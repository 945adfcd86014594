package serving

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/pinch-robotics/pinch/deploy"
)

// A hundred connections at once: clients that work, clients that send garbage, clients that do not read, clients that come and go all the
// time. The server answers everybody it can, answers pings, and has nothing left over afterwards. Two seconds here, an hour with PINCH_SOAK=1.
func TestStormOfClients(t *testing.T) {
	length, patience := 2*time.Second, 20*time.Second
	if os.Getenv("PINCH_SOAK") != "" {
		length, patience = time.Hour, time.Second // pings are answered within a second throughout
	}
	st := newStock("a", "b")
	s := start(t, Config{Aliases: map[string]Alias{"default": {Pool: pool("a", "b")}}}, st.load, "")
	small := observation(t)
	before := settled()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var wg sync.WaitGroup
	var answers, garbage, refused, reconnects, pings atomic.Int64
	go func() { // on a busy machine it takes longer until each kind of client has had its turn
		time.Sleep(length)
		for i := 0; i < 600 && min(answers.Load(), garbage.Load(), reconnects.Load(), pings.Load()) == 0; i++ {
			time.Sleep(100 * time.Millisecond)
		}
		cancel()
	}()
	run := func(n int, f func(i int, rng *rand.Rand)) {
		for i := 0; i < n; i++ {
			wg.Add(1)
			go func() {
				defer wg.Done()
				f(i, rand.New(rand.NewPCG(uint64(i), uint64(n))))
			}()
		}
	}
	run(50, func(_ int, rng *rand.Rand) { // working clients
		c, err := deploy.Dial(context.Background(), s.url, deploy.ClientOptions{MetadataTimeout: 30 * time.Second})
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		for ctx.Err() == nil {
			one, done := context.WithTimeout(context.Background(), 30*time.Second)
			if _, err := c.Infer(one, small); err != nil {
				t.Errorf("a working client: %v", err)
				done()
				return
			}
			done()
			answers.Add(1)
			time.Sleep(time.Duration(20+rng.IntN(60)) * time.Millisecond)
		}
	})
	valid := request(t)[:4000] // the head of a real request, cut: the mutations begin from something that looks right
	run(20, func(_ int, rng *rand.Rand) {
		for ctx.Err() == nil {
			c, err := raw(s.url)
			if err != nil {
				refused.Add(1)
				continue
			}
			for k := 0; k < 5; k++ {
				b := append([]byte(nil), valid[:rng.IntN(len(valid))]...)
				for m := 0; m < rng.IntN(20) && len(b) > 0; m++ {
					b[rng.IntN(len(b))] = byte(rng.Uint32())
				}
				kind := websocket.MessageBinary
				if rng.IntN(8) == 0 {
					kind = websocket.MessageText
				}
				one, done := context.WithTimeout(context.Background(), 30*time.Second)
				if c.Write(one, kind, b) == nil {
					_, _, err = c.Read(one)
				}
				done()
				garbage.Add(1)
				if err != nil {
					break
				}
			}
			_ = c.CloseNow()
			time.Sleep(10 * time.Millisecond)
		}
	})
	run(10, func(int, *rand.Rand) { // clients that send and never read
		for ctx.Err() == nil {
			c, err := raw(s.url)
			if err != nil {
				continue
			}
			for k := 0; k < 20 && ctx.Err() == nil; k++ {
				one, done := context.WithTimeout(ctx, time.Second)
				err = c.Write(one, websocket.MessageBinary, valid)
				done()
				if err != nil {
					break
				}
				time.Sleep(20 * time.Millisecond)
			}
			_ = c.CloseNow()
		}
	})
	run(15, func(int, *rand.Rand) { // clients that come and go
		for ctx.Err() == nil {
			c, err := raw(s.url + "/?reset=1")
			if err == nil {
				reconnects.Add(1)
				_ = c.CloseNow()
			}
			time.Sleep(5 * time.Millisecond)
		}
	})
	run(5, func(int, *rand.Rand) { // pings
		c, err := raw(s.url)
		if err != nil {
			t.Errorf("the pinging client: %v", err)
			return
		}
		defer c.CloseNow()
		life, end := context.WithCancel(context.Background())
		defer end()
		life = c.CloseRead(life)
		for ctx.Err() == nil {
			one, done := context.WithTimeout(life, patience)
			if err := c.Ping(one); err != nil {
				t.Errorf("a ping is not answered within %v: %v", patience, err)
				done()
				return
			}
			done()
			pings.Add(1)
			time.Sleep(50 * time.Millisecond)
		}
	})
	wg.Wait()
	t.Logf("%d answers, %d frames of garbage, %d reconnections, %d pings, %d connections refused", answers.Load(), garbage.Load(), reconnects.Load(), pings.Load(), refused.Load())
	if answers.Load() == 0 || garbage.Load() == 0 || reconnects.Load() == 0 || pings.Load() == 0 {
		t.Error("a kind of client did nothing")
	}
	var after usage
	waitFor(t, func() bool { after = settled(); return after.goroutines <= before.goroutines+5 })
	if after.heap > before.heap+16<<20 {
		t.Errorf("%d MB are in use, %d MB were before", after.heap>>20, before.heap>>20)
	}
	if got := ask(t, s.dial(t, "")); got != "hash-a" {
		t.Errorf("afterwards the server answers with %s", got)
	}
	if !s.Status()["default"][0].Healthy {
		t.Error("garbage of clients counts as a failure of a policy")
	}
}

func raw(url string) (*websocket.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, _, err := websocket.Dial(ctx, url, &websocket.DialOptions{CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		return nil, err
	}
	c.SetReadLimit(1 << 22)
	if _, _, err := c.Read(ctx); err != nil {
		_ = c.CloseNow()
		return nil, fmt.Errorf("metadata: %w", err)
	}
	return c, nil
}

type usage struct {
	goroutines int
	heap       uint64
}

func settled() usage {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{runtime.NumGoroutine(), m.HeapAlloc}
}
