"""The pocket report: every key where it belongs, by networks in miniature, and the table of it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from exporter import run_exporter
from numpy.typing import NDArray

from counterfactory.engine.pocket.judges import Referee
from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.engine.profile.profile import Profile
from counterfactory.engine.request import SuiteRequest
from counterfactory.engine.runtime.session import Port, Signature
from counterfactory.export.pocket import report
from counterfactory.export.pocket.data import DEMO, HELD_OUT, JUDGED, TRAIN
from counterfactory.export.pocket.judges import OUTPUTS, RefereeNet
from counterfactory.export.pocket.observed import Judged, draw_pairs, observe_pairs
from counterfactory.export.pocket.report import BARS, Bar, Subject, caption_figures, table, write_report
from counterfactory.export.pocket.world import FIT, JUDGE

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


def test_bars_are_of_figures_within_tables() -> None:
    share = Bar("a.b", "", 0.5)
    assert [share.of({"a": inner}) for inner in ({"b": 0.25}, {}, 3.0)] == [0.25, None, None]


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

    def run(*more: str) -> int | str | None:
        return run_exporter("pocket", "--report", "--weights", str(tmp_path), "--work", str(tmp_path), *more)

    assert run("--scenes", "299") == 2
    assert "the report in docs is of 300 scenes, 299 asked for; name another folder with --docs" in (
        capsys.readouterr().err
    )
    assert run("--scenes", "5", "--docs", str(tmp_path / "d")) == 0
    assert capsys.readouterr().out == "the table\n"
    assert run() == 0
    assert [one.scenes for one in asked] == [5, 300]
