"""The pocket report: every key where it belongs, by networks in miniature, and the table of it."""

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

from counterfactory.engine.pocket.judges import Referee, _Network
from counterfactory.engine.pocket.worlds import STREETS
from counterfactory.engine.profile.models import ModelPaths
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.runtime.session import Port, Signature
from counterfactory.export.__main__ import main
from counterfactory.export.pocket import report
from counterfactory.export.pocket.counterfacts import COUNTERFACTS
from counterfactory.export.pocket.data import DEMO, HELD_OUT, JUDGED, TRAIN
from counterfactory.export.pocket.judged import Judged
from counterfactory.export.pocket.pairs import draw_pairs, observe_pairs
from counterfactory.export.pocket.referee import OUTPUTS, build_referee
from counterfactory.export.pocket.report import (
    BARS,
    Bar,
    Instruments,
    Subject,
    caption_figures,
    psnr,
    table,
    write_report,
)
from counterfactory.export.pocket.world import FIT, JUDGE

SCENES = 8  # among them some of two vehicles


class RefereeSession:
    """The referee's network as it was built, untrained: real outputs, seen wrongly."""

    def __init__(self) -> None:
        self._net, self._names = build_referee().eval(), OUTPUTS
        outputs = tuple(Port(name, (None,), "float32") for name in self._names)
        self.signature = Signature((Port("pixel_values", (None, 3, 128, 128), "float32"),), outputs)

    def run(self, feeds: dict[str, NDArray[np.float32]]) -> dict[str, NDArray[np.float32]]:
        """All outputs by name."""
        with torch.no_grad():
            outputs = self._net(torch.from_numpy(feeds["pixel_values"]))
        return {name: out.numpy() for name, out in zip(self._names, outputs, strict=True)}


def autoencode(pictures: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
    """An error of 4 levels everywhere."""
    values = np.stack(pictures).transpose(0, 3, 1, 2).astype(np.float32) / np.float32(127.5) - 1
    return values + np.float32(4 / 127.5)


def instruments(subject: Subject) -> Instruments:
    """The streets', in miniature."""
    scenes = [STREETS.scene(JUDGED, i) for i in range(subject.scenes)]
    session: Any = RefereeSession()

    def caption(pictures: Sequence[NDArray[np.uint8]]) -> list[str]:
        assert len(pictures) == len(scenes)
        return [STREETS.describe(scene, np.random.default_rng(i), True) for i, scene in enumerate(scenes)]

    return Instruments(
        caption=caption,
        autoencode=autoencode,
        extract=lambda p: np.stack([x[::16, ::16].ravel() / 64 for x in p]),
        extractor="every 16th pixel",
        referee=Referee(_Network(session, 8), STREETS.vocabulary),
    )


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    """A report in miniature, over pictures that are the truth of pairs."""
    folder = tmp_path_factory.mktemp("report")
    subject = Subject(folder, folder, SCENES)
    opened = instruments(subject)
    pairs = draw_pairs(STREETS, COUNTERFACTS["streets"], JUDGED, SCENES, 4)
    observed = observe_pairs(pairs, [pair.target.picture for pair in pairs], opened.referee)
    suite: list[Any] = [
        Judged(**{f.name: getattr(one, f.name) for f in fields(one)}, row=cast(Any, SimpleNamespace(accepted=i > 0)))
        for i, one in enumerate(observed)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Subject, "open", lambda self: opened)
        patch.setattr(report, "judge_suite", lambda *asked: suite)
        figures = write_report(subject, folder / "docs")
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
    assert set(figures["referee_attributes"]) == {*STREETS.words, *STREETS.object_words}


def test_the_table_says_what_reaches_its_bar(written: tuple[dict[str, Any], Path]) -> None:
    figures = {**written[0], "colour_success": 0.5, "sharpness": 0.8}
    lines = table(figures).splitlines()
    assert len(lines) == 1 + len(BARS)
    truth, source = (f"{figures[f'referee_{name}']['colour_success']:.1%}" for name in ("truth", "source"))
    (colour,) = [line for line in lines if line.endswith("it sees a vehicle's new colour (missed)")]
    assert colour.split()[:4] == ["50.0%", "88.0%", truth, source]
    (sharp,) = [line for line in lines if line.endswith("over the sources'")]
    assert sharp.split()[:4] == ["0.80", "0.75", "-", "-"]
    assert "pedestrians" not in table({**figures, "layout_iou_by_class": {}})


def test_wrong_captions_are_counted() -> None:
    street = STREETS.scene(JUDGED, 0)
    right = STREETS.describe(street, np.random.default_rng(0), True)
    other = "snowy" if street.weather != "snowy" else "foggy"
    found = caption_figures([right, right.replace(street.weather, other)], [street, street])
    assert found["caption_facts_by_kind"]["weather"] == 0.5
    assert 0.5 < found["caption_facts"] < 1
    assert caption_figures(["nothing"], [street])["caption_facts"] == 0


def test_suites_are_of_scenes_that_choose_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def judge(profile: Any, *given: Any, **rest: Any) -> list[Any]:
        asked.append((profile, given, rest))
        return []

    monkeypatch.setattr(report, "judge_variants", judge)
    anything: Any = SimpleNamespace(referee="referee")
    assert report.judge_suite(Subject(Path("w"), Path("work")), anything) == []
    pocket = replace(load_profile("pocket"), models=ModelPaths("w"))
    assert asked == [(pocket, (Path("work/measured/edits"), "referee", 300, 2), {"stream": JUDGED})]


def test_bars_are_at_least_or_at_most() -> None:
    share, rows = Bar("a.b", "", 0.5), Bar("rows", "", 2, least=False)
    assert (share.reached(0.5), share.reached(0.49)) == (True, False)
    assert (rows.reached(2), rows.reached(3)) == (True, False)
    assert share.of({"a": {"b": 0.25}}) == 0.25
    assert share.of({"a": {}}) is None
    assert share.of({"a": 3.0}) is None


def test_the_psnr_is_that_of_the_error() -> None:
    assert psnr(autoencode, [np.full((128, 128, 3), 90, np.uint8)]) == pytest.approx(20 * np.log10(255 / 4), abs=1e-4)


def test_nothing_else_looks_at_the_scenes_that_judge() -> None:
    root = Path(report.__file__).resolve().parents[2]
    code = {path: path.read_text() for part in ("export", "bench") for path in (root / part).rglob("*.py")}
    users = {path.name for path, text in code.items() if re.search(rf"\b(JUDGED|{JUDGED})\b", text)}
    assert users == {"data.py", "report.py", "validity.py", "hints.py"}
    assert len({TRAIN, HELD_OUT, DEMO, JUDGED, FIT, JUDGE}) == 6


def test_the_report_in_docs_is_of_all_scenes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[Subject] = []
    monkeypatch.setattr(report, "write_report", lambda subject, docs: asked.append(subject))
    monkeypatch.setattr(report, "table", lambda figures: "the table")
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
    assert run("--scenes", "5", "--docs", str(tmp_path / "d")) == 0
    assert capsys.readouterr().out == "the table\n"
    assert run() == 0
    assert [one.scenes for one in asked] == [5, 300]
