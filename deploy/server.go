package deploy

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"github.com/coder/websocket"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/imaging"
	"github.com/pinch-robotics/pinch/internal/wire/npmsgpack"
)

// ServeOptions is a policy server's address and bounds.
type ServeOptions struct {
	Addr       string       // host:port; port 0 takes a free one
	APIKey     string       // not empty: clients must send "Authorization: Api-Key <key>"
	MaxBytes   int          // largest request; default npmsgpack.Defaults.Bytes
	MaxClients int          // open connections; default 16
	Prompt     string       // of the warm-up call; default the first of the policy's prompts
	Logger     *slog.Logger // nil: silent
	// Ready is called once with the bound address, when clients can connect; nil: nobody waits.
	Ready func(addr net.Addr)
}

// maxWaiting is how many requests of one connection may wait behind the one being answered.
const maxWaiting = 4

// Serve answers openpi WebSocket clients with a policy until ctx ends. It calls the policy once before it listens, so that no client pays
// for compilation. Each connection gets the metadata first, then one answer per request; a request that fails gets a text frame with the
// reason and close code 1011. A client that connects with ?reset=1 starts the policy's sampling noise anew. GET /healthz answers "OK". A
// port in use is an error at once, before the warm-up.
//
// Specification: openpi, websocket_policy_server.py; UMI Arena runner.
func Serve(ctx context.Context, policy Policy, opts ServeOptions) error {
	s, err := newServer(policy, opts)
	if err != nil {
		return err
	}
	probe, err := listen(opts.Addr)
	if err != nil {
		return err
	}
	if err := probe.Close(); err != nil {
		return fmt.Errorf("serve policy at %s: %w", opts.Addr, err)
	}
	if err := s.warmUp(ctx); err != nil {
		return err
	}
	l, err := listen(opts.Addr)
	if err != nil {
		return err
	}
	return s.serve(ctx, l)
}

func listen(addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("serve policy at %s: another program uses this port; stop it or choose another address: %w", addr, err)
	case err != nil:
		return nil, fmt.Errorf("serve policy at %s: %w", addr, err)
	}
	return l, nil
}

type server struct {
	policy   Policy
	opts     ServeOptions
	metadata []byte
	log      *slog.Logger

	mu      sync.Mutex // guards clients
	clients int
}

// Resetter is implemented by policies whose answers depend on the calls before (sampling noise); Reset makes the next call the first.
type Resetter interface{ Reset() }

func newServer(policy Policy, opts ServeOptions) (*server, error) {
	if opts.MaxBytes == 0 {
		opts.MaxBytes = npmsgpack.Defaults.Bytes
	}
	if opts.MaxClients == 0 {
		opts.MaxClients = 16
	}
	contract, err := ReadContract(policy.Metadata(), nil)
	if err != nil {
		return nil, fmt.Errorf("serve policy: %w", err)
	}
	if opts.Prompt == "" && len(contract.Prompts) > 0 {
		opts.Prompt = contract.Prompts[0]
	}
	meta := map[string]any{"server": "pinch"}
	for k, v := range policy.Metadata() {
		meta[k] = v
	}
	data, err := npmsgpack.Encode(meta)
	if err != nil {
		return nil, fmt.Errorf("serve policy: encode metadata: %w", err)
	}
	log := opts.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &server{policy: policy, opts: opts, metadata: data, log: log.With("component", "serve")}, nil
}

// warmUp runs one inference on a grey scene with the arena's synthetic pose.
func (s *server) warmUp(ctx context.Context) error {
	grey := func() imaging.RGB {
		im := imaging.NewRGB(640, 480)
		for i := range im.Pix {
			im.Pix[i] = 128
		}
		return im
	}
	pose, err := frames.PoseFromXYZXYZW([7]float64{0.23, -0.05, 0.27, -0.58, -0.09, 0.72, 0.34})
	if err != nil {
		return err
	}
	start := time.Now()
	c, err := s.policy.Infer(ctx, Observation{Left: grey(), Right: grey(), LeftFromRight: pose, FingerRad: [2]float64{0.4, 0.4}, Prompt: s.opts.Prompt})
	if err == nil {
		err = c.Check()
	}
	if err != nil {
		return fmt.Errorf("warm up policy: %w", err)
	}
	s.reset()
	s.log.Info("policy is warm", "took", time.Since(start).Round(time.Millisecond), "rows", c.Rows)
	return nil
}

func (s *server) reset() {
	if r, ok := s.policy.(Resetter); ok {
		r.Reset()
	}
}

