"""The editor that inverts, against an obvious one: two rows at a time, each share of the steps by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from diffusers import DDIMScheduler
from tiny_desk import EDIT_BATCH, TinyRun, numbers, tiny_run, tiny_sources
from tiny_networks import TOKENS, tiny_denoiser, tiny_editor, tiny_tokenizer

from counterfactory.engine.edit import Edit
from counterfactory.engine.models.alignment import align, read_tokens
from counterfactory.engine.models.editor import EditorOutput, EditorPlans, EditorRow
from counterfactory.engine.profile.maps import HintSettings
from counterfactory.engine.profile.paint import (
    GuidanceSettings,
    InvertSettings,
    PaintSettings,
    ProtectSettings,
    SamplerSettings,
    rows_per_source,
    rows_per_variant,
)
from counterfactory.engine.sources.source import Source
from counterfactory.engine.stages.check.clip_scores import score
from counterfactory.engine.stages.maps.draw_maps import Maps
from counterfactory.engine.stages.paint import edit_variants as stage
from counterfactory.engine.stages.paint.edit_search import words_mask
from counterfactory.engine.stages.paint.edit_variants import best, edit_candidates, edit_variants, restore_detail
from counterfactory.engine.stages.paint.paint_variants import VariantPicture
from counterfactory.engine.stages.paint.protect import ProtectedRegion
from counterfactory.engine.variant import Variant
from counterfactory.export.graphs.editing import EditingDenoiser

# Ten steps, lest a share end where another does; guided on some of them.
DDIM, MIDDLE = SamplerSettings("ddim", 10, "v_prediction", "trailing", True), GuidanceSettings(2.5, 0.2, 0.6)
PAINT = PaintSettings(DDIM, MIDDLE, "editor", 0.0, "", batch=EDIT_BATCH, streams=1, decode_batch=2)
INVERT = InvertSettings(0.1, 0, (0.3, 0.75), 0.8, 2.0, ("colour",), local_threshold=0.4, detail_levels=0.0)


def variant_of(source: Source, number: int, edited: str, type_: str = "weather") -> Variant:
    caption = f"caption {len(source.name)}"
    edits = () if edited == caption else (Edit(type_, "caption", "edited"),)
    kind: Any = "variant" if edits else "control"
    return Variant(f"{number:064x}", source, number, caption, edits, edited, 0, None, kind)


def variants_of(sources: Sequence[Source]) -> list[Variant]:
    """Of each source in turn: one by replacement, one by refinement that is local, a control."""
    return [
        variant_of(source, 10 * place + number, edited, type_)
        for number, (edited, type_) in enumerate(
            (("edited 1", "weather"), ("caption 2 more 3", "colour"), ("caption 1", "weather"))
        )
        for place, source in enumerate(sources)
    ]


@pytest.fixture
def sources(tmp_path: Path) -> list[Source]:
    return tiny_sources(tmp_path / "sources", 4)


class Slow:
    """DDIM by diffusers, the graph's module two rows at a time."""

    def __init__(self, paint: PaintSettings, invert: InvertSettings) -> None:
        self.paint, self.invert = paint, invert
        self.unet = EditingDenoiser(tiny_denoiser()[0]).eval()
        betas = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear"}
        zero = {"prediction_type": "v_prediction", "timestep_spacing": "trailing", "rescale_betas_zero_snr": True}
        self.ddim = DDIMScheduler(**betas, **zero, clip_sample=False)
        self.ddim.set_timesteps(paint.sampler.steps)
        self.steps = self.ddim.timesteps

    def two(self, source: Any, edited: Any, t: Any, texts: Any, takes_self: bool, follow: Any) -> tuple[Any, Any]:
        """Outputs and attention of a source's row and of one that follows it."""
        words = torch.from_numpy(np.stack([follow.gone, follow.new]).astype(np.float32))
        cross_map, cross_own = np.zeros((2, TOKENS, TOKENS), np.float32), np.ones((2, TOKENS), np.float32)
        cross_map[1], cross_own[1] = follow.cross_map, follow.cross_own
        rows = [torch.tensor([0, 0]), torch.tensor([0, 0 if takes_self else 1])]
        cross = torch.from_numpy(cross_map), torch.from_numpy(cross_own)
        with torch.no_grad():
            out: tuple[Any, Any] = self.unet(
                torch.stack([source, edited]), torch.stack([t, t]), texts, *rows, *cross, words
            )
        return out

    def alone(self, latents: Any, t: Any, text: Any) -> Any:
        one = align(*[read_tokens(tiny_tokenizer(), "")] * 2)
        nobody = replace(one, cross_map=0 * one.cross_map, cross_own=0 * one.cross_own + 1)
        return self.two(latents, latents, t, torch.stack([text, text]), False, nobody)[0][1]

    def back(self, clean: Any, text: Any) -> list[Any]:
        """The latents before each step: where a step by the output at its end would have begun."""
        record = [clean]
        for t in reversed(self.steps[1:]):
            before = record[0]
            for _ in range(1 + self.invert.rounds):
                output = self.alone(before, t, text)
                whole = [self.ddim.step(output, t, one).prev_sample for one in (before, 0 * before)]
                kept = ((whole[0] - whole[1]) / before).median()  # a step is a weighted sum
                before = (record[0] - whole[1]) / kept
            record.insert(0, before)
        return record

    def edit(self, plans: EditorPlans, picture: Any, variant: Variant, fraction: float) -> Any:
        before, after = (torch.from_numpy(numbers(c, TOKENS, 24)) for c in (variant.caption, variant.edited_caption))
        after = before + (0.4 + 0.6 * variant.level / variant.levels) * (after - before)
        tokens = (read_tokens(tiny_tokenizer(), c) for c in (variant.caption, variant.edited_caption))
        follow = align(*tokens).reweighted(self.invert.word_weight)
        nobody = replace(follow, cross_map=0 * follow.cross_map, cross_own=0 * follow.cross_own + 1)
        record = self.back(torch.from_numpy(plans.encoder.encode(picture[None]))[0], before)
        edited, gone, new, count = record[0], 0.0, 0.0, len(self.steps)
        record.insert(0, None)  # nothing is asked at the first of ten steps
        for i, t in list(enumerate(self.steps))[1:]:
            how = follow if i < self.invert.cross_fraction * count else nobody
            outputs, attention = self.two(record[i], edited, t, torch.stack([before, after]), i < fraction * count, how)
            output = outputs[1]
            if self.paint.guidance.start <= i / count < self.paint.guidance.stop:
                away = self.alone(edited, t, before)
                output = away + self.paint.guidance.scale * (output - away)
            missed = record[i + 1] - self.ddim.step(outputs[0], t, record[i]).prev_sample
            edited = self.ddim.step(output, t, edited).prev_sample + missed
            gone, new = gone + attention[0], new + attention[1]
            if variant.edits[0].type in self.invert.local_types:
                masks = [words_mask(m.numpy(), edited.shape[1:], self.invert.local_threshold) for m in (gone, new)]
                edited = torch.where(torch.from_numpy(masks[0] | masks[1]), edited, record[i + 1])
        return plans.decode(edited[None].numpy())[0]


