"""`plan` shows what would be changed, and paints nothing."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from command_line import Command
from conftest import Street

from counterfactory.engine.api.verbs import one_sided
from counterfactory.engine.cli.plan_text import as_data, lines, show_spread
from counterfactory.engine.cli.terminal import Terminal
from counterfactory.engine.edit import Edit
from counterfactory.engine.journey import Plan
from counterfactory.engine.models import model_pool
from counterfactory.engine.report.suite_text import describe
from counterfactory.engine.runtime.blob_cache import SWITCH
from counterfactory.engine.runtime.opening import open_plan
from counterfactory.engine.sources.source import Problem, Source
from counterfactory.engine.stages.rewrite.rewrite_captions import ShardVariants
from counterfactory.engine.tasks.spread import TypeSpread
from counterfactory.engine.tasks.user_task import Interventions
from counterfactory.engine.variant import Variant

RAIN, SNOW, GONE = Edit("weather", "", "in the rain"), Edit("weather", "wet", "dry"), Edit("object", "with a ball", "")


def source(name: str, label: str | None) -> Source:
    return Source(name, name, Path(name), (8, 8), label, None, "d", name)


def variant(
    of: Source, index: int, edits: tuple[Edit, ...], text: str, dropped: str | None = None, repeat: int = 0
) -> Variant:
    return Variant("k", of, index, "a wet dog", edits, text, 0, dropped, protected=("dog",), repeat=repeat)


ONE, TWO = source("1.jpg", "dog"), source("2.jpg", None)
PLAN = Plan(
    {ONE: "a wet dog", TWO: "up"},
    ShardVariants(
        (
            Variant("c", ONE, 0, "a wet dog", (), "a wet dog", 0, None, "control"),
            variant(ONE, 1, (SNOW,), "a dry dog"),
            variant(ONE, 0, (SNOW,), "a dry dog", repeat=1),
            variant(ONE, 2, (RAIN, GONE), "a wet dog " + "in the rain " * 8),
        ),
        (variant(ONE, 0, (RAIN,), "", "it lacks 'dog'"),),
        (Problem("2.jpg", "no words"),),
    ),
    (Problem("3.jpg", "gone"),),
)


def test_a_plan_is_said_within_80_columns() -> None:
    said = list(lines(PLAN))
    rain = " ".join(["in the rain"] * 5)
    assert said == [
        "",
        "source     1.jpg (dog)",
        "caption    a wet dog",
        "protected  dog",
        "variant 0  weather: + in the rain",
        "           dropped: it lacks 'dog'",
        "variant 0  weather: wet -> dry, again (1)",
        "           a dry dog",
        "variant 1  weather: wet -> dry",
        "           a dry dog",
        "variant 2  weather: + in the rain; object: - with a ball",
        f"           a wet dog {rain}",
        "           in the rain in the rain in the rain",
        "",
        "source     2.jpg",
        "caption    up",
        "protected  nothing",
        "short      no words",
    ]
    assert max(map(len, said)) <= 80


def test_the_spread_fits_80_columns_and_warns_of_what_nobody_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    red = TypeSpread("colour", 240_000, 0.5, tuple((f"a long value number {i}", 100) for i in range(2400)))
    night = TypeSpread("time", 240_000, 0.5, (("night", 240_000),))
    show_spread([red, night], Terminal())
    out, err = capsys.readouterr()
    assert "most often" in out
    assert err == ""
    assert max(map(len, out.splitlines())) <= 80
    show_spread([], Terminal())
    assert capsys.readouterr() == ("", "")
    for allowed, warned in ((None, True), (Interventions((("time", ("night",)),)), False)):
        notes = one_sided([red, night], allowed)
        assert any("100 % of the 240,000 edits of type time bring 'night'" in note for note in notes) == warned
    (note,) = one_sided([night], Interventions((("time", ("night", "noon")),)))
    assert "bring 'night'" in note
    assert one_sided([], None) == []


def test_a_plan_as_data() -> None:
    data = as_data(PLAN)
    assert data["problems"] == [{"name": "3.jpg", "reason": "gone"}]
    one, two = data["sources"]
    assert (two["source"], two["label"], two["caption"], two["protected"], two["variants"], two["shortfall"]) == (
        *("2.jpg", None, "up", [], [], "no words"),
    )
    assert [(v["number"], v["repeat"], v["dropped"]) for v in one["variants"]] == [
        (0, 0, "it lacks 'dog'"), (0, 1, None), (1, 0, None), (2, 0, None),
    ]  # fmt: skip
    assert one["variants"][3]["edits"] == [
        {"type": "weather", "kind": "add", "keyword": "", "alternative": "in the rain"},
        {"type": "object", "kind": "remove", "keyword": "with a ball", "alternative": ""},
    ]
    assert one["shortfall"] is None
    assert json.loads(json.dumps(data)) == data
    assert describe(SNOW) == "weather: wet -> dry"


def test_caches_of_gpus_libraries_that_cannot_be_written_are_told_once_a_run(
    street: Street, tmp_path: Path, run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever runtime opens a plan tells the run of it."""
    reported = 0

    def telling(*arguments: Any) -> Any:
        nonlocal reported
        reported += 1
        arguments[-1](f"plan {reported} is not kept")
        return open_plan(*arguments)

    monkeypatch.setattr(model_pool, "open_plan", telling)
    status, _, err = run("plan", street.root / "images", "--first", "1", "--variants", "1")
    assert (status, reported > 1) == (0, True)
    assert [line for line in err.splitlines() if "is not kept" in line] == ["plan 1 is not kept"]


def test_plan_paints_nothing(street: Street, tmp_path: Path, run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(SWITCH, str(tmp_path / "file" / "compiled"))
    before = sorted(street.root.rglob("*"))
    asked = ["plan", str(street.root / "images"), "--first", "1", "--variants", "2", "--avoid", "blue,green", "--json"]
    written = tmp_path / "edits.csv"
    status, out, err = run(*asked, "--write", written)
    assert (status, "compiled networks are not kept for the next run" in err) == (0, True)
    said = json.loads(out)
    (found,) = said["sources"]
    assert len(found["variants"]) == 2
    planned = [edit["type"] for variant in found["variants"] for edit in variant["edits"]]
    assert Counter(planned) == {one["type"]: one["edits"] for one in said["edits"]}
    assert all(v["edited_caption"] != found["caption"] for v in found["variants"])
    assert found["label"] in found["protected"]
    assert sorted(street.root.rglob("*")) == before
    rows = written.read_text().splitlines()
    assert len(rows) == 1 + sum(len(v["edits"]) for v in found["variants"] if not v["dropped"] and not v["repeat"])
    run.refuses("may hold labels", *asked, "--write", written)
