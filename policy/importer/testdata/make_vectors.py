"""Makes the committed vectors: tiny vision transformers of each library with random weights, and what they answer to one picture.

Run: make_vectors.py FOLDER [--seed N] [--size PIXELS]. Needs torch, transformers, timm and safetensors.
For each kind KIND: FOLDER/KIND/model.safetensors, config.json, and expect.json with the picture (bytes, row by row, red green blue) and the
normed patch tokens.
"""

import argparse
import json
import pathlib

import torch
from safetensors.torch import save_file


def tokens_of(kind, seed, image):
    torch.manual_seed(seed)
    if kind == "clip":
        from transformers import CLIPVisionConfig, CLIPVisionModel
        c = CLIPVisionConfig(hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2, image_size=8, patch_size=4)
        mean, std = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
        m = CLIPVisionModel(c)
        run = lambda x: m.vision_model.post_layernorm(m(x, interpolate_pos_encoding=True).last_hidden_state)[:, 1:]
    elif kind == "siglip":
        from transformers import SiglipVisionConfig, SiglipVisionModel
        c = SiglipVisionConfig(hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2, image_size=8, patch_size=4)
        mean, std = (0.5,) * 3, (0.5,) * 3
        m = SiglipVisionModel(c)
        run = lambda x: m(x, interpolate_pos_encoding=True).last_hidden_state
    elif kind in ("dinov2", "dinov2_registers"):
        mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
        args = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, mlp_ratio=2, image_size=8, patch_size=4, layerscale_value=0.7)
        if kind == "dinov2":
            from transformers import Dinov2Config, Dinov2Model
            c, skip = Dinov2Config(**args), 1
            m = Dinov2Model(c)
        else:
            from transformers import Dinov2WithRegistersConfig, Dinov2WithRegistersModel
            c, skip = Dinov2WithRegistersConfig(num_register_tokens=3, **args), 4
            m = Dinov2WithRegistersModel(c)
        run = lambda x: m(x).last_hidden_state[:, skip:]
    else:
        from timm.models.vision_transformer import VisionTransformer
        mean, std = (0.5,) * 3, (0.5,) * 3
        m = VisionTransformer(img_size=image, patch_size=4, embed_dim=16, depth=2, num_heads=2, mlp_ratio=2, num_classes=0)
        run = lambda x: m.forward_features(x)[:, 1:]
        c = None
    with torch.no_grad():  # norms, biases and scales start at constants; random ones are told apart
        for p in m.parameters():
            p.add_(0.1 * torch.randn_like(p))
    m.eval()
    pixels = torch.randint(0, 256, (image, image, 3), dtype=torch.uint8)
    x = (pixels.float() / 255 - torch.tensor(mean)) / torch.tensor(std)
    with torch.no_grad():
        y = run(x.permute(2, 0, 1)[None])[0]
    config = c.to_dict() if c is not None else {"model_args": {"num_heads": 2}}
    return m, config, pixels, y


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--size", type=int, default=12)  # another grid than the table's 8/4: positions are resized
    a = parser.parse_args()
    for kind in ("clip", "siglip", "dinov2", "dinov2_registers", "timm"):
        model, config, pixels, y = tokens_of(kind, a.seed, a.size)
        out = a.folder / kind
        out.mkdir(parents=True, exist_ok=True)
        save_file({k: v.contiguous() for k, v in model.state_dict().items() if v.is_floating_point() and "head." not in k}, out / "model.safetensors")
        keep = ("num_attention_heads", "hidden_act", "layer_norm_eps", "model_args")
        (out / "config.json").write_text(json.dumps({k: v for k, v in config.items() if k in keep}) + "\n")
        (out / "expect.json").write_text(json.dumps({"image": a.size, "pixels": pixels.flatten().tolist(),
                                                    "tokens": [round(v, 6) for v in y.flatten().tolist()]}) + "\n")


main()
