package ingest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/internal/meta"
)

// A recording is a log and its description: the same log with other segments, labels or verdicts is another recording. A dataset
// keeps both hashes with each episode, so a run that is repeated leaves out what is there, and one whose description was changed
// meanwhile says so instead of keeping the old rows without a word.

// entry is what a dataset has of one segment.
type entry struct {
	label   string
	success bool
	// description is the hash of the segments that the episode was cut by; empty in datasets that do not keep it.
	description string
}

// describe is the hash of what a description says about segments: times, labels and verdicts.
func describe(m meta.Recording) string {
	if m.UUID == "" {
		return ""
	}
	h := sha256.New()
	fmt.Fprintf(h, "%q\n", m.UUID)
	for _, s := range m.Segments {
		fmt.Fprintf(h, "%v %v %q %v\n", s.StartTime, s.EndTime, m.Labels[s.LabelIdx], s.Success)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// entryOf reads what meta/episodes says about an episode's source.
func entryOf(e dataset.EpisodeMeta) (sha string, segment int, out entry) {
	sha, _ = e.Extra[extraSHA].(string)
	n, _ := e.Extra[extraSegment].(int64)
	out.label, _ = e.Extra[extraLabel].(string)
	out.success, _ = e.Extra[extraSuccess].(bool)
	out.description, _ = e.Extra[extraDescription].(string)
	return sha, int(n), out
}

// sameDescription refuses a recording that the dataset has with another description.
func (r *run) sameDescription(path, sha string, m meta.Recording) error {
	for i, x := range m.Segments {
		old, ok := r.have[key(sha, i)]
		if label := m.Labels[x.LabelIdx]; ok && (old.label != label || old.success != x.Success) {
			return fmt.Errorf("log %s: the dataset has segment %d as %q (success %t), its %s now says %q (success %t); %s",
				path, i, old.label, old.success, meta.FileName, label, x.Success, fixDescription)
		}
	}
	if _, ok := r.have[key(sha, len(m.Segments))]; ok {
		return fmt.Errorf("log %s: the dataset has segment %d of it, but its %s describes only %d now; %s",
			path, len(m.Segments), meta.FileName, len(m.Segments), fixDescription)
	}
	now := describe(m)
	for i := range m.Segments {
		if old := r.have[key(sha, i)]; old.description != "" && old.description != now {
			return fmt.Errorf("log %s: the dataset has it with segments of other times than its %s tells now; %s", path, meta.FileName, fixDescription)
		}
	}
	return nil
}

const fixDescription = "make a new dataset, delete its episodes from this one first, or restore the description"
