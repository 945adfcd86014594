package policy

import "testing"

func TestTokenize(t *testing.T) {
	dst := make([]int32, 8)
	n, err := Tokenize(dst, "  Pick_\n UP ")
	if err != nil {
		t.Fatal(err)
	}
	want := []int32{TokenBegin, 'p', 'i', 'c', 'k', ' ', 'u', 'p'}
	if n != 8 {
		t.Fatalf("%d tokens, want 8", n)
	}
	for i := range want {
		if dst[i] != want[i] {
			t.Fatalf("tokens %v, want %v", dst, want)
		}
	}
	if n, _ = Tokenize(dst, "a"); n != 2 || dst[2] != TokenPad || dst[7] != TokenPad {
		t.Errorf("padding %v", dst)
	}
	if n, err = Tokenize(dst, ""); n != 1 || err != nil {
		t.Errorf("empty prompt: %d tokens, %v", n, err)
	}
}

func TestLongOrBrokenPromptsAreErrorsNotCuts(t *testing.T) {
	dst := make([]int32, 8)
	if _, err := Tokenize(dst, "12345678"); err == nil {
		t.Error("eight bytes and the begin token fit into eight")
	}
	if _, err := Tokenize(dst, "a\xff"); err == nil {
		t.Error("bytes that are not UTF-8 accepted")
	}
}

func TestEveryByteHasItsToken(t *testing.T) {
	dst := make([]int32, 16)
	n, err := Tokenize(dst, "é 箱") // 2 + 1 + 3 bytes
	if err != nil || n != 7 {
		t.Fatalf("%d tokens, %v; want 7", n, err)
	}
	text := []byte{}
	for _, id := range dst[1:n] {
		text = append(text, byte(id))
	}
	if string(text) != "é 箱" {
		t.Errorf("tokens spell %q", text)
	}
}
