package deploy

import (
	"bytes"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
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
	// Pages are further things to GET, by path, for instance a status; nil: none.
	Pages map[string]http.HandlerFunc
}

// Router gives each connection its policy.
type Router interface {
	// Route opens the policy for a client that asks for a name: the path of its address without the first slash, "" for none. The policy is
	// the connection's own until it calls Close. An error that wraps ErrNoPolicy is the client's (an unknown name), others are the server's.
	Route(ctx context.Context, name string) (RoutedPolicy, error)
}

// RoutedPolicy is a policy of one connection.
type RoutedPolicy interface {
	Policy
	Resetter
	Close() error
}

// ErrNoPolicy marks a name that a Router does not know.
var ErrNoPolicy = errors.New("no policy of that name")

// single routes every name to one policy.
type single struct{ Policy }

func (s single) Route(context.Context, string) (RoutedPolicy, error) { return s, nil }
func (s single) Close() error                                        { return nil }
func (s single) Reset() {
	if r, ok := s.Policy.(Resetter); ok {
		r.Reset()
	}
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
	return s.start(ctx, s.warmUp)
}

// ServeRouter is Serve for a Router, whose policies have to be warm already.
func ServeRouter(ctx context.Context, r Router, opts ServeOptions) error {
	return newRouterServer(r, opts).start(ctx, func(context.Context) error { return nil })
}

// start makes sure that the port is free, warms up, and serves.
func (s *server) start(ctx context.Context, warm func(context.Context) error) error {
	probe, err := listen(s.opts.Addr)
	if err != nil {
		return err
	}
	if err := probe.Close(); err != nil {
		return fmt.Errorf("serve policy at %s: %w", s.opts.Addr, err)
	}
	if err := warm(ctx); err != nil {
		return err
	}
	l, err := listen(s.opts.Addr)
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
	policy Policy // the only one, nil with a router of many
	router Router
	opts   ServeOptions
	log    *slog.Logger

	mu      sync.Mutex // guards clients
	clients int
}

// Resetter is implemented by policies whose answers depend on the calls before (sampling noise); Reset makes the next call the first.
type Resetter interface{ Reset() }

func newServer(policy Policy, opts ServeOptions) (*server, error) {
	contract, err := ReadContract(policy.Metadata(), nil)
	if err != nil {
		return nil, fmt.Errorf("serve policy: %w", err)
	}
	if opts.Prompt == "" && len(contract.Prompts) > 0 {
		opts.Prompt = contract.Prompts[0]
	}
	if _, err := encodeMetadata(policy); err != nil {
		return nil, err
	}
	s := newRouterServer(single{policy}, opts)
	s.policy = policy
	return s, nil
}

func newRouterServer(r Router, opts ServeOptions) *server {
	if opts.MaxBytes == 0 {
		opts.MaxBytes = npmsgpack.Defaults.Bytes
	}
	if opts.MaxClients == 0 {
		opts.MaxClients = 16
	}
	log := opts.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &server{router: r, opts: opts, log: log.With("component", "serve")}
}

// encodeMetadata is the first frame of a connection.
func encodeMetadata(p Policy) ([]byte, error) {
	meta := map[string]any{"server": "pinch"}
	for k, v := range p.Metadata() {
		meta[k] = v
	}
	data, err := npmsgpack.Encode(meta)
	if err != nil {
		return nil, fmt.Errorf("serve policy: encode metadata: %w", err)
	}
	return data, nil
}

// warmUp runs one inference, then makes the policy start anew.
func (s *server) warmUp(ctx context.Context) error {
	start := time.Now()
	c, err := WarmUp(ctx, s.policy, s.opts.Prompt)
	if err != nil {
		return err
	}
	single{s.policy}.Reset()
	s.log.Info("policy is warm", "took", time.Since(start).Round(time.Millisecond), "rows", c.Rows)
	return nil
}