def edited(desk: TinyRun, variants: list[Variant], invert: InvertSettings = INVERT) -> list[VariantPicture]:
    return list(edit_candidates(desk.of(paint=PAINT, invert=invert), variants, {}, desk.pictures))


def test_pictures_are_edited_as_one_by_one(sources: list[Source], tmp_path: Path) -> None:
    invert, some = replace(INVERT, rounds=1), sources[:1]
    variants = variants_of(some)
    variants[0] = replace(variants[0], level=1, levels=2)  # one faintly, another in full
    variants.append(variant_of(sources[0], 40, "caption 1 more 3", "colour"))  # no word goes
    with tiny_run(tmp_path / "suite", sources) as desk:
        found = edited(desk, variants, invert)
        pictures = desk.pictures.of(some)
    slow, plans = Slow(PAINT, invert), tiny_editor(32, 32, batch=2, picture_batch=1)
    assert Counter(one.variant for one in found) == {v: 2 if v.edits else 1 for v in variants}
    moved = set()
    for one in found:
        picture = pictures[one.variant.source.key]
        if one.variant.kind == "control":
            wanted = plans.decode(plans.encoder.encode(picture[None]))[0]
        else:
            wanted = slow.edit(plans, picture, one.variant, one.self_attention or 0.0)
            moved.add(one.pixels.tobytes())
        difference = np.abs(one.pixels.astype(int) - wanted)
        assert difference.max() <= 2, (one.variant.edited_caption, one.self_attention)
        assert wanted.std() > 20
    assert len(moved) == 6, "shares and captions make different pictures"


