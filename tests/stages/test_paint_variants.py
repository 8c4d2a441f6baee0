"""The painting stage's `run`: pictures stand by the right variant, batches are full, and what is on record stays; text
states, the levels of edits, and what pictures say of themselves.
"""

from __future__ import annotations

import gc
import time
import weakref
from collections.abc import Generator
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from rewriting import TASK
from tiny_desk import TEXT_BATCH, Networks, numbers, tiny_run, tiny_sources, tiny_variants
from tiny_networks import TOKENS, WIDTH, TinyPainter
from tiny_painting import PAINT, RELATIVE, Pixels, hints, pixels_of, same_picture

from counterfactory.engine.content_keys import variant_key
from counterfactory.engine.edit import Edit
from counterfactory.engine.meter.meter import Meter, Progress
from counterfactory.engine.profile.paint import protect_classes
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.request import SuiteRequest
from counterfactory.engine.schedule.overlap import in_chunks, write_behind
from counterfactory.engine.sources.source import Source, load_mask
from counterfactory.engine.stages.maps.draw_maps import edge_maps
from counterfactory.engine.stages.paint.paint_variants import (
    PaintJob,
    TextStates,
    paint,
    paint_variants,
    provenance_of,
    text_of,
    unpainted_sources,
)
from counterfactory.engine.stages.rewrite.rewrite_captions import at_levels
from counterfactory.engine.stages.run import Recipe
from counterfactory.engine.variant import Variant


def painted_alone(painter: TinyPainter, variant: Variant) -> Pixels:
    """A variant's picture, painted by itself."""
    hint = edge_maps(pixels_of(variant.source)[None], RELATIVE)[0]
    plans = painter.plans(*hint.shape, batch=1, streams=1, decode_batch=1)
    job = PaintJob(variant.key, numbers(variant.edited_caption, 7, 24), plans.embed_hints(hint[None])[0], plans)
    ((_, picture),) = paint([job], numbers("nothing", 7, 24), PAINT)
    return picture


@pytest.mark.parametrize(("batch", "wanted"), [(1, [1] * 7), (2, [2, 2, 2, 1])])
def test_hints_are_embedded_once_a_source_in_the_plan_s_batches(
    sources: list[Source], tmp_path: Path, painter: TinyPainter, batch: int, wanted: list[int]
) -> None:
    """Sources of one picture size share a batch: here three of one, and two each of two others."""
    given: list[int] = []

    def count(plan: Any, feeds: Any) -> Any:
        given.append(len(feeds["hint"]))
        return plan.run(feeds)

    variants, maps = sorted(tiny_variants(sources, 1), key=lambda v: v.source.name), hints(sources)
    with tiny_run(tmp_path / "suite", sources, variants=7, painter=painter) as run:
        for size in {found.shape for (found,) in maps.values() if found is not None}:
            plans = painter.plans(*size, batch=3, streams=1, decode_batch=2, hint_batch=batch)
            counted = SimpleNamespace(batch=plans.hint.batch, run=partial(count, plans.hint))
            run.networks._plans[size[0], size[1]] = replace(plans, hint=counted)  # type: ignore[arg-type]
        found = paint_variants(
            run.of(paint=replace(PAINT, sampler=replace(PAINT.sampler, steps=2))), variants, maps, run.pictures
        )
        assert len(found) == 7
    assert sorted(given, reverse=True) == wanted


def test_every_variant_gets_its_own_picture_and_mask(
    painter: TinyPainter, sources: list[Source], tmp_path: Path
) -> None:
    sources = sources[:4]
    variants = sorted(tiny_variants(sources, 2), key=lambda v: v.source.name)  # sources together, sizes in turn
    maps = hints(sources)
    with tiny_run(tmp_path / "suite", sources, variants=8, painter=painter) as first:
        assert unpainted_sources(first.of(), variants) == sources
        found = paint_variants(first.of(paint=PAINT), variants, maps, first.pictures)
        assert list(found) == variants
        for variant, row in found.items():
            picture = first.run.suite.load_image(row)
            assert same_picture(picture, painted_alone(painter, variant)), variant
            assert row.mask is not None
            mask = load_mask(variant.source, picture.shape[:2])
            np.testing.assert_array_equal(np.asarray(Image.open(tmp_path / "suite" / row.mask.path)), mask)
        assert first.networks.entered == ["paint"]
        assert first.done("paint") == (8, 8)
        assert first.run.meter.current == "paint"
        assert first.made("paint") == 8
        written = [progress.done for progress in first.progress if progress.stage == "paint"]
        assert written == [0, 2, 4, 6, 8], "pictures are written as they come, a decode's at a time"
        texts = [text for call in first.networks.calls["clip_text"] for text in call]
        assert sorted(texts) == ["edited 0", "edited 1", "edited 2", "nothing"], "a text is encoded once"
        sizes = {found.shape for (found,) in maps.values() if found is not None}
        assert sum(name.startswith("paint") for name in first.networks.opened) == len(sizes)
        assert unpainted_sources(first.of(), variants) == []
    with tiny_run(tmp_path / "suite", sources, variants=8, painter=painter) as second:
        assert paint_variants(second.of(paint=PAINT), variants, {}, second.pictures) == found
        assert (second.networks.opened, second.networks.entered) == ([], [])
        # One picture is gone, another's source has no edges: the first alone is painted again.
        for variant in (variants[2], variants[7]):
            (tmp_path / "suite" / found[variant].image.path).unlink()
        assert unpainted_sources(second.of(), variants) == [variants[2].source, variants[7].source]
        again = paint_variants(
            second.of(paint=PAINT), variants, {variants[2].source: maps[variants[2].source]}, second.pictures
        )
        assert again == {variant: row for variant, row in found.items() if variant != variants[7]}
        assert second.made("paint") == 1