func (s *server) serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "OK\n") })
	var open sync.WaitGroup
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		open.Add(1)
		defer open.Done()
		s.handle(ctx, w, r)
	})
	hs := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	done := make(chan error, 1)
	go func() { done <- hs.Serve(l) }()
	s.log.Info("serving", "addr", l.Addr().String())
	if s.opts.Ready != nil {
		s.opts.Ready(l.Addr())
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-done:
	}
	cancel()
	_ = hs.Close()
	open.Wait()
	if err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve policy at %s: %w", s.opts.Addr, err)
	}
	return nil
}

func (s *server) handle(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	if s.opts.APIKey != "" {
		want := "Api-Key " + s.opts.APIKey
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte(want)) != 1 {
			http.Error(w, "missing or wrong API key", http.StatusUnauthorized)
			return
		}
	}
	if !s.enter(r.URL.Query().Get(resetQuery) == "1") {
		http.Error(w, fmt.Sprintf("already serving %d clients", s.opts.MaxClients), http.StatusServiceUnavailable)
		return
	}
	defer s.leave()
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		s.log.Warn("handshake failed", "peer", r.RemoteAddr, "err", err)
		return
	}
	conn.SetReadLimit(int64(s.opts.MaxBytes))
	log := s.log.With("peer", r.RemoteAddr)
	log.Info("client connected")
	err = s.converse(ctx, conn)
	log.Info("client left", "err", err)
}

// resetQuery is the query key with which a client asks for a policy that starts anew.
const resetQuery = "reset"

// enter counts a client in. One that asks for it resets the policy; other clients then see its noise from the start too.
func (s *server) enter(reset bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clients >= s.opts.MaxClients {
		return false
	}
	if reset {
		s.reset()
	}
	s.clients++
	return true
}

func (s *server) leave() {
	s.mu.Lock()
	s.clients--
	s.mu.Unlock()
}

// converse sends the metadata and answers requests. Reading goes on while the policy infers, because pings are answered by the reader.
func (s *server) converse(ctx context.Context, conn *websocket.Conn) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer conn.CloseNow()
	if err := conn.Write(ctx, websocket.MessageBinary, s.metadata); err != nil {
		return err
	}
	requests := make(chan []byte, maxWaiting)
	readErr := make(chan error, 1)
	go func() {
		defer close(requests)
		readErr <- s.read(ctx, conn, requests)
		cancel() // nobody is left to answer
	}()
	var prev time.Duration
	for data := range requests {
		start := time.Now()
		answer, err := s.answer(ctx, data, prev)
		if err == nil {
			err = conn.Write(ctx, websocket.MessageBinary, answer)
			prev = time.Since(start)
		} else if ctx.Err() == nil {
			s.log.Warn("request failed", "err", err)
			_ = conn.Write(ctx, websocket.MessageText, []byte(err.Error()))
			_ = conn.Close(websocket.StatusInternalError, "request failed, reason in the text frame before")
		}
		if err != nil {
			return err
		}
	}
	err := <-readErr
	if errors.Is(err, errTooMany) {
		_ = conn.Close(websocket.StatusPolicyViolation, err.Error())
	} else if ctx.Err() != nil {
		_ = conn.Close(websocket.StatusGoingAway, "server stops")
	}
	if websocket.CloseStatus(err) == websocket.StatusNormalClosure || websocket.CloseStatus(err) == websocket.StatusGoingAway {
		return nil
	}
	return err
}

var errTooMany = fmt.Errorf("more than %d requests wait for an answer", maxWaiting)

func (s *server) read(ctx context.Context, conn *websocket.Conn, requests chan<- []byte) error {
	for {
		kind, data, err := conn.Read(ctx)
		if err != nil {
			return err
		}
		if kind != websocket.MessageBinary {
			data = nil // an empty request fails to decode with a clear reason
		}
		select {
		case requests <- data:
		default:
			return errTooMany
		}
	}
}

func (s *server) answer(ctx context.Context, data []byte, prev time.Duration) ([]byte, error) {
	limits := npmsgpack.Defaults
	limits.Bytes = s.opts.MaxBytes
	if data == nil {
		return nil, errors.New("request is a text frame, want one binary msgpack map")
	}
	obs, err := decodeObservation(data, limits)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	chunk, err := s.policy.Infer(ctx, obs)
	if err == nil {
		err = chunk.Check()
	}
	if err != nil {
		return nil, fmt.Errorf("infer: %w", err)
	}
	return encodeAnswer(chunk, timing{infer: time.Since(start), prevTotal: prev})
}
