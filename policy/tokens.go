package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/pinch-robotics/pinch/policy/text"
)

// Token values of the byte tokenizer: 0 to 255 are the bytes of the UTF-8 text.
const (
	TokenBegin = 256
	TokenPad   = 257
	VocabSize  = 258
)

// TokenizerName names the text form: version 1 lower-cases, turns "_" into a space, joins runs of white space into one space,
// trims, and writes one token per UTF-8 byte after TokenBegin.
const TokenizerName = "bytes-v1"

// TokenizerHash identifies tokenizer and vocabulary in checkpoints.
func TokenizerHash() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s begin=%d pad=%d vocab=%d", TokenizerName, TokenBegin, TokenPad, VocabSize))
	return hex.EncodeToString(sum[:16])
}

// Words writes prompts as tokens.
type Words interface {
	// Tokenize writes the tokens of a prompt to dst, filled with TokenPad, and returns how many are not padding.
	Tokenize(dst []int32, text string) (int, error)
	// Identity names the tokenizer and hashes its vocabulary, as manifests carry it.
	Identity() Tokenizer
	// Size is the number of different tokens.
	Size() int
}

// Bytes is the tokenizer without a vocabulary: a token for each byte.
type Bytes struct{}

// Tokenize implements Words.
func (Bytes) Tokenize(dst []int32, prompt string) (int, error) { return Tokenize(dst, prompt) }

// Identity implements Words.
func (Bytes) Identity() Tokenizer { return Tokenizer{Name: TokenizerName, Hash: TokenizerHash()} }

// Size implements Words.
func (Bytes) Size() int { return VocabSize }

// PairsName names the text form of Pairs: the canonical text of bytes-v1, then byte pairs joined by a trained table. A byte that no
// join covers stays a token of its own, so every text of every language has tokens.
const PairsName = "byte-pairs-v1"

// Pairs is a tokenizer with a vocabulary trained on instructions; token values of bytes and marks are those of Bytes, joined pairs
// follow them.
type Pairs struct{ *text.Table }

// Tokenize implements Words.
func (p Pairs) Tokenize(dst []int32, prompt string) (int, error) {
	if !utf8.ValidString(prompt) {
		return 0, fmt.Errorf("prompt %q is not UTF-8 text", prompt)
	}
	ids := p.Encode(CanonicalPrompt(prompt))
	if len(ids)+1 > len(dst) {
		return 0, fmt.Errorf("prompt %q has %d tokens, the policy takes %d: shorten it or train with a larger max_tokens", prompt, len(ids)+1, len(dst))
	}
	dst[0] = TokenBegin
	for i := range dst[1:] {
		dst[i+1] = TokenPad
		if i < len(ids) {
			dst[i+1] = ids[i]
			if ids[i] >= 256 {
				dst[i+1] += VocabSize - 256
			}
		}
	}
	return len(ids) + 1, nil
}

// Identity implements Words.
func (p Pairs) Identity() Tokenizer { return Tokenizer{Name: PairsName, Hash: p.Hash()} }

// Size implements Words.
func (p Pairs) Size() int { return VocabSize + p.Joins() }

// TrainPairs makes a tokenizer of at most size tokens from instructions. Equal instructions in any order give equal tables.
func TrainPairs(prompts []string, size int) (Pairs, error) {
	if size <= VocabSize {
		return Pairs{}, fmt.Errorf("vocabulary of %d tokens: want more than the %d bytes and marks", size, VocabSize)
	}
	counts := map[string]int{}
	for _, p := range prompts {
		if !utf8.ValidString(p) {
			return Pairs{}, fmt.Errorf("prompt %q is not UTF-8 text", p)
		}
		counts[CanonicalPrompt(p)]++
	}
	return Pairs{text.Train(counts, size-VocabSize)}, nil
}

// CanonicalPrompt is the text that the tokenizer sees: two prompts with equal canonical text are one instruction.
func CanonicalPrompt(text string) string {
	return strings.Join(strings.Fields(strings.ToLower(strings.ReplaceAll(text, "_", " "))), " ")
}

// Tokenize writes the tokens of a prompt to dst, filled with TokenPad, and returns how many are not padding. A prompt that does
// not fit or is not UTF-8 is an error: a cut instruction would be another instruction.
func Tokenize(dst []int32, text string) (int, error) {
	if !utf8.ValidString(text) {
		return 0, fmt.Errorf("prompt %q is not UTF-8 text", text)
	}
	canonical := CanonicalPrompt(text)
	if len(canonical)+1 > len(dst) {
		return 0, fmt.Errorf("prompt %q has %d tokens, the policy takes %d: shorten it or train with a larger max_tokens", text, len(canonical)+1, len(dst))
	}
	dst[0] = TokenBegin
	for i := range len(canonical) {
		dst[i+1] = int32(canonical[i])
	}
	for i := len(canonical) + 1; i < len(dst); i++ {
		dst[i] = TokenPad
	}
	return len(canonical) + 1, nil
}
