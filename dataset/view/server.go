package view

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/dataset/video"
)

// Options of a Server.
type Options struct {
	// Report of a check made before; its findings are shown.
	Report *dataset.Report
	// Check, if not nil, is run once beside the server, and its findings are shown as soon as it is done.
	Check func(ctx context.Context, progress func(stage string, done, total int)) (*dataset.Report, error)
	// Logger, nil for none.
	Logger *slog.Logger
}

// Server shows one dataset to a browser. It answers only requests that name it by an IP address, localhost or the host's own name, so
// that a page of a foreign site can not read the dataset through a name that it points here; and nothing that a request says becomes
// part of a file's path. Safe for concurrent use.
type Server struct {
	d     *dataset.Dataset
	o     Options
	found *findings
	list  *list
	still *pictures
	mux   *http.ServeMux

	once sync.Once
	set  setPage
}

// NewServer opens the dataset at root.
func NewServer(root string, o Options) (*Server, error) {
	d, err := dataset.Open(root)
	if err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{d: d, o: o, found: newFindings(o.Report), still: &pictures{d: d}, mux: http.NewServeMux()}
	if o.Check != nil {
		s.found.page.State = "running" // until Run has run it
	}
	s.list = &list{d: d, f: s.found}
	for path, answer := range map[string]func(r *http.Request) (any, error){
		"GET /api/set":                s.getSet,
		"GET /api/check":              s.getCheck,
		"GET /api/episodes":           s.getEpisodes,
		"GET /api/episodes/{episode}": s.getEpisode,
	} {
		s.mux.HandleFunc(path, s.json(answer))
	}
	s.mux.HandleFunc("GET /api/episodes/{episode}/columns/{feature}", s.getColumn)
	s.mux.HandleFunc("GET /api/episodes/{episode}/videos/{feature}", s.getVideo)
	s.mux.HandleFunc("GET /api/episodes/{episode}/frames/{feature}/{row}", s.getFrame)
	s.mux.Handle("GET /assets/", http.StripPrefix("/assets/", assetServer()))
	s.mux.HandleFunc("GET /{$}", s.getPage)
	return s, nil
}

// Run answers on the listener until ctx ends, runs the check of the options meanwhile, and returns when both are over. The listener
// is closed.
func (s *Server) Run(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	if s.o.Check != nil {
		wg.Go(func() { s.check(ctx) })
	}
	hs := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(s.o.Logger.Handler(), slog.LevelDebug),
		BaseContext: func(net.Listener) context.Context { return ctx }}
	wg.Go(func() {
		<-ctx.Done()
		grace, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer stop()
		if hs.Shutdown(grace) != nil {
			hs.Close() // videos that are still read
		}
	})
	err := hs.Serve(l)
	cancel()
	wg.Wait()
	s.still.mu.Lock()
	s.still.close()
	s.still.mu.Unlock()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve %s on %s: %w", s.d.Root(), l.Addr(), err)
}

func (s *Server) check(ctx context.Context) {
	report, err := s.o.Check(ctx, func(stage string, done, total int) {
		s.found.update(func(p *checkPage) { p.Stage, p.Done, p.Total = stage, done, total })
	})
	if err != nil {
		s.o.Logger.Warn("check failed", "err", err)
		s.found.update(func(p *checkPage) { p.State, p.Error = "failed", err.Error() })
		return
	}
	s.found.set(report)
}

// policyHeader allows the page its own files and nothing else: no other host, no script inside the page.
const policyHeader = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; media-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !ownHost(r.Host) {
		http.Error(w, "this server answers to an IP address or localhost, not to "+strconv.Quote(r.Host), http.StatusMisdirectedRequest)
		return
	}
	h := w.Header()
	h.Set("Content-Security-Policy", policyHeader)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-cache")
	s.mux.ServeHTTP(w, r)
}

// ownHost tells whether a Host header names a machine and not a domain.
func ownHost(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	if host == "localhost" || net.ParseIP(host) != nil {
		return true
	}
	own, err := os.Hostname()
	return err == nil && strings.EqualFold(host, own)
}

// json wraps a handler whose answer is JSON.
func (s *Server) json(answer func(r *http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, err := answer(r)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		b, err := json.Marshal(v)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write(b)
	}
}

// notFound is an error about something that the dataset does not have, badRequest one about a request that makes no sense.
type notFound struct{ error }

type badRequest struct{ error }

func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		return // nobody is there to read it
	}
	status := http.StatusInternalServerError
	var missing notFound
	var bad badRequest
	switch {
	case errors.As(err, &bad):
		status = http.StatusBadRequest
	case errors.As(err, &missing) || errors.Is(err, fs.ErrNotExist):
		status = http.StatusNotFound
	}
	s.o.Logger.Debug("request failed", "path", r.URL.Path, "err", err)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(map[string]string{"error": err.Error()})
}

func (s *Server) getPage(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if err := writePage(w, page{Title: s.description().Name, Live: true, Boot: []byte(`{"live":true}`)}); err != nil {
		s.o.Logger.Debug("page not sent", "err", err)
	}
}

