package importer

import (
	"fmt"

	"github.com/pinch-robotics/pinch/policy"
)

// Load writes the encoder's weights into the parameters of a network whose architecture Fit has been called on. The other parameters stay.
func (e *Encoder) Load(s policy.Spec, a policy.Architecture, p *policy.Params) error {
	l := loader{e: e, params: p}
	l.patch()
	l.positions(s)
	if e.PreNorm {
		l.norm("vision.prenorm", e.names.prenorm)
	}
	for i := range e.Depth {
		l.block(i)
	}
	l.norm("vision.norm", e.names.norm)
	return l.err
}

// loader writes parameters until the first error.
type loader struct {
	e      *Encoder
	params *policy.Params
	err    error
}

func (l *loader) get(name string, shape ...int) (t tensor) {
	if l.err == nil {
		t, l.err = l.e.get(name, shape...)
	}
	return t
}

func (l *loader) put(name string, data []float32) {
	if l.err != nil {
		return
	}
	view := l.params.View(name)
	if len(view) != len(data) {
		l.err = fmt.Errorf("parameter %q has room for %d numbers, the file gives %d", name, len(view), len(data))
		return
	}
	copy(view, data)
}

func (l *loader) norm(to, from string) {
	l.put(to+".gain", l.get(from+".weight", l.e.Dim).data)
	l.put(to+".bias", l.get(from+".bias", l.e.Dim).data)
}

// linear turns [out, in] into [in, out]; scale, of the outputs, may be nil.
func (l *loader) linear(to string, weight, bias, scale []float32, in, out int) {
	if l.err != nil {
		return
	}
	w, b := make([]float32, in*out), make([]float32, out)
	copy(b, bias)
	for o := range out {
		f := float32(1)
		if scale != nil {
			f = scale[o]
		}
		b[o] *= f
		for i := range in {
			w[i*out+o] = f * weight[o*in+i]
		}
	}
	l.put(to+".w", w)
	l.put(to+".b", b)
}

// patch multiplies the preprocessing into the patch embedding. The network's pixel y is 2 v - 1 for v in 0..1, the file's is
// (v - mean)/std = y/(2 std) + (0.5 - mean)/std.
func (l *loader) patch() {
	e := l.e
	w := l.get(e.names.patch+".weight", e.Dim, 3, e.Patch, e.Patch)
	bias := make([]float32, e.Dim)
	if e.has(e.names.patch + ".bias") {
		copy(bias, l.get(e.names.patch+".bias", e.Dim).data)
	}
	if l.err != nil {
		return
	}
	pixels := e.Patch * e.Patch
	out, shift := make([]float32, 3*pixels*e.Dim), make([]float64, e.Dim)
	for d := range e.Dim {
		for c := range 3 {
			for i := range pixels {
				v := float64(w.data[(d*3+c)*pixels+i])
				out[(i*3+c)*e.Dim+d] = float32(v / (2 * e.Std[c]))
				shift[d] += v * (0.5 - e.Mean[c]) / e.Std[c]
			}
		}
		bias[d] += float32(shift[d])
	}
	l.put("vision.patch.w", out)
	l.put("vision.patch.b", bias)
}

// positions resizes the table to the picture's grid and adds the class token's position to the class token.
func (l *loader) positions(s policy.Spec) {
	e := l.e
	var table tensor
	if e.Kind == CLIP || e.Kind == SigLIP {
		table = l.get(e.names.position, -1, e.Dim)
	} else {
		table = l.get(e.names.position, 1, -1, e.Dim)
	}
	if l.err != nil || len(s.Cameras) == 0 {
		return
	}
	class := 0
	if e.has(e.names.class) {
		class = 1
	}
	rows := table.data
	if n := len(rows) / e.Dim; !isSquare(n - class) {
		if !isSquare(n) {
			l.err = fmt.Errorf("position table has %d rows, neither a square nor one more", n)
			return
		}
		class = 0 // positions of patches only, as timm's register models have
	}
	side, _ := gridSide(len(rows)/e.Dim - class)
	g := s.Cameras[0].Geometry
	l.put("vision.position", resize(rows[class*e.Dim:], side, side, g.Height/e.Patch, g.Width/e.Patch, e.Dim, e.Kind == Timm || e.has(e.names.registers)))
	if e.Tokens == 0 {
		return
	}
	tokens := make([]float32, e.Tokens*e.Dim)
	at := 0
	if e.has(e.names.class) {
		copy(tokens, e.tensors[e.names.prefix+e.names.class].data)
		if class == 1 {
			for i := range e.Dim {
				tokens[i] += rows[i]
			}
		}
		at = e.Dim
	}
	if e.has(e.names.registers) {
		copy(tokens[at:], e.tensors[e.names.prefix+e.names.registers].data)
	}
	l.put("vision.tokens", tokens)
}

func isSquare(n int) bool {
	_, ok := gridSide(n)
	return ok && n > 0
}

// block loads one transformer block.
func (l *loader) block(i int) {
	e, to := l.e, fmt.Sprintf("vision.%d", i)
	name := func(pattern string) string { return fmt.Sprintf(pattern, i) }
	l.norm(to+".norm1", name(e.names.norm1))
	l.norm(to+".norm2", name(e.names.norm2))
	var scale1, scale2 []float32
	if e.names.scale1 != "" && e.has(name(e.names.scale1)) {
		scale1, scale2 = l.get(name(e.names.scale1), e.Dim).data, l.get(name(e.names.scale2), e.Dim).data
	}
	if e.names.qkv != "" {
		w, b := l.get(name(e.names.qkv)+".weight", 3*e.Dim, e.Dim), l.get(name(e.names.qkv)+".bias", 3*e.Dim)
		if l.err != nil {
			return
		}
		for k, part := range []string{".q", ".k", ".v"} {
			l.linear(to+part, w.data[k*e.Dim*e.Dim:(k+1)*e.Dim*e.Dim], b.data[k*e.Dim:(k+1)*e.Dim], nil, e.Dim, e.Dim)
		}
	} else {
		for part, from := range map[string]string{".q": e.names.q, ".k": e.names.k, ".v": e.names.v} {
			l.square(to+part, name(from), nil, e.Dim, e.Dim)
		}
	}
	l.square(to+".o", name(e.names.o), scale1, e.Dim, e.Dim)
	l.square(to+".up", name(e.names.up), nil, e.Dim, e.Hidden)
	l.square(to+".down", name(e.names.down), scale2, e.Hidden, e.Dim)
}

func (l *loader) square(to, from string, scale []float32, in, out int) {
	w, b := l.get(from+".weight", out, in), l.get(from+".bias", out)
	l.linear(to, w.data, b.data, scale, in, out)
}
