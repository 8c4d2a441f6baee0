"""The caption loop: where it starts, where it ends, and that rows do not disturb each other."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from tiny_blip2 import EOS, WORDS, tiny_blip2
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import Blip2ForConditionalGeneration

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.keys import generator
from counterfactory.engine.meter.meter import Work
from counterfactory.engine.models.batching import Batched
from counterfactory.engine.models.blip2 import Blip2, Reading
from counterfactory.engine.models.clauses import to_clause
from counterfactory.engine.models.clip import to_pixel_values
from counterfactory.engine.profile.caption import CaptionSettings, DecodingSettings
from counterfactory.engine.runtime.session import Port, Signature, continued_cache
from counterfactory.engine.stages.caption_sources import caption_images
from counterfactory.export.graphs import modules


def greedy(most: int) -> DecodingSettings:
    return DecodingSettings("greedy", 1, 1.0, 1.0, 0, most, 1.0, 1.0)


def told(captioner: Blip2, images: list[np.ndarray], how: DecodingSettings, prefix: str = "") -> list[str]:
    generators = [[np.random.default_rng(0)]] * len(images)
    return [text for (text,) in captioner.caption(images, generators, prefix, how)]


@dataclass(frozen=True)
class Kept:
    """What a device would keep: nothing that the engine could look into."""

    tensor: torch.Tensor

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.tensor.shape)


@dataclass(frozen=True)
class Torch:
    """A graph's module as a session, which keeps a cache that it adds to as a device would."""

    module: torch.nn.Module
    signature: Signature
    outputs: tuple[str, ...]

    def run(self, feeds: Mapping[str, Any], hold: Collection[str] = ()) -> dict[str, Any]:
        given = {k: v.tensor if isinstance(v, Kept) else torch.from_numpy(v) for k, v in feeds.items()}
        with torch.no_grad():
            out = self.module(**given)
        named = dict(zip(self.outputs, out if isinstance(out, tuple) else (out,), strict=True))
        kept = {k: Kept(torch.cat([given[cache], named[k]])) for k in hold if (cache := continued_cache(k))}
        return {k: v.numpy() for k, v in named.items()} | kept


@pytest.fixture(scope="module")
def blip2() -> Blip2ForConditionalGeneration:
    return tiny_blip2()


def blocks(random: np.random.Generator, count: int) -> list[np.ndarray]:
    """Pictures that differ a lot: a colour for each of the encoder's patches."""
    return [random.choice([0, 255], (2, 2, 3)).astype(np.uint8).repeat(8, 0).repeat(8, 1) for _ in range(count)]


