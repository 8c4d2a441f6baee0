"""Each stage's `run`: results stand by the right item, batches are full and padded by nobody, what is on record is not
made again, and a picture that is missing costs no other anything.
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
from numpy.typing import NDArray
from PIL import Image
from rewriting import TASK
from tiny_desk import IMAGE_BATCH, TEXT_BATCH, Networks, image_name, numbers, tiny_run, tiny_sources, tiny_variants
from tiny_networks import TOKENS, WIDTH, TinyPainter, tiny_painter

from counterfactory.engine.content_keys import variant_key
from counterfactory.engine.edit import Edit
from counterfactory.engine.keys import generator
from counterfactory.engine.meter.meter import Meter, Progress
from counterfactory.engine.pocket.tasks import street_task
from counterfactory.engine.profile.caption import CaptionSettings, DecodingSettings
from counterfactory.engine.profile.maps import DetectorSettings, HedSettings
from counterfactory.engine.profile.paint import GuidanceSettings, PaintSettings, SamplerSettings
from counterfactory.engine.profile.rewrite import RewriteSettings
from counterfactory.engine.request import SuiteRequest
from counterfactory.engine.schedule.overlap import in_chunks, write_behind
from counterfactory.engine.sources.source import ImageSettings, Source, load_mask, load_pixels
from counterfactory.engine.stages import caption_sources as stage
from counterfactory.engine.stages.caption_sources import caption_sources, missing_captions
from counterfactory.engine.stages.maps.draw_maps import Maps, draw_maps, edge_maps
from counterfactory.engine.stages.original import keep_originals
from counterfactory.engine.stages.paint.paint_variants import (
    PaintJob,
    TextStates,
    paint,
    paint_variants,
    text_of,
    unpainted_sources,
)
from counterfactory.engine.stages.rewrite.rewrite_captions import at_levels, rewrite_captions
from counterfactory.engine.variant import Variant
from counterfactory.kernels.edges import EdgeSettings

Pixels = NDArray[np.uint8]

RELATIVE = DetectorSettings("relative", relative=EdgeSettings())
HED = DetectorSettings("hed", hed=HedSettings(batch=2))
UNIPC, EARLY = SamplerSettings("unipc", 2, "v_prediction", "trailing", True), GuidanceSettings(3.0, 0.0, 0.5)
PAINT = PaintSettings(UNIPC, EARLY, "denoiser", 1.2, "nothing", batch=3, streams=1, decode_batch=2)


@pytest.fixture(scope="module")
def painter() -> TinyPainter:
    return tiny_painter()


@pytest.fixture
def sources(tmp_path: Path) -> list[Source]:
    """Seven, of three sizes."""
    return tiny_sources(tmp_path / "sources", 7)


def pixels_of(source: Source) -> Pixels:
    return load_pixels(source, ImageSettings(32, 16, 48))


# Originals.


def test_originals_are_kept_as_the_painter_sees_them_with_their_masks(sources: list[Source], tmp_path: Path) -> None:
    bare = replace(sources[6], mask_path=None)
    asked = [*sources[:6], bare]
    with tiny_run(tmp_path / "suite", sources) as first:
        some = keep_originals(first.of(), asked[2:4], first.pictures)
        assert list(some) == asked[2:4]
        found = keep_originals(first.of(), asked, first.pictures)
        assert list(found) == asked
        assert {source: found[source] for source in some} == some
        for source, row in found.items():
            key = first.run.keys.original_key(source.key)
            assert row.image.path == f"originals/{source.name}/{key[:16]}.png"
            np.testing.assert_array_equal(first.run.suite.load_image(row), pixels_of(source))
            if source is bare:
                assert row.mask is None
                continue
            assert row.mask is not None
            mask = np.asarray(Image.open(tmp_path / "suite" / row.mask.path))
            np.testing.assert_array_equal(mask, load_mask(source, pixels_of(source).shape[:2]))
        assert first.run.meter.current == "read"
        assert (first.networks.opened, first.networks.entered) == ([], [])
    with tiny_run(tmp_path / "suite", sources) as second:
        assert keep_originals(second.of(), asked, second.pictures) == found


def test_an_original_that_is_gone_is_written_again_and_one_that_cannot_be_read_is_left_out(
    sources: list[Source], tmp_path: Path
) -> None:
    with tiny_run(tmp_path / "suite", sources) as run:
        found = keep_originals(run.of(), sources, run.pictures)
        (tmp_path / "suite" / found[sources[1]].image.path).unlink()
        assert keep_originals(run.of(), sources, run.pictures) == found
        assert (tmp_path / "suite" / found[sources[1]].image.path).is_file()
    sources[2].path.unlink()
    with tiny_run(tmp_path / "other", sources) as run:
        assert list(keep_originals(run.of(), sources, run.pictures)) == [*sources[:2], *sources[3:]]


# Rewriting.

REWRITE = RewriteSettings(("colour", "time"), 2, 2, 2, 120, verbatim=False)
ANSWERS = {
    "Changes: red -> blue": '"a blue bus"',
    "Changes: red -> green": '"a green tree"',
    "Types: ": '[["colour","red"]]',
    "Words: ": '["blue","green"]',
}


def test_variants_are_split_into_those_to_paint_and_those_to_drop(sources: list[Source], tmp_path: Path) -> None:
    asked_for = SuiteRequest(street_task("segmentation"), 2, 1, (1, 1), 0)
    captions = dict.fromkeys(sources[:2], "a red bus") | {sources[2]: "bus"}
    with tiny_run(tmp_path / "suite", sources) as first:
        first.networks.answers = ANSWERS
        found = rewrite_captions(first.of(asked_for, rewrite=REWRITE), captions)
        assert [(v.source, v.kind) for v in found.variants] == [
            (source, kind) for source in sources[:2] for kind in ("control", "variant", "variant")
        ]
        controls, variants = found.variants[::3], [v for v in found.variants if v.kind == "variant"]
        assert [(v.edits[0].alternative, v.repeat) for v in variants] == [("blue", 0), ("blue", 1)] * 2
        assert [(v.index, v.edits, v.caption, v.edited_caption) for v in controls] == [
            (0, (), "a red bus", "a red bus")
        ] * 2
        assert [(v.source, v.edits[0].alternative) for v in found.dropped] == [(s, "green") for s in sources[:2]]
        assert all("changes 'bus'" in (v.dropped or "") for v in found.dropped)
        assert {v.edited_caption for v in (*variants, *found.dropped)} == {"a blue bus", "a green tree"}
        assert [(p.name, "no words" in p.reason) for p in found.shortfalls] == [(sources[2].name, True)]
        assert [len(call) for call in first.networks.calls["llm"]] == [1, 1, 2], "equal questions are asked once"
        assert first.networks.entered == ["rewrite"] * 3
        assert first.done("rewrite") == (3, 7)
        assert first.made("rewrite") == 3
        (cost,) = (cost for cost in first.run.meter.costs() if cost.stage == "rewrite")
        assert (cost.prompt_tokens, cost.generated_tokens) == (40, 4)
        (use,) = first.run.meter.plans()
        assert (use.plan, use.stage, use.rows, use.fill) == ("llm", "rewrite", 4, None)
        assert 0 <= use.busy_s < 60
        assert first.run.meter.current == "rewrite"
        for question, (request, *_) in zip(("keywords", "alternatives"), first.networks.calls["llm"], strict=False):
            key = first.run.keys.answer_key(question, request.content)
            assert first.run.suite.ledger.get("rewrite", [key]), "an answer is recorded under its question"
    with tiny_run(tmp_path / "suite", sources) as second:
        assert rewrite_captions(second.of(asked_for, rewrite=REWRITE), captions) == found
        assert second.networks.opened == []


def test_captions_lose_what_the_text_encoder_does_not_read(sources: list[Source], tmp_path: Path) -> None:
    asked_for = SuiteRequest(street_task("segmentation"), 1, 1, (1, 1), 0)
    with tiny_run(tmp_path / "suite", sources) as made:
        made.networks.answers = {**ANSWERS, "Words: ": '["blue"]'}
        made.networks.room = 9
        captions = {sources[0]: "a red bus. it is parked."}
        found = rewrite_captions(made.of(asked_for, rewrite=REWRITE), captions)
        assert [(v.kind, v.caption, v.edited_caption) for v in found.variants] == [
            ("control", "a red bus.", "a red bus."),
            ("variant", "a red bus.", "a blue bus"),
        ]
        made.networks.room = 5  # "a blue" ends behind it
        found = rewrite_captions(made.of(asked_for, rewrite=REWRITE), captions)
        reason = "the text encoder reads the first 5 of its 10 characters, and 'blue' is behind"
        assert [v.dropped for v in found.dropped] == [reason]


# Edges.


@pytest.mark.parametrize("settings", [RELATIVE, HED], ids=["relative", "hed"])
def test_each_source_has_its_own_edges(settings: DetectorSettings, sources: list[Source], tmp_path: Path) -> None:
    needed = [sources[i] for i in (6, 0, 1, 4, 3, 2)]
    sources[4].path.write_bytes(b"no picture any more")
    with tiny_run(tmp_path / "suite", sources) as run:
        found = draw_maps(run.of(edges=settings), sources, needed, run.pictures)
        assert set(found) == set(needed) - {sources[4]}
        for source, (edge_map,) in found.items():
            image = pixels_of(source)
            alone = 255 - image[..., 0] if settings.hed else edge_maps(image[None], settings)[0]
            np.testing.assert_array_equal(edge_map, alone)
        assert run.networks.entered == ["edges"]
        assert run.done("edges") == (6, 7)  # one was not needed, one cannot be read
        assert run.run.meter.current == "edges"
        assert run.made("edges") == 5
        if settings.hed:
            assert [len(call) for call in run.networks.calls["hed"]] == [2, 1, 1, 1]
            assert run.networks.opened == ["hed 32 32", "hed 32 48", "hed 48 32"]


# Painting.


def hints(sources: list[Source]) -> dict[Source, Maps]:
    return {source: (edge_maps(pixels_of(source)[None], RELATIVE)[0],) for source in sources}


def painted_alone(painter: TinyPainter, variant: Variant) -> Pixels:
    """A variant's picture, painted by itself."""
    hint = edge_maps(pixels_of(variant.source)[None], RELATIVE)[0]
    plans = painter.plans(*hint.shape, batch=1, streams=1, decode_batch=1)
    job = PaintJob(variant.key, numbers(variant.edited_caption, 7, 24), plans.embed_hints(hint[None])[0], plans)
    ((_, picture),) = paint([job], numbers("nothing", 7, 24), PAINT)
    return picture