def test_rows_are_gathered_on_the_host(sources: list[Source], tmp_path: Path) -> None:
    """On a GPU the text encoder leaves states on the device for painting, where an editor's rows do not read them."""
    with tiny_run(tmp_path / "suite", sources) as desk, pytest.MonkeyPatch.context() as patched:
        text = desk.networks.clip_text()
        text.encode_states = lambda captions: [object() for _ in captions]
        patched.setattr(desk.networks, "clip_text", lambda: text)
        found = edited(desk, variants_of(sources[:1])[:2])
    assert len(found) == 2 * len(INVERT.fractions)


def test_what_is_protected_is_the_source_for_as_long(sources: list[Source], tmp_path: Path) -> None:
    variant, _, control = variants_of(sources[:1])

    def kept(share: float, until: float) -> ProtectedRegion:
        shares = np.full((16, 16), share, np.float32)
        return ProtectedRegion(np.zeros(0), shares, ProtectSettings(("road",), 0.0, until))

    with tiny_run(tmp_path / "suite", sources) as desk, pytest.MonkeyPatch.context() as patched:

        def shown(part: ProtectedRegion | None, asked: Variant = variant) -> list[bytes]:
            patched.setattr(stage, "keep_regions", lambda run, of, pictures: [part] * len(of))
            return [one.pixels.tobytes() for one in edited(desk, [asked])]

        free, (source,) = shown(None), shown(None, control)
        assert shown(kept(0.0, 1.0)) == free
        assert shown(kept(1.0, 1.0)) == [source] * 2
        for other in (kept(0.5, 1.0), kept(1.0, 0.5)):
            assert not {*shown(other)} & {source, *free}


def test_evaluations_are_as_many_as_are_said(sources: list[Source], tmp_path: Path) -> None:
    with tiny_run(tmp_path / "suite", sources) as desk:
        counted = list[int]()
        really = EditorPlans.evaluate

        def evaluate(self: EditorPlans, rows: Any) -> Any:
            counted.append(len(rows))
            return really(self, rows)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(EditorPlans, "evaluate", evaluate)
            edited(desk, variants_of(sources[:1]))
    # Nine back; forth the source's row, one edit on two steps, two on seven; four steps guided, one of them with one
    # edit.
    assert rows_per_source(PAINT, INVERT) == 9
    assert rows_per_variant(PAINT, INVERT) == 9 + 2 + 2 * 7 + 1 + 2 * 3
    assert sum(counted) == 9 + 2 * 32
    assert max(counted) <= EDIT_BATCH
    assert rows_per_source(PAINT, replace(INVERT, rounds=2)) == 27
    assert rows_per_source(PAINT, replace(INVERT, start=0.0)) == 10


