"""Every option of `plan` is seen to arrive; see wiring.py."""

from __future__ import annotations

from wiring import House, shows
from wiring_cases import arrival


@shows("--first", "plan")
def _(house: House, command: str) -> None:
    assert house.ask(command, "--first", 2).count == 2


@shows("--write", "plan")
def _(house: House, command: str) -> None:
    file = house.new("edits.csv")
    ran = house.ask(command, "--write", file)
    assert len(file.read_text().splitlines()) == 1 + len(ran.edits)


@shows("--baseline", "plan")
def _(house: House, command: str) -> None:
    mixed = house.file("mixed.txt", "time: at night\ncolour: red\n")
    asked = (command, "--interventions", mixed, "--edits", 1, "--variants", 2, "--baseline", "light")
    planned = house.ask(*asked)
    of_time = [edit["type"] for edit in planned.edits].count("time")
    assert 0 < of_time < len(planned.edits)
    assert planned.data["baselines"] == of_time
    assert house.ask(*asked[:-2]).data["baselines"] == 0
    made = [row.kind for row in house.ask("generate", *asked[1:]).rows]
    assert made.count("baseline") <= house.ask(*asked, "--first", 9).data["baselines"]
    house.fails("light draws it already", command, "--profile", "light", "--baseline", "light")


test_an_option_of_plan_arrives = arrival("plan")
