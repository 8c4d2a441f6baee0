"""Graded severity: the same edits at levels from faint to full, which differ in nothing but the share of the text."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rewriting import TASK
from tiny_desk import numbers, tiny_run, tiny_sources
from tiny_networks import TinyPainter
from tiny_painting import PAINT, hints, same_picture

from counterfactory.engine.content_keys import variant_key
from counterfactory.engine.edit import Edit
from counterfactory.engine.request import SuiteRequest
from counterfactory.engine.sources.source import Source
from counterfactory.engine.stages.paint.paint_variants import (
    PaintJob,
    paint,
    paint_variants,
    text_of,
)
from counterfactory.engine.stages.rewrite.rewrite_captions import at_levels
from counterfactory.engine.variant import Variant

EDITS = (Edit("weather", "clear", "rainy"),)


def levelled(**changed: int) -> SuiteRequest:
    return replace(SuiteRequest(TASK, variants=10, controls=0, edits=(1, 1), seed=3), **changed)


def rainy(source: Source, index: int, dropped: str | None = None, repeat: int = 0) -> Variant:
    caption = f"caption {source.name}"
    key = variant_key(source.key, caption, EDITS, f"edited {index}", 3, repeat)
    return Variant(key, source, index, caption, EDITS, f"edited {index}", 3, dropped, repeat=repeat)


@pytest.fixture(scope="module")
def two_sources(tmp_path_factory: pytest.TempPathFactory) -> list[Source]:
    return tiny_sources(tmp_path_factory.mktemp("set"), 2)


@given(levels=st.integers(1, 9), seed=st.integers(0, 99))
def test_every_level_is_nearer_to_the_edit_by_the_same_step(levels: int, seed: int) -> None:
    plain, edited = np.random.default_rng(seed).standard_normal((2, 5, 3)).astype(np.float32)
    base = Variant("k", Source("s", "s", Path("s"), (8, 8), None, None, "d", "k"), 0, "a", EDITS, "b", 0, None)
    for level in range(1, levels + 1):
        found = text_of(replace(base, level=level, levels=levels), plain, edited)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, plain + (0.4 + 0.6 * level / levels) * (edited - plain), atol=1e-6)
    np.testing.assert_array_equal(found, edited)


def test_a_set_of_edits_is_one_series_of_levels(two_sources: list[Source]) -> None:
    one, other = rainy(two_sources[0], 0), rainy(two_sources[0], 1)
    found = list(at_levels([one, other], levelled(levels=3, variants=5)))
    assert [(v.index, v.level, v.levels, v.edited_caption) for v in found] == [
        (0, 1, 3, "edited 0"),
        (1, 2, 3, "edited 0"),
        (2, 3, 3, "edited 0"),
        (3, 1, 3, "edited 1"),
        (4, 2, 3, "edited 1"),
    ]
    assert len({v.key for v in found}) == 5
    assert [v.noise_key for v in found] == [one.key] * 3 + [other.key] * 2
    assert found[2].key == one.key, "in full it is the variant without levels"
    assert found[0].key == variant_key(two_sources[0].key, one.caption, EDITS, "edited 0", 3, 0, (1, 3))
    again = list(at_levels([rainy(two_sources[0], 0, repeat=2)], levelled(levels=3)))
    assert again[0].key == variant_key(two_sources[0].key, one.caption, EDITS, "edited 0", 3, 2, (1, 3))


def test_without_levels_variants_stay_as_they_are(two_sources: list[Source]) -> None:
    made = [rainy(two_sources[0], i) for i in range(3)]
    assert list(at_levels(made, levelled())) == made
    assert (made[0].noise_key, made[0].level, made[0].levels) == (made[0].key, 1, 1)


def test_what_is_dropped_is_dropped_once_and_what_stands_for_it_has_all_levels(two_sources: list[Source]) -> None:
    dropped, repeated = rainy(two_sources[0], 0, "why"), rainy(two_sources[0], 0, repeat=1)
    found = list(at_levels([dropped, rainy(two_sources[0], 1), repeated], levelled(levels=2, variants=4)))
    assert [(v.index, v.level, v.dropped, v.repeat) for v in found] == [
        (0, 1, "why", 0),
        (2, 1, None, 0),
        (3, 2, None, 0),
        (0, 1, None, 1),
        (1, 2, None, 1),
    ]
    assert found[0].key == dropped.key


def test_levels_are_painted_between_both_captions_from_one_noise(
    two_sources: list[Source], painter: TinyPainter, tmp_path: Path
) -> None:
    full = rainy(two_sources[0], 0)
    plain = replace(rainy(two_sources[1], 3), key="9" * 64)
    wanted = [*at_levels([full], levelled(levels=3)), plain]
    maps = hints(two_sources)
    with tiny_run(tmp_path / "suite", two_sources, variants=4, painter=painter) as run:
        rows = paint_variants(run.of(paint=PAINT), wanted, maps, run.pictures)
        pictures = [run.run.suite.load_image(rows[one]) for one in wanted]
        texts = [text for call in run.networks.calls["clip_text"] for text in call]
        assert sorted(texts) == ["caption 0", "edited 0", "edited 0", "edited 3", "nothing"]
    edge_map = maps[two_sources[0]][0]
    assert edge_map is not None
    plans = painter.plans(*edge_map.shape, batch=1, streams=1, decode_batch=1)
    (hint,) = plans.embed_hints(edge_map[None])
    ends = [numbers(text, 7, 24) for text in ("caption 0", "edited 0")]
    for one, picture, share in zip(wanted, pictures, (0.6, 0.8, 1.0), strict=False):
        job = PaintJob(full.key, (ends[0] + np.float32(share) * (ends[1] - ends[0])).astype(np.float32), hint, plans)
        ((_, alone),) = paint([job], numbers("nothing", 7, 24), PAINT)
        assert same_picture(picture, alone), one.level
    apart = [np.abs(a.astype(int) - b.astype(int)).mean() for a, b in pairwise(pictures[:3])]
    assert min(apart) > 1, "levels that look alike prove nothing"


def test_states_between_captions_are_made_on_the_host(
    two_sources: list[Source], painter: TinyPainter, tmp_path: Path
) -> None:
    """On a GPU the text encoder leaves the states of whole captions on the device, where nothing computes with them."""
    faint, *_ = at_levels([rainy(two_sources[0], 0)], levelled(levels=3))
    with tiny_run(tmp_path / "suite", two_sources, painter=painter) as run, pytest.MonkeyPatch.context() as patched:
        text, asked = run.networks.clip_text(), list[str]()
        really = text.encode_states
        text.encode_states = lambda captions: asked.extend(captions) or really(captions)
        patched.setattr(run.networks, "clip_text", lambda: text)
        assert paint_variants(run.of(paint=PAINT), [faint], hints(two_sources), run.pictures)
    assert asked == ["nothing"]
