"""Every option of `review` is seen to arrive; see wiring.py. What serves the page is seen in tests/review."""

from __future__ import annotations

import csv
import json
import socket
from pathlib import Path
from typing import Any

import pytest
from wiring import TWO_HEADS, House, answers, shows
from wiring_cases import arrival

from counterfactory.engine.cli.arguments import main
from counterfactory.engine.review import serving
from counterfactory.engine.suite import read_metadata
from counterfactory.engine.suite.ledger import Ledger


def asked(house: House, suite: Path, *options: str | int | Path) -> list[dict[str, str]]:
    """The table of a study that begins with these options."""
    file = house.new("answers.csv")
    ran = house.run("review", suite, "--export", file, *options)
    assert ran.status == 0, ran.err
    with file.open(newline="") as lines:
        return list(csv.DictReader(lines))


def reviewed(house: House, suite: Path, *raters: str, word: str = "yes", **more: str) -> Path:
    """A table in which these raters answer so about all of a study's variants, `more` of them otherwise."""
    rows = [row for row in asked(house, suite) if row["kind"] == "variant"]
    columns = [name for name in rows[0] if name == "label" or name.startswith("protected")]
    lines = [",".join(["item", "image", "rater", *columns])]
    for rater in (*raters, *more):
        said = more.get(rater, word)
        lines += [",".join([row["item"], row["image"], rater, *[said] * len(columns)]) for row in rows]
    return house.file("crowd.csv", "\n".join(lines))


def results(house: House, suite: Path, *options: str | Path) -> dict[str, Any]:
    ran = house.run("review", suite, "--results", *options)
    assert ran.status == 0, ran.err
    return ran.data


def whole(data: dict[str, Any]) -> dict[str, Any]:
    (one,) = [one for one in data["validity"] if one["of"] == "all"]
    return dict(one)


@shows("SUITE", "review")
@shows("--export", "review")
@shows("--json", "review")
def _(house: House, command: str) -> None:
    suite = house.suite()
    variants = {row.file_name for row in read_metadata(suite) if row.kind == "variant" and row.accepted}
    assert {row["image"] for row in asked(house, suite)} == variants
    house.refuses("no finished suite", command, house.root / "none", "--export", house.new("x.csv"))


@shows("--study", "review")
def _(house: House, command: str) -> None:
    suite, study = house.suite(), house.new("study.sqlite")
    asked(house, suite, "--study", study)
    assert study.is_file()
    assert not (suite / "review.sqlite").exists()


@shows("--raters", "review")
def _(house: House, command: str) -> None:
    house.refuses(
        "two raters are called 'Anna'", command, house.suite(), "--raters", "anna,Anna", "--export", house.new("x.csv")
    )


@shows("--questions", "review")
def _(house: House, command: str) -> None:
    assert "realism" in asked(house, house.suite(), "--questions", "lance")[0]
    suite, own = house.suite(), house.root / "own.toml"
    own.write_text('[[questions]]\nname = "sky"\ntext = "A sky?"\nkind = "yes-no"\n')
    assert "sky" in asked(house, suite, "--questions", own)[0]
    house.refuses("another study (questions)", command, suite, "--questions", "lance", "--export", house.new("x.csv"))


@shows("--draw", "review")
def _(house: House, command: str) -> None:
    suite = house.suite()
    name = next(row.file_name for row in read_metadata(suite) if row.kind == "variant" and row.accepted)
    house.run("check", suite, "--exclude", name)
    assert name in {row["image"] for row in asked(house, suite, "--draw", "gate")}
    study = house.new("study.sqlite")
    assert name not in {row["image"] for row in asked(house, suite, "--study", study, "--draw", "random")}
    house.refuses(
        "another study (draw)", command, suite, "--study", study, "--draw", "gate", "--export", house.new("x.csv")
    )


