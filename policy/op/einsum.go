package op

import (
	"slices"
	"strings"
)

// Einsum is a product of two tensors over any axes, in the notation "abc,adc->abd": each letter names an axis, letters of both operands that
// the result lacks are summed over, and letters that all three have are batch axes. A letter of one operand must be in the result. It
// is made of Transpose, Reshape and MatMul. Source: numpy's einsum, for two operands.
func Einsum(spec string, a, b *Node) *Node {
	inputs, out, ok := strings.Cut(spec, "->")
	left, right, ok2 := strings.Cut(inputs, ",")
	if !ok || !ok2 || len(left) != a.Dims() || len(right) != b.Dims() {
		fail("einsum %q of a %v and b %v: want letters for each axis, as in \"ab,bc->ac\"", spec, a.Shape(), b.Shape())
	}
	sizes := map[rune]int{}
	for i, operand := range []string{left, right} {
		for axis, letter := range operand {
			n := []*Node{a, b}[i].Shape()[axis]
			if old, seen := sizes[letter]; seen && old != n {
				fail("einsum %q of a %v and b %v: axis %c has %d and %d elements", spec, a.Shape(), b.Shape(), letter, old, n)
			}
			sizes[letter] = n
		}
	}
	batch, sum := pickLetters(left, right, out, true), pickLetters(left, right, out, false)
	freeA, freeB := onlyIn(left, right), onlyIn(right, left)
	whole := batch + freeA + freeB
	if len(whole) != len(out) || !sameLetters(whole, out) {
		fail("einsum %q: the result has letters %q, the operands leave %q", spec, out, whole)
	}
	count := func(letters string) int {
		n := 1
		for _, l := range letters {
			n *= sizes[l]
		}
		return n
	}
	x := Reshape(Transpose(a, places(left, batch+freeA+sum)...), count(batch), count(freeA), count(sum))
	y := Reshape(Transpose(b, places(right, batch+sum+freeB)...), count(batch), count(sum), count(freeB))
	shape := make([]int, 0, len(whole))
	for _, l := range whole {
		shape = append(shape, sizes[l])
	}
	return Transpose(Reshape(MatMul(x, y, false, false), shape...), places(whole, out)...)
}

// pickLetters lists the letters of both operands that the result has, or lacks.
func pickLetters(left, right, out string, has bool) string {
	var s strings.Builder
	for _, l := range left {
		if strings.ContainsRune(right, l) && strings.ContainsRune(out, l) == has {
			s.WriteRune(l)
		}
	}
	return s.String()
}

func onlyIn(in, notIn string) string {
	return strings.Map(func(l rune) rune {
		if strings.ContainsRune(notIn, l) {
			return -1
		}
		return l
	}, in)
}

func sameLetters(a, b string) bool {
	x, y := []rune(a), []rune(b)
	slices.Sort(x)
	slices.Sort(y)
	return slices.Equal(x, y)
}

// places gives, for each letter of want, its place in have.
func places(have, want string) []int {
	list := make([]int, 0, len(want))
	for _, l := range want {
		list = append(list, strings.IndexRune(have, l))
	}
	return list
}
