// Package kernel holds the inner loops of the CPU engine: matrix products, element-wise functions, norms, softmax and attention rows,
// and the optimiser's updates. A kernel works on plain slices, allocates nothing and starts no goroutine, so callers decide how to cut
// the work.
//
// Every kernel exists twice: in Go, for float32 and float64, and for float32 in C behind the build tag "blas", where matrix products
// are OpenBLAS's and the loops are vectorised by gcc. Both twins agree to about 1e-6 relative. No kernel hides a NaN or an infinity.
//
// Matrices are row-major and dense unless a stride is given.
package kernel

import "unsafe"

// Float is the element type of a kernel.
type Float interface{ ~float32 | ~float64 }

// is32 reports whether T is float32, whose kernels may be native.
func is32[T Float]() bool {
	var zero T
	return unsafe.Sizeof(zero) == 4
}

// as32 reads x, whose element type is known to be float32, as such.
func as32[T Float](x []T) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(x))), len(x))
}

// Buffer is a run of elements of one type in an engine's memory. Its zero value means "not given".
type Buffer struct {
	p unsafe.Pointer
	n int // elements
}

// Of wraps s; the buffer shares its memory.
func Of[T any](s []T) Buffer { return Buffer{unsafe.Pointer(unsafe.SliceData(s)), len(s)} }

// View reads b as elements of type T, which must be the type it was made with.
func View[T any](b Buffer) []T { return unsafe.Slice((*T)(b.p), b.n) }

// Len returns the number of elements.
func (b Buffer) Len() int { return b.n }

// IsZero reports whether the buffer was not given.
func (b Buffer) IsZero() bool { return b.p == nil }

// Part returns elements [from, to) of b, whose elements have the given size in bytes.
func (b Buffer) Part(from, to, size int) Buffer {
	if from < 0 || to < from || to > b.n {
		panic("kernel: part outside its buffer")
	}
	return Buffer{unsafe.Add(b.p, from*size), to - from}
}

// At returns n elements of the given size in bytes, from a byte offset of words on.
func At(words []float64, offset, n, size int) Buffer {
	if offset < 0 || offset+n*size > 8*len(words) {
		panic("kernel: buffer outside its memory")
	}
	return Buffer{unsafe.Add(unsafe.Pointer(unsafe.SliceData(words)), offset), n}
}

// Aligned returns memory for the given number of bytes that begins at a cache line.
func Aligned(bytes int) []float64 {
	words := make([]float64, (bytes+7)/8+8)
	skip := int(-uintptr(unsafe.Pointer(&words[0]))&63) / 8
	return words[skip:]
}

// Worker lends scratch memory to the kernels that one goroutine runs. It is not safe for concurrent use.
type Worker struct {
	buf []float64 // 8-byte alignment serves both element types
	off int
}

// Reset takes back all scratch memory lent so far.
func (w *Worker) Reset() { w.off = 0 }

// Scratch lends n elements of scratch memory, not cleared, valid until the worker's Reset.
func Scratch[T Float](w *Worker, n int) []T {
	words := n
	if is32[T]() {
		words = (n + 1) / 2
	}
	words = (words + 7) &^ 7 // whole cache lines
	if w.off+words > len(w.buf) {
		// What was lent from the old memory stays valid: its borrowers keep it alive.
		w.buf, w.off = Aligned(16*(w.off+words)), 0
	}
	p := unsafe.Pointer(&w.buf[w.off])
	w.off += words
	return unsafe.Slice((*T)(p), n)
}
