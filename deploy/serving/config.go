// Package serving lets one policy server offer policies by name. A name, an alias, stands for an ordered pool: checkpoints on this machine and
// policy servers elsewhere. Clients ask for it by the path of their address, ws://HOST:PORT/ALIAS; one that asks for none gets "default".
//
//	connection ─► alias ─► first healthy member of its pool, or the fastest      stays there until the client resets
//	                          │ fails: load, time-out, answer that breaks the contract
//	                          └► next member, for the rest of the connection; the failed one is left alone until it answers a probe
//
// All members of a pool state the same contract (rate, pose reference and timing), so that a change never changes what an answer means; every
// answer carries the hash of the checkpoint that gave it. The file of aliases is read again when it changes: a new pool is loaded and warmed up
// first, then takes the name at once for new connections and resets. A file with a fault changes nothing.
package serving

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/pinch-robotics/pinch/internal/config"
)

// DefaultAlias is what a client gets that asks for no name.
const DefaultAlias = "default"

// Config is the file of aliases.
type Config struct {
	Aliases map[string]Alias `yaml:"aliases"`
}

// Alias is one name.
type Alias struct {
	Choose    Choice   `yaml:"choose"`     // order (default) or fastest
	TimeoutMS float64  `yaml:"timeout_ms"` // an answer later than this is a failure; default 1600, the arena's limit
	Pool      []Member `yaml:"pool"`       // in order of preference
}

// Choice says which member of a pool a new connection gets.
type Choice string

// The choices.
const (
	ChooseOrder   Choice = "order"   // the first healthy one
	ChooseFastest Choice = "fastest" // the healthy one with the smallest measured latency
)

// Member is one entry of a pool: exactly one of its two fields.
type Member struct {
	Checkpoint string `yaml:"checkpoint"` // folder of a checkpoint, or a run folder, whose newest one is taken
	Remote     string `yaml:"remote"`     // ws://host:port/... of another policy server
	APIKey     string `yaml:"api_key"`    // of the remote server
	// Contract supplies what a remote server does not state, as in a cell file.
	Contract map[string]any `yaml:"contract"`
}

// String names the member in logs.
func (m Member) String() string {
	if m.Remote != "" {
		return m.Remote
	}
	return m.Checkpoint
}

// Load reads a file of aliases strictly.
func Load(path string) (Config, error) {
	var c Config
	if err := config.Load(path, &c); err != nil {
		return Config{}, err
	}
	return c, nil
}

// Validate refuses what can not be served; the error starts with the key.
func (c *Config) Validate() error {
	if len(c.Aliases) == 0 {
		return errors.New("aliases: there is none")
	}
	for name, a := range c.Aliases {
		if name == "" || strings.ContainsAny(name, "/?# ") || name == "healthz" || name == "aliases" {
			return fmt.Errorf("aliases: %q can not be part of an address", name)
		}
		if a.Choose != "" && a.Choose != ChooseOrder && a.Choose != ChooseFastest {
			return fmt.Errorf("aliases.%s.choose: %q, want order or fastest", name, a.Choose)
		}
		if a.TimeoutMS != 0 && !(a.TimeoutMS >= 1 && a.TimeoutMS <= 600_000) {
			return fmt.Errorf("aliases.%s.timeout_ms: %v is outside 1 to 600000", name, a.TimeoutMS)
		}
		if len(a.Pool) == 0 {
			return fmt.Errorf("aliases.%s.pool: it is empty", name)
		}
		for i, m := range a.Pool {
			if (m.Checkpoint == "") == (m.Remote == "") {
				return fmt.Errorf("aliases.%s.pool: entry %d: want one of checkpoint and remote", name, i+1)
			}
			if m.Remote != "" {
				u, err := url.Parse(m.Remote)
				if err != nil || u.Host == "" || !slices.Contains([]string{"ws", "wss"}, u.Scheme) {
					return fmt.Errorf("aliases.%s.pool: entry %d: %q, want ws://HOST:PORT", name, i+1, m.Remote)
				}
			}
		}
	}
	return nil
}

func (a Alias) timeout() time.Duration {
	if a.TimeoutMS == 0 {
		return 1600 * time.Millisecond
	}
	return time.Duration(a.TimeoutMS * float64(time.Millisecond))
}
