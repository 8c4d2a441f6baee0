"""Changes of scenes, and the figures of painted pictures: true to captions, outlines, and a referee that knows the
truth; sharpness and KID by plain loops; and the report, with every key where it belongs, by networks in miniature.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import cv2
import numpy as np
import pytest
import torch
from exporter import run_exporter
from numpy.typing import NDArray
from rendered_truth import TrueReferee, true_finding

from counterfactory.engine.edit import Edit
from counterfactory.engine.pocket.judges import Referee
from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.engine.profile.profile import Profile
from counterfactory.engine.request import SuiteRequest
from counterfactory.engine.runtime.session import Port, Signature
from counterfactory.export.pocket import likeness, report
from counterfactory.export.pocket.counterfacts import GROUPS, Change, apply_changes, check_caption, is_seen, read_edit
from counterfactory.export.pocket.data import DEMO, HELD_OUT, JUDGED, TRAIN
from counterfactory.export.pocket.judges import OUTPUTS, RefereeNet
from counterfactory.export.pocket.likeness import kid, likeness_figures, polynomial_mmd, sharpness
from counterfactory.export.pocket.observed import (
    Judged,
    Observed,
    Pair,
    as_rendered,
    draw_pairs,
    edit_shares,
    edits_seen,
    layout_kept,
    observe_pairs,
    painted_figures,
)
from counterfactory.export.pocket.report import BARS, Subject, caption_figures, table, write_report
from counterfactory.export.pocket.sheet import draw_blocks
from counterfactory.export.pocket.world import FIT, JUDGE

STREAM = 77  # of no training and no judge
Features = NDArray[np.float64]


@pytest.fixture(scope="module")
def drawn() -> list[Pair]:
    return draw_pairs(STREAM, 12, 4)


def test_every_group_comes_about_and_two_changes_in_turn(drawn: list[Pair]) -> None:
    names = Counter("second colour" if c.name == "colour" and c.number else c.name for p in drawn for c in p.changes)
    assert set(names) == set(GROUPS)
    assert names["weather"] < 2 * len(drawn) / len(names)  # groups share
    assert [len(pair.changes) for pair in drawn] == [1, 2, 1, 2] * 12
    asked = [change for pair in drawn if pair.source == "0003" for change in pair.changes]
    assert len(set(asked)) == len(asked)
    again = draw_pairs(STREAM, 2, 4)
    assert [(p.source, p.changes, p.caption) for p in again] == [(p.source, p.changes, p.caption) for p in drawn[:8]]


def test_a_drawn_change_is_in_the_caption_and_in_the_picture_and_nowhere_else(drawn: list[Pair]) -> None:
    judged = 0
    for pair in drawn:
        target = apply_changes(pair.scene, pair.changes)
        assert np.array_equal(EMBEDDED.draw(target).picture, pair.target.picture)
        assert all(right for _, right in check_caption(pair.caption, target)), pair.caption
        for i in range(len(pair.changes)):
            without = apply_changes(pair.scene, [*pair.changes[:i], *pair.changes[i + 1 :]])
            assert not all(right for _, right in check_caption(pair.caption, without)), (pair.changes, pair.caption)
        assert (pair.target.mask != pair.drawing.mask).mean() < 0.02  # snow lies on roofs
        for change in pair.changes:
            after = is_seen(change, true_finding(target, pair.target), pair.target.objects)
            before = is_seen(change, true_finding(pair.scene, pair.drawing), pair.target.objects)
            assert (after, before) == ((None, None) if change.name == "material" else (True, False)), change
            judged += after is not None
    assert judged > 30


def test_edits_of_the_streets_are_read_as_changes() -> None:
    scene = next(s for s in (EMBEDDED.scene(STREAM, i) for i in range(50)) if len(s.vehicles) > 1)
    far = scene.vehicles[1]
    for edit, changes in (
        (Edit("weather", scene.weather, "foggy"), (Change("weather", "foggy"),)),
        (Edit("time", "at night", "at sunset"), (Change("time", "sunset"),)),
        (Edit("background", "brick", "glass"), (Change("material", "glass"),)),
        (Edit("colour", f"{far.colour} {far.kind}", f"green {far.kind}"), (Change("colour", "green", 1),)),
        (Edit("weather", "clear", "stormy"), ()),
        (Edit("colour", "pink car", "green car"), ()),
        (Edit("object", "tree", "lamp"), ()),
    ):
        assert read_edit(scene, edit) == changes


def test_a_fact_that_a_caption_does_not_state_is_wrong() -> None:
    scene = EMBEDDED.scene(STREAM, 2)
    scene = replace(scene, weather="foggy", time="night", vehicles=scene.vehicles[:1])
    text = f"a {scene.vehicles[0].colour} {scene.vehicles[0].kind} on a foggy street at night."
    right = dict(check_caption(text, scene))
    assert (right["weather"], right["kind"], right["time"], right["people"]) == (True, True, True, False)
    assert dict(check_caption(text, replace(scene, weather="clear")))["weather"] is False
    two = replace(scene, vehicles=scene.vehicles * 2)
    assert [answer for name, answer in check_caption(text, two) if name == "kind"] == [True, False]


def test_a_perfect_painter_reaches_every_figure_and_an_idle_one_none(drawn: list[Pair]) -> None:
    pairs = drawn[:32]
    known = [(pair.scene, pair.drawing) for pair in pairs]
    known += [(apply_changes(pair.scene, pair.changes), pair.target) for pair in pairs]
    referee: Any = TrueReferee(known)
    figures = painted_figures(observe_pairs(pairs, [pair.target.picture for pair in pairs], referee), referee)
    shares = {name: figures[name] for name in figures if name.endswith("_success")}
    assert len(shares) == 5
    assert set(shares.values()) == {1.0}
    assert figures["referee_truth"].items() >= shares.items()
    assert set(figures["referee_source"].values()) == {0.0}
    assert figures["layout_miou"] > 0.98
    assert figures["variants_measured"] == len(pairs)
    idle = observe_pairs(pairs, [pair.drawing.picture for pair in pairs], referee)
    assert set(edit_shares(idle).values()) == {0.0}
    assert layout_kept(idle)["layout_miou"] == 1


def street(**seen: Any) -> Observed:
    """A street with two vehicles whose picture the referee sees as another one."""
    scene = next(s for s in (EMBEDDED.scene(STREAM, i) for i in range(50)) if len(s.vehicles) == 2)
    drawing = EMBEDDED.draw(scene)
    edits = seen.pop("edits")
    return Observed("a", scene, drawing, edits, drawing.picture, replace(true_finding(scene, drawing), **seen), None)


def test_shares_are_of_the_changes_that_have_a_judge() -> None:
    scene, colours = {"weather": "foggy", "time": "night"}, np.zeros((128, 128), np.uint8)
    for number, colour in enumerate(("green", "purple"), 1):
        colours[street(edits=()).drawing.objects == number] = EMBEDDED.object_words["colour"].index(colour)
    objects = {"colour": colours, "kind": np.zeros_like(colours)}
    asked = ((Change("weather", "foggy"),), (Change("time", "day"),), (Change("material", "glass"),), ())
    one = street(edits=asked, scene=scene, objects=objects)
    both = ((Change("colour", "green", 0), Change("colour", "red", 1)), (Change("weather", "foggy"),))
    two = street(edits=both, scene=scene, objects=objects)
    wanted = {"weather": [True, True], "time": [False], "colour": [True], "second colour": [False]}
    assert edits_seen([one, two]) == wanted
    shares = {"edit": pytest.approx(2 / 3), "weather": 1.0, "time": 0.0, "colour": 0.5, "second_colour": 0.0}
    assert edit_shares([one, two]) == {f"{name}_success": share for name, share in shares.items()}
    assert [one.edit_seen(i) for i in range(4)] == [True, False, None, None]
    assert [two.edit_seen(i) for i in range(2)] == [False, True]
    assert is_seen(Change("colour", "red", 0), one.finding, np.zeros((128, 128), np.uint8)) is None, "shows no pixel"
    assert edit_shares([]) == layout_kept([]) == {}


def test_without_a_known_truth_a_picture_is_none_of_the_truths() -> None:
    one = street(edits=((Change("weather", "foggy"),),), mask=np.zeros((128, 128), np.uint8))
    referee: Any = TrueReferee([(one.scene, one.drawing)])
    assert as_rendered([one], referee) == []
    figures = painted_figures([one], referee)
    assert figures["referee_truth"] == {}
    assert figures["edits_measured"] == {"weather": 1}
    assert figures["layout_iou_by_class"]["sky"] == pytest.approx((one.drawing.mask == 0).mean())


def test_texts_too_long_for_a_tile_go_on_below_and_rows_are_filled_with_white(tmp_path: Path) -> None:
    grey, path = np.full((64, 64, 3), 100, np.uint8), tmp_path / "s.webp"
    draw_blocks([[(grey, "short"), (grey, "word " * 12 + "\nlast")], [(grey, "")], [(grey, "")]], 2, path)
    sheet = cv2.imread(str(path))
    assert sheet is not None
    strip = 3 * 16 + 3  # two lines of words, and the last
    assert sheet.shape == (2 * (strip + 128), 4 * 128, 3)
    assert (sheet[: strip - 16, 128:256] < 128).any()
    assert (sheet[strip - 16 : strip, 128:256] < 128).any()
    assert (sheet[16:strip, :128] > 200).all(), "a short text ends where it ends"
    assert (sheet[:, 3 * 128 + 8 :] > 245).all(), "a block with fewer tiles"
    assert (sheet[strip + 128 :, 128 + 8 :] > 245).all(), "a row with fewer blocks"


def test_the_discrepancy_is_that_of_plain_loops() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(9, 5)), rng.normal(0.4, 1.5, size=(6, 5))

    def k(a: Features, b: Features) -> float:
        return (sum(float(p) * float(q) for p, q in zip(a, b, strict=True)) / len(a) + 1) ** 3

    within = [np.mean([k(a, b) for a, b in combinations(side, 2)]) for side in (x, y)]
    wanted = within[0] + within[1] - 2 * np.mean([k(a, b) for a, b in product(x, y)])
    assert polynomial_mmd(x, y) == pytest.approx(wanted, rel=1e-10)
    true, scenes = rng.normal(size=(120, 8)), np.arange(120)
    floor, _ = kid(true, true, scenes)
    assert abs(floor) < 0.02
    assert kid(true + 1, true, scenes)[0] > 20 * abs(floor)


def test_a_subset_has_a_scene_once_and_on_one_side(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[list[int], list[int]]] = []

    def remember(x: Features, y: Features) -> float:
        seen.append((x[:, 0].astype(int).tolist(), y[:, 0].astype(int).tolist()))
        return float(len(seen))

    monkeypatch.setattr(likeness, "polynomial_mmd", remember)
    monkeypatch.setattr(likeness, "_SUBSET_SIZE", 3)
    scenes, rows = np.repeat(np.arange(7), 3), np.arange(21)[:, None]
    mean, spread = kid(rows, rows, scenes)
    assert len(seen) == 100
    assert (mean, spread) == (pytest.approx(50.5), pytest.approx(np.std(np.arange(1, 101))))
    for left, right in seen:
        assert len(left) == len(right) == 3
        assert len({row // 3 for row in left + right}) == 6
    assert len({row for left, _ in seen for row in left}) == 21
    kid(rows, rows, scenes)
    assert seen[:100] == seen[100:]


def test_sharpness_is_the_mean_absolute_laplacian() -> None:
    dot = np.zeros((5, 5, 3), np.uint8)
    dot[2, 2] = 100
    # The dot itself is 400 off, each of its four neighbours 100.
    assert sharpness([dot]) == pytest.approx((400 + 4 * 100) / 25)
    assert sharpness([dot, np.zeros_like(dot)]) == pytest.approx(800 / 50)


def test_pictures_are_held_against_the_truth_and_the_sources(drawn: list[Pair]) -> None:
    pairs = drawn[::4][:8]

    def features(pictures: Sequence[NDArray[np.uint8]]) -> Features:
        return np.stack([p.reshape(16, 8, 16, 8, 3).mean((1, 3)).ravel()[:64] / 64 for p in pictures])

    def figures(pictures: Sequence[NDArray[np.uint8]]) -> dict[str, Any]:
        finding = true_finding(pairs[0].scene, pairs[0].drawing)
        both = zip(pairs, pictures, strict=False)
        shown = [Observed(p.source, p.scene, p.drawing, (), picture, finding, p.target) for p, picture in both]
        return likeness_figures(shown, features, lambda same: same)

    ideal = figures([pair.target.picture for pair in pairs])
    assert ideal["kid"] == ideal["kid_floor"] == ideal["kid_reconstructed"]
    assert ideal["sharpness_truth"] == 1
    assert (ideal["kid_variants"], ideal["kid_scenes"]) == (8, 8)
    idle = figures([pair.drawing.picture for pair in pairs])
    assert idle["sharpness"] == 1
    assert idle["kid"] == idle["kid_sources"] != idle["kid_floor"]
    blank = figures([np.full_like(pair.target.picture, 128) for pair in pairs])
    assert (blank["sharpness"], blank["sharpness_truth"]) == (0, 0)
    assert figures([pair.target.picture for pair in pairs[:3]]) == {}


SCENES = 8  # among them some of two vehicles


class RefereeSession:
    """The referee's network as it was built, untrained: real outputs, seen wrongly."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self._net = RefereeNet().eval()
        outputs = tuple(Port(name, (None,), "float32") for name in OUTPUTS)
        self.signature = Signature((Port("pixel_values", (None, 3, 128, 128), "float32"),), outputs)

    def run(self, feeds: dict[str, NDArray[np.float32]]) -> dict[str, NDArray[np.float32]]:
        """All outputs by name."""
        with torch.no_grad():
            outputs = self._net(torch.from_numpy(feeds["pixel_values"]))
        return {name: out.numpy() for name, out in zip(OUTPUTS, outputs, strict=True)}