// WarmUp runs one inference on a grey scene with the arena's synthetic pose and checks the answer.
func WarmUp(ctx context.Context, p Policy, prompt string) (Chunk, error) {
	grey := func() imaging.RGB {
		im := imaging.NewRGB(640, 480)
		for i := range im.Pix {
			im.Pix[i] = 128
		}
		return im
	}
	pose, err := frames.PoseFromXYZXYZW([7]float64{0.23, -0.05, 0.27, -0.58, -0.09, 0.72, 0.34})
	if err != nil {
		return Chunk{}, err
	}
	obs := Observation{Left: grey(), Right: grey(), LeftFromRight: pose, FingerRad: [2]float64{0.4, 0.4}, Prompt: prompt}
	if contract, err := ReadContract(p.Metadata(), nil); err == nil && contract.HandPoses {
		obs.Hands = &[2]frames.Pose{frames.Identity, pose}
	}
	c, err := p.Infer(ctx, obs)
	if err == nil {
		err = c.Check()
	}
	if err != nil {
		return Chunk{}, fmt.Errorf("warm up policy: %w", err)
	}
	return c, nil
}

func (s *server) serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "OK\n") })
	for path, page := range s.opts.Pages {
		mux.HandleFunc("GET "+path, page)
	}
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
	if !s.enter() {
		http.Error(w, fmt.Sprintf("already serving %d clients", s.opts.MaxClients), http.StatusServiceUnavailable)
		return
	}
	defer s.leave()
	policy, err := s.router.Route(ctx, strings.Trim(r.URL.Path, "/"))
	if err != nil {
		status := http.StatusServiceUnavailable
		if errors.Is(err, ErrNoPolicy) {
			status = http.StatusNotFound
		}
		s.log.Warn("no policy for a client", "peer", r.RemoteAddr, "err", err)
		http.Error(w, err.Error(), status)
		return
	}
	defer policy.Close()
	if r.URL.Query().Get(resetQuery) == "1" {
		policy.Reset() // other clients of the same policy then see its noise from the start too
	}
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		s.log.Warn("handshake failed", "peer", r.RemoteAddr, "err", err)
		return
	}
	conn.SetReadLimit(int64(s.opts.MaxBytes))
	log := s.log.With("peer", r.RemoteAddr)
	log.Info("client connected")
	err = s.converse(ctx, conn, policy)
	log.Info("client left", "err", err)
}

// resetQuery is the query key with which a client asks for a policy that starts anew.
const resetQuery = "reset"

// enter counts a client in.
func (s *server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clients >= s.opts.MaxClients {
		return false
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
func (s *server) converse(ctx context.Context, conn *websocket.Conn, policy Policy) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer conn.CloseNow()
	metadata, err := encodeMetadata(policy)
	if err != nil {
		return err
	}
	if err := conn.Write(ctx, websocket.MessageBinary, metadata); err != nil {
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
		answer, err := s.answer(ctx, policy, data, prev)
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
	err = <-readErr
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
	size := 4096
	for {
		kind, r, err := conn.Reader(ctx)
		if err != nil {
			return err
		}
		// Requests of one client are of one size: with room for the last one, a request is copied once instead of five times.
		b := bytes.NewBuffer(make([]byte, 0, size))
		if _, err := b.ReadFrom(r); err != nil {
			return err
		}
		data := b.Bytes()
		size = min(len(data), 4<<20) + bytes.MinRead
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

func (s *server) answer(ctx context.Context, policy Policy, data []byte, prev time.Duration) ([]byte, error) {
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
	chunk, err := policy.Infer(ctx, obs)
	if err == nil {
		err = chunk.Check()
	}
	if err != nil {
		return nil, fmt.Errorf("infer: %w", err)
	}
	if chunk.Checkpoint == "" {
		chunk.Checkpoint = text(policy.Metadata()["checkpoint"])
	}
	return encodeAnswer(chunk, timing{infer: time.Since(start), prevTotal: prev})
}
