"""What shows that options arrive which several commands have; see wiring.py."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from profiles import profile_with
from wiring import CASES, EDITS, MAKES, SETS, House, answers, options_by_command, page, shows, stems

from counterfactory.engine.cli.arguments import main

# Which sources, and what is known of them.


@shows("SOURCES", *SETS)
def _(house: House, command: str) -> None:
    assert house.ask(command).count == 3
    house.fails("there is no", command, of=house.root / "none")


@shows("--labels", *SETS)
def _(house: House, command: str) -> None:
    ran = house.ask(command, "--labels", house.file("labels.csv", "image,label\nbus/0000.png,omnibus\n"))
    assert ran.count == 1
    if command != "estimate":
        assert ran.labels == {"omnibus"}


@shows("--masks", *SETS, "import")
def _(house: House, command: str) -> None:
    masks = house.new("masks")
    shutil.copytree(house.root / "street" / "masks", masks)
    (masks / "car" / "0001.png").unlink()
    ran = house.ask(command, "--masks", masks)
    assert (ran.status, ran.count) == (1, 2)
    assert "skipped car/0001" in ran.err
    if command in MAKES:
        assert all(row.mask for row in ran.rows)
        assert not any(row.mask for row in house.ask(command).rows)


def depth_maps(house: House, values: float, count: int = 3) -> Path:
    folder = house.new("depth")
    for stem in stems(house.flat)[:count]:
        (folder / stem).parent.mkdir(parents=True, exist_ok=True)
        np.save(folder / f"{stem}.npy", np.full((128, 128), values))
    return folder


@shows("--depth", *SETS)
def _(house: House, command: str) -> None:
    ran = house.ask(command, "--depth", depth_maps(house, 7.0, count=2))
    assert (ran.status, ran.count) == (1, 2)
    assert "skipped car/0001" in ran.err


@shows("--depth-values", *SETS)
def _(house: House, command: str) -> None:
    depth = depth_maps(house, 1e-310)  # so near that its inverse is no number, and so far that it is one
    house.fails("none of the 3 images", command, "--depth", depth)
    assert house.ask(command, "--depth", depth, "--depth-values", "inverse").count == 3


@shows("--layout", *SETS)
def _(house: House, command: str) -> None:
    house.fails("annotations", command, "--layout", "coco")
    assert house.ask(command, "--layout", "folders").count == 3


@shows("--pairs", *SETS)
def _(house: House, command: str) -> None:
    mixed = house.new("pairs")
    mixed.mkdir()
    for kind, side in (("images", "img"), ("masks", "seg")):
        shutil.copy(house.root / "street" / kind / "bus" / "0000.png", mixed / f"bus_{side}.png")
    task = () if command == "estimate" else ("--task", "segmentation")
    ran = house.ask(command, "--pairs", "{stem}_img.png={stem}_seg.png", *task, of=mixed)
    assert ran.count == 1
    assert house.run("estimate", mixed, "--allow-out-of-domain").count == 2
    house.fails("no pattern of pairs", command, "--pairs", "{stem}.png", of=mixed)


@shows("--class-map", *SETS)
def _(house: House, command: str) -> None:
    house.fails("none.toml", command, "--class-map", house.root / "none.toml")
    if command != "estimate":
        numbers = house.file("numbers.csv", "image,label\nbus/0000.png,1\n")
        names = house.file("names.txt", "car\nbus\n")
        assert house.ask(command, "--labels", numbers, "--class-map", names).labels == {"bus"}


@shows("--split", *SETS)
def _(house: House, command: str) -> None:
    house.fails("--split names a list", command, "--split", "Main/val")


@shows("--boxes", *SETS)
def _(house: House, command: str) -> None:
    """The box leaves its picture as sizes, and lies in it as corners."""
    house.fails("--boxes is about boxes of", command, "--boxes", "corners")
    boxed = house.new("boxed")
    boxed.mkdir()
    shutil.copy(house.flat / "bus" / "0000.png", boxed / "a.png")
    thing = {"id": 1, "image_id": 1, "category_id": 1, "bbox": [70, 70, 90, 100]}
    about = {"images": [{"id": 1, "file_name": "a.png"}], "categories": [{"id": 1, "name": "bus"}]}
    (boxed / "instances_a.json").write_text(json.dumps({**about, "annotations": [thing]}))
    task = () if command == "estimate" else ("--task", "detection")
    house.fails("say --boxes corners", command, *task, of=boxed)
    ran = house.ask(command, "--boxes", "corners", *task, of=boxed)
    assert ran.count == 1
    if ran.suite is not None:
        assert [(box.x0, box.y0, box.x1, box.y1) for box in ran.rows[0].boxes] == [(70, 70, 90, 100)]
    assert "1 of 1 boxes (100 %) leave" in house.ask(command, "--boxes", "sizes", *task, of=boxed).err


@shows("--classes", *SETS, "import")
def _(house: House, command: str) -> None:
    assert house.ask(command, "--classes", "bus").count == 2


@shows("--per-class", *SETS, "import")
def _(house: House, command: str) -> None:
    assert house.ask(command, "--per-class", 1).count == 2


@shows("--sample", *SETS, "import")
def _(house: House, command: str) -> None:
    assert house.ask(command, "--sample", 1).count == 1


@shows("--seed", *SETS)
def _(house: House, command: str) -> None:
    broken = house.new("broken")
    (broken / "bus").mkdir(parents=True)
    (broken / "bus" / "a.png").write_text("no picture")
    shutil.copy(house.flat / "bus" / "0000.png", broken / "bus" / "b.png")
    looked_at = "estimate" if command == "estimate" else "plan"  # generate: below, by what it paints
    drawn = {house.ask(looked_at, "--sample", 1, "--seed", seed, of=broken).status for seed in (0, 7)}
    assert drawn == {0, 1}, "another is drawn in the place of a broken one, which a warning names"
    if command == "generate":
        ran = [house.ask(command, "--seed", seed, of=broken).rows for seed in (0, 1)]
        assert {row.key for row in ran[0]} != {row.key for row in ran[1]}
        assert len({row.painting.seed for rows in ran for row in rows if row.painting}) == 2
    if command == "plan":
        assert len({json.dumps(house.ask(command, "--seed", seed).edits) for seed in (0, 1)}) == 2


@shows("--allow-out-of-domain", *SETS)
def _(house: House, command: str) -> None:
    strange = house.new("strange")
    shutil.copytree(house.flat, strange)
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (128, 128, 3), np.uint8)).save(strange / "bus" / "x.png")
    ran = house.ask(command, of=strange)
    assert (ran.status, ran.count) == (1, 3)
    assert "bus/x" in ran.err
    assert house.ask(command, "--allow-out-of-domain", of=strange).count == 4


@shows("--group-by", *SETS, "import")
def _(house: House, command: str) -> None:
    house.fails("in parentheses", command, "--group-by", "drive")
    ran = house.ask(command, "--group-by", r"([0-9]+)")
    assert "3 groups" in ran.err
    if ran.suite is not None:
        assert json.loads((ran.suite / "run.json").read_text())["standing"]["groups"]["by"] == r"([0-9]+)"


@shows("--group-by", "evaluate", "report", "review")
def _(house: House, command: str) -> None:
    suite = house.suite()
    more = ("--predictions", answers(house, suite)) if command != "review" else ("--export", house.new("asked.csv"))
    house.refuses("did you mean 'label'", command, suite, *more, "--group-by", "labels")
    ran = house.run(command, suite, *more, "--group-by", r"([0-9]+)")
    assert ran.status == 0, ran.err
    if command == "evaluate":
        assert (ran.data["groups"], house.run(command, suite, *more).data["groups"]) == (3, None)
    if command == "report":
        of_groups, plain = (page(house, suite, *more, *by) for by in (("--group-by", r"([0-9]+)"), ()))
        assert ("fewer than 5" in of_groups, "fewer than 5" in plain) == (True, False)


@shows("--given-captions", *SETS)
def _(house: House, command: str) -> None:
    rows = {stem: f"a red {stem.partition('/')[0]} on a clear street at noon." for stem in stems(house.flat)[:2]}
    rest = stems(house.flat)[2:]
    lines = [f"{stem}.png,{stem.partition('/')[0]},{rows.get(stem, '')}" for stem in (*rows, *rest)]
    labels = house.file("captions.csv", "\n".join(["image,label,caption", *lines]))
    ran = house.ask(command, "--labels", labels, "--given-captions")
    assert (ran.status, ran.count) == (1, len(rows))
    assert rest[0] in ran.err
    if command in MAKES:
        assert {row.caption for row in ran.rows} == set(rows.values())
    usual = house.ask(command, "--labels", labels)
    assert usual.count == len(rows) + len(rest)
    assert "--given-captions" in usual.err


@shows("--profile", *SETS)
def _(house: House, command: str) -> None:
    house.fails("no profile 'none'", command, "--profile", "none")
    profile = profile_with(house.new("profile"), rewrite={"types": ["weather"]}, shard_sources=1)
    ran = house.ask(command, "--profile", profile)
    if command == "estimate":
        assert {one["shards"] for one in ran.data["holdings"]} == {3}
        assert {one["shards"] for one in house.ask(command).data["holdings"]} == {1}
    else:
        assert {edit["type"] for edit in ran.edits} == {"weather"}
        assert {edit["type"] for edit in house.ask(command).edits} != {"weather"}


@shows("--variants", *SETS)
def _(house: House, command: str) -> None:
    ran = house.ask(command, "--variants", 2)
    assert (len(ran.variants) if command != "estimate" else ran.data["variants"]) == 6


@shows("--controls", *SETS)
def _(house: House, command: str) -> None:
    if command == "plan":  # which shows no controls, and takes the words of `generate`
        house.fails("a whole number from 0", command, "--controls", -1)
        return
    assert house.ask(command).data["controls"] == 0
    assert house.ask(command, "--controls", 2).data["controls"] == 6


# What is changed.


@shows("--task", *EDITS)
def _(house: House, command: str) -> None:
    street = house.root / "street"
    told = [house.ask(command, "--task", task, of=street) for task in ("classification", "segmentation")]
    assert [one["protected"] for one in told[0].variants] != [one["protected"] for one in told[1].variants]
    assert told[0].status == told[1].status == 0


@shows("--task-file", *EDITS)
def _(house: House, command: str) -> None:
    task = 'name = "n"\nsentence = "finds roads"\nprotect = ["road"]\nprotect_label = false\n'
    ran = house.ask(command, "--task-file", house.file("task.toml", task))
    assert all(set(one["protected"]) <= {"road"} for one in ran.variants)
    assert any("road" in one["protected"] for one in ran.variants)
    assert not any("road" in one["protected"] for one in house.ask(command).variants)


@shows("--edits", *EDITS)
def _(house: House, command: str) -> None:
    for count in (1, 3):
        assert {len(one["edits"]) for one in house.ask(command, "--edits", count).variants} == {count}


@shows("--levels", *EDITS)
def _(house: House, command: str) -> None:
    ran = house.ask(command, "--levels", 2)
    assert {one["levels"] for one in ran.variants} == {2}
    assert {one["levels"] for one in house.ask(command).variants} == {1}


@shows("--severity", *EDITS)
def _(house: House, command: str) -> None:
    assert {(one["level"], one["levels"]) for one in house.ask(command, "--severity", 2).variants} == {(2, 5)}
    house.fails("1 (faint) to 5 (full), got 6", command, "--severity", 6)
    house.fails("not allowed with argument", command, "--severity", 2, "--levels", 5)


@shows("--interventions", *EDITS)
def _(house: House, command: str) -> None:
    ran = house.ask(command, "--interventions", house.file("axes.txt", "weather: snowy, foggy\n"))
    assert {edit["type"] for edit in ran.edits} == {"weather"}
    assert {edit["alternative"] for edit in ran.edits} <= {"snowy", "foggy"}


@shows("--require-coverage", "generate", "check")
def _(house: House, command: str) -> None:
    values = house.file("axes.txt", "weather: snowy, foggy, rainy\n")
    asked = ("--interventions", values, "--edits", 1)
    made = house.ask("generate", *asked)
    for least, status in ((0, 0), ("95%", 3)):
        limit = ("--require-coverage", least)
        ran = house.ask(command, *asked, *limit) if command == "generate" else house.run(command, made.suite, *limit)
        assert (ran.status, ran.data["coverage"]) == (status, made.data["coverage"])
        assert ("95 % are required" in ran.err) == (status == 3)
    assert "possible cells have an accepted picture" in page(house, made.suite, "--out", house.new("report"))
    bare = house.ask("generate").suite
    ran = house.ask(command, "--require-coverage", 1) if command == "generate" else house.run(command, bare, *limit)
    assert ran.status == 2
    assert "values" in ran.err


@shows("--allow-ungrounded", *EDITS)
def _(house: House, command: str) -> None:
    trams = house.new("trams")
    shutil.copytree(house.flat / "bus", trams / "zebra")
    shutil.copytree(house.flat / "car", trams / "car")
    held, free = (house.ask(command, *more, of=trams) for more in ((), ("--allow-ungrounded",)))
    assert len(held.variants) < len(free.variants) == 3


@shows("--types", *EDITS)
def _(house: House, command: str) -> None:
    types = '[[types]]\nname = "lens"\ninstruction = "blur"\nplace = "end"\nexamples = [["", "in soft focus"]]\n'
    types += 'caption = "a dog"\n'
    house.fails("profile pocket knows the types", command, "--types", house.file("types.toml", types))


@shows("--avoid", *EDITS)
def _(house: House, command: str) -> None:
    free = house.ask(command, "--variants", 4)
    words = {word for edit in free.edits for word in edit["alternative"].split()}
    brought = words & {"snowy", "rainy", "blue", "night"}
    assert brought
    ran = house.ask(command, "--variants", 4, "--avoid", ",".join(sorted(brought)))
    assert ran.edits
    assert not brought & {word for edit in ran.edits for word in edit["alternative"].split()}


# Of one command each.


@shows("--out", *MAKES)
def _(house: House, command: str) -> None:
    suite = house.ask(command).suite
    assert (suite / "metadata.parquet").is_file()


@shows("--shard", *MAKES)
def _(house: House, command: str) -> None:
    recorded = []
    for more in ((), ("--shard", 2)):
        suite = house.ask(command, *more).suite
        recorded.append((suite / "run.json").read_text())
    assert '"shard_sources": 2' not in recorded[0]
    assert '"shard_sources": 2' in recorded[1]


@shows("--metrics", *MAKES)
def _(house: House, command: str) -> None:
    file = house.new("costs.jsonl")
    house.ask(command, "--metrics", file)
    assert json.loads(file.read_text().splitlines()[-1])


# On a finished suite.


@shows("SUITE", "check", "report", "evaluate", "verify")
def _(house: House, command: str) -> None:
    more = ("--predictions", answers(house, house.suite())) if command == "evaluate" else ()
    house.refuses("none", command, house.root / "none", *more)


@shows("--json", *SETS, "import", "check", "evaluate", "report", "edits", "verify", "merge", "split", "status", "pack")
def _(house: House, command: str) -> None:
    """All cases read it; without it there is no JSON."""
    suite = house.suite()
    asked: dict[str, list[str | Path]] = {
        "generate": [house.flat, "--sample", "1", "--out", house.new("suite")],
        "import": [house.pairs, "--out", house.new("suite")],
        "plan": [house.flat, "--first", "1"],
        "estimate": [house.flat],
        "evaluate": [suite, "--predictions", answers(house, suite)],
        "edits": [suite, "--write", house.new("edits.csv")],
        "merge": [suite, house.suite(), "--out", house.new("one")],
        "split": [suite, "--out", house.new("a"), house.new("b")],
        "pack": [suite, "--out", house.new("tars")],
    }
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert main([command, *map(str, asked.get(command, [suite]))]) == 0
    with pytest.raises(json.JSONDecodeError):
        json.loads(out.getvalue())


def arrival(command: str) -> Callable[[House, str], None]:
    """The test of a command's options, for a file in which the last of their cases are: each has one."""
    options = options_by_command()[command]

    @pytest.mark.parametrize("option", sorted(options | {option for of, option in CASES if of == command}))
    def arrives(house: House, option: str) -> None:
        assert option in options, "a case of what is no option"
        CASES[command, option](house, command)

    return arrives