@shows("--by", "review")
def _(house: House, command: str) -> None:
    rows = asked(house, house.suite(), "--by", "class", "--sample", 2, "--checks", 0)
    assert sorted(row["class"] for row in rows) == ["bus", "car"]


@shows("--sample", "review")
def _(house: House, command: str) -> None:
    assert len(asked(house, house.suite(), "--sample", 1, "--checks", 0)) == 1


@shows("--checks", "review")
def _(house: House, command: str) -> None:
    kinds = [row["kind"] for row in asked(house, house.suite(), "--checks", "100%")]
    assert {"control", "other", "variant"} == {*kinds}


@shows("--seed", "review")
def _(house: House, command: str) -> None:
    orders = [[row["image"] for row in asked(house, house.suite(), "--seed", seed)] for seed in range(4)]
    assert orders[0] == [row["image"] for row in asked(house, house.suite())]
    assert any(order != orders[0] for order in orders)


@shows("--per-picture", "review")
@shows("--results", "review")
@shows("--import", "review")
def _(house: House, command: str) -> None:
    for need, unfinished in ((1, False), (5, True)):
        suite = house.suite()
        asked(house, suite, "--per-picture", need)
        house.refuses("nobody has answered", command, suite, "--results", "--agree", "79%")
        ran = house.run(command, suite, "--import", reviewed(house, suite, "a"))
        assert ran.data["taken"] > 0
        assert ran.data.keys() == {"study", "items", "taken", "unanswered"}
        one = whole(results(house, suite))
        assert (one["unfinished"] > 0) == unfinished
        assert (one["valid"]["value"] == 1.0) != unfinished


@shows("--agree", "review")
def _(house: House, command: str) -> None:
    suite = house.suite()
    house.run(command, suite, "--import", reviewed(house, suite, "a", "b", "c", d="no", e="no"))
    assert whole(results(house, suite))["valid"]["count"] == 0
    assert whole(results(house, suite, "--agree", "60%"))["valid"]["value"] == 1.0


@shows("--without", "review")
def _(house: House, command: str) -> None:
    suite = house.suite()
    house.run(command, suite, "--import", reviewed(house, suite, "a", "b", "c", "d", x="no", y="no"))
    assert whole(results(house, suite))["valid"]["count"] == 0
    assert whole(results(house, suite, "--without", "x"))["valid"]["value"] == 1.0
    house.refuses("nobody called zoe", command, suite, "--results", "--without", "zoe")


@shows("--follow", "review")
def _(house: House, command: str) -> None:
    suite = house.suite()
    house.run(command, suite, "--import", reviewed(house, suite, *"abcde", word="no"))
    before = {row.file_name for row in read_metadata(suite) if row.kind == "variant" and row.accepted}
    assert before
    followed = results(house, suite, "--follow")["followed"]
    assert (followed["accepted"], followed["accepted_before"]) == (0, len(before))
    now = {row.file_name: row.reason for row in read_metadata(suite) if row.kind == "variant"}
    assert all(reason is not None for reason in now.values())
    assert all(
        str(now[name]).startswith("excluded by hand: reviewed by a, b, c, d, e: label no x 5") for name in before
    )


@shows("--model", "review")
@shows("--preprocess", "review")
def _(house: House, command: str) -> None:
    house.refuses("none.onnx", command, house.suite(), "--model", "none.onnx", "--export", house.new("x.csv"))
    words = ("--model", "counterfactory.engine.pocket.judges:classify_streets", "--preprocess", "sharpen=2")
    house.refuses("'sharpen'", command, house.suite(), *words, "--export", house.new("x.csv"))


