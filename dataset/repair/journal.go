package repair

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pinch-robotics/pinch/dataset/internal/survey"
	"github.com/pinch-robotics/pinch/internal/atomicfile"
)

// change is a file of the result that is not the source's under its own path, or a file that leaves.
type change struct {
	to    string // empty: the file only leaves
	from  string // of moves and of files that leave
	write func(io.Writer) error
}

func (m *mender) write(to string, f func(io.Writer) error) {
	m.changes = append(m.changes, change{to: to, write: f})
}

func (m *mender) move(from, to string) { m.changes = append(m.changes, change{to: to, from: from}) }

// aside takes a file out of the dataset.
func (m *mender) aside(p string) {
	if !slices.ContainsFunc(m.changes, func(c change) bool { return c.to == "" && c.from == p }) {
		m.changes = append(m.changes, change{from: p})
	}
}

// replaced takes a file out whose content is in another one now.
func (m *mender) replaced(p string) { m.aside(p) }

func (m *mender) moving(from string) bool {
	return slices.ContainsFunc(m.changes, func(c change) bool { return c.to != "" && c.from == from })
}

// leaving lists the source's files that are not in the result under their own path.
func (m *mender) leaving() map[string]bool {
	out := map[string]bool{}
	for _, c := range m.changes {
		if c.from != "" {
			out[c.from] = true
		}
		if c.to != "" && m.set.Exists(c.to) {
			out[c.to] = true
		}
	}
	return out
}

// apply carries the plan out.
func (m *mender) apply() error {
	if m.info != nil {
		m.write(survey.InfoPath, func(w io.Writer) error { _, err := w.Write(m.info); return err })
	}
	for _, c := range m.changes {
		switch {
		case c.write != nil:
			m.result.Written++
		case c.to != "":
			m.result.Moved++
		default:
			m.result.Aside++
		}
	}
	if m.open != nil {
		defer func() { m.open.Close() }()
	}
	if m.o.DryRun {
		return nil
	}
	if m.o.InPlace {
		if len(m.changes) == 0 {
			return nil
		}
		return m.applyInPlace()
	}
	return m.applyTo(m.o.To)
}

// applyTo writes the repaired dataset into a new folder, which appears whole. What an interrupted run finished is used again.
func (m *mender) applyTo(to string) error {
	partial := strings.TrimRight(to, string(filepath.Separator)) + ".partial"
	if err := m.begin(partial, filepath.Join(partial, ".plan")); err != nil {
		return err
	}
	kept, err := m.sourceFiles()
	if err != nil {
		return err
	}
	total := len(kept) + len(m.changes)
	for i, p := range kept {
		if err := m.copyTo(p, filepath.Join(partial, filepath.FromSlash(p))); err != nil {
			return err
		}
		m.progress("files", i+1, total)
	}
	m.result.Kept = len(kept)
	for i, c := range m.changes {
		if c.to == "" {
			continue
		}
		if err := m.make(c, filepath.Join(partial, filepath.FromSlash(c.to))); err != nil {
			return err
		}
		m.progress("files", len(kept)+i+1, total)
	}
	if err := os.Remove(filepath.Join(partial, ".plan")); err != nil {
		return err
	}
	if err := syncTree(partial); err != nil {
		return err
	}
	if err := os.Rename(partial, to); err != nil {
		return err
	}
	return atomicfile.SyncDir(filepath.Dir(to))
}

// sourceFiles lists the files that are taken over as they are.
func (m *mender) sourceFiles() ([]string, error) {
	leaving := m.leaving()
	var out []string
	err := filepath.WalkDir(m.root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(m.root, p)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		switch {
		case d.IsDir() && (rel == ".pinch" || rel == ".git"):
			return fs.SkipDir
		case d.Type().IsRegular() && !leaving[rel]:
			out = append(out, rel)
		}
		return nil
	})
	return out, err
}

