"""Every option of `generate` is seen to arrive; see wiring.py."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from profiles import profile_with
from stand_in_ray import StandInRay
from wiring import House, Ran, shows, stems
from wiring_cases import arrival

from counterfactory.engine.cluster import ray_boxes


@shows("--baseline", "generate")
def _(house: House, command: str) -> None:
    asked = (command, "--interventions", house.file("night.txt", "time: at night\n"))
    kinds = {row.kind for row in house.ask(*asked, "--baseline", "light").rows}
    assert kinds == {"original", "variant", "baseline"}
    assert {row.kind for row in house.ask(*asked).rows} == {"original", "variant"}


@shows("--anyway", "generate")
def _(house: House, command: str) -> None:
    strict = profile_with(house.new("strict"), shard_sources=2, check={"min_image_text": 1.0})
    pictures = ("--profile", strict, "--variants", 12, "--edits", 1)
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
        apart.append([])
        for row in ran.rows:
            if row.kind == "variant":
                pair = [np.asarray(Image.open(ran.suite / name), np.float64) for name in (row.file_name, row.original)]
                apart[-1].append(float(np.abs(pair[0] - pair[1])[masks[row.source] == number].mean()))
    assert len(apart[0]) == 3
    assert all(held < free for free, held in zip(*apart, strict=True))


def on_boxes(house: House, ray: StandInRay, *args: str | Path) -> Ran:
    """A suite made by workers without Ray's processes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ray_boxes, "connected", ray.connected)
        return house.ask("generate", "--profile", "light", "--shard", 1, *args)


@shows("--ray", "generate")
@shows("--workers", "generate")
def _(house: House, command: str) -> None:
    alone = house.ask(command, "--profile", "light")
    for workers in (1, 3):
        ran = on_boxes(house, StandInRay(random.Random(0), cores=4), "--ray", "auto", "--workers", str(workers))
        assert ran.data["suite_digest"] == alone.data["suite_digest"]
        assert ran.data["devices"] == workers
    house.fails("give --ray ADDRESS as well", command, "--workers", 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ray_boxes, "_health", lambda address, more: (int(address == "nobody:1"), ""))
        house.fails("no Ray cluster answers at nobody:1", command, "--profile", "light", "--ray", "nobody:1")


@shows("--parts", "generate")
def _(house: House, command: str) -> None:
    place, seen = house.new("parts"), set[str]()

    class Looking(StandInRay):
        def get(self, call: Any) -> Any:
            answer = super().get(call)
            seen.update(path.suffix for path in place.iterdir())
            return answer

    assert on_boxes(house, Looking(random.Random(0)), "--ray", "auto", "--parts", place).status == 0
    assert ".part" in seen
    assert not place.exists()
    house.fails("give --ray ADDRESS as well", command, "--parts", place)


@shows("--shard-log", "generate")
def _(house: House, command: str) -> None:
    log = house.new("shards.jsonl")
    asked = (command, "--profile", "light", "--shard", 2, "--shard-log", log)
    assert house.ask(*asked).status == 0
    on_boxes(house, StandInRay(random.Random(0)), "--ray", "auto", "--shard-log", log)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(line["done"], line["of"], line["accepted"] + line["rejected"]) for line in lines[:2]] == [
        (1, 2, 2),
        (2, 2, 1),
    ]
    assert [line["first"] for line in lines[:2]] == ["bus/0000", "car/0001"]
    assert {line["first"] for line in lines[2:]} == {"bus/0000", "bus/0002", "car/0001"}
    assert all(line["host"] for line in lines[2:])


test_an_option_of_generate_arrives = arrival("generate")