def ours(model: Blip2ForConditionalGeneration, rows: int, cache: str, streams: int = 1) -> Blip2:
    """`model` for two images at a time of `rows` rows each: a cache that is "grown", "added" to, or has "rows"."""
    inputs: tuple[Port, ...] = (Port("inputs_embeds", (2 * rows, None, 24), "float32"),)
    opt: modules.OptDecoder
    if cache == "grown":
        inputs = (*inputs, Port("past_keys", (2 * rows, 2, 2, None, 12), "float32"))
        opt, outputs = modules.OptDecoder(model.language_model), ("logits", "keys", "values")
    else:
        inputs = (*inputs, Port("cache_keys", (None, 2 * rows, 2, 2, 12), "float32"))
        inputs += (Port("cache_rows", (None, 2 * rows), "int64"),) * (cache == "rows")
        outputs = ("logits", "cache_keys_added", "cache_values_added")
        opt = modules.CachedOptDecoder(model.language_model)
    seen = Signature((Port("pixel_values", (2, 3, 16, 16), "float32"),), ())
    vision = Torch(modules.Blip2Vision(model), seen, ("query_embeds",))
    decoder = Torch(opt, Signature(inputs, ()), outputs)
    tokenizer = Tokenizer(models.WordLevel({f"w{i}": i for i in range(WORDS)}, unk_token="w0"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    table = model.language_model.model.decoder.embed_tokens.weight.detach().numpy()
    plans = (Batched(plan, streams=streams) for plan in (vision, decoder))
    return Blip2(*plans, table, tokenizer, bos=(0,), eos=EOS)


@pytest.mark.parametrize(("beams", "cache"), [(1, "grown"), (3, "grown"), (1, "added"), (1, "rows"), (3, "rows")])
@pytest.mark.parametrize("prefix", ["", "w7 w9"])
def test_captions_are_those_of_transformers(blip2: Any, beams: int, prefix: str, cache: str) -> None:
    how = replace(greedy(9), mode="beam" if beams > 1 else "greedy", beams=beams, min_tokens=2)
    random = np.random.default_rng(4)
    images, work = blocks(random, 5), Work()
    captioner = ours(blip2, beams, cache)
    captioner = replace(captioner, decoder=Batched(captioner.decoder._session, lambda: work))
    found = told(captioner, images, how, prefix)
    prompt = [*[WORDS] * 3, 0, *(int(word[1:]) for word in prefix.split())]
    wanted = []
    for image in images:
        ids = torch.tensor([prompt])
        pixels = torch.from_numpy(to_pixel_values([image], 16))
        given = {"pixel_values": pixels, "input_ids": ids, "attention_mask": torch.ones_like(ids)}
        out = blip2.generate(**given, do_sample=False, num_beams=beams, min_new_tokens=2, max_new_tokens=9)[0].tolist()
        said = out[len(prompt) :]
        text = " ".join(f"w{token}" for token in (said[: said.index(EOS)] if EOS in said else said))
        wanted.append(text if EOS in said else to_clause(text))
    assert found == wanted
    assert len(set(found)) > 2
    if beams == 1:  # the loop stops when all rows of a batch have ended
        runs = [max(len(caption.split()) for caption in found[at : at + 2]) for at in (0, 2, 4)]
        assert work.calls == sum(min(1 + longest, 9) for longest in runs)


def test_batches_side_by_side_say_what_they_say_one_after_another(blip2: Blip2ForConditionalGeneration) -> None:
    images, how = blocks(np.random.default_rng(4), 7), replace(greedy(9), min_tokens=2)
    alone, both = ours(blip2, 1, "grown"), ours(blip2, 1, "grown", streams=2)
    assert (alone.at_once, both.at_once) == (2, 4)
    captions = told(both, images, how)
    assert captions == told(alone, images, how)
    assert len(set(captions)) > 2
    asked = [Reading(i % 7, "w3 w5 w7 w11", spans("w3 w5 w7 w11", f"w{5 + 2 * (i % 4 == 1)}")) for i in range(13)]
    assert both.read(images, asked, "", 20) == alone.read(images, asked, "", 20)


def test_beams_need_a_decoder_that_was_exported_for_them(blip2: Blip2ForConditionalGeneration) -> None:
    how = replace(greedy(9), mode="beam", beams=3, min_tokens=2)
    images = blocks(np.random.default_rng(4), 2)
    with pytest.raises(CounterfactoryError, match="exported for captions without beams"):
        told(ours(blip2, 3, "added"), images, how)


def test_several_captions_of_an_image_differ_and_belong_to_their_random_numbers(blip2: Any) -> None:
    how = replace(greedy(9), mode="nucleus", top_p=0.95, temperature=3.0)
    random = np.random.default_rng(4)
    images = blocks(random, 3)
    captioner = ours(blip2, 2, "grown")

    def sampled(some: list[np.ndarray], seeds: list[int]) -> list[list[str]]:
        generators = [[np.random.default_rng((seed, i)) for i in range(2)] for seed in seeds]
        return captioner.caption(some, generators, "", how)

    together = sampled(images, [1, 2, 3])
    assert all(len(set(texts)) == 2 for texts in together)
    assert sampled([images[2], images[0]], [3, 1]) == [together[2], together[0]]


SAMPLED = CaptionSettings(2, 2, "", replace(greedy(9), mode="nucleus", top_p=0.95, temperature=3.0))


def test_captions_are_joined_as_sentences(blip2: Blip2ForConditionalGeneration) -> None:
    image = np.random.default_rng(4).integers(0, 256, (16, 16, 3), dtype=np.uint8)
    captioner = ours(blip2, 2, "grown")
    generators = [[generator("key", f"caption {i}") for i in range(2)]]
    ((first, second),) = captioner.caption([image], generators, "", SAMPLED.decoding)
    assert caption_images(captioner, [("key", image)], SAMPLED) == [f"{first}. {second}."]
    assert caption_images(captioner, [("other", image)], SAMPLED) != [f"{first}. {second}."]


# Reading


def spans(text: str, *words: str) -> tuple[tuple[int, int], ...]:
    return tuple((text.index(word), text.index(word) + len(word)) for word in words)


def by_transformers(model: Blip2ForConditionalGeneration, image: np.ndarray, prompt: list[int], ids: list[int]) -> Any:
    """The probability of each token of a text behind a prompt, by the whole model at once, float64 [L]."""
    pixels = torch.from_numpy(to_pixel_values([image], 16))
    queries = torch.full((1, 3), WORDS)
    tokens = torch.cat([queries, torch.tensor([[*prompt, *ids]])], dim=1)
    with torch.no_grad():
        logits = model(pixel_values=pixels, input_ids=tokens).logits[0].double()
    at = len(prompt) + 3 - 1
    chances = torch.softmax(logits[at : at + len(ids)], dim=1)
    return chances[torch.arange(len(ids)), torch.tensor(ids)].numpy()


@pytest.mark.parametrize("cache", ["grown", "added", "rows"])
@pytest.mark.parametrize("prefix", ["", "w4 w9"])
def test_words_are_as_likely_as_transformers_has_them(blip2: Any, cache: str, prefix: str) -> None:
    captioner = ours(blip2, 1, cache)
    images = blocks(np.random.default_rng(3), 2)
    texts = ["w3 w5 w7 w11 w13 w6 w8", "w8 w9", "w4 w4 w15 w6 w3", "w3 w5 w7 w11 w12", "w3 w5 w14 w11"]
    asked = [
        Reading(1, texts[0], spans(texts[0], "w5 w7", "w6")),
        Reading(0, texts[1], spans(texts[1], "w9")),
        Reading(1, texts[2], spans(texts[2], "w15", "w4 w4 w15 w6 w3")),
        Reading(0, texts[0], spans(texts[0], "w8")),
        Reading(0, texts[0], ()),
        Reading(1, texts[3], spans(texts[3], "w12", "w3")),
        Reading(1, texts[4], spans(texts[4], "w14")),
    ]
    found = captioner.read(images, asked, prefix, 20)
    prompt = [0, *captioner.tokenizer.encode(prefix).ids] if prefix else [0]
    for reading, values in zip(asked, found, strict=True):
        chances = by_transformers(blip2, images[reading.image], prompt, captioner.tokenizer.encode(reading.text).ids)
        places = [(len(reading.text[:a].split()), len(reading.text[:b].split())) for a, b in reading.spans]
        expected = [np.exp(np.log(chances[first:end]).mean()) for first, end in places]
        assert values == pytest.approx(expected, rel=1e-4)
    spread = [value for values in found for value in values if value is not None]
    assert max(spread) > 2 * min(spread)


@pytest.mark.parametrize(
    ("others", "rows"),
    [
        (["w3 w5 w12"], 1),  # another word at the last place
        (["w3 w5 w7 w9"], 1),  # one that goes on
        (["w3 w4 w7"], 2),  # parted before it
        (["w3 w5 w12", "w3 w5 w7 w9", "w3 w5 w7 w11"], 1),
    ],
)
def test_texts_that_agree_before_what_is_asked_share_a_row(blip2: Any, others: list[str], rows: int) -> None:
    captioner, work = ours(blip2, 1, "grown"), Work()
    captioner = replace(captioner, decoder=Batched(captioner.decoder._session, lambda: work))
    images = blocks(np.random.default_rng(3), 2)
    texts = ["w3 w5 w7", *others]
    asked = [Reading(0, text, spans(text, text.split()[-1])) for text in texts]
    found = captioner.read(images, asked, "", 20)
    assert work.rows == rows * work.calls
    alone = [captioner.read(images, [one], "", 20)[0] for one in asked]
    assert np.array(found) == pytest.approx(np.array(alone), rel=1e-5)
    work.calls = work.rows = 0
    captioner.read(images, [asked[0], replace(asked[0], image=1)], "", 20)
    assert work.rows == 2 * work.calls


def test_what_lies_beyond_the_room_is_not_read(blip2: Blip2ForConditionalGeneration) -> None:
    captioner, text = ours(blip2, 1, "grown"), "w3 w5 w7"
    images = blocks(np.random.default_rng(3), 1)
    asked = [Reading(0, text, (*spans(text, "w5", "w7"), (2, 3)))]
    ((first, second, blank),) = captioner.read(images, asked, "", 2)
    assert first is not None
    assert (second, blank) == (None, None)
    assert captioner.read(images, [Reading(0, text, spans(text, "w7"))], "", 2) == [(None,)]
