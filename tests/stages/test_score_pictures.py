"""The check stage's `run`: each picture is compared with its own source, captions, edits, classes and control; texts
and pictures are embedded once; what is on record is not scored again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from tiny_desk import IMAGE, IMAGE_BATCH, TEXT_BATCH, TinyRun, image_name, tiny_run, tiny_variants, unit

from counterfactory.engine.edit import Edit
from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.profile.check import CheckSettings
from counterfactory.engine.sources.data_set import find_sources
from counterfactory.engine.sources.shapes import fit_boxes
from counterfactory.engine.sources.source import Source, load_mask, load_pixels
from counterfactory.engine.stages.check import quality
from counterfactory.engine.stages.check import score_pictures as stage
from counterfactory.engine.stages.check.clip_scores import edit_scores, label_score, score
from counterfactory.engine.stages.check.colours import Region, recolouring, source_colours
from counterfactory.engine.stages.check.kept import find_things, kept_score
from counterfactory.engine.stages.check.registration import registration_scores, source_map
from counterfactory.engine.stages.check.score_pictures import PictureScores, score_pictures
from counterfactory.engine.stages.check.visibility import see_source, visibility_scores
from counterfactory.engine.suite import PaintedRow
from counterfactory.engine.variant import Variant

Pixels = NDArray[np.uint8]
Row = PaintedRow | None
CHECK = CheckSettings(IMAGE_BATCH, "one {label}", 7.0).having(
    min_image_text=0.0, min_directional=0.0, min_image_image=0.0, min_edit=0.0, min_label=-1.0, min_layout=0.0
)


# Its keyword stands in no caption: undone, the caption is left.
FOG = Edit("weather", "dry", "foggy")


def noise(variant: Variant) -> Pixels:
    """A picture that stands for a painted one."""
    rng = np.random.default_rng(list(hashlib.sha256(variant.key.encode()).digest()[:8]))
    return rng.integers(0, 256, load_pixels(variant.source, IMAGE).shape, np.uint8)


def expected(
    run: TinyRun, variant: Variant, row: PaintedRow, control: Row = None, earlier: Sequence[PaintedRow] = ()
) -> PictureScores:
    """The scores of one picture by itself; its edits' texts are the edited caption and the caption."""
    picture, source = run.run.suite.load_image(row), load_pixels(variant.source, IMAGE)
    shown, original = unit(image_name(picture)), unit(image_name(source))
    scores = score(original, unit(variant.caption), shown, unit(variant.edited_caption))
    scores |= quality.quality_scores(picture, quality.thumbnail(picture), quality.look_at_source(source))
    mask = None if variant.source.mask_path is None else load_mask(variant.source, picture.shape[:2])
    boxes, _ = fit_boxes(variant.source.things, *variant.source.size, picture.shape[:2])
    scores |= visibility_scores(picture, see_source(source, boxes, mask))
    if earlier:
        others = [quality.thumbnail(run.run.suite.load_image(other)) for other in earlier]
        scores["distinct"] = min(quality.distance(quality.thumbnail(picture), other) for other in others)
    pairs = [(unit(variant.edited_caption), unit(variant.caption))] * len(variant.edits)
    edits = edit_scores(shown, pairs, 7.0)
    if edits:
        scores["edit"] = edits[0]
    names = run.run.classes.names
    if names and variant.source.label in names:
        compared = [shown, original]
        if control is not None:
            compared.append(unit(image_name(run.run.suite.load_image(control))))
        classes = np.stack([unit(f"one {name}") for name in names])
        scores["label"] = label_score(compared, classes, names.index(variant.source.label), 7.0)
    scores |= registration_scores(quality.small_outlines(picture), source_map(quality.small_outlines(source)))
    things = find_things(source_colours(source), mask)
    scores |= kept_score(picture, variant.caption, variant.edits, lambda: things)
    if variant.source.mask_path is not None:
        scores["layout"] = quality.outlined_share(
            quality.small_outlines(picture), load_mask(variant.source, picture.shape[:2])
        )
    return PictureScores(scores, tuple(edits))


