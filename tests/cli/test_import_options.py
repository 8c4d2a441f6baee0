"""Every option of `import` is seen to arrive; see wiring.py."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image
from profiles import profile_with
from wiring import House, shows
from wiring_cases import arrival

# Of pairs.


@shows("PAIRS", "import")
def _(house: House, command: str) -> None:
    assert [edit["alternative"] for edit in house.ask(command).edits] == ["bright"] * 3
    house.fails("there is no", command, of=house.root / "none.csv")


def numbered(house: House) -> Path:
    """The pairs with numbers for labels."""
    path = house.pairs.with_name("numbered.csv")
    path.write_text(house.pairs.read_text().replace(",bus", ",1").replace(",car", ",0"))
    return path


@shows("--class-map", "import")
def _(house: House, command: str) -> None:
    assert house.ask(command, of=numbered(house)).labels == {"0", "1"}
    names = house.file("names.txt", "CAR\nBUS\n")
    assert house.ask(command, "--class-map", names, of=numbered(house)).labels == {"BUS", "CAR"}


@shows("--seed", "import")
def _(house: House, command: str) -> None:
    assert len({house.ask(command, "--sample", 1, "--seed", seed).rows[0].source for seed in range(4)}) > 1


@shows("--allow-out-of-domain", "import")
def _(house: House, command: str) -> None:
    """Where networks look at pairs that do not know all of them."""
    save = Image.fromarray(np.random.default_rng(0).integers(0, 255, (128, 128, 3), np.uint8)).save
    for name in ("x", "edited/x"):
        save(house.pairs.parent / f"{name}.png")
    pairs = house.pairs.with_name("strange.csv")
    pairs.write_text(f"{house.pairs.read_text()}\nx.png,edited/x.png,light: bright,bus")
    judged = ("--profile", profile_with(house.new("profile"), painter={"kind": "given"}, name="judged"))
    ran = house.ask(command, *judged, of=pairs)
    assert (ran.status, ran.count) == (1, 3)
    assert house.ask(command, *judged, "--allow-out-of-domain", of=pairs).count == 4


@shows("--profile", "import")
def _(house: House, command: str) -> None:
    house.fails("no profile 'none'", command, "--profile", "none")
    assert house.ask(command).data["accepted"] == 3
    strict = profile_with(house.new("profile"), "given", check={"min_changed": 0.9})
    assert house.ask(command, "--profile", strict).data["rejected"] == 3


@shows("--task", "import")
def _(house: House, command: str) -> None:
    house.fails("segmentation needs masks", command, "--task", "segmentation")


@shows("--task-file", "import")
def _(house: House, command: str) -> None:
    task = 'name = "n"\nsentence = "likes photos"\nprotect = ["photo"]\nprotect_label = false\n'
    assert {row.protected for row in house.ask(command).rows} == {("bus",), ("car",)}
    told = house.ask(command, "--task-file", house.file("task.toml", task)).rows
    assert {row.protected for row in told} == {("photo",)}


test_an_option_of_import_arrives = arrival("import")
