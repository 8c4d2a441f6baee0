"""`counterfactory predicts`: painted drops against real ones, by models whose drops follow from their thresholds."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from command_line import Command
from PIL import Image
from training_suites import colour_suite

from counterfactory.engine.suite.ledger import Ledger

# They say "bus" of what is lighter than their threshold; their numbers are scores of two classes.
MODELS = """
import numpy as np

def model(threshold):
    def classify(pictures):
        light = pictures.reshape(len(pictures), -1).mean(1) > threshold
        return ["bus" if seen else "car" for seen in light]
    return classify

a, b, c, d = map(model, (20, 80, 120, 160))

def number(pictures):
    return np.tile([0.9, 0.1], (len(pictures), 1))

def masks(pictures):
    return np.zeros(pictures.shape[:3], int)
"""
FOUR = tuple(f"darkness_of_tests:{name}" for name in "abcd")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "darkness_of_tests.py").write_text(MODELS)
    monkeypatch.chdir(tmp_path)
    colour_suite(tmp_path / "suite")
    yield tmp_path
    sys.modules.pop("darkness_of_tests", None)


def test_fresh_answers_are_of_the_suite_and_of_real_pictures(folder: Path, run: Command) -> None:
    expected = run.json(*words(folder))
    assert run.json(*words(folder, "--fresh")) == expected
    bases = list((folder / "suite" / "predictions").glob("*.sqlite"))
    assert len(bases) == 4
    rounds = [stage for base in bases for stage in Ledger(base, read_only=True).stages() if stage.startswith("answers")]
    assert sorted(rounds) == ["answers 0"] * 4 + ["answers 1"] * 4
    expected["transfers"].clear()
    (folder / "darkness_of_tests.py").write_text(MODELS.replace("(20, 80, 120, 160)", "(160, 120, 80, 20)") + "\n")
    sys.modules.pop("darkness_of_tests")
    assert run.json(*words(folder))["models"] != expected["models"], "what closures hold counts"


def real_table(folder: Path, label: str = "label", value: str = "bus") -> Path:
    """Real buses by day, and by nights of lightness 30, 100 and 150, at three places."""
    root = folder / "real"
    root.mkdir(exist_ok=True)
    lines = [f"image,{label},condition,place"]
    Image.fromarray(np.zeros((16, 16), np.uint8)).save(root / "mask.png")
    for place, dark in enumerate((30, 100, 150)):
        for name, light, condition in (("day", 200, ""), ("night", dark, "time: night")):
            Image.fromarray(np.full((16, 16, 3), light, np.uint8)).save(root / f"{name}{place}.png")
            lines.append(f"{name}{place}.png,{value},{condition},{place}")
    (root / "real.csv").write_text("\n".join(lines))
    return root / "real.csv"


def words(
    folder: Path, *more: str | Path, models: tuple[str, ...] = FOUR, table: Path | None = None
) -> list[str | Path]:
    """The command on the suite and the real pictures."""
    named = [word for model in models for word in ("--model", model)]
    return ["predicts", folder / "suite", "--real", table or real_table(folder), *named, *more]


def test_real_drops_are_those_of_the_pictures(folder: Path, run: Command) -> None:
    data = run.json(*words(folder))
    of = {one["name"]: one for one in data["transfers"]}
    assert list(of) == ["all", "time", "time: night"]
    assert of["time"]["real"] == pytest.approx([0, -1 / 3, -2 / 3, -1])
    assert [one["name"] for one in data["models"]] == list(FOUR)
    assert (data["measure"], data["pictures"], data["places"]) == ("accuracy", 6, 3)
    painted = [one["painted"][0] for one in data["models"]]
    assert painted[1] == run.json("evaluate", folder / "suite", "--model", FOUR[1])["effects"]["by_type"][0]


def test_a_table_says_whether_they_predict(folder: Path, run: Command) -> None:
    status, said, _ = run(*words(folder))
    assert status == 0
    assert "4 models, 6 real pictures of 3 places" in " ".join(said.split())
    assert "time: whether painted drops predict real ones cannot be told" in said


def test_answers_about_real_pictures_are_kept(folder: Path, run: Command) -> None:
    first = run.json(*words(folder))
    files = sorted((folder / "suite" / "predictions").glob("*.sqlite"))
    assert len(files) == 4
    (folder / "darkness_of_tests.py").write_text(MODELS)
    assert run.json(*words(folder)) == first
    assert not [path for path in folder.glob("real/*") if path.suffix not in (".png", ".csv")]


def test_a_models_numbers_are_named(folder: Path, run: Command) -> None:
    (folder / "names.txt").write_text("bus\ncar\n")
    four = ("darkness_of_tests:number",) * 4
    data = run.json(*words(folder, "--classes", folder / "names.txt", models=four))
    assert [one["real"] for one in data["transfers"]] == [[0, 0, 0, 0]] * 3
    assert {one["rank_correlation"]["value"] for one in data["transfers"]} == {None}
    (folder / "names.txt").write_text("tram\nferry\n")
    run.refuses("", *words(folder, "--classes", folder / "names.txt", models=four))


def test_too_few_models_and_words_that_say_nothing_are_refused(folder: Path, run: Command) -> None:
    run.refuses("needs 4 models or more, got 3", *words(folder, models=FOUR[:3]))
    run.refuses("'sharpen'", *words(folder, "--preprocess", "sharpen=2"))
    run.refuses("has no output 'b'", *words(folder, "--output", "b"))
    (folder / "answers.csv").write_text("image,prediction\n")
    run.refuses("is no model that can be asked", *words(folder, models=("answers.csv",) * 4))


def test_labels_and_masks_are_not_mixed(folder: Path, run: Command) -> None:
    masked = real_table(folder, "mask", "mask.png")
    run.refuses("answers labels, and the real pictures have masks", *words(folder, table=masked))


def test_masks_are_compared_by_each_pictures_miou(folder: Path, run: Command) -> None:
    """Half of a real mask is class 1 by night: a model that says 0 everywhere loses half of 1 and all of the other."""
    table = real_table(folder, "mask", "mask.png")
    half = np.zeros((16, 16), np.uint8)
    half[8:] = 1
    Image.fromarray(half).save(table.parent / "half.png")
    rows = table.read_text().splitlines()
    table.write_text("\n".join(row.replace("mask.png", "half.png") if "night" in row else row for row in rows))
    data = run.json(*words(folder, models=("darkness_of_tests:masks",) * 4, table=table))
    assert data["measure"] == "picture mIoU"
    assert [one["real"] for one in data["transfers"]] == [pytest.approx([-0.75] * 4)] * 3
