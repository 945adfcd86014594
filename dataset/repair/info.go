package repair

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/dataset/internal/survey"
	"github.com/pinch-robotics/pinch/dataset/video"
)

// object is a JSON object whose keys keep their order.
type object struct {
	keys   []string
	values map[string]json.RawMessage
}

func (o *object) set(key string, v any) {
	if _, ok := o.values[key]; !ok {
		o.keys = append(o.keys, key)
	}
	o.values[key] = compact(v)
}

func (o *object) remove(key string) {
	delete(o.values, key)
	o.keys = slices.DeleteFunc(o.keys, func(k string) bool { return k == key })
}

func (o *object) bytes() []byte {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, k := range o.keys {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(compact(k))
		b.WriteByte(':')
		b.Write(o.values[k])
	}
	b.WriteByte('}')
	return b.Bytes()
}

func parse(raw []byte) *object {
	keys, values, err := survey.Object(raw)
	if err != nil {
		return &object{values: map[string]json.RawMessage{}}
	}
	return &object{keys, values}
}

// planInfo makes the new info.json: counters, templates, features and what it says of the videos. Keys that the format does not
// define stay.
func (m *mender) planInfo() error {
	i := m.set.Info
	b, err := os.ReadFile(m.set.Abs(survey.InfoPath))
	if err != nil {
		return err
	}
	o := parse(b)
	m.counters(o)
	if strings.ContainsAny(i.FPSText, ".eE") {
		m.did("fps written as a whole number")
		o.set("fps", m.fps())
	}
	if m.v3() {
		for _, key := range []string{"total_videos", "total_chunks"} {
			if _, ok := o.values[key]; ok {
				m.did("key %q of v2.1 removed from info.json", key)
				o.remove(key)
			}
		}
		m.template(o, "data_path", survey.DataPath, true)
		m.template(o, "video_path", survey.VideoPath, len(m.cameras()) > 0)
	} else {
		m.template(o, "data_path", survey.DataPathV21, true)
		m.template(o, "video_path", survey.VideoPathV21, len(m.cameras()) > 0)
	}
	if err := m.planFeatureEntries(o); err != nil {
		return err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, o.bytes(), "", "    "); err != nil {
		return err
	}
	var before, after bytes.Buffer
	if json.Compact(&before, b) == nil && json.Compact(&after, out.Bytes()) == nil && bytes.Equal(before.Bytes(), after.Bytes()) && len(m.changes) == 0 {
		return nil
	}
	m.info = out.Bytes()
	return nil
}

func (m *mender) template(o *object, key, want string, needed bool) {
	var have string
	if json.Unmarshal(o.values[key], &have) != nil || have != want {
		if !needed {
			return
		}
		m.did("%s set to the default", key)
		o.set(key, want)
	}
}

func (m *mender) counters(o *object) {
	rows := 0
	for _, e := range m.episodes {
		rows += e.rows
	}
	n := len(m.episodes)
	counts := map[string]int{"total_episodes": n, "total_frames": rows, "total_tasks": len(m.tasks)}
	order := []string{"total_episodes", "total_frames", "total_tasks"}
	if !m.v3() {
		counts["total_videos"], counts["total_chunks"] = n*len(m.cameras()), (n+m.set.Info.ChunksSize-1)/m.set.Info.ChunksSize
		order = append(order, "total_videos", "total_chunks")
	}
	for _, key := range order {
		if string(o.values[key]) != fmt.Sprint(counts[key]) {
			m.did("%s set to %d (it was %s)", key, counts[key], orAbsent(o.values[key]))
			o.set(key, counts[key])
		}
	}
	splits := map[string]string{}
	json.Unmarshal(o.values["splits"], &splits)
	sound := len(splits) > 0 && n == len(m.set.Episodes)
	for _, s := range splits {
		var from, to int
		if k, err := fmt.Sscanf(s, "%d:%d", &from, &to); k != 2 || err != nil || from < 0 || from > to || to > n {
			sound = false
		}
	}
	if !sound && !(len(splits) == 1 && splits["train"] == fmt.Sprintf("0:%d", n)) {
		m.did("splits set to train 0:%d (they were %s)", n, orAbsent(o.values["splits"]))
		o.set("splits", map[string]string{"train": fmt.Sprintf("0:%d", n)})
	}
}

func orAbsent(raw json.RawMessage) string {
	if raw == nil {
		return "absent"
	}
	return string(compact(raw))
}

