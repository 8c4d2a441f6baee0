"""Florence-2 as captioner: the same words as transformers' own generation, and the tensors that Microsoft published."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from published_names import florence2_published
from test_blip2 import Torch, blocks, spans, told
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import Florence2ForConditionalGeneration

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.models.batching import Batched
from counterfactory.engine.models.blip2 import Blip2, Reading
from counterfactory.engine.models.clauses import to_clause
from counterfactory.engine.models.clip import to_pixel_values
from counterfactory.engine.profile.caption import DecodingSettings
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.runtime.session import Port, Signature
from counterfactory.export.graphs import modules
from counterfactory.export.graphs.florence2 import CachedFlorence2Decoder, Florence2Vision
from counterfactory.export.graphs.parity import assert_parity
from counterfactory.export.production import florence2
from counterfactory.export.production.graph import Request, Sources
from counterfactory.export.production.small_words import opt_tokenizer

SMALL = Request(small=True, captioner="florence2")
END, WORDS = 2, 40


@pytest.fixture(scope="module")
def model() -> Florence2ForConditionalGeneration:
    found = florence2.build(SMALL)
    with torch.no_grad():
        for name, value in found.named_parameters():  # fresh weights tell no picture from another
            if "encoder_attn" in name and value.ndim > 1:
                value.mul_(4)
            if name.endswith("shared.weight"):
                value.mul_(2)
                value[END] *= 1.4
    return found


def ours(model: Florence2ForConditionalGeneration, rows: int) -> Blip2:
    """`model` for two images at a time of `rows` rows each."""
    inputs: tuple[Port, ...] = (
        Port("inputs_embeds", (2 * rows, None, 32), "float32"),
        Port("query_embeds", (2 * rows, 4, 2, 29, 16), "float32"),
        Port("cache_keys", (None, 2 * rows, 2, 2, 16), "float32"),
    )
    inputs += (Port("cache_rows", (None, 2 * rows), "int64"),) * (rows > 1)
    eyes = modules.Normalised(Florence2Vision(model, florence2.task_ids(SMALL)), florence2.MEAN, florence2.STD)
    seen = Torch(eyes, Signature((Port("pixel_values", (2, 3, 32, 32), "float32"),), ()), ("query_embeds",))
    outputs = ("logits", "cache_keys_added", "cache_values_added")
    decoder = CachedFlorence2Decoder(model)
    tokenizer = Tokenizer(models.WordLevel({f"w{i}": i for i in range(WORDS)}, unk_token="w0"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    table = decoder.tokens.detach().numpy()
    plans = (Batched(plan) for plan in (seen, Torch(decoder, Signature(inputs, ()), outputs)))
    return Blip2(*plans, table, tokenizer, bos=(2, 0), eos=END)


def asked(image: np.ndarray, prompt: list[int]) -> dict[str, torch.Tensor]:
    """What transformers' own class is asked: the picture, the task, and what the caption begins with."""
    mean, std = (torch.tensor(values)[:, None, None] for values in (florence2.MEAN, florence2.STD))
    pixels = (torch.from_numpy(to_pixel_values([image], 32)) + 1) / 2
    ids = torch.tensor([[WORDS - 1] * 17 + florence2.task_ids(SMALL)])
    given = {"pixel_values": (pixels - mean) / std, "decoder_input_ids": torch.tensor([prompt])}
    return given | {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("prefix", ["", "w7 w9"])
def test_captions_are_those_of_transformers(model: Florence2ForConditionalGeneration, beams: int, prefix: str) -> None:
    model.config.image_token_id = WORDS - 1
    how = DecodingSettings("beam" if beams > 1 else "greedy", beams, 1.0, 1.0, 2, 9, 1.0, 1.0, 3, beams > 1)
    images = blocks(np.random.default_rng(4), 5)
    found = told(ours(model, beams), images, how, prefix)
    prompt = [2, 0, *(int(word[1:]) for word in prefix.split())]
    wanted = []
    for image in images:
        rules = {"num_beams": beams, "min_new_tokens": 2, "max_new_tokens": 9, "forced_eos_token_id": None}
        rules |= {"no_repeat_ngram_size": 3, "early_stopping": beams > 1}  # as its generation_config.json
        out = model.generate(**asked(image, prompt), do_sample=False, **rules)[0].tolist()
        said = out[len(prompt) :]
        whole = END in said
        text = " ".join(f"w{token}" for token in (said[: said.index(END)] if whole else said))
        wanted.append(text if whole else to_clause(text))
    assert found == wanted
    assert len(set(found)) > 2


@pytest.mark.parametrize("name", ["cpu", "gpu"])
def test_profiles_decode_as_it_was_published(name: str) -> None:
    """microsoft/Florence-2-base's generation_config.json, as copies of it show it."""
    how = load_profile(name).caption.decoding
    assert (how.mode, how.beams, how.no_repeat_ngram, how.early_stopping) == ("beam", 3, 3, True)
    assert (how.repetition_penalty, how.length_penalty) == (1.0, 1.0)
    assert how.max_tokens >= 70, "a detailed caption has about 50 tokens, and many have more"


def test_words_are_as_likely_as_transformers_has_them(model: Florence2ForConditionalGeneration) -> None:
    model.config.image_token_id = WORDS - 1
    (image,) = blocks(np.random.default_rng(4), 1)
    text, ids = "w3 w5 w7 w11", [3, 5, 7, 11]
    ((first, last),) = ours(model, 1).read([image], [Reading(0, text, spans(text, "w5", "w11"))], "w9", 20)
    with torch.no_grad():
        logits = model(**asked(image, [2, 0, 9, *ids])).logits[0].double()
    chances = torch.softmax(logits[2:6], 1)[torch.arange(4), torch.tensor(ids)]
    assert first == pytest.approx(float(chances[1]), rel=1e-4)
    assert last == pytest.approx(float(chances[3]), rel=1e-4)


# --- as it was published ---


# Some names of each part of microsoft/Florence-2-base's pytorch_model.bin.
KNOWN = (
    "vision_tower.convs.0.proj.weight",
    "vision_tower.convs.1.norm.bias",
    "vision_tower.blocks.0.0.spatial_block.conv1.fn.dw.weight",
    "vision_tower.blocks.0.0.spatial_block.window_attn.norm.weight",
    "vision_tower.blocks.0.0.spatial_block.window_attn.fn.qkv.weight",
    "vision_tower.blocks.0.0.spatial_block.ffn.fn.net.fc1.weight",
    "vision_tower.blocks.0.0.channel_block.channel_attn.norm.bias",
    "vision_tower.blocks.0.0.channel_block.channel_attn.fn.proj.weight",
    "vision_tower.blocks.0.0.channel_block.ffn.norm.weight",
    "image_projection",
    "image_proj_norm.weight",
    "image_pos_embed.row_embeddings.weight",
    "visual_temporal_embed.pos_idx_to_embed",
    "language_model.model.shared.weight",
    "language_model.model.encoder.layers.0.self_attn.q_proj.weight",
    "language_model.model.decoder.layers.1.encoder_attn.v_proj.bias",
    "language_model.final_logits_bias",
    "language_model.lm_head.weight",
)


@pytest.fixture
def folder(model: Florence2ForConditionalGeneration, tmp_path: Path) -> Path:
    config = model.config
    vision, text = config.vision_config, config.text_config.to_dict() | {"model_type": "florence2_language"}
    table = {name: list(getattr(vision, name)) for name in florence2._SAME[:-2]}
    table |= {name: getattr(vision, name) for name in florence2._SAME[-2:]} | {"dim_embed": list(vision.embed_dim)}
    table |= {key: florence2.BASE["vision_config"][key] for key in ("visual_temporal_embedding", "image_pos_embed")}
    said = {"model_type": "florence2", "vision_config": table, "text_config": text}
    (tmp_path / "config.json").write_text(json.dumps(said))
    tensors = {
        name: tensor.half()
        for name, tensor in florence2_published(model.state_dict(), model.config.vision_config.depths).items()
    }
    assert tensors.keys() >= set(KNOWN)
    torch.save(tensors, tmp_path / "pytorch_model.bin")
    opt_tokenizer(WORDS, 3).save(str(tmp_path / "tokenizer.json"))
    return tmp_path


def test_what_was_published_is_read(model: Florence2ForConditionalGeneration, folder: Path) -> None:
    found = florence2.build(Request(sources=Sources(florence2=str(folder))))
    wanted = model.state_dict()
    assert found.state_dict().keys() == wanted.keys()
    for name, tensor in found.state_dict().items():
        assert torch.equal(tensor, wanted[name].half().float()), name
    assert found.lm_head.weight is found.model.language_model.shared.weight  # tied, once in memory
    ids = florence2.task_ids(Request(sources=Sources(florence2=str(folder))))
    assert (ids[0], ids[-1]) == (0, 2)
    assert len(ids) == 2 + len(Tokenizer.from_file(str(folder / "tokenizer.json")).encode(florence2.TASK).ids)


def test_another_checkpoint_is_refused_by_name(folder: Path) -> None:
    request = Request(sources=Sources(florence2=str(folder)))
    tensors = torch.load(folder / "pytorch_model.bin")
    del tensors["image_projection"]
    torch.save(tensors, folder / "pytorch_model.bin")
    with pytest.raises(CounterfactoryError, match=r"1 missing, first model\.multi_modal_projector\.image_projection"):
        florence2.build(request)
    (folder / "config.json").write_text(json.dumps({"model_type": "blip"}))
    with pytest.raises(CounterfactoryError, match=r"no config\.json of Florence-2 as Microsoft published it"):
        florence2.build(request)


@pytest.mark.slow
def test_a_block_at_full_width_is_that_of_transformers() -> None:
    """One block of each stage and one layer of encoder and decoder, as wide as the published ones."""
    depth = {"encoder_layers": 1, "decoder_layers": 1, "vocab_size": 60}
    shallow = {
        "vision_config": {**florence2.BASE["vision_config"], "depths": [1, 1, 1, 1]},
        "text_config": {**florence2.BASE["text_config"], **depth},
    }
    torch.manual_seed(3)
    model = Florence2ForConditionalGeneration(florence2.config_of(shallow)).eval()
    model.config.image_token_id = 59
    task = [0, 7, 8, 9, 2]
    pixels = torch.randn(1, 3, florence2.SIDE, florence2.SIDE, generator=torch.Generator().manual_seed(1))
    ids = torch.tensor([[59] * 577 + task])
    start = torch.tensor([[2, 0, 11, 12]])
    with torch.no_grad():
        wanted = model(pixel_values=pixels, input_ids=ids, decoder_input_ids=start).logits[:, -1]
        seen = Florence2Vision(model, task)(pixels)
        decoder = CachedFlorence2Decoder(model)
        nothing = torch.zeros(0, 1, 1, 12, 64)
        positions = torch.arange(4)[None]
        first, keys, values = decoder(decoder.tokens[start[:, :3]], positions[:, :3], nothing, nothing, seen)
        found, *_ = decoder(decoder.tokens[start[:, 3:]], positions[:, 3:], keys, values, seen)
    assert first.shape == found.shape == (1, 60)
    assert_parity(found.numpy(), wanted.numpy(), "f32")
