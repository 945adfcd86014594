package ingest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/dataset/video"
	"github.com/pinch-robotics/pinch/internal/rawlog"
	"golang.org/x/sync/errgroup"
)

// defaultFPS is YUBI's row rate.
const defaultFPS = 30

// run is one call of Run.
type run struct {
	o      Options
	log    *slog.Logger
	paths  []string
	report Report
	failed []error

	created  bool              // Out is new
	have     map[string]entry  // segments that Out had at the start, by key
	extras   map[string]bool   // columns of meta/episodes that Out has; nil: all of ours
	added    map[string]bool   // segments that this run added
	shaOf    map[string]string // SHA-256 of the log by recording uuid
	features []dataset.Feature // of Out, without the default columns
	writer   *dataset.Writer

	// first is the survey of paths[firstIndex], taken to create the dataset; prepare takes it over.
	first       *survey
	firstReader *rawlog.Reader
	firstIndex  int
}

// key names a segment of a log.
func key(sha string, segment int) string { return fmt.Sprintf("%s:%d", sha, segment) }

func newRun(o Options) (*run, error) {
	if o.Out == "" {
		return nil, errors.New("ingest: no dataset folder given")
	}
	if o.FPS < 0 || o.FPS > 1000 {
		return nil, fmt.Errorf("ingest: row rate %d Hz; want 1 to 1000", o.FPS)
	}
	if o.Compat != "" && o.Compat != CompatRebake {
		return nil, fmt.Errorf("ingest: compatibility %q; there is %s", o.Compat, CompatRebake)
	}
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if err := (video.EncodeOptions{Codec: o.Codec, CRF: o.CRF, Preset: o.Preset}).Check(); err != nil {
		return nil, fmt.Errorf("ingest: %w", err)
	}
	if o.Map != nil {
		if err := o.Map.Validate(); err != nil {
			return nil, fmt.Errorf("ingest: rig map: %w", err)
		}
	}
	paths, err := findLogs(o.Sources)
	if err != nil {
		return nil, fmt.Errorf("ingest: %w", err)
	}
	r := &run{o: o, log: o.Logger, paths: paths, have: map[string]entry{}, added: map[string]bool{}, shaOf: map[string]string{}, firstIndex: -1}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	r.log = r.log.With("component", "ingest")
	return r, nil
}

