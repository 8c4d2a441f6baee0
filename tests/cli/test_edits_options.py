"""Every option of `edits` is seen to arrive; see wiring.py."""

from __future__ import annotations

from wiring import House, shows
from wiring_cases import arrival


@shows("SUITE|FILE", "edits")
@shows("--write", "edits")
def _(house: House, command: str) -> None:
    suite, file = house.suite(), house.new("edits.csv")
    ran = house.run(command, suite, "--write", file)
    assert len(file.read_text().splitlines()) == 1 + ran.data["edits"]
    assert house.run(command, file).status == 2, "nothing is labelled"


def drawn(house: House, *more: str | int) -> str:
    suite, file = house.suite(), house.new("edits.csv")
    assert house.run("edits", suite, "--write", file, *more).status == 0
    return file.read_text()


@shows("--sample", "edits")
def _(house: House, command: str) -> None:
    assert len(drawn(house, "--sample", 2).splitlines()) == 3


@shows("--seed", "edits")
def _(house: House, command: str) -> None:
    assert len({drawn(house, "--sample", 1, "--seed", seed) for seed in (0, 1)}) == 2


@shows("--profile", "edits")
def _(house: House, command: str) -> None:
    house.refuses("no profile 'none'", command, house.file("edits.csv", drawn(house)), "--profile", "none")


test_an_option_of_edits_arrives = arrival("edits")
