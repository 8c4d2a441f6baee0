"""Every option of `pack` is seen to arrive; see wiring.py."""

from __future__ import annotations

from pathlib import Path

from wiring import House, shows
from wiring_cases import arrival


@shows("SUITE", "pack")
@shows("--out", "pack")
@shows("--form", "pack")
def _(house: House, command: str) -> None:
    suite, out = house.suite(), house.new("set")
    ran = house.run(command, suite, "--out", out, "--form", "datasets")
    assert (ran.status, ran.data["pictures"]) == (0, 12)
    assert (out / "README.md").is_file()
    assert [Path(file).parent for file in ran.data["files"]] == [out / "data"]


@shows("--shard-mb", "pack")
def _(house: House, command: str) -> None:
    assert house.run(command, house.suite(), "--out", house.new("tars"), "--shard-mb", 0).status == 2
    ran = house.run(command, house.suite(), "--out", house.new("tars"), "--shard-mb", 1)
    assert [Path(file).suffix for file in ran.data["files"]] == [".tar"]


test_an_option_of_pack_arrives = arrival("pack")
