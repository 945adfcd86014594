package dataset

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
)

// An episode is published as one change of several files. Everything is written and synced under .pinch/stage first;
// then commit.json names the moves and makes the change durable; then the files move, meta/info.json last. A crash before
// commit.json rolls back, a crash after it is finished by the next writer. When a move fails while we are alive,
// commit.json becomes abort.json and the moves are undone; a crash during that is undone by the next writer.
const (
	workDir    = ".pinch"
	stageDir   = workDir + "/stage"
	scratchDir = workDir + "/scratch"
	lockFile   = workDir + "/lock"
	nextDir    = workDir + "/next" // a whole dataset on its way in, see Rebuild
	oldDir     = workDir + "/old"
	commitLog  = workDir + "/commit.json"
	abortLog   = workDir + "/abort.json"
	// provisionalMark says that episodes were added since stats.json was computed from all rows.
	provisionalMark = workDir + "/provisional-stats"
)

// move publishes one staged file. Old is a staged copy of what it replaces, empty when the file is new.
type move struct {
	From string `json:"from"`
	To   string `json:"to"`
	Old  string `json:"old,omitempty"`
}

// change is a set of staged files on the way into the dataset, in the order in which they move. A change that replaces whole folders
// lists them in Swap instead: each goes from nextDir to its place, what was there to oldDir; one that is not in nextDir any more has
// arrived, and one listed in Gone only leaves.
type change struct {
	Moves []move   `json:"moves"`
	Swap  []string `json:"swap,omitempty"`
	Gone  []string `json:"gone,omitempty"`
	d     disk
}

// add stages content for a path. A path that exists is replaced, with a copy kept for undoing.
func (c *change) add(to string, stage func(from string) error) error {
	m := move{From: fmt.Sprintf("%s/%03d", stageDir, len(c.Moves)), To: to}
	if c.d.exists(to) {
		m.Old = m.From + ".old"
		if err := c.d.copyIn(c.d.abs(to), m.Old, false); err != nil {
			return err
		}
	}
	c.Moves = append(c.Moves, m)
	return stage(m.From)
}

func (c *change) addBytes(to string, b []byte) error {
	return c.add(to, func(from string) error { return c.d.writeBytes(from, b) })
}

// errUndecided means that the disk failed while a change was being undone: the next writer decides.
var errUndecided = errors.New("the change could not be undone; open the dataset for writing again to finish it")

// publish makes the change durable and visible; on error the dataset is as before.
func (c *change) publish() error {
	b, err := json.Marshal(c)
	if err != nil {
		return err
	}
	for _, dir := range []string{stageDir, workDir} { // the log must not outlive the folder that it speaks of
		if err := c.d.syncDir(dir); err != nil {
			return err
		}
	}
	tmp := stageDir + "/commit.json"
	if err := c.d.writeBytes(tmp, b); err != nil {
		return err
	}
	if err := c.d.rename(tmp, commitLog); err != nil {
		return err
	}
	err = c.d.syncDir(workDir)
	if err == nil {
		err = c.redo()
	}
	if err == nil {
		err = c.d.drop(commitLog)
	}
	if err == nil {
		return nil
	}
	if e := c.d.rename(commitLog, abortLog); e != nil {
		return errors.Join(err, errUndecided, e)
	}
	if e := c.undo(); e != nil {
		return errors.Join(err, errUndecided, e)
	}
	return err
}

// publishSwap replaces folders. Everything in nextDir must be on disk. A fault after the log is written leaves the change to the
// next opening: it is undecided, never half.
func (c *change) publishSwap() error {
	b, err := json.Marshal(c)
	if err != nil {
		return err
	}
	tmp := workDir + "/commit.tmp"
	if err := c.d.writeBytes(tmp, b); err != nil {
		return err
	}
	if err := c.d.rename(tmp, commitLog); err != nil {
		return err
	}
	if err := c.d.syncDir(workDir); err != nil {
		return errors.Join(err, errUndecided)
	}
	if err := c.finishSwap(); err != nil {
		return errors.Join(err, errUndecided)
	}
	return nil
}

// finishSwap moves the folders that have not moved yet, removes the log and then what was replaced.
func (c *change) finishSwap() error {
	if err := c.d.mkdir(oldDir); err != nil {
		return err
	}
	if err := c.d.syncDir(workDir); err != nil {
		return err
	}
	for _, name := range c.Gone {
		if c.d.exists(name) && !c.d.exists(oldDir+"/"+name) {
			if err := c.d.rename(name, oldDir+"/"+name); err != nil {
				return err
			}
		}
	}
	for _, name := range c.Swap {
		if err := c.swap(name); err != nil {
			return err
		}
	}
	if err := c.syncAll([]string{nextDir, oldDir, workDir}); err != nil {
		return err
	}
	if err := c.d.drop(commitLog); err != nil { // before the old folders go
		return err
	}
	return errors.Join(c.d.remove(oldDir), c.d.remove(nextDir))
}