// begin prepares a folder for staging. What an interrupted run of the same plan over the same files left there stays.
func (m *mender) begin(dir, note string) error {
	plan, err := m.fingerprint()
	if err != nil {
		return err
	}
	if have, err := os.ReadFile(note); err == nil && string(have) == plan {
		return nil
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return atomicfile.WriteFile(note, []byte(plan), 0o644)
}

// fingerprint hashes names, sizes and times of the source's files and the names of the changes.
func (m *mender) fingerprint() (string, error) {
	h := sha256.New()
	err := filepath.WalkDir(m.root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && d.Name() == ".pinch" {
			return fs.SkipDir
		}
		if !d.Type().IsRegular() {
			return nil
		}
		st, err := d.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(m.root, p)
		fmt.Fprintf(h, "%s %d %d\n", filepath.ToSlash(rel), st.Size(), st.ModTime().UnixNano())
		return nil
	})
	for _, c := range m.changes {
		fmt.Fprintf(h, "%s<%s\n", c.to, c.from)
	}
	fmt.Fprintf(h, "trim %d\n", m.o.MaxTrim)
	return hex.EncodeToString(h.Sum(nil)), err
}

// make writes or copies one file of the result, whole or not at all; a file that is there was finished by an earlier run.
func (m *mender) make(c change, to string) error {
	if err := m.ctx.Err(); err != nil {
		return err
	}
	if _, err := os.Stat(to); err == nil {
		return nil
	}
	if c.write == nil {
		return m.copyTo(c.from, to)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return atomicfile.Write(atomicfile.OS, to, 0o644, c.write)
}

func (m *mender) copyTo(from, to string) error {
	if err := m.ctx.Err(); err != nil {
		return err
	}
	if _, err := os.Stat(to); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	in, err := os.Open(m.set.Abs(from))
	if err != nil {
		return err
	}
	defer in.Close()
	return atomicfile.Write(atomicfile.OS, to, 0o644, func(w io.Writer) error { _, err := io.Copy(w, in); return err })
}

func syncTree(root string) error {
	return filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		return atomicfile.SyncDir(p)
	})
}

// Paths of the journal, relative to the dataset.
const (
	workDir   = ".pinch/repair"
	stageDir  = workDir + "/stage"
	commitLog = workDir + "/commit.json"
)

// commit names every move of a repair in place: first the old files go aside, then the staged ones take their places, in this order.
// A file is aside when it is there under Aside; a staged file has moved when it is gone from the stage. So a commit can be carried
// out any number of times.
type commit struct {
	// Aside is the folder that takes what leaves or is replaced.
	Aside string `json:"aside"`
	// Old are the paths that leave, New the staged files and their paths, meta/info.json last.
	Old []string     `json:"old"`
	New []stagedFile `json:"new"`
}

type stagedFile struct {
	Stage string `json:"stage"`
	To    string `json:"to"`
}

func (m *mender) applyInPlace() error {
	abs := func(p string) string { return filepath.Join(m.root, filepath.FromSlash(p)) }
	if err := m.begin(abs(stageDir), abs(stageDir+"/plan")); err != nil {
		return err
	}
	c := commit{Aside: m.freeAside()}
	for p := range m.leaving() {
		c.Old = append(c.Old, p)
	}
	slices.Sort(c.Old)
	for i, ch := range m.changes {
		if ch.to == "" {
			continue
		}
		sum := sha256.Sum256([]byte(ch.to))
		s := stagedFile{Stage: stageDir + "/" + hex.EncodeToString(sum[:12]), To: ch.to}
		if err := m.stage(ch, abs(s.Stage)); err != nil {
			return err
		}
		c.New = append(c.New, s)
		m.progress("files", i+1, len(m.changes))
	}
	b, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if err := atomicfile.SyncDir(abs(stageDir)); err != nil {
		return err
	}
	if err := atomicfile.WriteFile(abs(commitLog), b, 0o644); err != nil {
		return err
	}
	_, err = finish(m.root)
	return err
}