func (s *Server) description() setPage {
	s.once.Do(func() { s.set = describeSet(s.d) })
	return s.set
}

func (s *Server) getSet(*http.Request) (any, error) { return s.description(), nil }

func (s *Server) getCheck(*http.Request) (any, error) {
	page, _, _ := s.found.snapshot()
	return page, nil
}

func (s *Server) getEpisodes(r *http.Request) (any, error) {
	values := r.URL.Query()
	from, err1 := number(values.Get("from"), 0)
	count, err2 := number(values.Get("count"), 100)
	q := query{text: strings.TrimSpace(values.Get("text")), only: values.Get("only")}
	if !slices.Contains(onlyWords, q.only) {
		return nil, badRequest{fmt.Errorf("only=%q is none of %q", q.only, onlyWords)}
	}
	if err := errors.Join(err1, err2); err != nil {
		return nil, badRequest{err}
	}
	return s.list.page(r.Context(), q, from, count)
}

func number(text string, otherwise int) (int, error) {
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%q is no number of at least 0", text)
	}
	return n, nil
}

// episode finds the episode that the request names, and its place in the table.
func (s *Server) episode(r *http.Request) (e dataset.EpisodeMeta, at int, err error) {
	index, err := number(r.PathValue("episode"), -1)
	if err != nil {
		return e, 0, badRequest{err}
	}
	if e, err = s.d.Episode(index); err != nil {
		return e, 0, notFound{err}
	}
	if index < s.d.NumEpisodes() {
		if x, err := s.d.At(index); err == nil && x.Index == index {
			return e, index, nil
		}
	}
	for at := range s.d.NumEpisodes() { // numbers with gaps
		if x, _ := s.d.At(at); x.Index == index {
			return e, at, nil
		}
	}
	return e, 0, notFound{fmt.Errorf("no episode %d", index)}
}

func (s *Server) feature(r *http.Request) (dataset.Feature, error) {
	f, err := s.d.Feature(r.PathValue("feature"))
	if err != nil {
		return f, notFound{err}
	}
	return f, nil
}

// episodeFeature is the episode and the feature that a path names.
func (s *Server) episodeFeature(r *http.Request) (dataset.EpisodeMeta, dataset.Feature, error) {
	e, _, err := s.episode(r)
	if err != nil {
		return e, dataset.Feature{}, err
	}
	f, err := s.feature(r)
	return e, f, err
}

func (s *Server) getEpisode(r *http.Request) (any, error) {
	e, at, err := s.episode(r)
	if err != nil {
		return nil, err
	}
	return describeEpisode(s.d, at, s.found.of(e.Index), func(e dataset.EpisodeMeta, c *camera) {
		base := "api/episodes/" + itoa(e.Index)
		c.Frames = base + "/frames/" + escapeSegment(c.Name) + "/"
		if c.Note == "" && c.Codec != "" {
			c.Src = base + "/videos/" + escapeSegment(c.Name)
		}
		if c.Note != "" {
			c.Frames = ""
		}
	})
}

func (s *Server) getColumn(w http.ResponseWriter, r *http.Request) {
	e, f, err := s.episodeFeature(r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	b, err := columnBytes(s.d, f, e.Index)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", itoa(len(b)))
	w.Write(b)
}

// getVideo sends the mp4 with an episode's pictures, whole or the range of bytes that is asked for. Only what is an mp4 leaves the
// machine, wherever a link in the dataset may lead.
func (s *Server) getVideo(w http.ResponseWriter, r *http.Request) {
	e, _, err := s.episode(r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	span, ok := e.Videos[r.PathValue("feature")]
	if !ok {
		s.fail(w, r, notFound{fmt.Errorf("episode %d has no video %q", e.Index, r.PathValue("feature"))})
		return
	}
	path := locate(s.d.Root(), span.Path)
	if path == "" {
		s.fail(w, r, notFound{fmt.Errorf("the file %s is missing", span.Path)})
		return
	}
	if _, err := video.Probe(path); err != nil {
		s.fail(w, r, err)
		return
	}
	f, err := os.Open(path)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		s.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "video/mp4")
	http.ServeContent(w, r, "", st.ModTime(), f)
}

func (s *Server) getFrame(w http.ResponseWriter, r *http.Request) {
	e, f, err := s.episodeFeature(r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	row, err := number(r.PathValue("row"), -1)
	if err != nil || !f.DType.Visual() {
		s.fail(w, r, badRequest{fmt.Errorf("no picture %q of %q", r.PathValue("row"), f.Name)})
		return
	}
	b, err := s.still.at(f, e, row)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	kind := http.DetectContentType(b)
	if !strings.HasPrefix(kind, "image/") {
		s.fail(w, r, fmt.Errorf("row %d of %q holds %s, no picture", row, f.Name, kind))
		return
	}
	w.Header().Set("Content-Type", kind)
	w.Write(b)
}
