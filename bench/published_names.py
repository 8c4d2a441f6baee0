"""Names of tensors as they were published, by the conversions that were published with them; not by what reads them.

Microsoft's Florence-2: transformers' own convert_florence2_original_pytorch_to_hf.py pairs its names with those of the
class Florence2ForConditionalGeneration, and ours were written from that file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch

# Of a block: Microsoft's name, transformers' name; {a} is window_attn or channel_attn.
_BLOCK = (
    ("conv1.fn.dw", "conv1"),
    ("{a}.norm", "norm1"),
    ("{a}.fn.qkv", "{a}.qkv"),
    ("{a}.fn.proj", "{a}.proj"),
    ("conv2.fn.dw", "conv2"),
    ("ffn.norm", "norm2"),
    ("ffn.fn.net.fc1", "ffn.fc1"),
    ("ffn.fn.net.fc2", "ffn.fc2"),
)
_PROJECTOR = (
    ("image_projection", "image_projection.weight"),
    ("image_proj_norm.weight", "image_proj_norm.weight"),
    ("image_proj_norm.bias", "image_proj_norm.bias"),
    ("image_pos_embed.row_embeddings.weight", "image_position_embed.row_embeddings.weight"),
    ("image_pos_embed.column_embeddings.weight", "image_position_embed.column_embeddings.weight"),
    ("visual_temporal_embed.pos_idx_to_embed", "visual_temporal_embed.pos_idx_to_embed"),
)


def florence2_pairs(depths: Sequence[int], names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(Microsoft's name, transformers' name) of all tensors of a tower of such depths; the language model's by the
    `names` of transformers' class.
    """
    for stage, blocks in enumerate(depths):
        for kind in ("weight", "bias"):
            for theirs, ours in (("proj", "conv"), ("norm", "norm")):
                tower = f"vision_tower.convs.{stage}"
                yield f"{tower}.{theirs}.{kind}", f"model.{tower}.{ours}.{kind}"
            for block in range(blocks):
                for attention in ("window_attn", "channel_attn"):
                    space = "spatial_block" if attention == "window_attn" else "channel_block"
                    at = f"vision_tower.blocks.{stage}.{block}.{space}"
                    for theirs, ours in _BLOCK:
                        yield (
                            f"{at}.{theirs.format(a=attention)}.{kind}",
                            f"model.{at}.{ours.format(a=attention)}.{kind}",
                        )
    for theirs, ours in _PROJECTOR:
        yield theirs, f"model.multi_modal_projector.{ours}"
    for name in names:
        if name.startswith("model.language_model."):
            yield name.replace("model.language_model.", "language_model.model.", 1), name
    yield "language_model.lm_head.weight", "lm_head.weight"


def florence2_published(tensors: Mapping[str, torch.Tensor], depths: Sequence[int]) -> dict[str, torch.Tensor]:
    """Tensors of transformers' class as Microsoft published them: the projection is what features are multiplied by,
    and an unused bias of the logits is among them. Raises KeyError for a tensor that the conversion does not know.
    """
    pairs = dict(florence2_pairs(depths, list(tensors)))
    if unknown := tensors.keys() - set(pairs.values()):
        raise KeyError(f"the conversion has no {sorted(unknown)}")
    found = {theirs: tensors[ours] for theirs, ours in pairs.items() if ours in tensors}
    found["image_projection"] = found["image_projection"].T.contiguous()
    words = found["language_model.lm_head.weight"].shape[0]
    return found | {"language_model.final_logits_bias": torch.zeros(1, words)}