def autoencode(pictures: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
    """An error of 4 levels everywhere."""
    values = np.stack(pictures).transpose(0, 3, 1, 2).astype(np.float32) / np.float32(127.5) - 1
    return values + np.float32(4 / 127.5)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    """A report in miniature, over pictures that are the truth of pairs."""
    folder, session = tmp_path_factory.mktemp("report"), cast(Any, RefereeSession())
    scenes = [EMBEDDED.scene(JUDGED, i) for i in range(SCENES)]
    opened = SimpleNamespace(
        caption=lambda _: [EMBEDDED.describe(scene, np.random.default_rng(0)) for scene in scenes],
        autoencode=autoencode,
        extract=lambda pictures: np.stack([picture[::16, ::16].ravel() / 64 for picture in pictures]),
        extractor="every 16th pixel",
        referee=Referee(session, 8),
    )
    pairs = draw_pairs(JUDGED, SCENES, 4)
    observed = observe_pairs(pairs, [pair.target.picture for pair in pairs], opened.referee)
    asked: list[Any] = []

    def judge(profile: Profile, where: Path, referee: Referee, request: SuiteRequest, *which: Any) -> list[Judged]:
        asked.extend((profile.models.folder, where, request.task.name, request.variants, *which))
        rows = [cast(Any, SimpleNamespace(accepted=i > 0)) for i in range(len(observed))]
        return [Judged(**vars(one), row=row) for one, row in zip(observed, rows, strict=True)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report, "Instruments", lambda profile: opened)
        patch.setattr(report, "judge_variants", judge)
        figures = write_report(Subject(Path("w"), folder, SCENES), folder / "docs")
    assert asked == ["w", folder / "measured" / "edits", "segmentation", 2, range(SCENES), JUDGED]
    return figures, folder / "docs"


def test_the_report_has_all_bars_and_stands_beside_the_referee(written: tuple[dict[str, Any], Path]) -> None:
    figures, docs = written
    assert [path.name for path in docs.iterdir()] == ["pocket.json"]
    assert json.loads((docs / "pocket.json").read_text()) == figures
    for bar in BARS:
        assert bar.of(figures) is not None, bar.key
    assert figures["caption_facts"] == 1.0  # the world's own captions
    assert figures["vae_psnr_db"] == pytest.approx(20 * np.log10(255 / 4), abs=1e-3)
    assert figures["referee_truth"]["colour_success"] == figures["colour_success"], "the pictures are the truth"
    assert figures["referee_truth"].keys() >= {"edit_success", "layout_miou"}
    assert figures["accepted_share"] == pytest.approx(1 - 1 / figures["variants_measured"])
    assert figures["kid_extractor"] == "every 16th pixel"
    assert (figures["kid_scenes"], figures["rows_per_variant"]) == (SCENES, 2)
    assert set(figures["referee_attributes"]) == {*EMBEDDED.words, *EMBEDDED.object_words}


def test_the_table_says_what_reaches_its_bar(written: tuple[dict[str, Any], Path]) -> None:
    figures = {**written[0], "colour_success": 0.5, "sharpness": 0.8, "rows_per_variant": 3}
    lines = table(figures).splitlines()
    assert len(lines) == 1 + len(BARS)
    truth, source = (f"{figures[f'referee_{name}']['colour_success']:.1%}" for name in ("truth", "source"))
    (colour,) = [line for line in lines if line.endswith("it sees a vehicle's new colour (missed)")]
    assert colour.split()[:4] == ["50.0%", "88.0%", truth, source]
    (sharp,) = [line for line in lines if line.endswith("over the sources'")]
    assert sharp.split()[:4] == ["0.80", "0.75", "-", "-"]
    assert any(line.endswith("denoiser rows a variant, at most (missed)") for line in lines)
    assert "pedestrians" not in table({**figures, "layout_iou_by_class": {}})


def test_wrong_captions_are_counted() -> None:
    street = EMBEDDED.scene(JUDGED, 0)
    right = EMBEDDED.describe(street, np.random.default_rng(0))
    other = "snowy" if street.weather != "snowy" else "foggy"
    found = caption_figures([right, right.replace(street.weather, other)], [street, street])
    assert found["caption_facts_by_kind"]["weather"] == 0.5
    assert 0.5 < found["caption_facts"] < 1
    assert caption_figures(["nothing"], [street])["caption_facts"] == 0


def test_nothing_else_looks_at_the_scenes_that_judge() -> None:
    root = Path(report.__file__).resolve().parents[2]
    code = {path: path.read_text() for part in ("export", "bench") for path in (root / part).rglob("*.py")}
    users = {path.name for path, text in code.items() if re.search(rf"\b(JUDGED|{JUDGED})\b", text)}
    assert users == {"data.py", "report.py", "hints.py", "reuse.py"}
    assert len({TRAIN, HELD_OUT, DEMO, JUDGED, FIT, JUDGE}) == 6


def test_the_report_in_docs_is_of_all_scenes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[Subject] = []
    monkeypatch.setattr(report, "write_report", lambda subject, docs: asked.append(subject))
    monkeypatch.setattr(report, "table", lambda figures: "the table")

    def run(*more: str) -> int | str | None:
        return run_exporter("pocket", "--report", "--weights", str(tmp_path), "--work", str(tmp_path), *more)

    assert run("--scenes", "299") == 2
    told = "the report in docs is of 300 scenes, 299 asked for; name another folder with --docs"
    assert told in capsys.readouterr().err
    assert run("--scenes", "5", "--docs", str(tmp_path / "d")) == 0
    assert capsys.readouterr().out == "the table\n"
    assert run() == 0
    assert [one.scenes for one in asked] == [5, 300]
