"""The pocket report in either world: every key where it belongs, by networks in miniature, and the page of it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tiny_networks import TOKENS, WIDTH, TinyPainter, tiny_painter

from counterfactory.engine.pocket.judges import Referee, _Network
from counterfactory.engine.pocket.wide.captions import describe
from counterfactory.engine.pocket.wide.facts import facts_of
from counterfactory.engine.pocket.worlds import STREETS, WIDE, World
from counterfactory.engine.profile.models import ModelPaths
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.runtime.session import Port, Signature
from counterfactory.export.__main__ import main
from counterfactory.export.pocket import report
from counterfactory.export.pocket.captioned import caption_figures, psnr
from counterfactory.export.pocket.counterfacts import COUNTERFACTS
from counterfactory.export.pocket.data import DEMO, HELD_OUT, JUDGED, TRAIN
from counterfactory.export.pocket.judged import Judged
from counterfactory.export.pocket.page import BARS, Bar, write_page
from counterfactory.export.pocket.pairs import draw_pairs, paint_pairs
from counterfactory.export.pocket.referee import build_referee, outputs_of
from counterfactory.export.pocket.report import Instruments, Subject, write_report
from counterfactory.export.pocket.world import FIT, JUDGE

SCENES = 4


class RefereeSession:
    """The referee's network as it was built, untrained: real outputs, seen wrongly."""

    def __init__(self, world: World) -> None:
        self._net, self._names = build_referee(world).eval(), outputs_of(world)
        outputs = tuple(Port(name, (None,), "float32") for name in self._names)
        self.signature = Signature((Port("pixel_values", (None, 3, 128, 128), "float32"),), outputs)

    def run(self, feeds: dict[str, NDArray[np.float32]]) -> dict[str, NDArray[np.float32]]:
        """All outputs by name."""
        with torch.no_grad():
            outputs = self._net(torch.from_numpy(feeds["pixel_values"]))
        return {name: out.numpy() for name, out in zip(self._names, outputs, strict=True)}


