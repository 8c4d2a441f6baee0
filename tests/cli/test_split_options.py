"""Every option of `split` is seen to arrive; see wiring.py."""

from __future__ import annotations

from wiring import House, shows
from wiring_cases import arrival

from counterfactory.engine.suite import read_metadata


@shows("SUITE", "split")
@shows("--out", "split")
def _(house: House, command: str) -> None:
    outs = [house.new(name) for name in "abc"]
    ran = house.run(command, house.suite(), "--out", *outs)
    assert ran.status == 0
    assert [[row.source for row in read_metadata(out) if row.kind == "original"] for out in outs] == [
        *(["bus/0000"], ["bus/0002"], ["car/0001"])
    ]


@shows("--sources", "split")
def _(house: House, command: str) -> None:
    names, outs = house.file("names.txt", "car/0001\n"), [house.new("a"), house.new("b")]
    assert house.run(command, house.suite(), "--out", *outs, "--sources", names).status == 0
    assert {row.source for row in read_metadata(outs[0])} == {"car/0001"}


test_an_option_of_split_arrives = arrival("split")
