package eval

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/frames"
)

// demonstration is the recorded motion of a whole attempt: every subtask of one recording, in order.
type demonstration struct {
	name string
	rows []row
	last [2]frames.Pose // where the hands were at the last row
}

// Features that a dataset must have to be replayed, left and right hand.
const featureFinger = "action.next.joint_states"

var (
	featureMotion = [2]string{"action.next.pose.left_hand_root.relative", "action.next.pose.right_hand_root.relative"}
	featurePose   = [2]string{"observation.pose.left_hand_root.absolute", "observation.pose.right_hand_root.absolute"}
)

// readDemonstrations joins the episodes of each recording, in order of their segments, and keeps recordings whose last
// episode of every segment succeeded. Rejected attempts are left out: their motion was undone by hand.
func readDemonstrations(d *dataset.Dataset) ([]demonstration, error) {
	var out []demonstration
	byRecording := map[string]int{}
	for _, ep := range d.Episodes() {
		if !succeeded(ep) {
			continue
		}
		id := recordingOf(ep)
		at, known := byRecording[id]
		if !known {
			at = len(out)
			byRecording[id] = at
			out = append(out, demonstration{name: id})
		}
		rows, err := readRows(d, ep)
		if err != nil {
			return nil, err
		}
		out[at].append(rows)
	}
	if len(out) == 0 {
		return nil, errors.New("no successful demonstration in it")
	}
	return out, nil
}

// succeeded reads the columns that ingest writes; a dataset without them counts as all good.
func succeeded(ep dataset.EpisodeMeta) bool {
	for _, key := range []string{"success", "episode_success"} {
		if ok, has := ep.Extra[key].(bool); has && !ok {
			return false
		}
	}
	return true
}

// recordingOf is the recording that an episode was cut from; without that column every episode stands alone.
func recordingOf(ep dataset.EpisodeMeta) string {
	if id, ok := ep.Extra["recording_uuid"].(string); ok && id != "" {
		return id
	}
	if id, ok := ep.Extra["episode_id"].(string); ok && id != "" {
		recording, _, _ := strings.Cut(id, ":")
		return recording
	}
	return fmt.Sprintf("episode %d", ep.Index)
}

// recorded is a row with the absolute hand poses it was recorded at, in one frame for the whole recording.
type recorded struct {
	row
	at [2]frames.Pose
}

// append joins the rows of the next episode. Episodes share no row, so the motion from the last row of one to the first row of
// the next, identity in the data, is computed from the poses.
func (d *demonstration) append(rows []recorded) {
	if len(d.rows) > 0 {
		last := &d.rows[len(d.rows)-1]
		for h := range last.motion {
			last.motion[h] = d.last[h].Inv().Mul(rows[0].at[h]).ArrayXYZXYZW()
		}
	}
	for _, r := range rows {
		d.rows = append(d.rows, r.row)
	}
	d.last = rows[len(rows)-1].at
}

func readRows(d *dataset.Dataset, ep dataset.EpisodeMeta) ([]recorded, error) {
	read := func(name string, width int) ([]float64, error) {
		v, err := dataset.ReadColumn[float64](d, name, ep.Index)
		if err != nil {
			return nil, fmt.Errorf("episode %d: %w", ep.Index, err)
		}
		if len(v) != width*ep.Length || len(v) == 0 {
			return nil, fmt.Errorf("episode %d: %s has %d numbers, want %d rows of %d", ep.Index, name, len(v), ep.Length, width)
		}
		return v, nil
	}
	fingers, err := read(featureFinger, 2)
	if err != nil {
		return nil, err
	}
	rows := make([]recorded, ep.Length)
	for i := range rows {
		copy(rows[i].finger[:], fingers[2*i:])
	}
	for h := range 2 {
		motion, err := read(featureMotion[h], 7)
		if err != nil {
			return nil, err
		}
		poses, err := read(featurePose[h], 7)
		if err != nil {
			return nil, err
		}
		for i := range rows {
			copy(rows[i].motion[h][:], motion[7*i:])
			if rows[i].at[h], err = frames.PoseFromXYZXYZW([7]float64(poses[7*i : 7*i+7])); err != nil {
				return nil, fmt.Errorf("episode %d, row %d of %s: %w", ep.Index, i, featurePose[h], err)
			}
		}
	}
	return rows, nil
}
