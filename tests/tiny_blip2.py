"""BLIP-2 in small, of random weights that tell pictures apart and end captions."""

from __future__ import annotations

import torch
from transformers import Blip2Config, Blip2ForConditionalGeneration

EOS, WORDS = 2, 20


def tiny_blip2() -> Blip2ForConditionalGeneration:
    """The model for pictures of 16 x 16: an OPT of the tokens below WORDS, of which 0 begins a caption, EOS ends it."""
    torch.manual_seed(11)
    size = {"hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 2}
    config = Blip2Config(
        vision_config={**size, "image_size": 16, "patch_size": 8, "num_hidden_layers": 1},
        qformer_config={**size, "num_hidden_layers": 2, "encoder_hidden_size": 16, "vocab_size": 8},
        text_config={
            "model_type": "opt",
            "vocab_size": WORDS + 1,
            "hidden_size": 24,
            "word_embed_proj_dim": 24,
            "ffn_dim": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "max_position_embeddings": 64,
            "bos_token_id": 0,
            "pad_token_id": 1,
            "eos_token_id": EOS,
            "tie_word_embeddings": False,
        },
        num_query_tokens=3,
        image_token_index=WORDS,
    )
    model = Blip2ForConditionalGeneration(config).eval()
    with torch.no_grad():
        for value in model.parameters():  # fresh weights tell no picture from another
            if value.ndim > 1:
                value.normal_(std=2 * value[0].numel() ** -0.5)
        for name, value in model.named_parameters():
            if "norm" in name and name.endswith("weight"):
                value.fill_(1.0)
        model.language_model.lm_head.weight[WORDS] = 0  # no image within a caption
        model.language_model.lm_head.weight[EOS] *= 3
    return model
