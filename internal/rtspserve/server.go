// Package rtspserve serves cameras over RTSP: Motion-JPEG and H.264, RTP over TCP, each frame with its capture time in RTP header
// extension 1. The simulated rig and the simulated robot cell use it, and so can a program that sits beside a real camera.
//
//	srv, err := rtspserve.Listen("127.0.0.1:0")
//	left, err := srv.AddMJPEG("left")
//	err = left.WriteJPEG(ctx, jpeg, captureTime)       // waits while a reader is behind: nothing is dropped
//	fmt.Println(left.URL())                            // rtsp://127.0.0.1:40123/left
package rtspserve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/bluenviron/gortsplib/v4"
	"github.com/bluenviron/gortsplib/v4/pkg/base"
	"github.com/bluenviron/gortsplib/v4/pkg/description"
	"github.com/bluenviron/gortsplib/v4/pkg/format"
)

const (
	// libraryQueue is the library's queue of packets per reader, a power of two. roomPackets is how much of it is used, about 40 wrist
	// frames; the rest covers packets written in the moment between a reader's start and its booking.
	libraryQueue = 4096
	roomPackets  = 2048
	// payloadMax leaves room for the header extension; at the library's 1450 the packet is too long and lost.
	payloadMax = 1400
	// writeTimeout lets a reader stand still this long (a recorder whose disk is busy) before it is thrown out.
	writeTimeout = 60 * time.Second
	pollEvery    = 200 * time.Microsecond
)

// Server is a listening RTSP server. It is safe for concurrent use.
type Server struct {
	lib  *gortsplib.Server
	addr string

	mu       sync.Mutex // guards the maps, which change together
	streams  map[string]*Stream
	starting map[net.Conn]*reader                 // PLAY received, answer not yet sent
	readers  map[*gortsplib.ServerSession]*reader // playing
	changed  chan struct{}                        // closed and renewed whenever readers change
	dropped  uint64                               // packets a full queue refused
}

// reader is one playing session.
type reader struct {
	stream  *Stream
	session *gortsplib.ServerSession
	conn    *countingConn
	queued  uint64 // packets handed to the library since it plays
}

// Listen starts a server at address (host:port; port 0 takes a free one). A port in use is one clear error.
func Listen(address string) (*Server, error) {
	s := &Server{
		streams: map[string]*Stream{}, starting: map[net.Conn]*reader{},
		readers: map[*gortsplib.ServerSession]*reader{}, changed: make(chan struct{}),
	}
	s.lib = &gortsplib.Server{
		Handler: (*handler)(s), RTSPAddress: address, WriteQueueSize: libraryQueue,
		ReadTimeout: writeTimeout, WriteTimeout: writeTimeout, DisableRTCPSenderReports: true,
		Listen: func(network, address string) (net.Listener, error) {
			l, err := net.Listen(network, address)
			if err != nil {
				return nil, err
			}
			s.addr = l.Addr().String()
			return countingListener{l, s.textWritten}, nil
		},
	}
	if err := s.lib.Start(); err != nil {
		if errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("serve cameras at %s: the port is in use; stop the other program or choose another port: %w", address, err)
		}
		return nil, fmt.Errorf("serve cameras at %s: %w", address, err)
	}
	return s, nil
}

// Addr is the address the server listens at.
func (s *Server) Addr() string { return s.addr }

// Dropped is the number of packets that found a reader's queue full; it stays 0 as long as frames are written with a context that
// is not cancelled.
func (s *Server) Dropped() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dropped
}

// Close ends all sessions and stops listening.
func (s *Server) Close() {
	s.mu.Lock()
	streams := s.streams
	s.streams = map[string]*Stream{}
	s.mu.Unlock()
	for _, st := range streams {
		st.lib.Close()
	}
	s.lib.Close()
}

// AddMJPEG adds a Motion-JPEG stream at path name.
func (s *Server) AddMJPEG(name string) (*Stream, error) {
	f := &format.MJPEG{}
	enc, err := f.CreateEncoder()
	if err != nil {
		return nil, fmt.Errorf("serve camera %s: %w", name, err)
	}
	enc.PayloadMaxSize = payloadMax
	return s.add(name, f, &Stream{mjpeg: enc})
}