def same_picture(one: Pixels, other: Pixels) -> bool:
    """Equal but for the rounding of torch's sums, which depends on the batch."""
    return one.shape == other.shape and int(np.abs(one.astype(int) - other.astype(int)).max()) <= 1


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
            run.recorded("paint", keys, make, counted=True)
    assert raised.tb is not None  # frames are still held: nothing but the stage itself can have ended the writing
    assert len(written) >= 4, "what was handed over before the interrupt is written"


# Captions: each source's own, recorded, and written again where they do not name the label.

NUCLEUS = DecodingSettings("nucleus", 1, 0.9, 1.0, 0, 8, 1.0, 1.0)
CAPTION = CaptionSettings(batch=IMAGE_BATCH, texts=2, prefix="a ", decoding=NUCLEUS)


def caption_of(source: Source, key: str) -> str:
    """What the stand-in captioner says of a picture, by the random numbers of its key."""
    chances = [generator(key, f"caption {i}").integers(10**6) for i in range(2)]
    return " ".join(f"a {image_name(pixels_of(source))[:4]} {chance} nucleus." for chance in chances)


def test_captions_are_each_source_s_own_and_recorded(sources: list[Source], tmp_path: Path) -> None:
    with tiny_run(tmp_path / "suite", sources) as first:
        assert missing_captions(first.of(caption=CAPTION), sources) == sources
        some = caption_sources(first.of(caption=CAPTION), sources[2:4], first.pictures)
        assert some == {s: caption_of(s, first.run.keys.caption_key(s.digest)) for s in sources[2:4]}
        assert missing_captions(first.of(caption=CAPTION), sources) == [*sources[:2], *sources[4:]]
        found = caption_sources(first.of(caption=CAPTION), sources, first.pictures)
        assert list(found) == sources
        assert found == {s: caption_of(s, first.run.keys.caption_key(s.digest)) for s in sources}
        assert [len(call) for call in first.networks.calls["blip2"]] == [2, 2, 2, 1]
        assert first.networks.entered == ["caption"] * 2
        assert first.made("caption") == 7
        assert first.done("caption") == (9, 7)  # two were asked for twice
        assert first.run.meter.current == "caption"
    with tiny_run(tmp_path / "suite", sources) as second:
        assert caption_sources(second.of(caption=CAPTION), sources, second.pictures) == found
        assert (second.networks.opened, second.networks.entered) == ([], [])
        assert second.done("caption") == (7, 7)