// do converts in parallel and adds in order.
func (r *run) do(ctx context.Context) (rep Report, err error) {
	if err := r.open(); err != nil {
		return Report{Out: r.o.Out}, fmt.Errorf("ingest: %w", err)
	}
	r.report = Report{Out: r.o.Out, FPS: r.o.FPS}
	defer func() {
		if cerr := r.close(); err == nil {
			err = cerr
		}
		rep = r.report
	}()
	if err := r.create(ctx); err != nil {
		return r.report, err
	}
	g, ctx := errgroup.WithContext(ctx)
	results := make([]chan prepared, len(r.paths))
	for i := range results {
		results[i] = make(chan prepared, 1)
	}
	active := make(chan struct{}, r.o.Workers)
	// Finished recordings wait for their turn with their videos on disk; at most as many again as are being worked on.
	window := make(chan struct{}, 2*r.o.Workers)
	g.Go(func() error {
		for i := range r.paths {
			select {
			case window <- struct{}{}:
			case <-ctx.Done():
				return ctx.Err()
			}
			g.Go(func() error {
				active <- struct{}{}
				defer func() { <-active }()
				results[i] <- r.prepare(ctx, i)
				return ctx.Err()
			})
		}
		return nil
	})
	g.Go(func() error {
		for i := range r.paths {
			select {
			case p := <-results[i]:
				if err := r.add(ctx, p); err != nil {
					return err
				}
				<-window
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	if err := g.Wait(); err != nil {
		return r.report, fmt.Errorf("ingest: %w", err)
	}
	return r.report, r.failures()
}

// open opens Out for adding when it is a dataset already, and reads which segments it has. The writer comes first: it finishes
// an episode that a crash left half published.
func (r *run) open() error {
	if _, err := os.Stat(filepath.Join(r.o.Out, "meta", "info.json")); errors.Is(err, fs.ErrNotExist) {
		if r.o.FPS == 0 {
			r.o.FPS = defaultFPS
		}
		return nil
	}
	var err error
	if r.writer, err = dataset.OpenWriter(r.o.Out, r.writerOptions()); err != nil {
		return err
	}
	if err := r.readExisting(); err != nil {
		return errors.Join(err, r.writer.Close())
	}
	return nil
}

func (r *run) writerOptions() dataset.WriterOptions { return dataset.WriterOptions{Logger: r.o.Logger} }

func (r *run) readExisting() error {
	d, err := dataset.Open(r.o.Out)
	if err != nil {
		return err
	}
	switch fps := d.Info().FPS; {
	case r.o.FPS == 0:
		r.o.FPS = fps
	case r.o.FPS != fps:
		return fmt.Errorf("dataset %s has %d rows per second, not %d; leave the rate out, or make a new dataset", r.o.Out, fps, r.o.FPS)
	}
	r.features = withoutDefaults(d.Features())
	for _, e := range d.Episodes() {
		sha, n, has := entryOf(e)
		r.have[key(sha, n)] = has
		if r.extras == nil {
			r.extras = map[string]bool{}
			for name := range e.Extra {
				r.extras[name] = true
			}
		}
		if uuid, _ := e.Extra[extraUUID].(string); uuid != "" {
			r.shaOf[uuid] = sha
		}
	}
	return nil
}

// create makes the dataset with the features of the first recording that can be converted. When none can, nothing is made.
func (r *run) create(ctx context.Context) error {
	if r.writer != nil {
		return nil
	}
	for i, path := range r.paths {
		if err := ctx.Err(); err != nil {
			return err
		}
		s, reader, err := takeSurvey(path, r.o)
		if err != nil {
			continue // prepare reports it
		}
		if _, err := s.plan(r.o.FPS, r.o.Task); err != nil {
			_ = reader.Close()
			continue
		}
		r.first, r.firstReader, r.firstIndex = s, reader, i
		break
	}
	if r.first == nil {
		return nil
	}
	_, err := os.Stat(r.o.Out)
	fresh := errors.Is(err, fs.ErrNotExist)
	r.features = datasetFeatures(r.first.features())
	r.writer, err = dataset.Create(r.o.Out, dataset.Options{
		FPS: r.o.FPS, RobotType: r.first.meta.Robot.Type, Features: r.features, WriterOptions: r.writerOptions()})
	if err != nil {
		return fmt.Errorf("ingest: %w", err)
	}
	r.created = fresh
	return nil
}

// close closes the dataset. A dataset that this run made and that got no episode is taken away again.
func (r *run) close() error {
	if r.firstReader != nil {
		_ = r.firstReader.Close()
		r.firstReader = nil
	}
	if r.writer == nil {
		return nil
	}
	empty := r.created && r.writer.NumEpisodes() == 0
	err := r.writer.Close()
	r.writer = nil
	if empty {
		return errors.Join(err, os.RemoveAll(r.o.Out))
	}
	if err != nil {
		return fmt.Errorf("ingest: %w", err)
	}
	return nil
}

// add puts a prepared recording into the dataset. A recording's own fault is noted; a fault of the dataset ends the run.
func (r *run) add(ctx context.Context, p prepared) error {
	if errors.Is(p.err, syscall.ENOSPC) { // the next recording would meet it too
		return fmt.Errorf("the disk of %s is full; free some space and run the same again, what is in the dataset stays: %w", r.o.Out, p.err)
	}
	if p.err != nil {
		p.report.Error = p.err.Error()
		r.report.Failed++
		r.failed = append(r.failed, p.err)
		r.log.Info("recording not added", "path", p.report.Path, "err", p.err) // the run's error says it aloud
	}
	for _, ep := range p.episodes {
		k := key(ep.Extra[extraSHA].(string), int(ep.Extra[extraSegment].(int64)))
		if r.added[k] {
			p.report.Skipped = true // a copy of a log that came before
			continue
		}
		n, err := r.writer.AddEpisode(ctx, ep)
		if err != nil {
			return fmt.Errorf("add %s: %w", p.report.Path, err)
		}
		r.added[k] = true
		p.report.Episodes = append(p.report.Episodes, n)
		p.report.Rows += ep.Length
		r.report.Episodes++
		r.report.Rows += ep.Length
		r.report.RecordedSeconds += float64(ep.Length) / float64(r.o.FPS)
	}
	if p.report.Skipped {
		r.report.Skipped++
	}
	for _, w := range p.report.Warnings {
		r.log.Info(w, "path", p.report.Path) // the report says it aloud
	}
	r.report.Recordings = append(r.report.Recordings, p.report)
	if r.o.Progress != nil {
		r.o.Progress(Progress{Done: len(r.report.Recordings), Total: len(r.paths), Path: p.report.Path,
			Rows: r.report.Rows, Seconds: r.report.RecordedSeconds})
	}
	return nil
}

// failures is the error of a run in which some recordings could not be converted.
func (r *run) failures() error {
	switch len(r.failed) {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("ingest: %w", r.failed[0])
	}
	return fmt.Errorf("ingest: %d of %d recordings are not in the dataset:\n%w", len(r.failed), len(r.paths), errors.Join(r.failed...))
}
