package deploy

import (
	"fmt"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/imaging"
	"github.com/pinch-robotics/pinch/internal/wire/npmsgpack"
)

// encodeExtras adds what an observation holds beyond the arena's keys: absolute poses of the hands, earlier moments, a committed prefix.
func encodeExtras(m map[string]any, o Observation) error {
	if o.Hands != nil {
		for h, key := range KeyHands {
			m[key] = npmsgpack.Float32(poseFloats(nil, o.Hands[h]), 7)
		}
	}
	if n := len(o.Prefix); n > 0 {
		m[KeyPrefix] = npmsgpack.Float32(o.Prefix, n/ActionColumns, ActionColumns)
	}
	n := len(o.Past)
	if n == 0 {
		return nil
	}
	var pix [2][]byte
	var rel, fingers []float32
	now := [2]imaging.RGB{o.Left, o.Right}
	for f, p := range o.Past {
		for h, im := range [2]imaging.RGB{p.Left, p.Right} {
			if im.Width != now[h].Width || im.Height != now[h].Height || im.Check() != nil {
				return fmt.Errorf("%s picture of moment %d is %d x %d, the present one %d x %d", Hands[h], f+1, im.Width, im.Height, now[h].Width, now[h].Height)
			}
			pix[h] = append(pix[h], im.Pix...)
		}
		rel = poseFloats(rel, p.LeftFromRight)
		fingers = append(fingers, float32(p.FingerRad[0]), float32(p.FingerRad[1]))
	}
	for h, key := range [2]string{KeyImageLeft, KeyImageRight} {
		m[key+KeyPast] = npmsgpack.Uint8(pix[h], n, now[h].Height, now[h].Width, 3)
	}
	m[KeyRelative+KeyPast] = npmsgpack.Float32(rel, n, 7)
	m[KeyJointStates+KeyPast] = npmsgpack.Float32(fingers, n, 2)
	return nil
}

// decodeExtras reads what encodeExtras wrote, as far as it is there. Each fault names the key.
func decodeExtras(m map[string]any, o *Observation) error {
	if m[KeyHands[0]] != nil || m[KeyHands[1]] != nil {
		o.Hands = &[2]frames.Pose{}
		for h, key := range KeyHands {
			v, err := vectorOf(m, key, 7)
			if err != nil {
				return err
			}
			if o.Hands[h], err = frames.PoseFromXYZXYZW([7]float64(v)); err != nil {
				return fmt.Errorf("observation key %q: %w", key, err)
			}
		}
	}
	if m[KeyPrefix] != nil {
		rows, v, err := rowsOf(m, KeyPrefix, ActionColumns, maxPrefixRows)
		if err != nil {
			return err
		}
		o.Prefix = make([]float32, rows*ActionColumns)
		for i := range v {
			o.Prefix[i] = float32(v[i])
		}
	}
	if m[KeyRelative+KeyPast] == nil {
		return nil
	}
	return decodePast(m, o)
}

func decodePast(m map[string]any, o *Observation) error {
	n, rel, err := rowsOf(m, KeyRelative+KeyPast, 7, maxFrames-1)
	if err != nil {
		return err
	}
	k, fingers, err := rowsOf(m, KeyJointStates+KeyPast, 2, maxFrames-1)
	if err != nil {
		return err
	}
	if k != n {
		return fmt.Errorf("observation key %q: %d moments, %q has %d", KeyJointStates+KeyPast, k, KeyRelative+KeyPast, n)
	}
	o.Past = make([]Observation, n)
	for f := range o.Past {
		p := &o.Past[f]
		if p.LeftFromRight, err = frames.PoseFromXYZXYZW([7]float64(rel[7*f : 7*f+7])); err != nil {
			return fmt.Errorf("observation key %q, moment %d: %w", KeyRelative+KeyPast, f, err)
		}
		p.FingerRad = [2]float64{fingers[2*f], fingers[2*f+1]}
	}
	for h, key := range [2]string{KeyImageLeft + KeyPast, KeyImageRight + KeyPast} {
		a, ok := m[key].(npmsgpack.Array)
		if !ok || a.DType != "|u1" || len(a.Shape) != 4 || a.Shape[0] != n || a.Shape[3] != 3 || a.Shape[1] < 1 || a.Shape[2] < 1 ||
			a.Shape[1] > maxImageSide || a.Shape[2] > maxImageSide {
			return fmt.Errorf("observation key %q: %s, want uint8 of %d x height x width x 3", key, describe(m[key]), n)
		}
		size := a.Shape[1] * a.Shape[2] * 3
		for f := range o.Past {
			im := imaging.RGB{Width: a.Shape[2], Height: a.Shape[1], Pix: a.Data[f*size : (f+1)*size]}
			*[2]*imaging.RGB{&o.Past[f].Left, &o.Past[f].Right}[h] = im
		}
	}
	return nil
}

// rowsOf reads rows of finite numbers, at least one and at most most.
func rowsOf(m map[string]any, key string, columns, most int) (int, []float64, error) {
	a, ok := m[key].(npmsgpack.Array)
	if !ok || len(a.Shape) != 2 || a.Shape[0] < 1 || a.Shape[0] > most || a.Shape[1] != columns {
		return 0, nil, fmt.Errorf("observation key %q: %s, want 1 to %d rows of %d floats", key, describe(m[key]), most, columns)
	}
	v, err := a.Float64s()
	if err != nil {
		return 0, nil, fmt.Errorf("observation key %q: %w", key, err)
	}
	for i, x := range v {
		if !finite(x) {
			return 0, nil, fmt.Errorf("observation key %q: element %d is %v", key, i, x)
		}
	}
	return a.Shape[0], v, nil
}