def test_a_picture_that_cannot_be_read_has_no_caption_and_costs_no_other(sources: list[Source], tmp_path: Path) -> None:
    sources[1].path.unlink()
    with tiny_run(tmp_path / "suite", sources) as run:
        found = caption_sources(run.of(caption=CAPTION), sources, run.pictures)
        assert list(found) == [sources[0], *sources[2:]]
        assert all(found[s] == caption_of(s, run.run.keys.caption_key(s.digest)) for s in found)
        assert [len(call) for call in run.networks.calls["blip2"]] == [2, 2, 2]
        assert [problem.name for problem in run.pictures.problems] == [sources[1].name]
        assert missing_captions(run.of(caption=CAPTION), sources) == [sources[1]]


def test_a_caption_that_does_not_name_its_label_is_written_again_after_a_text_that_does(
    sources: list[Source], tmp_path: Path
) -> None:
    """Also one that is on record; sources without a label, or with one that has no words, keep theirs."""
    labels = ("apple", "n02099601", "apple", None, "n00000000", "a", "apple")
    labelled = [replace(s, label=label) for s, label in zip(sources, labels, strict=True)]
    again = replace(CAPTION, label_prefix="a photo of a {label}")
    with tiny_run(tmp_path / "suite", labelled) as run:
        plain = caption_sources(run.of(caption=CAPTION), labelled, run.pictures)
        found = caption_sources(run.of(caption=again), labelled, run.pictures)
        for at in (3, 4, 5):  # nothing to name, and "a ..." names an "a"
            assert found[labelled[at]] == plain[labelled[at]]
        for at, text in ((0, "a photo of an apple"), (1, "a photo of a golden retriever"), (6, "a photo of an apple")):
            source = labelled[at]
            key = run.run.keys.caption_key(source.digest, text)
            first, second = (generator(key, f"caption {i}").integers(10**6) for i in range(2))
            name = f"{text}{image_name(pixels_of(source))[:4]}"  # what the stand-in continues, it says again
            assert found[source] == f"{text} {name} {first} nucleus. {text} {name} {second} nucleus."
        assert [len(call) for call in run.networks.calls["blip2"]] == [2, 2, 2, 1, 2, 1, 1]
        assert run.done("caption") == (14, 7), "a caption that is written twice is one that was asked for"
        assert caption_sources(run.of(caption=again), labelled, run.pictures) == found
        assert len(run.networks.calls["blip2"]) == 7
        free = replace(TASK, protect_label=False)
        assert (
            caption_sources(run.of(SuiteRequest(free, 1, 0, (1, 1), 0), caption=again), labelled, run.pictures) == plain
        )