def test_an_interrupt_between_batches_waits_for_what_is_being_written(tmp_path: Path) -> None:
    """What the stage hands to a writer beside it is finished work: it is on the disk when the suite is closed."""
    written = list[str]()

    def write(made: dict[str, str]) -> dict[str, str]:
        time.sleep(0.1)
        written.extend(made)
        return made

    def make(todo: list[str]) -> Generator[dict[str, str], None, None]:
        yield from write_behind((dict.fromkeys(part, "made") for part in in_chunks(todo, 2)), write, depth=2)

    def interrupt(_: Progress) -> None:
        if written:
            raise KeyboardInterrupt

    keys = {item: f"key of {item}" for item in "abcdefgh"}
    with tiny_run(tmp_path, [], variants=8) as tiny:
        run = replace(tiny.run, meter=Meter(interrupt))
        with pytest.raises(KeyboardInterrupt) as raised:
            run.recorded("paint", keys, Recipe(make), counted=True)
    assert raised.tb is not None  # frames are still held: nothing but the stage itself can have ended the writing
    assert len(written) >= 4, "what was handed over before the interrupt is written"


LINE = ["a", "b", "a", "c", "d", "b", "e"]


def test_each_caption_is_encoded_once_when_it_is_asked_for() -> None:
    networks = Networks()
    states = TextStates(networks.clip_text(), LINE)
    assert networks.calls == {}
    for caption in LINE:
        np.testing.assert_array_equal(states.take(caption), numbers(caption, TOKENS, WIDTH))
    assert networks.calls["clip_text"] == [["a", "b", "c"], ["d", "e"]]
    assert TEXT_BATCH == 3
    for caption in ("a", "unknown"):  # without a use left
        with pytest.raises(KeyError, match=caption):
            states.take(caption)


def test_states_go_after_their_last_use() -> None:
    class Kept(np.ndarray):  # an array that can be watched
        pass

    class Text:
        plan = Networks().clip_text().plan

        def encode_states(self, captions: list[str]) -> list[Kept]:
            return [np.zeros(2).view(Kept) for _ in captions]

    states = TextStates(Text(), LINE)  # type: ignore[arg-type]
    watched = weakref.ref(states.take("a"))
    gc.collect()
    assert watched() is not None, "it is used once more"
    assert states.take("a") is watched()
    gc.collect()
    assert watched() is None


EDITED, CONTROL = (Edit("weather", "sunny", "foggy"),), ()
WHOLE, PART, RULE = "trainedAlgorithmicMedia", "compositeWithTrainedAlgorithmicMedia", "algorithmicallyEnhanced"


class Bare:
    """As much of one as is looked at."""

    key = "ab" * 32

    def __init__(self, edits: Any) -> None:
        self.edits = edits


@pytest.mark.parametrize(
    ("name", "edits", "kind"),
    [
        ("pocket", EDITED, WHOLE),
        ("pocket", CONTROL, WHOLE),
        ("pocket-lance", EDITED, PART),
        ("server", EDITED, PART),
        ("light", EDITED, RULE),
        ("light", CONTROL, None),  # the source, byte for byte
        ("given", EDITED, None),
    ],
)
def test_a_picture_says_who_made_it(name: str, edits: Any, kind: str | None) -> None:
    mark = provenance_of(load_profile(name), Bare(edits))  # type: ignore[arg-type]
    assert (mark and (mark.key, mark.kind)) == (kind and (Bare.key, kind))
    keeping = replace(load_profile("pocket"), protect=protect_classes(("car",), None, 128))
    mark = provenance_of(keeping, Bare(EDITED))  # type: ignore[arg-type]
    assert mark is not None
    assert mark.kind == PART, "no network's alone"


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
        *((0, 1, 3, "edited 0"), (1, 2, 3, "edited 0"), (2, 3, 3, "edited 0")),
        *((3, 1, 3, "edited 1"), (4, 2, 3, "edited 1")),
    ]
    assert len({v.key for v in found}) == 5
    assert [v.noise_key for v in found] == [one.key] * 3 + [other.key] * 2
    assert found[2].key == one.key, "in full it is the variant without levels"
    assert found[0].key == variant_key(two_sources[0].key, one.caption, EDITS, "edited 0", 3, 0, (1, 3))
    again = list(at_levels([rainy(two_sources[0], 0, repeat=2)], levelled(levels=3)))
    assert again[0].key == variant_key(two_sources[0].key, one.caption, EDITS, "edited 0", 3, 2, (1, 3))
    assert list(at_levels([one, other], levelled())) == [one, other], "without levels they stay as they are"
    assert (one.noise_key, one.level, one.levels) == (one.key, 1, 1)
    # What is dropped is dropped once, and what stands for it has all levels.
    dropped, repeated = rainy(two_sources[0], 0, "why"), rainy(two_sources[0], 0, repeat=1)
    found = list(at_levels([dropped, other, repeated], levelled(levels=2, variants=4)))
    assert [(v.index, v.level, v.dropped, v.repeat) for v in found] == [
        *((0, 1, "why", 0), (2, 1, None, 0), (3, 2, None, 0), (0, 1, None, 1), (1, 2, None, 1))
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
