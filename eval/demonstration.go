package eval

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/deploy"
	"github.com/pinch-robotics/pinch/frames"
)

// Features that a dataset must have to be replayed: poses in any one frame of the recording, and finger angles.
const featureFinger = "observation.joint_states"

var featurePose = [2]string{"observation.pose.left_hand_root.absolute", "observation.pose.right_hand_root.absolute"}

// readDemonstrations joins the successful episodes of each recording, in order of their segments; its rows follow each other without a
// gap, since segments that touch share no row. Rejected attempts are left out: their motion was undone by hand.
func readDemonstrations(d *dataset.Dataset) ([]deploy.Demonstration, error) {
	var out []deploy.Demonstration
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
			out = append(out, deploy.Demonstration{RateHz: float64(d.Info().FPS)})
		}
		if err := appendEpisode(&out[at], d, ep); err != nil {
			return nil, err
		}
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

func appendEpisode(out *deploy.Demonstration, d *dataset.Dataset, ep dataset.EpisodeMeta) error {
	read := func(name string, width int) ([]float64, error) {
		v, err := dataset.ReadColumn[float64](d, name, ep.Index)
		if err != nil {
			return nil, err // it names the episode or the feature
		}
		if len(v) != width*ep.Length {
			return nil, fmt.Errorf("episode %d: %s has %d numbers, want %d rows of %d", ep.Index, name, len(v), ep.Length, width)
		}
		return v, nil
	}
	fingers, err := read(featureFinger, 2)
	if err != nil {
		return err
	}
	hands := make([][2]frames.Pose, ep.Length)
	for h := range 2 {
		poses, err := read(featurePose[h], 7)
		if err != nil {
			return err
		}
		for i := range hands {
			if hands[i][h], err = frames.PoseFromXYZXYZW([7]float64(poses[7*i : 7*i+7])); err != nil {
				return fmt.Errorf("episode %d, row %d of %s: %w", ep.Index, i, featurePose[h], err)
			}
		}
	}
	out.Hands = append(out.Hands, hands...)
	for i := range ep.Length {
		out.FingerRad = append(out.FingerRad, [2]float64(fingers[2*i:2*i+2]))
	}
	return nil
}