class Texts:
    """Text states of the tiny denoiser's size, by the caption's words."""

    def encode(self, captions: Sequence[str]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """States, and nothing to compare by."""
        states = [np.random.default_rng(len(c)).normal(size=(TOKENS, WIDTH)) for c in captions]
        return np.array(states, np.float32), np.zeros((len(captions), 1), np.float32)


@pytest.fixture(scope="module")
def painter() -> TinyPainter:
    return tiny_painter()


def autoencode(pictures: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
    """An error of 4 levels everywhere."""
    values = np.stack(pictures).transpose(0, 3, 1, 2).astype(np.float32) / np.float32(127.5) - 1
    return values + np.float32(4 / 127.5)


def instruments(subject: Subject, painter: TinyPainter) -> Instruments:
    """The wide world's, in miniature."""
    world, profile = subject.world, subject.profile
    few = replace(profile.paint.sampler, steps=1)
    quick = replace(profile, paint=replace(profile.paint, sampler=few, batch=4, decode_batch=4, streams=1))
    plans = painter.plans(128, 128, batch=4, streams=1, decode_batch=4)
    scenes = [world.scene(JUDGED, i) for i in range(subject.scenes)]
    session: Any = RefereeSession(world)
    texts: Any = Texts()

    def caption(pictures: Sequence[NDArray[np.uint8]]) -> list[str]:
        assert len(pictures) == len(scenes)
        return [describe(facts_of(s, seen=True), np.random.default_rng(i)) for i, s in enumerate(scenes)]

    return Instruments(
        caption=caption,
        paint=lambda pairs: paint_pairs(pairs, quick, plans, texts),
        autoencode=autoencode,
        extract=lambda p: np.stack([x[::16, ::16].ravel() / 64 for x in p]),
        extractor="every 16th pixel",
        referee=Referee(_Network(session, 8), world.vocabulary),
    )


@pytest.fixture(scope="module")
def wide(painter: TinyPainter, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    """A report of the wide world's models, in miniature."""
    folder = tmp_path_factory.mktemp("wide")
    (folder / "denoiser.jsonl").write_text('{"step": 1, "loss": 2.0}\n{"step": 9, "loss": 0.5}\n')
    (folder / "vae.jsonl").write_text('{"step": 1, "loss": 1.0}\n{"step": 3, "loss": 0.1}\n')
    subject = Subject(WIDE, folder, folder, SCENES)
    opened = instruments(subject, painter)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Subject, "open", lambda self: opened)
        figures = write_report(subject, folder / "docs")
    return figures, folder / "docs"


def test_the_wide_worlds_report_has_all_bars_and_stands_beside_the_referee(wide: tuple[dict[str, Any], Path]) -> None:
    figures, docs = wide
    assert json.loads((docs / "pocket.json").read_text()) == figures
    asked = figures["edits_measured"]
    for key, name in (("background_success", "background"), ("domain_success", "domain"), ("object_success", "object")):
        assert asked[name] > 0
        assert 0 <= figures[key] <= 1
    for bar in BARS:
        assert bar.of(figures) is not None, bar.key
    assert figures["caption_facts"] == 1.0  # the world's own captions
    assert figures["vae_psnr_db"] == pytest.approx(20 * np.log10(255 / 4), abs=1e-3)
    assert figures["referee_truth"].keys() >= {"background_success", "domain_success", "layout_miou"}
    assert figures["kid_extractor"] == "every 16th pixel"
    assert figures["kid_scenes"] == SCENES
    assert figures["rows_per_variant"] == 2
    assert set(figures["referee_attributes"]) == {*WIDE.words, *WIDE.object_words}
    assert not any(key.startswith("gate") or key == "accepted_share" for key in figures)


def test_the_page_draws_every_bar_the_sheet_and_the_curves(wide: tuple[dict[str, Any], Path]) -> None:
    figures, docs = wide
    page = (docs / "pocket.md").read_text()
    assert page.startswith("# The pocket models, measured\n\nMade by `python -m counterfactory.export pocket --report ")
    assert "--report --world wide`" in page
    assert f"{SCENES} scenes, {figures['variants_measured']} variants." in page
    for bar in BARS:
        assert f"| {bar.text} | " in page
    truth = figures["referee_truth"]["background_success"]
    source = figures["referee_source"]["background_success"]
    measured = figures["background_success"]
    reached = "yes" if measured >= 0.9 else "**no**"
    assert f"new background | {measured:.1%} | 90.0% | {reached} | {truth:.1%} | {source:.1%} |" in page
    assert "| denoiser rows a variant, at most | 2 | 2 | yes | - | - |" in page
    assert "![Training losses](pocket_training.svg)" in page
    assert "continued" not in page
    assert "What the checks let pass" not in page
    assert not any(word in page for word in ("None", "nan", "{"))
    by_suites = write_page({**figures, "journey": {"variants_measured": 3, "time_success": 0.5}}, WIDE, "", ())
    assert "together, of 3 variants, the referee sees: time 50.0%; layout mIoU -." in by_suites
    assert "together" not in page
    drawing = (docs / "pocket_training.svg").read_text()
    assert "denoiser: 0.5 after 9 steps" in drawing
    assert "vae: 0.1 after 3 steps" in drawing
    assert (docs / "pocket.webp").stat().st_size > 1000


def test_what_a_world_has_not_is_absent(wide: tuple[dict[str, Any], Path]) -> None:
    figures = dict(wide[0])
    gone = ("background_success", "domain_success", "object_success", "kid", "sharpness", "layout_miou")
    for name in (*gone, "layout_iou_by_class", "subject_success"):
        figures.pop(name)
    figures["accepted_share"] = 0.25
    page = write_page(figures, STREETS, "## What the checks let pass", ("a.svg", "b.svg"))
    for text in ("new background", "new domain", "KID", "Layout by class", "IoU of vehicles", "Laplacian", "poses"):
        assert text not in page, text
    assert "by captioner, language model and painter" in page
    assert "checks: 25.0% of the painted variants" in page
    assert "![Training losses, continued](b.svg)" in page
    assert "## What the checks let pass\n\nThe trainings" in page
    assert "The trainings" not in write_page(figures, STREETS, "", ())


def test_bars_are_at_least_or_at_most() -> None:
    share, rows = Bar("a.b", "", 0.5), Bar("rows", "", 2, least=False)
    assert (share.reached(0.5), share.reached(0.49)) == (True, False)
    assert (rows.reached(2), rows.reached(3)) == (True, False)
    assert share.of({"a": {"b": 0.25}}) == 0.25
    assert share.of({"a": {}}) is None
    assert share.of({"a": 3.0}) is None


def test_pictures_come_in_the_order_of_their_pairs(painter: TinyPainter) -> None:
    subject = Subject(WIDE, Path(), Path(), SCENES)
    paint = instruments(subject, painter).paint
    pairs = draw_pairs(WIDE, COUNTERFACTS["wide"], JUDGED, 2, 2)
    together = paint(pairs)
    assert len(together) == len(pairs)
    assert len({picture.tobytes() for picture in together}) == len(pairs)
    # A key has the pair's number in it; the first pairs have the same.
    for one, other in zip(paint(pairs[:2]), together, strict=False):
        assert np.abs(one.astype(int) - other).max() <= 1


def test_captions_that_leave_facts_out_are_not_wrong() -> None:
    scene = replace(WIDE.scene(JUDGED, 0), weather="foggy", domain="photo")
    scene = replace(scene, vehicles=scene.vehicles[:1], people=(), things=())
    said = f"a {scene.vehicles[0].kind} on a foggy street."
    found = caption_figures([said, said.replace("foggy", "snowy")], [scene, scene], COUNTERFACTS["wide"])
    assert found["caption_facts_by_kind"] == {"weather": 0.5, "kind": 1.0}
    assert found["caption_facts"] == 0.75
    assert found["caption_stated"]["weather"] == 1
    assert found["caption_stated"]["background"] == 0
    street = STREETS.scene(JUDGED, 0)
    found = caption_figures(["nothing"], [street], COUNTERFACTS["streets"])
    assert found["caption_facts"] == 0
    assert "caption_stated" not in found


def test_the_psnr_is_that_of_the_error() -> None:
    assert psnr(autoencode, [np.full((128, 128, 3), 90, np.uint8)]) == pytest.approx(20 * np.log10(255 / 4), abs=1e-4)


@pytest.mark.parametrize("world", [STREETS, WIDE], ids=lambda world: world.name)
def test_suites_are_of_scenes_that_choose_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}

    def judge(profile: Any, folder: Path, referee: Any, scenes: int, variants: int, **rest: Any) -> list[Any]:
        asked.update(folder=folder, scenes=scenes, variants=variants, referee=referee, **rest)
        return []

    monkeypatch.setattr(report, "judge_variants", judge)
    anything: Any = SimpleNamespace(referee="referee")
    assert report.judge_suite(Subject(world, Path("w"), Path("work")), anything) == []
    assert asked == {
        "folder": Path("work/measured/edits"),
        "scenes": 300,
        "variants": 2,
        "referee": "referee",
        "stream": JUDGED,
        "world": world,
    }


def test_a_world_with_a_language_model_has_suites_beside_its_pairs(
    painter: TinyPainter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subject = Subject(WIDE, tmp_path, tmp_path, SCENES)
    assert not subject.writes
    (tmp_path / "llm").mkdir()
    assert subject.writes
    opened = instruments(subject, painter)
    pairs = report.observe_pairs_of(replace(subject, scenes=1), opened)
    row: Any = SimpleNamespace(accepted=True)
    rows = [Judged(**{f.name: getattr(one, f.name) for f in fields(one)}, row=row) for one in pairs]
    rows[0] = replace(rows[0], row=cast(Any, SimpleNamespace(accepted=False)))
    monkeypatch.setattr(report, "judge_suite", lambda *asked: rows)
    monkeypatch.setattr(report, "observe_pairs_of", lambda *asked: pairs[:3])
    monkeypatch.setattr(report, "likeness_figures", lambda *asked: {})
    monkeypatch.setattr(report, "referee_figures", lambda *asked: {})
    figures, observed = report.measure(subject, opened)
    assert observed == pairs[:3]
    assert (figures["variants_measured"], figures["journey"]["variants_measured"]) == (3, len(rows))
    assert figures["accepted_share"] == pytest.approx(1 - 1 / len(rows))
    assert not any(name.startswith("kid") for name in figures)


def test_a_world_reads_by_its_own_length_of_captions_and_types_of_edits() -> None:
    street, wide = (Subject(world, Path("weights"), Path()).profile for world in (STREETS, WIDE))
    assert street == replace(load_profile("pocket"), models=ModelPaths("weights"))
    assert (wide.caption.decoding.max_tokens, street.caption.decoding.max_tokens) == (96, 64)
    assert "domain" in wide.rewrite.types
    assert wide.paint == street.paint


def test_nothing_else_looks_at_the_scenes_that_judge() -> None:
    root = Path(report.__file__).resolve().parents[2]
    code = {path: path.read_text() for part in ("export", "bench") for path in (root / part).rglob("*.py")}
    users = {path.name for path, text in code.items() if re.search(rf"\b(JUDGED|{JUDGED})\b", text)}
    assert users == {"data.py", "gate.py", "report.py", "validity.py", "hints.py"}
    assert len({TRAIN, HELD_OUT, DEMO, JUDGED, FIT, JUDGE}) == 6


def test_the_report_in_docs_is_of_all_scenes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[Subject] = []
    monkeypatch.setattr(report, "write_report", lambda subject, docs: asked.append(subject))
    command = ["export", "pocket", "--report", "--weights", str(tmp_path), "--work", str(tmp_path)]

    def run(*more: str) -> Any:
        monkeypatch.setattr("sys.argv", [*command, *more])
        with pytest.raises(SystemExit) as stopped:
            main()
        return stopped.value.code

    assert run("--scenes", "299") == 2
    assert "the report in docs is of 300 scenes, 299 asked for; name another folder with --docs" in (
        capsys.readouterr().err
    )
    assert run("--scenes", "5", "--docs", str(tmp_path / "d"), "--world", "wide") == 0
    assert run() == 0
    assert [(one.scenes, one.world.name) for one in asked] == [(5, "wide"), (300, "streets")]