@shows("--output", "review")
@shows("--fresh", "review")
def _(house: House, command: str) -> None:
    suite, kinds = house.suite(), house.file("four.txt", "bus\ncar\ntram\ntruck")
    more = ("--draw", "misclassified", "--model", TWO_HEADS, "--classes", kinds, "--output")
    house.refuses("first, second", command, house.suite(), *more, "third", "--export", house.new("x.csv"))
    words = (command, suite, *more)
    for output, again, files in (("first", (), 1), ("second", (), 2), ("second", ("--fresh",), 2)):
        house.run(*words, output, *again, "--study", house.new("study.sqlite"), "--export", house.new("x.csv"))
        bases = list((suite / "predictions").glob("*.sqlite"))
        assert len(bases) == files
    assert sum(1 for base in bases for stage in Ledger(base, read_only=True).stages() if stage == "answers 1") == 1


@shows("--predictions", "review")
@shows("--classes", "review")
def _(house: House, command: str) -> None:
    suite = house.suite()
    table = answers(house, suite)
    assert asked(house, suite, "--draw", "misclassified", "--predictions", table)
    house.run(command, suite, "--import", reviewed(house, suite, *"abcde"))
    corrected = results(house, suite, "--predictions", table)["corrected"]
    assert (corrected["error"], corrected["corrected"]["value"]) == (1.0, 1.0)
    house.refuses("none.txt", command, suite, "--results", "--predictions", table, "--classes", house.root / "none.txt")


def test_remarks_are_shown(house: House, capsys: pytest.CaptureFixture[str]) -> None:
    suite = house.suite()
    row = next(row for row in asked(house, suite, "--questions", "lance") if row["kind"] == "variant")
    lines = [f"{row['item']},{row['image']},{name},yes,\x1b[31mface {name}" for name in "abcdefg"]
    table = house.file("crowd.csv", "\n".join(["item,image,rater,ethics,ethics note", *lines]))
    assert main(["review", str(suite), "--import", str(table)]) == 0
    assert " ".join(capsys.readouterr().out.split()) == f"7 answers taken from {table}, 0 are empty there"
    assert ["a", row["image"], "ethics", "\x1b[31mface a"] in results(house, suite)["remarks"]
    assert main(["review", str(suite), "--results"]) == 0
    out = capsys.readouterr().out
    assert f"a on {row['image']}, ethics: \\x1b[31mface a" in out, "and obeyed by no terminal"
    assert "2 remarks more" in out


@pytest.mark.parametrize("address", [None, "https://review.example.org/"])
def test_each_rater_gets_a_link_and_ctrl_c_says_how_to_go_on(
    address: str | None, house: House, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[Any] = []

    class Server:
        port, closed = 4321, False

        def serve_forever(self) -> None:
            raise KeyboardInterrupt

        def server_close(self) -> None:
            asked.append("closed")

    def open_server(app: Any, port: int) -> Server:
        asked.extend((type(app), port))
        return Server()

    monkeypatch.setattr(serving, "open_server", open_server)
    suite = house.suite()
    words = ["review", str(suite), "--port", "8090", "--raters", "anna,ben", "--checks", "50%"]
    words += [] if address is None else ["--address", address]
    assert main([*words, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert main(words) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert asked == [serving.ReviewApp, 8090, "closed"] * 2
    base = "http://127.0.0.1:4321/r/" if address is None else f"{address}r/"
    assert list(data["links"]) == ["anna", "ben"]
    assert all(link.startswith(base) and link.endswith("/") for link in data["links"].values())
    assert (data["study"], data["variants"]) == (str(suite / "review.sqlite"), 4)
    assert data["checks"] > 0
    assert said.startswith(f"4 to review, and {data['checks']} checks; raters of each: 2 anna {data['links']['anna']}")
    assert "/ Each link is a rater's own. Ctrl-C ends; answers are kept as they are given. 0 answers" in said
    assert said.endswith(f"0 answers in {data['study']}; see them by: counterfactory review {suite} --results")


@shows("--port", "review")
def _(house: House, command: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        house.refuses(f"port {port} is not free", command, house.suite(), "--port", port)


@shows("--address", "review")
def _(house: House, command: str) -> None:
    house.refuses("--address is where raters reach", command, house.suite(), "--address", "review.example.org")


test_an_option_of_review_arrives = arrival("review")
