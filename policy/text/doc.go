// Package text makes and uses byte-pair vocabularies for instructions (Sennrich et al. 2016, section 3.2, on bytes as in Radford et al.
// 2019, section 2.2).
//
// Tokens 0 to 255 are the bytes of the UTF-8 text; token 256+k is the k-th join of the [Table]: two tokens that stand side by side become one.
// Joins never cross the border of a piece: a word with the space before it, a digit, or a run of other signs. Since all 256 bytes are
// tokens, text of any language can be encoded, seen in training or not.
//
//	table := text.Train(map[string]int{"put the cup on the tray": 120, "put the block on the tray": 80}, 100)
//	ids := table.Encode("put the cup away")
//	table.Decode(ids) // "put the cup away"
package text
