"""Every option of `evaluate` is seen to arrive; see wiring.py."""

from __future__ import annotations

import contextlib
import io
import shutil
from pathlib import Path

import pytest
from wiring import MODEL, TWO_HEADS, House, answers, shows
from wiring_cases import arrival

from counterfactory.engine.cli.arguments import main
from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.engine.suite import read_metadata


@shows("--model", "evaluate")
def _(house: House, command: str) -> None:
    suite = house.suite()
    ran = house.run(command, suite, "--model", MODEL, "--classes", house.file("kinds.txt", "\n".join(EMBEDDED.kinds)))
    assert [one["name"] for one in ran.data["beside"]] == ["p(true)"]
    assert len(list((suite / "predictions").glob("*.sqlite"))) == 1
    house.refuses("--model MODEL", command, house.suite())


@shows("--preprocess", "evaluate")
def _(house: House, command: str) -> None:
    house.refuses("'sharpen'", command, house.suite(), "--model", MODEL, "--preprocess", "sharpen=2")


@shows("--output", "evaluate")
def _(house: House, command: str) -> None:
    suite, kinds = house.suite(), ("--classes", house.file("four.txt", "bus\ncar\ntram\ntruck"))
    truths = [row.label for row in read_metadata(suite) if row.kind == "original"]
    for output, label in (("first", "bus"), ("second", "car")):
        ran = house.run(command, suite, "--model", TWO_HEADS, "--output", output, *kinds)
        assert ran.data["originals"]["score"]["value"] == pytest.approx(truths.count(label) / len(truths))
    both = ("--model", TWO_HEADS, "--model", TWO_HEADS, *kinds)
    ran = house.run(command, suite, *both, "--output", "first", "--output", "second")
    ((name, first, second),) = [
        (one["name"], one["first"], one["second"]) for one in ran.data["comparisons"][0]["sides"]
    ][:1]
    assert (name, first, second) == ("originals", truths.count("bus") / 3, truths.count("car") / 3)
    assert not any("alike" in note for note in ran.data["notes"])
    ran = house.run(command, suite, *both, "--output", "first")
    assert any("alike" in note for note in ran.data["notes"])
    house.refuses("first, second", command, suite, "--model", TWO_HEADS, "--output", "third", *kinds)
    house.refuses("3 times for 2 models", command, suite, *both, *["--output", "first"] * 3)


@shows("--fresh", "evaluate")
def _(house: House, command: str) -> None:
    suite, kinds = house.suite(), ("--classes", house.file("kinds.txt", "\n".join(EMBEDDED.kinds)))
    kept = [
        any("were kept" in note for note in house.run(command, suite, "--model", MODEL, *kinds, *more).data["notes"])
        for more in ((), ("--all",), ("--fresh",), ("--all", "--fail-under", "0"))
    ]
    assert kept == [False, True, False, True]


@shows("--predictions", "evaluate")
def _(house: House, command: str) -> None:
    suite = house.suite()
    scores = [
        house.run(command, suite, "--predictions", answers(house, suite, wrong)).data["variants"]["score"]["value"]
        for wrong in ("variant", "control")
    ]
    assert scores == [0, 1]


def masked(house: House, suite: Path) -> Path:
    folder = house.new("masks")
    for row in read_metadata(suite):
        file = folder / row.file_name
        file.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(suite / str(row.mask), file.with_suffix(".png"))
    return folder


@shows("--classes", "evaluate")
def _(house: House, command: str) -> None:
    suite = house.suite()
    names = house.file("names.txt", "\n".join(name.upper() for name in EMBEDDED.classes))
    ran = house.run(command, suite, "--predictions", masked(house, suite), "--classes", names)
    assert ran.data["classes"] == [name.upper() for name in EMBEDDED.classes]


@shows("--max-drop", "evaluate")
def _(house: House, command: str) -> None:
    suite = house.suite()
    ran = house.run(command, suite, "--predictions", answers(house, suite), "--max-drop", "bus=5")
    assert ["bus" in one["limit"] for one in ran.data["limits"]] == [True]


