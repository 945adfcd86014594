package dataset

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// CheckOptions choose the depth of a check.
type CheckOptions struct {
	// Decode also decodes a sample of every video: frames that do not decode, frozen and black pictures, and stored picture
	// statistics that differ from the pictures.
	Decode bool
}

// checker walks a dataset and collects findings. Each step needs what earlier steps could read, and goes as far as that.
type checker struct {
	ctx  context.Context
	o    CheckOptions
	root string
	r    *Report
	raw  map[string]json.RawMessage // info.json
	rawF map[string]map[string]json.RawMessage
	d    *Dataset
	rows map[int]int // rows found of each episode
	full bool        // every listed episode's rows are present
}

// Check looks for everything that makes the official loader fail or training wrong. An error is returned only when root
// can not be read at all; faults of the dataset are findings.
func Check(ctx context.Context, root string, o CheckOptions) (*Report, error) {
	b, err := os.ReadFile(filepath.Join(root, infoPath))
	if err != nil {
		return nil, fmt.Errorf("check %s: it has no %s (is this the folder that holds meta/, data/ and videos/?): %w", root, infoPath, err)
	}
	c := &checker{ctx: ctx, o: o, root: root, r: &Report{Root: root}, rows: map[int]int{}}
	c.run(b)
	c.r.sort()
	return c.r, ctx.Err()
}

func (c *checker) run(info []byte) {
	if !c.readInfo(info) {
		return
	}
	c.checkInfo()
	c.checkFeatures()
	c.checkLeftovers()
	c.checkTasks()
	c.checkEpisodes()
	content := c.checkData()
	c.checkStats()
	content.compareStats(c)
	c.checkVideos()
	c.countPresent()
}

func (c *checker) did(what string) { c.r.Checked = append(c.r.Checked, what) }
func (c *checker) skipped(format string, a ...any) {
	c.r.Skipped = append(c.r.Skipped, fmt.Sprintf(format, a...))
}
func (c *checker) exists(path string) bool { return disk{root: c.root}.exists(path) }
func (c *checker) errorf(code, file, fix, m string, a ...any) {
	c.at(Error, code, file, -1, -1, fix, m, a...)
}
func (c *checker) warnf(code, file, fix, m string, a ...any) {
	c.at(Warn, code, file, -1, -1, fix, m, a...)
}
func (c *checker) notef(code, file, fix, m string, a ...any) {
	c.at(Note, code, file, -1, -1, fix, m, a...)
}

// at records a finding about an episode and row; findings of one code in one file count together.
func (c *checker) at(s Severity, code, file string, episode, frame int, fix, m string, a ...any) {
	c.r.add(Finding{Code: code, Severity: s, File: file, Episode: episode, Frame: frame, Message: fmt.Sprintf(m, a...), Fix: fix, key: file})
}

// each records a finding that counts together with others of its code and key, whatever the file.
func (c *checker) each(s Severity, code, key, file string, episode, frame int, fix, m string, a ...any) {
	c.r.add(Finding{Code: code, Severity: s, File: file, Episode: episode, Frame: frame, Message: fmt.Sprintf(m, a...), Fix: fix, key: "\x00" + key})
}

// readInfo decodes info.json both strictly and raw. False when nothing else can be said.
func (c *checker) readInfo(b []byte) bool {
	c.did("metadata")
	if err := json.Unmarshal(b, &c.raw); err != nil {
		c.errorf("info-json", infoPath, "write it again as JSON", "does not decode: %v", err)
		return false
	}
	json.Unmarshal(c.raw["features"], &c.rawF)
	info, err := decodeInfo(b)
	if err != nil {
		c.errorf("info-value", infoPath, "correct this value", "%v", err)
		return false
	}
	c.r.Version = info.CodebaseVersion
	switch info.major() {
	case 3:
	case 2:
		c.notef("version", infoPath, "pinch dataset extract makes a v3.0 copy", "format %s: LeRobot from 0.4 on refuses it, openpi reads only this one", info.CodebaseVersion)
	default:
		c.errorf("version", infoPath, "convert it to v3.0", "format %s is neither v3.x nor v2.1", info.CodebaseVersion)
		return false
	}
	c.d = &Dataset{root: c.root, info: info, files: map[string]*dataFile{}}
	return true
}

func (c *checker) checkInfo() {
	i := c.d.info
	if fps := string(c.raw["fps"]); strings.ContainsAny(fps, ".eE") {
		c.warnf("fps-float", infoPath, "write fps as a whole number", "fps is %s; LeRobot refuses to resume a recording unless it is an integer", fps)
	}
	if i.major() != 3 {
		return
	}
	for _, key := range []string{"total_videos", "total_chunks"} {
		if _, ok := c.raw[key]; ok {
			c.notef("info-key", infoPath, "remove it", "key %q belongs to v2.1", key)
		}
	}
	for key, want := range map[string]string{"data_path": defaultDataPath, "video_path": defaultVideoPath} {
		var got string
		json.Unmarshal(c.raw[key], &got)
		if got != want && (key == "data_path" || len(i.cameras()) > 0) {
			c.warnf("path-template", infoPath, "use the default "+want, "%s is %q; merge, split and convert ignore it and use the default", key, got)
		}
	}
}

