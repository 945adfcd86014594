package ingest

import (
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/feature"
	"github.com/pinch-robotics/pinch/internal/meta"
	"github.com/pinch-robotics/pinch/internal/rawlog"
)

// A 100 Hz stream by receive time: sample 10 late by 23 ms with those after it in time, samples 20 to 22 lost, 30 to 33 repeated.
func TestMarksByReceiveTime(t *testing.T) {
	const p = 10 * ms
	var s []sample
	for i := int64(0); i < 60; i++ {
		at := i * p
		switch {
		case i >= 20 && i <= 22:
			continue
		case i == 10:
			at += 23 * ms
		case i == 11:
			at += 14 * ms
		case i == 12:
			at += 5 * ms
		}
		s = append(s, sample{at: frames.Stamp(at), received: at, same: i >= 30 && i <= 33})
	}
	r := &resampled{tl: grid{Timeline: frames.Timeline{FPS: 200, N: 119}}} // row k at 5k ms
	total := map[string]MarkCount{}
	st := markStream{name: "x", samples: s, period: medianPeriod(s)}
	m := r.mark([]markStream{st}, span{first: 0, end: 119}, total)
	// Sample 9 at 90 ms: rows from beyond 105 ms up to the arrival at 123 ms, k = 22, 23, 24. Sample 19 at 190 ms: beyond 205 up to 230 ms.
	if fmt.Sprint(m.late) != "[x:22-24]" || fmt.Sprint(m.lost) != "[x:42-45]" || fmt.Sprint(m.repeated) != "[x:60-67]" {
		t.Errorf("marks %v", m)
	}
	if total["x"] != (MarkCount{3, 4, 8}) {
		t.Errorf("counts %v", total)
	}
	// A run shorter than the stream's is no repetition; 29 to 33 lasts 40 ms.
	st.run = 41 * time.Millisecond
	if m := r.mark([]markStream{st}, span{first: 0, end: 119}, total); len(m.repeated) != 0 {
		t.Errorf("a run of 40 ms counts as repeated: %v", m.repeated)
	}
}

// With a device clock a message may come late without being late in its row.
func TestMarksByDeviceTime(t *testing.T) {
	var s []sample
	for i := int64(0); i < 30; i++ {
		received := i*10*ms + 900
		if i == 15 {
			received += 60 * ms
		}
		s = append(s, sample{at: frames.Stamp(i * 10 * ms), device: i*10*ms + 1, received: received})
	}
	r := &resampled{tl: grid{Timeline: frames.Timeline{FPS: 20, N: 6}}}
	st := markStream{name: "x", samples: s, period: medianPeriod(s)}
	m := r.mark([]markStream{st}, span{first: 1, end: 6}, map[string]MarkCount{}) // row 3 of the log is at 150 ms: sample 15
	if fmt.Sprint(m.late) != "[x:2]" || len(m.lost)+len(m.repeated) != 0 {
		t.Errorf("marks %v", m)
	}
}

// Marks of a real run: a frozen camera, a lost stretch of the tracker, an encoder that repeats its value.
func TestMarksReachTheDataset(t *testing.T) {
	dir := t.TempDir()
	l := newLog(t, dir+"/rec", "marks", "")
	for i := int64(0); i < 120; i++ {
		at := 5000*ms + i*10*ms
		grey := uint8(i)
		if i >= 40 && i < 50 {
			grey = 40
		}
		l.picture("/left_camera/image_raw/compressed", at, 30+grey)
		l.picture("/right_camera/image_raw/compressed", at, 40+uint8(i))
		if i < 60 || i >= 75 {
			l.tf(at, "quest_origin", "left_hand_root", handPose("left", at))
		}
		l.tf(at, "quest_origin", "right_hand_root", handPose("right", at))
		j := i
		if i >= 80 && i < 100 {
			j = 80
		}
		l.joints(at, float64(j)/100, 0)
	}
	l.segment(5000*ms, 6100*ms, "wave", true)
	l.close("yubi_portable", "88888888-2222-4333-8444-555555555555")
	rep, d := ingest(t, Options{Sources: []string{dir + "/rec"}, Out: dir + "/set", FPS: 10})
	ep, err := d.Episode(0)
	if err != nil {
		t.Fatal(err)
	}
	// 10 Hz rows are at 0, 100, 200 ms ...: row 4 shows picture 40, which is new, and row 7 a pose of row 6. Joint sample 90 is row 9.
	lost, _ := ep.Extra["lost"].([]string)
	repeated, _ := ep.Extra["repeated"].([]string)
	if !slices.Equal(lost, []string{"left_hand_root:7"}) || !slices.Equal(repeated, []string{"joint_states:9"}) {
		t.Errorf("lost %q, repeated %q", lost, repeated)
	}
	if c := rep.Recordings[0].Marks["left_hand_root"]; c != (MarkCount{Lost: 1}) {
		t.Errorf("report %+v", rep.Recordings[0].Marks)
	}
}