def checked(run: TinyRun, painted: Mapping[Variant, PaintedRow]) -> dict[Variant, PictureScores]:
    return score_pictures(run.of(check=CHECK), painted, run.pictures)


def same(found: PictureScores, wanted: PictureScores) -> bool:
    return found.scores == pytest.approx(wanted.scores, abs=1e-6) and found.edits == pytest.approx(wanted.edits)


def test_every_picture_is_scored_against_its_own_source_and_captions(sources: list[Source], tmp_path: Path) -> None:
    variants = [replace(v, edits=(FOG,)) for v in tiny_variants(sources, 1)]
    with tiny_run(tmp_path / "suite", sources, variants=7) as first:
        painted = first.paint(variants, noise)
        wanted = {variant: expected(first, variant, row) for variant, row in painted.items()}
        sources[3].path.unlink()
        found = checked(first, painted)
        assert list(found) == [variant for variant in variants if variant.source != sources[3]]
        assert all(same(scored, wanted[variant]) for variant, scored in found.items())
        assert len({str(scored) for scored in found.values()}) == 6
        assert all("layout" in s.scores and "edit" in s.scores and "label" not in s.scores for s in found.values())
        texts = [text for call in first.networks.calls["clip_text"] for text in call]
        assert len(texts) == len(set(texts)) == 5, "a caption is embedded once"
        assert [len(call) for call in first.networks.calls["clip_text"]] == [TEXT_BATCH, 2]
        assert [len(call) for call in first.networks.calls["clip_image"]] == [3 * IMAGE_BATCH] * 2, "full rounds"
        assert first.made("check") == 6
        assert first.done("check") == (6, 7)
        assert first.run.meter.current == "check"
    with tiny_run(tmp_path / "suite", sources, variants=7) as second:
        known = {variant: row for variant, row in painted.items() if variant in found}
        assert checked(second, known) == found
        assert checked(second, {}) == {}
        assert (second.networks.opened, second.networks.entered) == ([], [])
        (variant, row), *_, (_, another_row) = known.items()  # of the same size
        others = [
            {replace(variant, caption="another 0"): row},
            {replace(variant, edited_caption="another"): row},
            {replace(variant, edits=(replace(FOG, alternative="2"),)): row},
            {replace(variant, source=replace(variant.source, key="another", mask_path=None)): row},
            {variant: another_row},
        ]
        for other in others:
            assert checked(second, other).keys() == other.keys()
        assert second.made("check") == 5, "a picture is scored anew for other words or another source, as another is"
        second.networks.opened.clear()
        # None can be read: nothing is opened, nothing is scored.
        gone = {variant: row for variant, row in painted.items() if variant.source == sources[3]}
        assert checked(second, gone) == {}
        assert second.networks.opened == []