func (c *change) swap(name string) error {
	next, old := nextDir+"/"+name, oldDir+"/"+name
	if !c.d.exists(next) {
		if !c.d.exists(name) {
			return fmt.Errorf("finish an interrupted edit: both %s and %s are gone", c.d.abs(next), c.d.abs(name))
		}
		return nil
	}
	if c.d.exists(name) {
		if err := c.d.rename(name, old); err != nil {
			return err
		}
		if err := c.syncAll([]string{oldDir}); err != nil { // two folders never compete for a name
			return err
		}
	}
	if err := c.d.rename(next, name); err != nil {
		return err
	}
	return c.syncAll([]string{nextDir})
}

// redo moves every staged file that has not moved yet and syncs the folders.
func (c *change) redo() error {
	var folders []string
	for _, m := range c.Moves {
		if !c.d.exists(m.From) {
			if c.d.exists(m.To) {
				continue
			}
			return fmt.Errorf("finish an interrupted save: both %s and %s are gone", c.d.abs(m.From), c.d.abs(m.To))
		}
		folder := path.Dir(m.To)
		if err := c.d.mkdir(folder); err != nil {
			return err
		}
		if m.To == infoPath { // the commit point: everything before it must be on disk
			if err := c.syncAll(folders); err != nil {
				return err
			}
		}
		if err := c.d.rename(m.From, m.To); err != nil {
			return err
		}
		for f := folder; f != "."; f = path.Dir(f) {
			folders = append(folders, f)
		}
	}
	return c.syncAll(folders)
}

func (c *change) syncAll(folders []string) error {
	slices.Sort(folders)
	for _, f := range append(slices.Compact(folders), ".") {
		if err := c.d.syncDir(f); err != nil {
			return err
		}
	}
	return nil
}

// undo puts back what the change replaced and removes what it added, last move first.
func (c *change) undo() error {
	for _, m := range slices.Backward(c.Moves) {
		switch {
		case c.d.exists(m.From): // did not move
		case m.Old == "":
			if err := c.d.remove(m.To); err != nil {
				return err
			}
		case c.d.exists(m.Old):
			if err := c.d.rename(m.Old, m.To); err != nil {
				return err
			}
		}
	}
	return c.d.drop(abortLog)
}

// drop removes a log for good: if it came back after a power cut, it would move the files of a later change.
func (d disk) drop(log string) error {
	if err := d.remove(log); err != nil {
		return err
	}
	return d.syncDir(workDir)
}

// recover finishes or rolls back what a crash left and empties the working folder. It says what it did.
func (d disk) recover() (did string, err error) {
	if d.exists(workDir + "/repair/commit.json") {
		return "", fmt.Errorf("a repair of %s was interrupted: finish it with pinch dataset repair --in-place", d.root)
	}
	if c, err := d.readChange(abortLog); err != nil {
		return "", err
	} else if c != nil {
		if err := c.undo(); err != nil {
			return "", err
		}
		did = "undid a save that had failed"
	}
	if c, err := d.readChange(commitLog); err != nil {
		return "", err
	} else if c != nil && len(c.Swap) > 0 {
		if err := c.finishSwap(); err != nil {
			return "", err
		}
		did = "finished an edit that was interrupted"
	} else if c != nil {
		if err := c.redo(); err != nil {
			return "", err
		}
		if err := d.drop(commitLog); err != nil {
			return "", err
		}
		did = "finished a save that was interrupted"
	}
	for _, dir := range []string{stageDir, scratchDir, oldDir} {
		if !d.exists(dir) {
			continue
		}
		if left, _ := os.ReadDir(d.abs(dir)); len(left) > 0 && did == "" {
			did = "removed working files of an unfinished episode"
		}
		if err := d.remove(dir); err != nil {
			return "", err
		}
	}
	return did, d.mkdir(scratchDir)
}

// recoverIfNeeded finishes or undoes a change that a crash interrupted. A dataset whose lock is held has a writer at work: it is left
// alone.
func recoverIfNeeded(root string) error {
	d := disk{root: root}
	if !d.exists(commitLog) && !d.exists(abortLog) {
		return nil
	}
	lock, err := d.lock()
	if errors.Is(err, ErrLocked) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("a change was interrupted and can not be finished: %w", err)
	}
	defer lock.Close()
	if _, err := d.recover(); err != nil {
		return fmt.Errorf("finish a change that was interrupted: %w", err)
	}
	if d.exists(provisionalMark) {
		return nil
	}
	return d.remove(workDir)
}

func (d disk) readChange(log string) (*change, error) {
	b, err := os.ReadFile(d.abs(log))
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	c := &change{d: d}
	if err := json.Unmarshal(b, c); err != nil {
		return nil, fmt.Errorf("read redo log %s: %w", d.abs(log), err)
	}
	for _, m := range c.Moves {
		if !inside(m.From) || !inside(m.To) || m.Old != "" && !inside(m.Old) {
			return nil, fmt.Errorf("redo log %s names a file outside the dataset", d.abs(log))
		}
	}
	for _, name := range append(c.Swap, c.Gone...) {
		if !inside(name) || name == "." {
			return nil, fmt.Errorf("redo log %s names a folder outside the dataset", d.abs(log))
		}
	}
	return c, nil
}
