"""Every option of `generate` is seen to arrive; see wiring.py."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image
from profiles import profile_with
from wiring import CASES, House, options_by_command, shows, stems
from wiring_cases import shown


@shows("--baseline", "generate")
def _(house: House, command: str) -> None:
    asked = (command, "--interventions", house.file("night.txt", "time: at night\n"))
    kinds = {row.kind for row in house.ask(*asked, "--baseline", "light").rows}
    assert kinds == {"original", "variant", "baseline"}
    assert {row.kind for row in house.ask(*asked).rows} == {"original", "variant"}


@shows("--anyway", "generate")
def _(house: House, command: str) -> None:
    strict = profile_with(house.new("strict"), shard_sources=1, check={"min_image_text": 1.0})
    pictures = ("--profile", strict, "--variants", 24, "--edits", 1)
    house.fails("of the first", command, *pictures)
    ran = house.ask(command, *pictures, "--anyway")
    assert ran.count == 3
    assert not any(row.accepted for row in ran.rows if row.kind == "variant")


@shows("--protect", "generate")
def _(house: House, command: str) -> None:
    street = house.root / "street"
    house.fails("[protect] needs masks", command, "--protect", "1")
    masks = {stem: np.asarray(Image.open(street / "masks" / f"{stem}.png")) for stem in stems(street / "masks")}
    number = int(np.bincount(np.stack(list(masks.values())).ravel()).argmax())
    apart: list[list[float]] = []
    for more in ((), ("--protect", number)):
        ran = house.ask(command, *more, of=street)
        assert ran.suite is not None
        apart.append([])
        for row in ran.rows:
            if row.kind == "variant":
                pair = [np.asarray(Image.open(ran.suite / name), np.float64) for name in (row.file_name, row.original)]
                apart[-1].append(float(np.abs(pair[0] - pair[1])[masks[row.source] == number].mean()))
    assert len(apart[0]) == 3
    assert all(held < free for free, held in zip(*apart, strict=True))


@pytest.mark.parametrize("option", shown("generate"))
def test_an_option_of_generate_arrives(house: House, option: str) -> None:
    CASES["generate", option](house, "generate")


def test_no_option_of_generate_is_without_a_case() -> None:
    assert options_by_command()["generate"] == set(shown("generate"))
