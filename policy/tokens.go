package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"
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