@pytest.mark.slow
def test_the_best_pictures_are_kept_once_with_their_masks(sources: list[Source], tmp_path: Path) -> None:
    sources = sources[:3]
    variants = variants_of(sources)
    with tiny_run(tmp_path / "suite", sources, variants=len(variants)) as first:
        found = edit_variants(first.of(paint=PAINT, invert=INVERT), variants, {}, first.pictures)
        assert list(found) == variants
        assert first.made("paint") == len(variants)
        pictures = first.pictures.of(sources)
        again = edited(first, [v for v in variants if v.source is sources[1]])
        image, text = first.networks.clip_image(), first.networks.clip_text()
        for variant in (v for v in variants if v.source is sources[1]):
            own = [one for one in again if one.variant is variant]
            (seen,) = image.encode([pictures[sources[1].key]])
            _, (before, after) = text.encode([variant.caption, variant.edited_caption])
            told = [(one, score(seen, before, image.encode([one.pixels])[0], after)["directional"]) for one in own]
            kept = first.run.suite.load_image(found[variant])
            chosen = best(told, pictures[sources[1].key])
            np.testing.assert_array_equal(kept, chosen.pixels)
            assert found[variant].self_attention == chosen.self_attention
            assert found[variant].mask is not None
        assert len({row.self_attention for row in found.values()}) > 2, "both shares win somewhere"
        sizes = {name for name in first.networks.opened if name.startswith("edit")}
        assert sizes == {"edit 32 32", "edit 32 48", "edit 48 32"}
    with tiny_run(tmp_path / "suite", sources, variants=len(variants)) as second:
        assert edit_variants(second.of(paint=PAINT, invert=INVERT), variants, {}, second.pictures) == found
        assert (second.networks.opened, second.made("paint")) == ([], 0)
        assert second.done("paint") == (len(variants), len(variants))
    controls, exact = [v for v in variants if v.kind == "control"], replace(INVERT, detail_levels=8.0)
    twice = [*controls, *(replace(v, key=f"{90 + i:064x}", index=1) for i, v in enumerate(controls))]
    with tiny_run(tmp_path / "exact", sources) as desk:
        rows = edit_variants(desk.of(paint=PAINT, invert=exact), twice, {}, desk.pictures)
        assert list(rows) == twice
        for variant, row in rows.items():
            np.testing.assert_array_equal(desk.run.suite.load_image(row), pictures[variant.source.key])
            assert row.self_attention is None, "nothing was tried"
    sources[2].path.unlink()
    with tiny_run(tmp_path / "other", sources) as third:
        left = edit_variants(third.of(paint=PAINT, invert=INVERT), controls, {}, third.pictures)
        assert {v: row.image.sha256 for v, row in left.items()} == {v: found[v].image.sha256 for v in controls[:2]}


def test_what_the_autoencoder_loses_is_given_back_where_nothing_moved() -> None:
    rng = np.random.default_rng(4)
    source, decoded = (rng.integers(60, 190, (9, 12, 3)).astype(np.uint8) for _ in range(2))
    assert np.array_equal(restore_detail(decoded, decoded, source, 10.0), source)
    edited = decoded.copy()
    edited[4, 5, 1] += 10
    found = restore_detail(edited, decoded, source, 10.0)
    near = np.zeros((9, 12), np.bool_)
    near[2:7, 3:8] = True
    assert np.array_equal(found[near], edited[near])
    assert np.array_equal(found[~near], source[~near])
    half = restore_detail(edited, decoded, source, 20.0)[near]
    wanted = edited[near] + (source[near].astype(np.float32) - decoded[near]) / 2
    assert np.abs(half - wanted).max() <= 0.5
    white = np.full((9, 12, 3), 255, np.uint8)
    assert restore_detail(edited, decoded, white, 10.0).dtype == np.uint8
    assert (restore_detail(white, white - 9, white, 10.0)[0, 0] == 255).all()


def test_the_direction_decides_and_among_equals_the_source() -> None:
    def candidate(level: int) -> VariantPicture:
        return VariantPicture(None, np.full((2, 2, 3), level, np.uint8))  # type: ignore[arg-type]

    source = np.full((2, 2, 3), 100, np.uint8)
    far, near, other = candidate(200), candidate(90), candidate(100)
    assert best([(far, 0.3), (near, 0.2), (other, 0.1)], source) is far
    assert best([(far, 0.3), (near, 0.2901), (other, 0.28)], source) is near
    assert best([(other, 0.28), (far, 0.3), (near, 0.29)], source) is far


def test_words_are_where_they_or_their_neighbours_are_looked_at() -> None:
    attention = np.zeros((4, 6), np.float32)
    attention[0, 0], attention[3, 5], attention[0, 5] = 1.0, 0.5, 0.4
    found = words_mask(attention, (8, 12), 0.4)
    assert (found.dtype, found.shape) == (np.bool_, (8, 12))
    wanted = np.zeros((4, 6), np.bool_)
    wanted[:2, :2] = wanted[2:, 4:] = True  # 0.4 is not more than 0.4 of the greatest
    np.testing.assert_array_equal(found, wanted.repeat(2, 0).repeat(2, 1))
    assert not words_mask(0 * attention, (8, 12), 0.4).any()


