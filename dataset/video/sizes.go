package video

// PacketSizes are the bytes of each coded picture in decode order, which without B-frames is that of the frames. A picture that
// repeats the one before codes to almost nothing, so the sizes tell a stalled camera without decoding.
func (i Info) PacketSizes() []int64 {
	out := make([]int64, len(i.packets))
	for k, p := range i.packets {
		out[k] = int64(p.size)
	}
	return out
}