// stage brings a file into the stage: a moved one by a second link, or by a copy where there are none.
func (m *mender) stage(c change, to string) error {
	if c.write == nil {
		if _, err := os.Stat(to); err == nil {
			return nil
		}
		if os.Link(m.set.Abs(c.from), to) == nil {
			return nil
		}
	}
	return m.make(c, to)
}

// freeAside is a folder that no earlier repair used.
func (m *mender) freeAside() string {
	for n := 1; ; n++ {
		dir := fmt.Sprintf("%s/aside-%d", workDir, n)
		if !m.set.Exists(dir) {
			return dir
		}
	}
}

// finish carries out a commit that is there. It reports whether there was one.
func finish(root string) (bool, error) {
	abs := func(p string) string { return filepath.Join(root, filepath.FromSlash(p)) }
	b, err := os.ReadFile(abs(commitLog))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var c commit
	if err := json.Unmarshal(b, &c); err != nil {
		return false, fmt.Errorf("read %s: %w", abs(commitLog), err)
	}
	if err := c.check(); err != nil {
		return false, fmt.Errorf("read %s: %w", abs(commitLog), err)
	}
	replaced := map[string]bool{}
	for _, s := range c.New {
		replaced[s.To] = true
	}
	for _, p := range c.Old {
		if err := setAside(abs(p), abs(path.Join(c.Aside, p)), replaced[p]); err != nil {
			return false, err
		}
	}
	for _, s := range c.New {
		if s.To == survey.InfoPath { // the commit point: everything before it must be on disk
			if err := syncDirs(abs, c); err != nil {
				return false, err
			}
		}
		if err := publish(abs(s.Stage), abs(s.To)); err != nil {
			return false, err
		}
	}
	if err := syncDirs(abs, c); err != nil {
		return false, err
	}
	if err := os.Remove(abs(commitLog)); err != nil {
		return false, err
	}
	return true, errors.Join(os.RemoveAll(abs(stageDir)), atomicfile.SyncDir(abs(workDir)))
}

// check refuses a log that names files outside the dataset.
func (c commit) check() error {
	paths := append(slices.Clone(c.Old), c.Aside)
	for _, s := range c.New {
		paths = append(paths, s.Stage, s.To)
	}
	for _, p := range paths {
		if !filepath.IsLocal(filepath.FromSlash(p)) {
			return fmt.Errorf("it names %q, which is outside the dataset", p)
		}
	}
	return nil
}

// beforeMove is asked before each move of a commit; tests stop there.
var beforeMove func() error

func asked() error {
	if beforeMove == nil {
		return nil
	}
	return beforeMove()
}

// setAside moves a file away unless it is away already. One that is replaced keeps its name until its successor takes it, where the
// file system has hard links.
func setAside(from, to string, replaced bool) error {
	if err := asked(); err != nil {
		return err
	}
	if _, err := os.Lstat(to); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if replaced && os.Link(from, to) == nil {
		return nil
	}
	return os.Rename(from, to)
}

// publish moves a staged file to its place unless it is there already.
func publish(stage, to string) error {
	if err := asked(); err != nil {
		return err
	}
	if _, err := os.Lstat(stage); errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(to); err == nil {
			return nil
		}
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.Rename(stage, to)
}

// syncDirs makes the moves durable.
func syncDirs(abs func(string) string, c commit) error {
	dirs := map[string]bool{}
	up := func(p string) {
		for d := path.Dir(p); ; d = path.Dir(d) {
			dirs[d] = true
			if d == "." {
				return
			}
		}
	}
	for _, p := range c.Old {
		up(p)
		up(path.Join(c.Aside, p))
	}
	for _, s := range c.New {
		up(s.To)
	}
	for d := range dirs {
		if err := atomicfile.SyncDir(abs(d)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