# An editor that follows several hints.


HINTED = replace(PAINT, control_scale=1.5, sampler=replace(PAINT.sampler, steps=4))
HALVES = replace(INVERT, start=0.0, fractions=(0.5, 1.0))


def plans_of(controls: int) -> EditorPlans:
    """Two encoders of hints before one ControlNet, or before two."""
    one, both = (tiny_editor(32, 32, batch=EDIT_BATCH, picture_batch=2, controls=count) for count in (1, 2))
    return both if controls == 2 else replace(both, editor=one.editor)


def maps_of(source: Source) -> Maps:
    """Edges in 8 bits and depth in 16."""
    rng = np.random.default_rng(int(source.name))
    return rng.integers(0, 256, (32, 32), np.uint8), rng.integers(0, 65536, (32, 32), np.uint16)


def hinted_edits(
    plans: EditorPlans, sources: list[Source], weights: tuple[float, float], suite: Path, noted: list[EditorRow]
) -> list[VariantPicture]:
    """All candidates of one edit of each source; `noted` are the rows that were evaluated."""
    variants = [
        Variant(f"{i:064x}", one, i, "caption 1", (Edit("weather", "1", "2"),), "caption 2", 0, None, "variant")
        for i, one in enumerate(sources)
    ]
    maps: Mapping[Source, Maps] = {source: maps_of(source) for source in sources}
    evaluate = EditorPlans.evaluate

    def note(self: EditorPlans, rows: Any) -> list[EditorOutput]:
        noted.extend(rows)
        return evaluate(self, rows)

    with tiny_run(suite, sources) as run, pytest.MonkeyPatch.context() as patched:
        patched.setattr(EditorPlans, "evaluate", note)
        patched.setattr(run.networks, "editor_plans", lambda height, width: plans)
        hints = (HintSettings("edges", "hint", weights[0]), HintSettings("depth", "hint_1", weights[1]))
        of = run.of(paint=HINTED, invert=HALVES, hints=hints)
        assert edit_variants(of, variants, {}, run.pictures) == {}, "sources without maps are left out"
        return list(edit_candidates(of, variants, maps, run.pictures))


@pytest.mark.parametrize("controls", [1, 2], ids=["one ControlNet", "one each"])
def test_every_row_follows_its_source_s_hints_by_their_weights(controls: int, tmp_path: Path) -> None:
    sources = [one for one in tiny_sources(tmp_path / "sources", 4) if one.size == (32, 32)]
    assert len(sources) == 2
    plans, noted, others = plans_of(controls), list[EditorRow](), list[EditorRow]()
    found = hinted_edits(plans, sources, (0.5, 2.0), tmp_path / "one", noted)
    wanted = []
    for edges, depth in map(maps_of, sources):
        assert edges is not None
        assert depth is not None
        encoders = zip(plans.hints, (edges / 255, depth / 65535), strict=True)
        each = [plan.run({"hint": np.float32(one)[None, None]})["hint_embedding"][0] for plan, one in encoders]
        wanted.append(np.stack(each) if controls == 2 else 0.5 * each[0] + 2.0 * each[1])
    scales = {row.hint.scale for row in noted if row.hint is not None}
    assert scales == {(0.75, 3.0) if controls == 2 else 1.5}
    of_each = rows_per_source(HINTED, HALVES) + rows_per_variant(HINTED, HALVES)
    for one in wanted:
        alike = [row for row in noted if row.hint and np.allclose(row.hint.embedding, one, rtol=1e-4, atol=1e-5)]
        assert len(alike) == of_each
    assert len(noted) == 2 * of_each
    turned = hinted_edits(plans, sources, (2.0, 0.5), tmp_path / "other", others)
    differences = [np.abs(a.pixels.astype(int) - b.pixels).max() for a, b in zip(found, turned, strict=True)]
    assert min(differences) > 2, "weights decide what is drawn"