// checkFeatures looks at names, shapes and element names.
func (c *checker) checkFeatures() {
	var noRole []string
	observed := false
	for _, f := range c.d.info.Features {
		c.checkOneFeature(f)
		if strings.HasPrefix(f.Name, "observation") {
			observed = true
		} else if !strings.HasPrefix(f.Name, "action") && !isDefault(f.Name) {
			noRole = append(noRole, f.Name)
		}
	}
	if !observed && len(noRole) > 0 {
		c.warnf("feature-role", infoPath, "rename them: observation.state for numbers, observation.images.<camera> for pictures, action for the command",
			"no feature is an observation: policies take only names that begin with \"observation\" or \"action\" and ignore %s", strings.Join(noRole, ", "))
	}
	for _, want := range DefaultFeatures() {
		got, err := findFeature(c.d.info.Features, want.Name)
		if err != nil {
			c.errorf("feature-missing", infoPath, "add it", "feature %q is missing; every dataset has it", want.Name)
		} else if got.DType != want.DType {
			c.errorf("feature-type", infoPath, "store it as "+string(want.DType), "feature %q is %s, want %s", want.Name, got.DType, want.DType)
		}
	}
}

func (c *checker) checkOneFeature(f Feature) {
	names := strings.Join(strings.Fields(string(c.rawF[f.Name]["names"])), "")
	if strings.Contains(f.Name, "/") {
		c.errorf("feature-name", infoPath, "rename it without \"/\"", "feature %q: LeRobot refuses \"/\" in names", f.Name)
	}
	if len(f.Shape) == 0 || f.Dim() == 0 {
		c.errorf("feature-shape", infoPath, "drop it or give it a width", "feature %q has shape %v, which does not load", f.Name, f.Shape)
	}
	if _, ok := c.rawF[f.Name]["fps"]; ok && c.d.info.major() == 3 {
		c.each(Note, "feature-fps", "", infoPath, -1, -1, "remove it", "feature %q has a key fps of its own (from a v2.1 conversion); it defeats the check on resume", f.Name)
	}
	if f.DType.Visual() {
		c.checkPictureFeature(f, names)
		return
	}
	if strings.Contains(f.Name, "image") && f.DType.Numeric() && f.Dim() != 1 && f.Dim() != 3 {
		c.errorf("feature-image-name", infoPath, "rename it without \"image\"",
			"feature %q holds %d numbers, but LeRobot's merge, delete and split take every name with \"image\" for a picture and want statistics of shape (3,1,1) or (1,1,1)", f.Name, f.Dim())
	}
	if strings.HasPrefix(names, "[[") {
		c.each(Note, "feature-names", "nested", infoPath, -1, -1, "write one flat list", "feature %q has its names in a list inside a list", f.Name)
	} else if n := len(f.Names); n > 0 && n != f.Dim() {
		c.warnf("feature-names", infoPath, "give one name per element", "feature %q has %d names for %d elements", f.Name, n, f.Dim())
	}
}

func (c *checker) checkPictureFeature(f Feature, names string) {
	const fix = `set names to ["height", "width", "channels"] and shape to [height, width, 3]`
	if names == "null" || names == "" {
		c.errorf("picture-names", infoPath, fix, "picture feature %q has no names; making a policy fails", f.Name)
		return
	}
	if len(f.Shape) != 3 || len(f.Names) != 3 {
		c.errorf("picture-shape", infoPath, fix, "picture feature %q has shape %v and names %v", f.Name, f.Shape, f.Names)
		return
	}
	if last := f.Names[2]; last != "channel" && last != "channels" {
		c.warnf("picture-names", infoPath, fix, "picture feature %q has names %v, so it is taken as (channels, height, width)", f.Name, f.Names)
	}
	if fps, ok := f.Info["video.fps"].(float64); ok && int(fps) != c.d.info.FPS {
		c.errorf("video-fps", infoPath, "encode at the rate of the rows, or correct info.json", "picture feature %q says video.fps %v, the rows have %d", f.Name, fps, c.d.info.FPS)
	}
}

// checkLeftovers looks for what a crash or a tool left behind.
func (c *checker) checkLeftovers() {
	if c.exists(commitLog) || c.exists(abortLog) {
		c.errorf("interrupted", workDir, "open the dataset for writing once (pinch ingest or pinch record): it finishes or undoes the save", "a save was interrupted; files of it may lie among the others")
	} else if c.exists(workDir) {
		c.notef("working-folder", workDir, "none needed while a writer is open; the next writer empties it", "a writer is open or was killed")
	}
	if left, _ := filepath.Glob(filepath.Join(c.root, "images", "*", "*")); len(left) > 0 {
		c.notef("staging", "images", "remove the folder when no recorder is running", "%d picture folders of a recording are left over", len(left))
	}
	for _, folder := range []string{"data", "meta/episodes"} {
		found, _ := filepath.Glob(filepath.Join(c.root, folder, "*", "*"))
		for _, p := range found {
			if !strings.HasSuffix(p, ".parquet") {
				rel, _ := filepath.Rel(c.root, p)
				c.warnf("stray-file", rel, "move it away", "some readers open every file in this folder")
			}
		}
	}
}

// countPresent fills the totals of the report.
func (c *checker) countPresent() {
	c.r.Episodes = len(c.d.episodes)
	for _, e := range c.d.episodes {
		c.r.Frames += c.rows[e.Index]
		if c.rows[e.Index] > 0 && len(c.d.Missing(e.Index)) == 0 {
			c.r.Present++
		}
	}
}