@pytest.mark.parametrize(
    ("prefix", "label", "named"),
    [
        ("a photo of", "bus", None),
        ("a photo of a {label}", "bus", "a photo of a bus"),
        ("a photo of a {label} ", "n02099601", "a photo of a golden retriever "),
        ("A {label}", "Umbrella", "An Umbrella"),
        ("a photo of a {label}", "hourglass", "a photo of an hourglass"),
        ("a photo of a {label}", "unicycle", "a photo of a unicycle"),
        ("a photo of an {label}", "bus", "a photo of a bus"),
        ("extra {label}", "umbrella", "extra umbrella"),
        ("a photo of a {label}", None, "a photo of a"),
        ("a photo of a {label}", "n00000000", "a photo of a"),
        ("{label}:", "x" + "é" * 40, "x" + "é" * 15 + ":"),
        ("{label}", 'a "b"', "a 'b'"),
    ],
)
def test_what_captions_go_on_after(prefix: str, label: str | None, named: str | None) -> None:
    assert stage.named_prefix(prefix, label) == named


def test_marks_follow_what_a_caption_goes_on_after() -> None:
    assert [stage._append("a dog", text) for text in ("runs", ", wet", "")] == ["a dog runs", "a dog, wet", "a dog"]
    assert stage._append("", "runs") == "runs"


def test_the_longest_prefix_has_room() -> None:
    assert CAPTION.prompt_tokens == 1 + len("a ")
    assert replace(CAPTION, label_prefix="a {label}").prompt_tokens == 1 + len("a ") + 32
    assert replace(CAPTION, prefix="a {label} é").prompt_tokens == 1 + len("a  ") + 2 + 32


@pytest.mark.parametrize(
    ("texts", "joined"),
    [
        (["a red bus"], "a red bus"),
        (["a red bus ."], "a red bus ."),
        (["a red bus .", "a street"], "a red bus. a street."),
        (["exit X", "the way. "], "exit X. the way."),
        (["a bus.", "a bus", "a street. ", " .", "a bus ."], "a bus. a street."),
    ],
)
def test_captions_of_one_picture_are_sentences_said_once(texts: list[str], joined: str) -> None:
    assert stage._join(texts) == joined


# Text states: encoded once as they are asked for, gone after their last use, and in between for faint levels.

LINE = ["a", "b", "a", "c", "d", "b", "e"]


def test_each_caption_is_encoded_once_when_it_is_asked_for() -> None:
    networks = Networks()
    states = TextStates(networks.clip_text(), LINE)
    assert networks.calls == {}
    for caption in LINE:
        np.testing.assert_array_equal(states.take(caption), numbers(caption, TOKENS, WIDTH))
    assert networks.calls["clip_text"] == [["a", "b", "c"], ["d", "e"]]
    assert TEXT_BATCH == 3


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


@pytest.mark.parametrize("taken", [["a", "a"], []])
def test_a_caption_without_a_use_left_is_refused(taken: list[str]) -> None:
    states = TextStates(Networks().clip_text(), LINE)
    for caption in taken:
        states.take(caption)
    with pytest.raises(KeyError, match="a" if taken else "unknown"):
        states.take("a" if taken else "unknown")


# Graded severity: the same edits at levels from faint to full, which differ in nothing but the share of the text.


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
