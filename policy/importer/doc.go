// Package importer reads pretrained vision transformers from safetensors files into the vision encoder of package policy: CLIP, SigLIP and
// DINOv2 in the names of Hugging Face transformers, and timm's ViT.
//
// Everything that differs between them ends in the weights or in a few fields of [policy.Architecture]: class and register tokens, a norm
// before the first block, the activation, the norms' epsilon; fused and separate projections; layer scale, which is multiplied into the
// projections; and the preprocessing, mean and deviation per channel, which is multiplied into the patch embedding, since the network's
// own pictures are scaled to -1..1. A position table of another grid is resized (bicubic, as torch's interpolate).
//
//	e, err := importer.Read("model.safetensors")
//	e.Fit(&arch)
//	params, err := policy.NewParams(spec, arch, seed)
//	err = e.Load(spec, arch, params)
package importer