// AddH264 adds an H.264 stream at path name; sps and pps go into the session description and may be nil.
func (s *Server) AddH264(name string, sps, pps []byte) (*Stream, error) {
	f := &format.H264{PayloadTyp: 96, SPS: sps, PPS: pps, PacketizationMode: 1}
	enc, err := f.CreateEncoder()
	if err != nil {
		return nil, fmt.Errorf("serve camera %s: %w", name, err)
	}
	enc.PayloadMaxSize = payloadMax
	return s.add(name, f, &Stream{h264: enc})
}

func (s *Server) add(name string, f format.Format, st *Stream) (*Stream, error) {
	st.server, st.name = s, strings.Trim(name, "/")
	st.media = &description.Media{Type: description.MediaTypeVideo, Formats: []format.Format{f}}
	st.lib = &gortsplib.ServerStream{Server: s.lib, Desc: &description.Session{Medias: []*description.Media{st.media}}}
	if err := st.lib.Initialize(); err != nil {
		return nil, fmt.Errorf("serve camera %s: %w", name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.streams[st.name] != nil {
		st.lib.Close()
		return nil, fmt.Errorf("serve camera %s: the name is taken", name)
	}
	s.streams[st.name] = st
	return st, nil
}

// WaitReaders returns when each stream of the server has at least one playing reader.
func (s *Server) WaitReaders(ctx context.Context) error {
	return s.await(ctx, func() bool {
		has := map[*Stream]bool{}
		for _, r := range s.readers {
			has[r.stream] = true
		}
		return len(has) == len(s.streams)
	})
}

// WaitNoReaders returns when every reader has left.
func (s *Server) WaitNoReaders(ctx context.Context) error {
	return s.await(ctx, func() bool { return len(s.readers) == 0 })
}

func (s *Server) await(ctx context.Context, done func() bool) error {
	for {
		s.mu.Lock()
		ok, changed := done(), s.changed
		s.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

// textWritten is called after an RTSP answer went out on a connection.
func (s *Server) textWritten(c *countingConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.starting[c]; r != nil {
		delete(s.starting, c)
		s.readers[r.session] = r
		s.readersChanged()
	}
}

func (s *Server) readersChanged() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// handler is the Server as the library calls it.
type handler Server

func (h *handler) stream(path string) *Stream {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.streams[strings.Trim(path, "/")]
}

// OnDescribe implements gortsplib.ServerHandlerOnDescribe.
func (h *handler) OnDescribe(ctx *gortsplib.ServerHandlerOnDescribeCtx) (*base.Response, *gortsplib.ServerStream, error) {
	return h.answer(ctx.Path)
}

// OnSetup implements gortsplib.ServerHandlerOnSetup.
func (h *handler) OnSetup(ctx *gortsplib.ServerHandlerOnSetupCtx) (*base.Response, *gortsplib.ServerStream, error) {
	return h.answer(ctx.Path)
}

func (h *handler) answer(path string) (*base.Response, *gortsplib.ServerStream, error) {
	st := h.stream(path)
	if st == nil {
		return &base.Response{StatusCode: base.StatusNotFound}, nil, nil
	}
	return &base.Response{StatusCode: base.StatusOK}, st.lib, nil
}

// OnPlay implements gortsplib.ServerHandlerOnPlay. The reader counts only from the answer on (textWritten): before that the
// library does not pass packets on to it.
func (h *handler) OnPlay(ctx *gortsplib.ServerHandlerOnPlayCtx) (*base.Response, error) {
	st := h.stream(ctx.Path)
	if st == nil {
		return &base.Response{StatusCode: base.StatusNotFound}, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if conn, ok := ctx.Conn.NetConn().(*countingConn); ok {
		h.starting[conn] = &reader{stream: st, session: ctx.Session, conn: conn}
	}
	return &base.Response{StatusCode: base.StatusOK}, nil
}

// OnSessionClose implements gortsplib.ServerHandlerOnSessionClose.
func (h *handler) OnSessionClose(ctx *gortsplib.ServerHandlerOnSessionCloseCtx) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for conn, r := range h.starting {
		if r.session == ctx.Session {
			delete(h.starting, conn)
		}
	}
	if h.readers[ctx.Session] != nil {
		delete(h.readers, ctx.Session)
		(*Server)(h).readersChanged()
	}
}

// OnStreamWriteError implements gortsplib.ServerHandlerOnStreamWriteError.
func (h *handler) OnStreamWriteError(*gortsplib.ServerHandlerOnStreamWriteErrorCtx) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dropped++
}
