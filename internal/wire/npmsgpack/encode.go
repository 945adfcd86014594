package npmsgpack

import (
	"bytes"
	"fmt"
	"sort"

	"github.com/vmihailenco/msgpack/v5"
)

// Encode writes v: nil, bool, integers, floats, string, []byte, []any, []string, map[string]any, Array or Scalar, nested. Map keys come in
// sorted order, so equal values give equal bytes.
func Encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := msgpack.NewEncoder(&buf)
	enc.UseCompactInts(true)
	if err := encode(enc, v); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

func encode(enc *msgpack.Encoder, v any) error {
	switch x := v.(type) {
	case Array:
		return encodeArray(enc, x)
	case Scalar:
		return encodeScalar(enc, x)
	case map[string]any:
		return encodeMap(enc, x)
	case []any:
		if err := enc.EncodeArrayLen(len(x)); err != nil {
			return err
		}
		for _, e := range x {
			if err := encode(enc, e); err != nil {
				return err
			}
		}
		return nil
	case nil, bool, int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64, float32, float64, string, []byte, []string:
		return enc.Encode(x)
	}
	return fmt.Errorf("encode %T: %w", v, ErrType)
}

func encodeMap(enc *msgpack.Encoder, m map[string]any) error {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	if err := enc.EncodeMapLen(len(m)); err != nil {
		return err
	}
	for _, k := range keys {
		if err := enc.EncodeString(k); err != nil {
			return err
		}
		if err := encode(enc, m[k]); err != nil {
			return fmt.Errorf("%s: %w", k, err)
		}
	}
	return nil
}

func encodeArray(enc *msgpack.Encoder, a Array) error {
	if err := a.Check(Defaults.Dims); err != nil {
		return fmt.Errorf("encode array: %w", err)
	}
	shape := make([]any, len(a.Shape))
	for i, d := range a.Shape {
		shape[i] = d
	}
	return encodeBinMap(enc, "__ndarray__", []field{{"data", a.Data}, {"dtype", a.DType}, {"shape", shape}})
}

func encodeScalar(enc *msgpack.Encoder, s Scalar) error {
	if _, err := itemSize(s.DType); err != nil {
		return fmt.Errorf("encode scalar: %w", err)
	}
	return encodeBinMap(enc, "__npgeneric__", []field{{"data", s.Value}, {"dtype", s.DType}})
}

type field struct {
	key   string
	value any
}

func encodeBinMap(enc *msgpack.Encoder, marker string, fields []field) error {
	if err := enc.EncodeMapLen(len(fields) + 1); err != nil {
		return err
	}
	for _, f := range append([]field{{marker, true}}, fields...) {
		if err := enc.EncodeBytes([]byte(f.key)); err != nil {
			return err
		}
		if err := encode(enc, f.value); err != nil {
			return err
		}
	}
	return nil
}
