package serving

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pinch-robotics/pinch/deploy"
)

// Options complete a Registry.
type Options struct {
	Load   Loader        // opens members
	Logger *slog.Logger  // nil: silent
	Probe  time.Duration // how often members that failed are tried again; default 10 s
	Watch  time.Duration // how often the file is looked at; default 1 s
}

// Registry is the aliases of a server. It implements deploy.Router. Safe for concurrent use.
type Registry struct {
	opts  Options
	log   *slog.Logger
	table atomic.Pointer[map[string]*alias]

	mu sync.Mutex // one change at a time
}

// alias is one name as it stands now; it never changes, a switch puts another one in its place.
type alias struct {
	name string
	Alias
	members  []*member
	contract deploy.Contract
}

// New loads all aliases and warms them up. The error names an alias that has no member that works, with each one's reason.
func New(ctx context.Context, c Config, o Options) (*Registry, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Probe == 0 {
		o.Probe = 10 * time.Second
	}
	if o.Watch == 0 {
		o.Watch = time.Second
	}
	r := &Registry{opts: o, log: o.Logger.With("component", "serving")}
	empty := map[string]*alias{}
	r.table.Store(&empty)
	return r, r.Apply(ctx, c)
}

// Apply makes c the aliases. Pools are loaded and warmed up first; then all names change at once, for connections that open from then on. An
// error changes nothing. Members that stay in a pool keep what is loaded and known of them.
func (r *Registry) Apply(ctx context.Context, c Config) error {
	if err := c.Validate(); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	old := *r.table.Load()
	known := map[string]*member{}
	for _, a := range old {
		for _, m := range a.members {
			known[m.key()] = m
		}
	}
	table := map[string]*alias{}
	for _, name := range slices.Sorted(maps.Keys(c.Aliases)) {
		a, err := r.build(ctx, name, c.Aliases[name], known)
		if err != nil {
			return err
		}
		table[name] = a
	}
	r.table.Store(&table)
	r.tell(old, table)
	return nil
}

// key is what makes two entries the same member.
func (m *member) key() string {
	b, _ := json.Marshal(m.Member)
	return string(b)
}

// build makes an alias whose members have been probed; those that do not share the contract of the first healthy one are left out.
func (r *Registry) build(ctx context.Context, name string, c Alias, known map[string]*member) (*alias, error) {
	a := &alias{name: name, Alias: c}
	var faults []string
	found := false
	for _, e := range c.Pool {
		m := newMember(e, r.opts.Load)
		if k := known[m.key()]; k != nil {
			m = k
		}
		known[m.key()] = m
		a.members = append(a.members, m)
		if _, ok := m.ready(); !ok {
			if err := m.probe(ctx, c.timeout()); err != nil {
				faults = append(faults, fmt.Sprintf("%s: %v", m, err))
				r.log.Warn("a member of a pool does not work", "alias", name, "member", m.String(), "err", err)
				continue
			}
		}
		contract := m.stated()
		if !found {
			a.contract, found = contract, true
		} else if !sameMeaning(a.contract, contract) {
			why := fmt.Sprintf("it states %s, the pool %s", meaning(contract), meaning(a.contract))
			m.refuse(why)
			faults = append(faults, fmt.Sprintf("%s: %s", m, why))
			r.log.Warn("a member of a pool is left out", "alias", name, "member", m.String(), "reason", why)
		}
	}
	if !found {
		return nil, fmt.Errorf("alias %s: no member of its pool works: %s", name, strings.Join(faults, "; "))
	}
	return a, nil
}

// sameMeaning reports whether answers under both contracts mean the same motion.
func sameMeaning(a, b deploy.Contract) bool {
	return a.RateHz == b.RateHz && a.PoseReference == b.PoseReference && a.PoseTiming == b.PoseTiming && a.Answer == b.Answer &&
		a.Frames == b.Frames && a.FrameInterval == b.FrameInterval && a.MaxPrefix == b.MaxPrefix && a.HandPoses == b.HandPoses
}

