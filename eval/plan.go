package eval

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"github.com/pinch-robotics/pinch/internal/atomicfile"
)

// PlanVersion is the version of plan.json, trial.json and report.json. History: 1, the first.
const PlanVersion = 1

// Plan is everything that is decided before the first trial. It is written first and never changed; a run that is repeated into the
// same folder must have the same plan.
type Plan struct {
	Version    int          `json:"version"`
	Task       Task         `json:"task"`
	Seed       uint64       `json:"seed"`
	Level      float64      `json:"level"`   // of the intervals
	Primary    string       `json:"primary"` // the one comparison that decides
	Entrants   []Registered `json:"entrants"`
	Conditions []Condition  `json:"conditions"`
	// Order holds, for each condition in turn, the entrants in the order in which they run: a random order inside each block
	// of paired trials, so that drift of the cell does not favour anyone.
	Order [][]string `json:"order"`
}

// Registered is an entrant in a plan.
type Registered struct {
	Name     string         `json:"name"`
	About    string         `json:"about"`
	Metadata map[string]any `json:"metadata"` // as the policy states it: rate, horizon, checkpoint hash
}

// newPlan fixes a plan for entrants over conditions.
func newPlan(task Task, conditions []Condition, entrants []Entrant, seed uint64) (Plan, error) {
	p := Plan{Version: PlanVersion, Task: task, Seed: seed, Level: 0.95, Conditions: conditions}
	names := map[string]bool{}
	for _, e := range entrants {
		if e.Name == "" || e.Name != filepath.Base(e.Name) || names[e.Name] {
			return Plan{}, fmt.Errorf("plan: entrant %q: each needs a name of its own that can be a folder", e.Name)
		}
		names[e.Name] = true
		p.Entrants = append(p.Entrants, Registered{e.Name, e.About, e.Policy.Metadata()})
	}
	if len(entrants) == 0 || len(conditions) == 0 {
		return Plan{}, errors.New("plan: want at least one entrant and one condition")
	}
	p.Primary = "mean partial credit of " + entrants[0].Name
	if names[ReplayName] && entrants[0].Name != ReplayName {
		p.Primary += " minus that of " + ReplayName + ", paired by condition"
	}
	rng := rand.New(rand.NewPCG(seed, 0x0d3e))
	for range conditions {
		order := make([]string, 0, len(entrants))
		for _, i := range rng.Perm(len(entrants)) {
			order = append(order, entrants[i].Name)
		}
		p.Order = append(p.Order, order)
	}
	return p, nil
}

// encode is plan.json.
func (p Plan) encode() ([]byte, error) {
	data, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the plan: %w", err)
	}
	return append(data, '\n'), nil
}

// digest identifies the plan: task, conditions, order, seed, and what the policies state, such as their checkpoint.
func (p Plan) digest() (string, error) {
	data, err := p.encode()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}

// register writes the plan into an empty output folder, or checks that the folder has the same plan.
func (p Plan) register(out string) error {
	data, err := p.encode()
	if err != nil {
		return err
	}
	path := filepath.Join(out, "plan.json")
	switch old, err := os.ReadFile(path); {
	case errors.Is(err, fs.ErrNotExist):
		if err := refuseForeign(out); err != nil {
			return err
		}
		return atomicfile.WriteFile(path, data, 0o644)
	case err != nil:
		return fmt.Errorf("read the plan: %w", err)
	case !bytes.Equal(old, data):
		return fmt.Errorf("%s was made for another plan (task, policy, baselines, trials or seed differ); give a new output folder, or the old settings to go on", path)
	}
	return nil
}

// refuseForeign refuses a folder that holds other things. Hidden files, such as a plan that was being written, do not count.
func refuseForeign(out string) error {
	entries, err := os.ReadDir(out)
	if err != nil {
		return fmt.Errorf("look into the output folder: %w", err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") {
			return fmt.Errorf("%s holds %s but no plan.json, so it is no evaluation's; give a new output folder", out, e.Name())
		}
	}
	return nil
}
