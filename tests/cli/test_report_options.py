"""Every option of `report` is seen to arrive; see wiring.py."""

from __future__ import annotations

import re

from wiring import MODEL, TWO_HEADS, House, answers, judgements, page, shows
from wiring_cases import arrival

from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.engine.suite import read_metadata
from counterfactory.engine.suite.ledger import Ledger


@shows("--out", "report")
def _(house: House, command: str) -> None:
    folder = house.new("report")
    assert "task classification; profile pocket; made 2" in page(house, house.suite(), "--out", folder)
    assert (folder / "index.html").is_file()


@shows("--model", "report")
def _(house: House, command: str) -> None:
    suite, kinds = house.suite(), house.file("kinds.txt", "\n".join(EMBEDDED.kinds))
    assert "p(true)" in page(house, suite, "--model", MODEL, "--classes", kinds)
    twice = page(house, suite, "--predictions", answers(house, suite), "--model", MODEL, "--classes", kinds)
    assert "The second against the first" in twice
    assert 'class="forest"' in twice
    assert re.search(r"Cannot be told yet, in points of accuracy: .* sources like these 3\.", twice)


@shows("--preprocess", "report")
def _(house: House, command: str) -> None:
    house.refuses("'sharpen'", command, house.suite(), "--model", MODEL, "--preprocess", "sharpen=2")


@shows("--output", "report")
@shows("--fresh", "report")
def _(house: House, command: str) -> None:
    suite, kinds = house.suite(), house.file("four.txt", "bus\ncar\ntram\ntruck")
    house.refuses("first, second", command, suite, "--model", TWO_HEADS, "--output", "third", "--classes", kinds)
    pages = [
        page(house, suite, "--model", TWO_HEADS, "--output", output, "--classes", kinds, *more)
        for output, *more in (("first",), ("second",), ("first", "--fresh"))
    ]
    assert pages[0] != pages[1]
    bases = [Ledger(base, read_only=True) for base in (suite / "predictions").glob("*.sqlite")]
    assert sorted(stage for base in bases for stage in base.stages() if "answers" in stage) == [
        *("answers 0", "answers 0", "answers 1")
    ]
    for word in (("--output", "first"), ("--fresh",)):
        house.refuses(word[0], command, suite, *word)


@shows("--predictions", "report")
def _(house: House, command: str) -> None:
    suite = house.suite()
    assert "tram" not in page(house, suite)
    lines = ["image,prediction", *(f"{row.file_name},tram" for row in read_metadata(suite))]
    table, names = house.file("answers.csv", "\n".join(lines)), house.file("names.txt", "bus\ncar\ntram\n")
    assert "tram" in page(house, suite, "--predictions", table, "--classes", names)


@shows("--classes", "report")
def _(house: House, command: str) -> None:
    suite = house.suite()
    names = house.file("names.txt", "\n".join(f"thing {index}" for index, _ in enumerate(EMBEDDED.classes)))
    assert "thing 1" not in page(house, suite)
    assert "thing 1" in page(house, suite, "--classes", names)


@shows("--profile", "report")
def _(house: House, command: str) -> None:
    house.refuses("no profile 'none'", command, house.suite(), "--profile", "none")


@shows("--valid", "report")
def _(house: House, command: str) -> None:
    suite = house.suite()
    house.run("check", suite, "--set", "check.image_text=0.3")
    assert "of all valid" not in page(house, suite)
    assert "of all valid" in page(house, suite, "--valid", judgements(house, suite))


@shows("--no-edges", "report")
def _(house: House, command: str) -> None:
    with_edges, without = (page(house, house.suite(), *more) for more in ((), ("--no-edges",)))
    assert with_edges.count("edges") > without.count("edges")


@shows("--single-file", "report")
def _(house: House, command: str) -> None:
    alone, folder = house.new("page.html"), house.new("report")
    assert "data:image" not in page(house, house.suite(), "--out", folder, "--single-file", alone)
    written = alone.read_text()
    assert written.count("data:image/webp;base64,") >= 3 * 4, "three sources with a control and two variants"
    assert "originals/" not in written, "no picture is elsewhere"


@shows("--markdown", "report")
def _(house: House, command: str) -> None:
    suite, summary = house.suite(), house.new("summary.md")
    page(house, suite, "--predictions", answers(house, suite), "--markdown", summary)
    assert "| pictures | count | accuracy |" in summary.read_text()


@shows("--limit", "report")
def _(house: House, command: str) -> None:
    suite = house.suite()
    assert "bus/0002" in page(house, suite)
    assert "bus/0002" not in page(house, suite, "--limit", 1)


test_an_option_of_report_arrives = arrival("report")
