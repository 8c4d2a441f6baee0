"""Profiles of packed models: what the wide world's captions need, none of which cuts or refuses one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="no torch: the profiles of packed models go unchecked")

from counterfactory.engine.edit import Edit
from counterfactory.engine.english.additions import apply_by_rule
from counterfactory.engine.english.words import spans
from counterfactory.engine.pocket.wide.captions import describe
from counterfactory.engine.pocket.wide.facts import facts_of
from counterfactory.engine.pocket.worlds import STREETS, WIDE
from counterfactory.engine.profile.models import ModelPaths
from counterfactory.engine.profile.profile import load_profile
from counterfactory.export.pocket import blip2, clip
from counterfactory.export.pocket.data import HELD_OUT
from counterfactory.export.pocket.languages import LANGUAGES
from counterfactory.export.pocket.profiles import profile_of
from counterfactory.export.pocket.wide_questions import exercise
from counterfactory.export.pocket.wide_spans import WIDE_TYPES, additions, read_spans


def longest() -> list[str]:
    """Captions that say all there is, those of sketches and photographs alike."""
    scenes = [WIDE.scene(HELD_OUT, i) for i in range(100)]
    return [describe(facts_of(scene), np.random.default_rng((5, i)), 1.0) for i, scene in enumerate(scenes)]


def test_the_streets_keep_their_profile() -> None:
    pocket = replace(load_profile("pocket"), models=ModelPaths("somewhere"))
    assert profile_of(STREETS, Path("somewhere")) == pocket
    wide = profile_of(WIDE, Path("somewhere"))
    assert (wide.llm.style, wide.rewrite, wide.models) == ("wide", LANGUAGES["wide"].settings, pocket.models)
    assert wide.caption.decoding.max_tokens == clip.TOKENS["wide"]
    assert replace(wide, llm=pocket.llm, rewrite=pocket.rewrite, caption=pocket.caption) == pocket


def test_no_caption_of_the_wide_world_is_cut_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    captions, wide = longest(), profile_of(WIDE, Path("somewhere"))
    captions += [json.loads(exercise("rewrite", HELD_OUT, i).answer) for i in range(60)]
    for i in range(100):
        scene = WIDE.scene(HELD_OUT, i)
        said = WIDE.describe(scene, np.random.default_rng((6, i)), True)
        edits = [Edit(type_, "", phrase) for type_ in WIDE_TYPES for phrase in additions(type_, said, (), 1)]
        captions.append(apply_by_rule(said, edits))
    assert max(map(len, captions)) > 280  # more than a street's captions ever have
    assert max(map(len, captions)) <= wide.rewrite.max_chars_caption
    for module in (clip, blip2):  # tokenizers of fewer captions have no longer tokens
        monkeypatch.setattr(module, "range", lambda _: range(200), raising=False)
    read, written = clip.build_tokenizer(WIDE), blip2.build_tokenizer(WIDE)
    read.no_truncation()
    read.no_padding()
    assert 64 < max(len(read.encode(caption).ids) for caption in captions) <= clip.TOKENS["wide"]
    assert max(len(written.encode(caption).ids) for caption in captions[:100]) < wide.caption.decoding.max_tokens


def test_every_span_of_a_wide_caption_can_be_named() -> None:
    wide = profile_of(WIDE, Path("somewhere")).rewrite
    lengths = set[int]()
    for caption in longest():
        keywords = {span.keyword for span in read_spans(caption)}
        assert keywords <= set(spans(caption, wide.max_words_keyword, ()))
        lengths |= {len(keyword.split()) for keyword in keywords}
    assert max(lengths) == wide.max_words_keyword