func meaning(c deploy.Contract) string {
	return fmt.Sprintf("%v Hz, %s, %s, %s, %d frames, prefix of %d", c.RateHz, c.PoseReference, c.PoseTiming, c.Answer, c.Frames, c.MaxPrefix)
}

// tell logs what changed.
func (r *Registry) tell(old, now map[string]*alias) {
	for _, name := range slices.Sorted(maps.Keys(now)) {
		was := "nothing"
		if o := old[name]; o != nil {
			if reflect.DeepEqual(o.Alias, now[name].Alias) {
				continue
			}
			was = o.line()
		}
		r.log.Info("alias switched", "alias", name, "from", was, "to", now[name].line())
	}
	for _, name := range slices.Sorted(maps.Keys(old)) {
		if now[name] == nil {
			r.log.Info("alias removed", "alias", name, "was", old[name].line())
		}
	}
}

// line is the pool with its checkpoints.
func (a *alias) line() string {
	var parts []string
	for _, m := range a.members {
		s := m.status()
		parts = append(parts, fmt.Sprintf("%s (%s)", s.Name, s.Checkpoint))
	}
	return strings.Join(parts, ", ")
}

// Route implements deploy.Router.
func (r *Registry) Route(ctx context.Context, name string) (deploy.RoutedPolicy, error) {
	if name == "" {
		name = DefaultAlias
	}
	table := *r.table.Load()
	a := table[name]
	if a == nil {
		return nil, fmt.Errorf("alias %q: %w; there are %s", name, deploy.ErrNoPolicy, strings.Join(slices.Sorted(maps.Keys(table)), ", "))
	}
	s := &session{registry: r, alias: a, tried: map[*member]bool{}}
	if err := s.choose(ctx, nil); err != nil {
		return nil, err
	}
	return s, nil
}

// Status is the state of every alias, by name.
func (r *Registry) Status() map[string][]MemberStatus {
	out := map[string][]MemberStatus{}
	for name, a := range *r.table.Load() {
		for _, m := range a.members {
			out[name] = append(out[name], m.status())
		}
	}
	return out
}

// ServeHTTP shows the status as JSON.
func (r *Registry) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(r.Status())
}

// Run probes members that failed, and follows the file, until ctx ends. path may be empty: no file.
func (r *Registry) Run(ctx context.Context, path string) {
	var wg sync.WaitGroup
	wg.Add(1)
	go func() {
		defer wg.Done()
		r.probes(ctx)
	}()
	if path != "" {
		r.follow(ctx, path)
	}
	wg.Wait()
}

func (r *Registry) probes(ctx context.Context) {
	tick := time.NewTicker(r.opts.Probe)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for name, a := range *r.table.Load() {
			for _, m := range a.members {
				if _, ok := m.ready(); ok || !m.idle() || ctx.Err() != nil {
					continue
				}
				err := m.probe(ctx, a.timeout())
				if c := m.stated(); err == nil && !sameMeaning(a.contract, c) {
					m.refuse(fmt.Sprintf("it states %s, the pool %s", meaning(c), meaning(a.contract)))
				} else if err == nil {
					r.log.Info("a member works again", "alias", name, "member", m.String())
				}
			}
		}
	}
}

// follow applies the file when its content changes.
func (r *Registry) follow(ctx context.Context, path string) {
	last, _ := digest(path)
	tick := time.NewTicker(r.opts.Watch)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now, err := digest(path)
		if err != nil || now == last {
			continue // a file that is being replaced is there again in a moment
		}
		last = now
		c, err := Load(path)
		if err == nil {
			err = r.Apply(ctx, c)
		}
		if err != nil && !errors.Is(err, context.Canceled) {
			r.log.Warn("the changed file of aliases is not used; the present aliases stay", "file", path, "err", err)
		}
	}
}

func digest(path string) ([32]byte, error) {
	b, err := os.ReadFile(path)
	return sha256.Sum256(b), err
}