def test_the_worst_edit_is_the_variant_s_and_each_has_its_own(
    sources: list[Source], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = replace(
        tiny_variants(sources, 1)[0],
        caption="a red car in fog",
        edited_caption="a blue car in rain",
        edits=(Edit("colour", "red", "blue"), Edit("weather", "fog", "rain")),
    )
    bare = replace(one, source=replace(sources[1], mask_path=None), edits=(), key="1" * 64)
    where = Region(np.arange(8), 1.0)
    monkeypatch.setattr(stage, "find_colour", lambda source, colour: (where,) if colour == "red" else ())
    with tiny_run(tmp_path / "suite", sources, variants=2) as run:
        painted = run.paint([one, bare], noise)
        found = checked(run, painted)
        shown = unit(image_name(run.run.suite.load_image(painted[one])))
        texts = [unit("a blue car in rain"), unit("a red car in rain"), unit("a blue car in fog")]
        wanted = edit_scores(shown, [(texts[0], texts[1]), (texts[0], texts[2])], 7.0)
        assert found[one].edits == pytest.approx(wanted, abs=1e-6)
        assert found[one].scores["edit"] == min(found[one].edits) < max(found[one].edits)
        picture = run.run.suite.load_image(painted[one])
        new = recolouring(picture, one.edits, lambda colour: (where,) if colour == "red" else ())
        assert {name: value for name, value in found[one].scores.items() if "recoloured" in name} == new
        assert set(new) == {"recoloured", "recoloured_colour"}
        assert set(found[bare].scores) == {
            *("image_text", "directional", "image_image", "source_text", "nearer"),
            *("sharp", "changed", "intact", "visible", "in_place", "shift", "scale", "aligned"),
        }
        assert found[bare].edits == ()


def with_controls(sources: Sequence[Source]) -> list[Variant]:
    """Two controls and two variants of each source."""
    found = []
    for number, variant in enumerate(tiny_variants(sources, 2)):
        key = f"{number + 100:064x}"
        found.append(replace(variant, key=key, kind="control", edited_caption=variant.caption))
        found.append(variant)
    return found


def test_labels_are_compared_with_the_original_and_the_first_control(sources: list[Source], tmp_path: Path) -> None:
    labels = ("car", "bus", "17")
    named = [replace(source, label=labels[i % 3], mask_path=None) for i, source in enumerate(sources[:5])]
    variants = with_controls(named)
    first = {v.source: v for v in variants if v.kind == "control" and v.index == 0}
    with tiny_run(tmp_path / "suite", named, variants=20) as run:
        assert run.run.classes.names == ("bus", "car")
        painted = run.paint(variants[::-1], noise)  # controls may come after their variants
        controls = {v: painted[first[v.source]] if v.kind == "variant" else None for v in variants}
        before = {v: [o for o in variants if o.source == v.source and o.kind == v.kind == "variant"] for v in variants}
        earlier = {v: [painted[o] for o in before[v] if o.index < v.index] for v in variants}
        assert sorted(map(len, earlier.values())) == [0] * 15 + [1] * 5
        wanted = {v: expected(run, v, row, controls[v], earlier[v]) for v, row in painted.items()}
        found = checked(run, painted)
        assert found.keys() == wanted.keys()
        for v in variants:
            assert found[v].scores == pytest.approx(wanted[v].scores, abs=1e-6), v
        assert {v.source.label for v in variants if "label" in found[v].scores} == {"car", "bus"}
        alone = expected(run, variants[1], painted[variants[1]])
        assert found[variants[1]].scores["label"] >= alone.scores["label"]
        texts = [text for call in run.networks.calls["clip_text"] for text in call]
        assert [text for text in texts if text.startswith("one")] == ["one bus", "one car"], "once a run"
        pictures = [name for call in run.networks.calls["clip_image"] for name in call]
        assert len(pictures) == len(set(pictures)) == 25, "a picture is embedded once"
        # A variant that comes later is compared with the control that is on record.
        late = replace(variants[1], key="7" * 64, index=2)
        more = painted | run.paint([late], noise)
        before_it = [painted[v] for v in before[variants[1]]]
        assert same(checked(run, more)[late], expected(run, late, more[late], controls[variants[1]], before_it))
        assert run.made("check") == 21


def test_other_classes_or_another_control_score_labels_anew(sources: list[Source], tmp_path: Path) -> None:
    pairs = zip(sources[:2], ("car", "bus"), strict=True)
    named = [replace(source, label=label, mask_path=None) for source, label in pairs]
    control, variant, *_ = with_controls(named)
    with tiny_run(tmp_path / "suite", named, variants=2) as run:
        painted = run.paint([control, variant], noise)
        checked(run, painted)
        checked(run, {variant: painted[variant]})
        assert run.made("check") == 3, "without its control"
        other = run.paint([replace(control, key="8" * 64)], noise)
        checked(run, {control: next(iter(other.values())), variant: painted[variant]})
        assert run.made("check") == 5, "beside another control"
    with tiny_run(tmp_path / "suite", [*named, replace(sources[2], label="truck")], variants=2) as wider:
        checked(wider, painted)
        assert wider.made("check") == 2, "among more classes"
        nameless = {replace(variant, source=replace(variant.source, label=None, key="nameless")): painted[variant]}
        checked(wider, nameless)
        assert wider.made("check") == 3
    with tiny_run(tmp_path / "suite", named, variants=2) as fewer:
        checked(fewer, nameless)
        assert fewer.made("check") == 0, "a picture without a label is compared with no class"
    with tiny_run(tmp_path / "suite", named[:1], variants=2) as single:
        found = checked(single, painted)
        assert single.made("check") == 2
        assert all("label" not in scored.scores for scored in found.values())
        bare = {v: row for v, row in painted.items() if v.kind == "variant"}
        checked(single, bare)
        assert single.made("check") == 2, "where labels are not compared, controls do not count"


def test_a_variant_is_held_to_those_before_it_alone(sources: list[Source], tmp_path: Path) -> None:
    """So that more variants of a source score the first ones no other; and what is on record is compared with."""
    three = tiny_variants(sources[:1], 3)
    with tiny_run(tmp_path / "suite", sources, variants=3) as run:
        painted = run.paint(three[::-1], noise)
        twin = replace(three[2], key="7" * 64)
        painted[twin] = painted.pop(three[1])  # variant 2 is painted as variant 1 was
        alone = {three[0]: painted[three[0]]}
        first = checked(run, alone)
        found = checked(run, {three[0]: painted[three[0]], three[1]: painted[twin]})
        assert run.made("check") == 2
        assert found[three[0]] == first[three[0]]
        assert "distinct" not in first[three[0]].scores
        assert found[three[1]].scores["distinct"] > 0.01
        more = checked(run, {twin: painted[twin], three[1]: painted[twin], three[0]: painted[three[0]]})
        assert run.made("check") == 3
        assert more[twin].scores["distinct"] == 0.0
        (other,) = run.paint([replace(three[0], key="9" * 64)], noise).values()
        checked(run, {three[0]: other, three[1]: painted[twin]})
        assert run.made("check") == 5, "one before it is another picture"
        changed = run.paint(tiny_variants(sources[1:3], 1), noise)
        (tmp_path / "suite" / list(changed.values())[1].image.path).write_bytes(b"another")
        with pytest.raises(CounterfactoryError, match="has changed since it was painted"):
            checked(run, changed)


def test_colours_are_kept_by_what_the_mask_says_are_things(tmp_path: Path) -> None:
    shown, mask = np.full((32, 32, 3), (128, 126, 122), np.uint8), np.zeros((32, 32), np.uint8)
    shown[:8], mask[16:24, 8:20] = (50, 80, 190), 1
    shown[mask == 1] = (190, 30, 40)
    for kind, pixels in (("images", shown), ("masks", mask)):
        (tmp_path / "set" / kind).mkdir(parents=True)
        Image.fromarray(pixels).save(tmp_path / "set" / kind / "0.png")
    (source,), _ = find_sources(tmp_path / "set")
    masked = replace(tiny_variants([source], 1)[0], caption="a red bus under a blue roof")
    bare = replace(masked, source=replace(source, mask_path=None, key="bare"), key="1" * 64)
    turned = shown.copy()
    turned[:8] = (235, 205, 60)
    with tiny_run(tmp_path / "suite", [source], variants=2) as run:
        found = checked(run, run.paint([masked, bare], lambda _: turned))
    assert found[masked].scores["kept"] == pytest.approx(1, abs=0.05), "a roof at the border is no thing"
    assert found[bare].scores["kept"] == pytest.approx(0, abs=0.05)