// Damage in many places is one line that sums it up, and the report has the numbers.
func TestDamageIsToldOnce(t *testing.T) {
	dir := t.TempDir()
	l := newLogWith(t, dir+"/rec", "damaged", "rig", rawlog.WriterOptions{ChunkBytes: 4 << 10})
	l.session(5100*ms, rawlog.EventSubtask, "wave")
	l.writeRig(6000*ms, true)
	l.session(5900*ms, rawlog.EventAccept, "wave")
	l.segment(5100*ms, 5900*ms, "wave", true)
	path := l.close("yubi", "99999999-2222-4333-8444-555555555555")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var chunks [][]byte // MCAP: opcode, length of 8 bytes, content; 6 is a chunk
	for at := 8; at+9 < len(b); {
		n := int(binary.LittleEndian.Uint64(b[at+1:]))
		if b[at] == 6 {
			chunks = append(chunks, b[at+9:at+9+n])
		}
		at += 9 + n
	}
	for _, part := range []int{3, 5, 7} { // tenths of the file
		c := chunks[len(chunks)*part/10]
		c[len(c)/2] ^= 0x5a
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	rep, _ := ingest(t, Options{Sources: []string{dir + "/rec"}, Out: dir + "/set", Salvage: true})
	lost := rep.Recordings[0].Lost
	if lost == nil || lost.Parts != 3 || lost.Bytes < 3*64 || lost.FileBytes != int64(len(b)) || len(lost.Messages) == 0 {
		t.Fatalf("lost %+v", lost)
	}
	told := 0
	for _, w := range rep.Recordings[0].Warnings {
		if w == lost.String() {
			told++
		}
	}
	if told != 1 {
		t.Errorf("the damage is told %d times in %q", told, rep.Recordings[0].Warnings)
	}
}

// A description that was changed after its recording was taken in is not passed over.
func TestChangedDescription(t *testing.T) {
	dir := t.TempDir()
	path := yubiBag(t, dir+"/bag", 0)
	o := Options{Sources: []string{dir + "/bag"}, Out: dir + "/set", FPS: 10}
	_, d := ingest(t, o)
	for text, change := range map[string]func(m *meta.Recording){
		`segment 0 as "open the lid" (success false), its meta.json now says "open the lid" (success true)`: func(m *meta.Recording) { m.Segments[0].Success = true },
		`now says "shut the lid"`:          func(m *meta.Recording) { m.Labels[2] = "shut the lid" },
		"with segments of other times":     func(m *meta.Recording) { m.Segments[1].StartTime += 0.05 },
		"has segment 2 of it":              func(m *meta.Recording) { m.Segments = m.Segments[:2] },
		"the dataset has it with segments": func(m *meta.Recording) { m.AddSegment("more", m.Segments[2].EndTime, m.Segments[2].EndTime+0.05, true) },
	} {
		before, err := os.ReadFile(metaBeside(path))
		if err != nil {
			t.Fatal(err)
		}
		editMeta(t, path, change)
		if _, err := Run(t.Context(), o); err == nil || !contains(err, text) {
			t.Errorf("want an error with %q, got %v", text, err)
		}
		if err := os.WriteFile(metaBeside(path), before, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if rep, err := Run(t.Context(), o); err != nil || rep.Skipped != 1 || rep.Episodes != 0 {
		t.Errorf("the unchanged recording: %+v, %v", rep, err)
	}
	if ticks := column[int64](t, d, feature.RowStamp, 0); len(ticks) != 4 {
		t.Errorf("%d rows", len(ticks))
	}
}
