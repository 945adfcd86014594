package deploy

import (
	"fmt"
	"math"
	"time"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/imaging"
	"github.com/pinch-robotics/pinch/internal/wire/npmsgpack"
)

// maxImageSide bounds the images a server takes.
const maxImageSide = 4096

// encodeObservation writes the five keys of the contract, decodeObservation reads them.
func encodeObservation(o Observation) ([]byte, error) {
	for _, im := range []imaging.RGB{o.Left, o.Right} {
		if err := im.Check(); err != nil {
			return nil, fmt.Errorf("encode observation: %w", err)
		}
	}
	m := map[string]any{
		KeyImageLeft:   npmsgpack.Uint8(o.Left.Pix, o.Left.Height, o.Left.Width, 3),
		KeyImageRight:  npmsgpack.Uint8(o.Right.Pix, o.Right.Height, o.Right.Width, 3),
		KeyRelative:    npmsgpack.Float32(poseFloats(nil, o.LeftFromRight), 7),
		KeyJointStates: npmsgpack.Float32([]float32{float32(o.FingerRad[0]), float32(o.FingerRad[1])}, 2),
		KeyPrompt:      o.Prompt,
	}
	if err := encodeExtras(m, o); err != nil {
		return nil, fmt.Errorf("encode observation: %w", err)
	}
	return npmsgpack.Encode(m)
}

func poseFloats(into []float32, p frames.Pose) []float32 {
	for _, v := range p.ArrayXYZXYZW() {
		into = append(into, float32(v))
	}
	return into
}

// decodeObservation reads a request. Each fault names the key. Keys outside the contract are ignored; the images share data.
func decodeObservation(data []byte, limits npmsgpack.Limits) (Observation, error) {
	var o Observation
	m, err := npmsgpack.DecodeMap(data, limits)
	if err != nil {
		return o, fmt.Errorf("decode observation: %w", err)
	}
	if o.Left, err = imageOf(m, KeyImageLeft); err != nil {
		return o, err
	}
	if o.Right, err = imageOf(m, KeyImageRight); err != nil {
		return o, err
	}
	rel, err := vectorOf(m, KeyRelative, 7)
	if err != nil {
		return o, err
	}
	if o.LeftFromRight, err = frames.PoseFromXYZXYZW([7]float64(rel)); err != nil {
		return o, fmt.Errorf("observation key %q: %w", KeyRelative, err)
	}
	joints, err := vectorOf(m, KeyJointStates, 2)
	if err != nil {
		return o, err
	}
	o.FingerRad = [2]float64(joints)
	prompt, ok := m[KeyPrompt].(string)
	if !ok {
		return o, fmt.Errorf("observation key %q: %s, want text", KeyPrompt, describe(m[KeyPrompt]))
	}
	o.Prompt = prompt
	return o, decodeExtras(m, &o)
}

func imageOf(m map[string]any, key string) (imaging.RGB, error) {
	a, ok := m[key].(npmsgpack.Array)
	if !ok || a.DType != "|u1" || len(a.Shape) != 3 || a.Shape[2] != 3 || a.Shape[0] < 1 || a.Shape[1] < 1 ||
		a.Shape[0] > maxImageSide || a.Shape[1] > maxImageSide {
		return imaging.RGB{}, fmt.Errorf("observation key %q: %s, want uint8 of height x width x 3", key, describe(m[key]))
	}
	return imaging.RGB{Width: a.Shape[1], Height: a.Shape[0], Pix: a.Data}, nil
}

func vectorOf(m map[string]any, key string, n int) ([]float64, error) {
	a, ok := m[key].(npmsgpack.Array)
	if !ok || len(a.Shape) != 1 || a.Shape[0] != n {
		return nil, fmt.Errorf("observation key %q: %s, want %d floats", key, describe(m[key]), n)
	}
	v, err := a.Float64s()
	if err != nil {
		return nil, fmt.Errorf("observation key %q: %w", key, err)
	}
	for i, x := range v {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return nil, fmt.Errorf("observation key %q: element %d is %v", key, i, x)
		}
	}
	return v, nil
}

func describe(v any) string {
	switch x := v.(type) {
	case nil:
		return "missing"
	case npmsgpack.Array:
		return fmt.Sprintf("array %s%v", x.DType, x.Shape)
	}
	return fmt.Sprintf("a %T", v)
}

// timing is server_timing of an answer.
type timing struct {
	infer     time.Duration
	prevTotal time.Duration // 0: not sent
}

func encodeAnswer(c Chunk, t timing) ([]byte, error) {
	st := map[string]any{"infer_ms": float64(t.infer) / 1e6}
	if t.prevTotal > 0 {
		st["prev_total_ms"] = float64(t.prevTotal) / 1e6
	}
	m := map[string]any{
		"actions":       npmsgpack.Float32(c.Data, c.Rows, c.Cols),
		"server_timing": st,
	}
	if c.Checkpoint != "" {
		m["checkpoint"] = c.Checkpoint
	}
	return npmsgpack.Encode(m)
}

// decodeAnswer reads and checks a chunk. float64 is cast, as the arena does; faults wrap ErrBadChunk.
func decodeAnswer(data []byte) (Chunk, time.Duration, error) {
	m, err := npmsgpack.DecodeMap(data, npmsgpack.Limits{})
	if err != nil {
		return Chunk{}, 0, fmt.Errorf("decode answer: %w: %w", ErrBadChunk, err)
	}
	a, ok := m["actions"].(npmsgpack.Array)
	if !ok || len(a.Shape) != 2 || a.DType[1] != 'f' {
		return Chunk{}, 0, fmt.Errorf("answer key \"actions\": %s, want float32 of rows x %d: %w", describe(m["actions"]), ActionColumns, ErrBadChunk)
	}
	v, err := a.Float32s()
	if err != nil {
		return Chunk{}, 0, fmt.Errorf("answer key \"actions\": %w: %w", ErrBadChunk, err)
	}
	c := Chunk{Rows: a.Shape[0], Cols: a.Shape[1], Data: v, Checkpoint: text(m["checkpoint"])}
	if err := c.Check(); err != nil {
		return Chunk{}, 0, err
	}
	var infer time.Duration
	if st, ok := m["server_timing"].(map[string]any); ok {
		switch t := st["infer_ms"].(type) {
		case float64:
			infer = time.Duration(t * 1e6)
		case npmsgpack.Scalar:
			f, _ := t.Value.(float64)
			infer = time.Duration(f * 1e6)
		}
	}
	return c, infer, nil
}