@shows("--max-regression", "evaluate")
def _(house: House, command: str) -> None:
    suite, file = house.suite(), house.new("limits.xml")
    pair = [answers(house, suite, wrong) for wrong in ("none", "variant")]
    both = ("--predictions", pair[0], "--predictions", pair[1])
    ran = house.run(command, suite, *both, "--max-regression", 100, "--junit", file)
    assert [one["limit"] for one in ran.data["limits"]][2] == "variants lose at most 100 points"
    assert "lose at most 100 points" in file.read_text()
    (comparison,) = ran.data["comparisons"]
    assert [(one["name"], one["first"], one["second"]) for one in comparison["sides"]] == [
        *(("originals", 1, 1), ("controls", 1, 1), ("variants", 1, 0))
    ]
    house.refuses("twice", command, suite, "--predictions", pair[0], "--max-regression", 2)


@shows("--fail-under", "evaluate")
def _(house: House, command: str) -> None:
    suite = house.suite()
    assert house.run(command, suite, "--predictions", answers(house, suite), "--fail-under", 50).status == 3


@shows("--all", "evaluate")
def _(house: House, command: str) -> None:
    suite = house.new("suite")
    made = house.ask("generate", "--variants", 8, "--allow-out-of-domain").suite
    shutil.copytree(made, suite)
    asked = [str(word) for word in (command, suite, "--predictions", answers(house, suite))]
    said = []
    for more in ([], ["--all"]):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            main([*asked, *more])
        said.append(out.getvalue())
    assert len(said[0].splitlines()) < len(said[1].splitlines())


@shows("--table", "evaluate")
def _(house: House, command: str) -> None:
    suite = house.suite()
    both = [word for wrong in ("none", "variant") for word in ("--predictions", answers(house, suite, wrong))]
    (table,) = house.run(command, suite, *both, "--table", "dillema-table-1").data["tables"]
    assert [row[1:] for row in table["rows"]] == [
        ["0.0 %", "0.0 %", "0.0 %", "0.0 %", "100.0 %"],
        ["0.0 %", "0.0 %", "100.0 %", "100.0 %", "0.0 %"],
    ]


@shows("--failures", "evaluate")
def _(house: House, command: str) -> None:
    suite, file = house.suite(), house.new("failures.csv")
    house.run(command, suite, "--predictions", answers(house, suite), "--failures", file)
    variants = [row for row in read_metadata(suite) if row.kind == "variant" and row.reason is None]
    assert variants
    assert sum(row.file_name in file.read_text() for row in variants) == len(variants)


@shows("--order", "evaluate")
def _(house: House, command: str) -> None:
    """All variants, the model's own failures first; a second model's count as well."""
    suite, file = house.suite(), house.new("order.csv")
    variants = {row.file_name: row.label for row in read_metadata(suite) if row.kind == "variant" and row.accepted}
    last = list(variants)[-1]
    right = "".join(f"{name},{label}\n" for name, label in variants.items() if name != last)
    table = house.file(
        "answers.csv", f"image,prediction\n{right}{last},{'car' if variants[last] == 'bus' else 'bus'}\n"
    )
    house.run(command, suite, "--predictions", table, "--order", file)
    assert file.read_text().splitlines()[1].startswith(last)
    assert len(file.read_text().splitlines()) == 1 + len(variants)
    alone = file.read_text()
    good = answers(house, suite, "none")
    house.run(command, suite, "--predictions", good, "--predictions", table, "--order", file)
    assert file.read_text() != alone


@shows("--junit", "evaluate")
def _(house: House, command: str) -> None:
    suite, file = house.suite(), house.new("limits.xml")
    house.run(command, suite, "--predictions", answers(house, suite), "--fail-under", 50, "--junit", file)
    assert "<failure" in file.read_text()


test_an_option_of_evaluate_arrives = arrival("evaluate")
