package deploy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/coder/websocket"

	"github.com/pinch-robotics/pinch/internal/wire/npmsgpack"
)

// ClientOptions completes the address of a policy server.
type ClientOptions struct {
	APIKey          string         // sent as "Authorization: Api-Key <key>" when not empty
	MetadataTimeout time.Duration  // default 10 s, as the arena's checker
	Override        map[string]any // metadata keys for servers that do not state them; the server's own win
}

// ErrServer marks an error that the policy server reported in a text frame.
var ErrServer = errors.New("policy server reports an error")

// Client is a Policy behind an openpi WebSocket server. A lost connection is made again at the next call; the server must then state the same
// checkpoint. After Reset it may state another one: an alias that was switched. It is safe for concurrent use; calls wait for each other.
type Client struct {
	url  string
	opts ClientOptions

	mu       sync.Mutex // guards the rest, held during a call
	conn     *websocket.Conn
	metadata map[string]any
	infer    time.Duration
	reset    bool // the next connection asks the server to start its noise anew
}

// Dial connects to ws://host:port (or wss://) and reads the metadata. The error says whether the server is absent, refuses the key, is
// silent, or states an incomplete contract.
func Dial(ctx context.Context, address string, opts ClientOptions) (*Client, error) {
	if opts.MetadataTimeout == 0 {
		opts.MetadataTimeout = 10 * time.Second
	}
	c := &Client{url: address, opts: opts}
	if err := c.connect(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *Client) connect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.opts.MetadataTimeout)
	defer cancel()
	head := http.Header{}
	if c.opts.APIKey != "" {
		head.Set("Authorization", "Api-Key "+c.opts.APIKey)
	}
	target := c.url
	u, err := url.Parse(c.url)
	if err != nil || !slices.Contains([]string{"ws", "wss", "http", "https"}, u.Scheme) || u.Host == "" {
		return fmt.Errorf("connect to policy server %q: no such address, want ws://HOST:PORT", c.url)
	}
	if c.reset {
		query := u.Query()
		query.Set(resetQuery, "1")
		u.RawQuery = query.Encode()
		target = u.String()
	}
	conn, resp, err := websocket.Dial(ctx, target, &websocket.DialOptions{HTTPHeader: head, CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		if resp != nil && resp.StatusCode == http.StatusUnauthorized {
			return fmt.Errorf("connect to policy server %s: it refuses the API key: %w", c.url, err)
		}
		return fmt.Errorf("connect to policy server %s: %w", c.url, dialFault(err))
	}
	conn.SetReadLimit(int64(npmsgpack.Defaults.Bytes))
	kind, data, err := conn.Read(ctx)
	if err == nil && kind != websocket.MessageBinary {
		err = fmt.Errorf("%w: %s", ErrServer, lastLine(data))
	}
	var meta map[string]any
	if err == nil {
		meta, err = npmsgpack.DecodeMap(data, npmsgpack.Limits{})
	}
	if err != nil {
		_ = conn.CloseNow()
		return fmt.Errorf("read metadata of policy server %s: %w", c.url, talkFault(err))
	}
	merged := map[string]any{}
	for k, v := range c.opts.Override {
		merged[k] = v
	}
	for k, v := range meta {
		merged[k] = v
	}
	if _, err := ReadContract(merged, nil); err != nil {
		_ = conn.CloseNow()
		return fmt.Errorf("policy server %s: %w", c.url, err)
	}
	if c.metadata != nil && !c.reset && text(merged["checkpoint"]) != text(c.metadata["checkpoint"]) {
		_ = conn.CloseNow()
		return fmt.Errorf("policy server %s now serves checkpoint %q, was %q: %w", c.url, merged["checkpoint"], c.metadata["checkpoint"], ErrBadMetadata)
	}
	c.conn, c.metadata, c.reset = conn, merged, false
	return nil
}

// dialFault is a failed connection without the library's story of it, and with the fix where nobody listens.
func dialFault(err error) error {
	var request *url.Error
	if errors.As(err, &request) {
		err = request.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("it does not answer, is it still running? (%w)", err)
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("nothing listens there, start it with `pinch serve` or correct the address: %w", err)
	}
	return err
}

// talkFault is a failure of a conversation that had begun, with what it means in front of the library's story of it.
func talkFault(err error) error {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no answer in time, is it still running? (%w)", err)
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), websocket.CloseStatus(err) != -1:
		return fmt.Errorf("it ended the connection, is it still running? (%w)", err)
	}
	return err
}

// lastLine is the end of a server's error text: openpi servers send a whole Python traceback, whose last line says what happened.
func lastLine(text []byte) string {
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}

// Metadata is what the server stated, completed by ClientOptions.Override.
func (c *Client) Metadata() map[string]any {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.metadata
}

// Infer sends one observation and waits for the chunk, until ctx ends. Faults of the answer wrap ErrBadChunk, a text frame wraps ErrServer.
// No keepalive runs during the call: servers that block while inferring do not answer pings.
func (c *Client) Infer(ctx context.Context, obs Observation) (Chunk, error) {
	data, err := encodeObservation(obs)
	if err != nil {
		return Chunk{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn == nil {
		if err := c.connect(ctx); err != nil {
			return Chunk{}, err
		}
	}
	kind, answer, err := c.exchange(ctx, data)
	if err != nil {
		c.drop()
		return Chunk{}, fmt.Errorf("ask policy server %s: %w", c.url, talkFault(err))
	}
	if kind != websocket.MessageBinary {
		c.drop() // openpi closes after an error; so do we
		return Chunk{}, fmt.Errorf("%w: %s", ErrServer, lastLine(answer))
	}
	chunk, infer, err := decodeAnswer(answer)
	c.infer = infer
	if err != nil {
		return Chunk{}, fmt.Errorf("policy server %s: %w", c.url, err)
	}
	return chunk, nil
}

func (c *Client) exchange(ctx context.Context, data []byte) (websocket.MessageType, []byte, error) {
	if err := c.conn.Write(ctx, websocket.MessageBinary, data); err != nil {
		return 0, nil, err
	}
	return c.conn.Read(ctx)
}

func (c *Client) drop() {
	if c.conn != nil {
		_ = c.conn.CloseNow()
		c.conn = nil
	}
}

// ServerInfer is the time the server says the last inference took.
func (c *Client) ServerInfer() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.infer
}

// Reset makes the next call the first of a new connection, which asks the server (by the query reset=1) to start its sampling noise anew, so
// that a repeated trial sees the same answers. Servers other than ours ignore it.
func (c *Client) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reset = true
	c.hangUp()
}

func (c *Client) hangUp() {
	if c.conn != nil {
		_ = c.conn.Close(websocket.StatusNormalClosure, "")
		c.conn = nil
	}
}

// Close ends the connection.
func (c *Client) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hangUp()
	return nil
}