// planFeatureEntries writes the entries of features that changed.
func (m *mender) planFeatureEntries(o *object) error {
	entries := parse(o.values["features"])
	for name := range m.dropped {
		entries.remove(name)
	}
	for i, d := range m.features {
		entry := parse(entries.values[d.Name])
		old, known := m.set.Info.Feature(d.Name)
		if !known || old.DType != d.DType {
			entry.set("dtype", d.DType)
		}
		if d.DType == dataset.Video {
			m.containerSays(&m.features[i], entry)
			d = m.features[i]
		}
		if !known || !slices.Equal(old.Shape, d.Shape) {
			entry.set("shape", d.Shape)
		}
		if !known || !slices.Equal(old.Names, d.Names) || old.NamesKind == "nested" {
			entry.set("names", d.Names)
		}
		if _, ok := entry.values["fps"]; ok && m.v3() {
			m.did("keys fps of features removed")
			entry.remove("fps")
		}
		entries.set(d.Name, json.RawMessage(entry.bytes()))
	}
	o.set("features", json.RawMessage(entries.bytes()))
	return nil
}

// containerSays sets what info.json says of a camera to what its files hold, when all files agree.
func (m *mender) containerSays(d *dataset.Feature, entry *object) {
	var v *video.Info
	for _, e := range m.episodes {
		c := e.clips[d.Name]
		if v != nil && (v.Codec != c.info.Codec || v.PixFmt != c.info.PixFmt || v.Width != c.info.Width || v.Height != c.info.Height) {
			m.left("%s: its files differ in codec, pixel format or size; encode the odd ones anew", d.Name)
			return
		}
		v = c.info
	}
	info := parse(entry.values["info"])
	if len(info.keys) == 0 && len(entry.values["video_info"]) == 0 {
		for _, k := range slices.Sorted(keysOf(dataset.VideoFeatureInfo(*v, m.fps()))) {
			info.set(k, dataset.VideoFeatureInfo(*v, m.fps())[k])
		}
		m.did("%s: info filled from the container", d.Name)
	}
	m.correct(d.Name, info, "video.codec", string(v.Codec))
	if v.PixFmt != "" {
		m.correct(d.Name, info, "video.pix_fmt", v.PixFmt)
	}
	m.correct(d.Name, info, "video.height", v.Height)
	m.correct(d.Name, info, "video.width", v.Width)
	if math.Abs(v.Rate()-m.set.Info.FPS) < 0.01 {
		m.correct(d.Name, info, "video.fps", m.fps())
	} else {
		m.left("%s: its videos run at %.4f Hz, the rows at %d; encode them at the rate of the rows", d.Name, v.Rate(), m.fps())
	}
	if len(d.Shape) == 3 && (d.Shape[0] != v.Height || d.Shape[1] != v.Width) {
		d.Shape = []int{v.Height, v.Width, 3}
		m.did("%s: shape set to %v, which the videos have", d.Name, d.Shape)
	}
	if len(info.keys) > 0 {
		entry.set("info", json.RawMessage(info.bytes()))
	}
	if !slices.Contains([]video.Codec{video.H264, video.AV1, "hevc"}, v.Codec) {
		m.left("%s: its videos are %s, which LeRobot's edit tools and browsers do not take; encode them anew", d.Name, v.Codec)
	}
}

func keysOf(v map[string]any) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range v {
			if !yield(k) {
				return
			}
		}
	}
}

// correct changes a key that is there and wrong.
func (m *mender) correct(camera string, info *object, key string, want any) {
	have, ok := info.values[key]
	if !ok || bytes.Equal(compact(have), compact(want)) {
		return
	}
	var number float64
	if n, isNumber := want.(int); isNumber && json.Unmarshal(have, &number) == nil && number == float64(n) {
		return // 30.0 for 30
	}
	m.did("%s: %s set to %s (it was %s), as the container says", camera, key, compact(want), compact(have))
	info.set(key, want)
}

// planLeftovers moves videos to where they belong and puts aside what belongs nowhere.
func (m *mender) planLeftovers() error {
	used := map[string]bool{}
	for _, e := range m.episodes {
		for _, c := range e.clips {
			used[c.found] = true
			if c.found != c.path && !m.moving(c.found) {
				m.did("%s moved to %s", c.found, c.path)
				m.move(c.found, c.path)
			}
		}
	}
	for _, p := range m.set.VideoFiles() {
		if !used[p] {
			m.did("%s put aside: no episode that is kept uses it", p)
			m.aside(p)
		}
	}
	for _, folder := range []string{"data", "meta/episodes"} {
		found, _ := filepath.Glob(filepath.Join(m.root, filepath.FromSlash(folder), "*", "*"))
		for _, p := range found {
			if rel, err := filepath.Rel(m.root, p); err == nil && !strings.HasSuffix(p, ".parquet") {
				m.did("%s put aside: some readers open every file there", filepath.ToSlash(rel))
				m.aside(filepath.ToSlash(rel))
			}
		}
	}
	if m.info == nil && len(m.changes) > 0 { // the commit point moves last, whatever changes
		b, err := os.ReadFile(m.set.Abs(survey.InfoPath))
		m.info = b
		return err
	}
	return nil
}
