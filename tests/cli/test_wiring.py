"""Every option of a command is seen to arrive: in the plan, the suite, what is printed or written, or in a refusal.

A case is registered for each option of each command by `shows`; the last test walks the parser and fails for an option
that has none. Cases look at the command line and at files only, never at what lies between.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from profiles import profile_with

from counterfactory.engine.cli.arguments import main
from counterfactory.engine.estimate import estimate, formulas
from counterfactory.engine.models.library import Library
from counterfactory.engine.models.network import Network
from counterfactory.engine.models.plan_facts import PlanFacts
from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.engine.suite import PictureRow, read_metadata

SETS = ("generate", "plan", "estimate")
EDITS = ("generate", "plan")
MAKES = ("generate", "import")
# What `--help` says, and what every command has alike.
_NOT_WALKED = {"demo", "doctor", "setup"}  # setup: tests/cli/test_setup.py


@dataclass(frozen=True)
class Ran:
    """What a command gave: its exit status, its JSON, what it warned of, and the rows of the suite that it made."""

    status: int
    data: dict[str, Any]
    err: str
    suite: Path | None = None

    @property
    def rows(self) -> list[PictureRow]:
        assert self.suite is not None
        return read_metadata(self.suite)

    @property
    def count(self) -> int:
        """Sources that were taken."""
        sources = self.data["sources"]
        return len(sources) if isinstance(sources, list) else int(sources)

    @property
    def edits(self) -> list[dict[str, str]]:
        """All edits, of the suite or of the plan."""
        if self.suite is not None:
            return [vars(edit) | {"type": edit.type} for row in self.rows for edit in row.edits]
        return [edit for one in self.variants for edit in one["edits"]]

    @property
    def variants(self) -> list[dict[str, Any]]:
        """The plan's variants, or what the suite's rows say in the same words."""
        if self.suite is not None:
            return [
                {"levels": row.levels, "edits": row.edits, "number": row.number, "protected": row.protected}
                for row in self.rows
                if row.kind == "variant"
            ]
        return [one | {"protected": of["protected"]} for of in self.data["sources"] for one in of["variants"]]

    @property
    def labels(self) -> set[str | None]:
        if self.suite is not None:
            return {row.label for row in self.rows}
        return {one["label"] for one in self.data["sources"]}


@dataclass
class House:
    """Data sets and suites that cases share, and commands that were run once already."""

    root: Path
    ran: dict[tuple[str, ...], Ran] = field(default_factory=dict)
    made: int = 0

    @property
    def flat(self) -> Path:
        """Class folders of pictures, without masks beside them: bus/0000, bus/0002, car/0001."""
        return self.root / "flat"

    def new(self, name: str) -> Path:
        """A path where nothing is yet."""
        self.made += 1
        return self.root / f"{self.made}-{name}"

    def file(self, name: str, text: str) -> Path:
        path = self.new(name)
        path.write_text(text)
        return path

    def run(self, *args: str | Path | int) -> Ran:
        """Run a command once, in JSON; the same words again give the same answer."""
        asked = tuple(map(str, args))
        if asked not in self.ran:
            self.ran[asked] = self._run(asked)
        return self.ran[asked]

    @property
    def pairs(self) -> Path:
        """A table of the same pictures, each with a brighter one."""
        return self.root / "pairs" / "pairs.csv"

    def ask(self, command: str, *args: str | Path | int, of: Path | None = None) -> Ran:
        """A command about a data set: one variant of a source and no control, where `args` do not say otherwise."""
        if command == "import":
            return self.run(command, of or self.pairs, *args)
        return self.run(command, of or self.flat, "--variants", 1, "--controls", 0, *args)

    def fails(self, word: str, command: str, *args: str | Path | int, of: Path | None = None) -> None:
        """The command is refused, in a sentence that holds `word`."""
        ran = self.ask(command, *args, of=of)
        assert ran.status == 2
        assert word in ran.err

    def suite(self) -> Path:
        """A copy of a finished suite with masks: two variants and a control of three sources."""
        path = self.new("suite")
        kept = self.ask("generate", "--variants", 2, "--controls", 1, of=self.root / "street").suite
        assert kept is not None
        shutil.copytree(kept, path)
        return path

    def _run(self, asked: Sequence[str]) -> Ran:
        suite = self.new("suite") if asked[0] in MAKES else None
        out, err = io.StringIO(), io.StringIO()
        made = () if suite is None else ("--out", str(suite))
        with (
            pytest.MonkeyPatch.context() as patch,
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            patch.setenv("XDG_CACHE_HOME", str(self.root / "cache"))  # what one run measured, the next need not
            try:
                status = main([*asked, *made, "--json"])
            except SystemExit as stop:
                status = stop.code if isinstance(stop.code, int) else 1
        printed = out.getvalue()
        assert bool(printed) == (status in (0, 1, 3)), err.getvalue()
        data = json.loads(printed) if printed else {}
        return Ran(status, data, " ".join(err.getvalue().split()), suite if printed else None)


Case = Callable[[House, str], None]
CASES: dict[tuple[str, str], Case] = {}


def shows(option: str, *commands: str) -> Callable[[Case], Case]:
    """Register what shows that `option` of these commands arrives."""

    def register(case: Case) -> Case:
        for command in commands:
            assert (command, option) not in CASES
            CASES[command, option] = case
        return case

    return register


@pytest.fixture(scope="module")
def counted_once() -> Iterator[None]:
    """Estimates count a network once, and this machine's peak is a given number: each takes a second and more."""
    really, counted = formulas._count_facts, dict[object, PlanFacts]()

    def count(library: Library, network: Network, size: tuple[int, int] | None) -> PlanFacts:
        key = library.graph(network), size
        if key not in counted:
            counted[key] = really(library, network, size)
        return counted[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(formulas, "_count_facts", count)
        patch.setattr(estimate, "measure_peak", lambda *_: 1e11)
        yield


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory, shared_plans: None, counted_once: None) -> House:
    root = tmp_path_factory.mktemp("wiring")
    for index in range(3):
        scene = EMBEDDED.scene(1, index)
        picture, mask = map(Image.fromarray, EMBEDDED.draw(scene).pair)
        for place, image in (("flat", picture), ("street/images", picture), ("street/masks", mask)):
            file = root / place / scene.label / f"{index:04d}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            image.save(file)
    house, lines = House(root), ["original,edited,edit,label"]
    for stem in stems(house.flat):
        brighter = Image.fromarray(np.asarray(Image.open(house.flat / f"{stem}.png")) // 2 + 99)
        for place, image in ((f"{stem}.png", None), (f"edited/{stem}.png", brighter)):
            file = house.pairs.parent / place
            file.parent.mkdir(parents=True, exist_ok=True)
            image.save(file) if image else shutil.copy(house.flat / place, file)
        lines.append(f"{stem}.png,edited/{stem}.png,light: bright,{stem.partition('/')[0]}")
    house.pairs.write_text("\n".join(lines))
    house.ask("generate")  # estimates have its measurements
    return house


def stems(folder: Path) -> list[str]:
    return sorted(str(file.relative_to(folder).with_suffix("")) for file in folder.rglob("*.png"))


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
    house.fails("say --boxes corners", command, of=boxed)
    task = () if command == "estimate" else ("--task", "detection")
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


@shows("--baseline", "generate")
def _(house: House, command: str) -> None:
    asked = (command, "--interventions", house.file("night.txt", "time: at night\n"))
    kinds = {row.kind for row in house.ask(*asked, "--baseline", "light").rows}
    assert kinds == {"original", "variant", "baseline"}
    assert {row.kind for row in house.ask(*asked).rows} == {"original", "variant"}


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


def ruled(house: House, *more: str | Path) -> dict[str, tuple[str, str]]:
    """What is on record of a suite's first variant after a check with these options."""
    suite = house.suite()
    (first, *_) = [row.file_name for row in read_metadata(suite) if row.kind == "variant"]
    for asked in (more, ()):
        ran = house.run("check", suite, *(str(word).replace("FIRST", first) for word in asked))
        assert ran.status == 0, ran.err
        house.ran.clear()
    return {one["verdict"]: (one["reason"], name) for name, one in ran.data["by_hand"].items()} | {
        "row": next((row.reason or "", row.file_name) for row in read_metadata(suite) if row.file_name == first)
    }


@shows("--exclude", "check")
@shows("--reason", "check")
def _(house: House, command: str) -> None:
    found = ruled(house, "--exclude", "FIRST", "--reason", "a face")
    assert found["exclude"][0] == "a face"
    assert found["row"][0] == "excluded by hand: a face"


@shows("--accept", "check")
def _(house: House, command: str) -> None:
    found = ruled(house, "--accept", "FIRST", *STRICT)
    assert found["accept"][0] == found["row"][0] == ""


@shows("--undo", "check")
def _(house: House, command: str) -> None:
    ran = house.run(command, house.suite(), "--undo", "images/none.png")
    assert ran.status == 2
    assert "no picture 'images/none.png'" in ran.err


@shows("--verdicts", "check")
def _(house: House, command: str) -> None:
    suite = house.suite()
    (first, *_) = [row.file_name for row in read_metadata(suite) if row.kind == "variant"]
    table = house.file("verdicts.csv", f"image,verdict,reason\n{first},exclude,odd\n")
    assert house.run(command, suite, "--verdicts", table).data["by_hand"][first]["reason"] == "odd"


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
    brought = {word for edit in free.edits for word in edit["alternative"].split()} & {
        "snowy",
        "rainy",
        "blue",
        "night",
    }
    assert brought
    ran = house.ask(command, "--variants", 4, "--avoid", ",".join(sorted(brought)))
    assert ran.edits
    assert not brought & {word for edit in ran.edits for word in edit["alternative"].split()}


# Of one command each.


@shows("--out", *MAKES)
def _(house: House, command: str) -> None:
    suite = house.ask(command).suite
    assert suite is not None
    assert (suite / "metadata.parquet").is_file()


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


@shows("--shard", *MAKES)
def _(house: House, command: str) -> None:
    recorded = []
    for more in ((), ("--shard", 2)):
        suite = house.ask(command, *more).suite
        assert suite is not None
        recorded.append((suite / "run.json").read_text())
    assert '"shard_sources": 2' not in recorded[0]
    assert '"shard_sources": 2' in recorded[1]


@shows("--metrics", *MAKES)
def _(house: House, command: str) -> None:
    file = house.new("costs.jsonl")
    house.ask(command, "--metrics", file)
    assert json.loads(file.read_text().splitlines()[-1])


@shows("--first", "plan")
def _(house: House, command: str) -> None:
    assert house.ask(command, "--first", 2).count == 2


@shows("--write", "plan")
def _(house: House, command: str) -> None:
    file = house.new("edits.csv")
    ran = house.ask(command, "--write", file)
    assert len(file.read_text().splitlines()) == 1 + len(ran.edits)


@shows("--sources", "estimate")
def _(house: House, command: str) -> None:
    assert house.run(command, "--sources", 5).data["sources"] == 5


@shows("--memory", "estimate")
def _(house: House, command: str) -> None:
    assert [one["memory_bytes"] for one in house.ask(command, "--memory", 7).data["holdings"]] == [7_000_000_000]


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


# On a finished suite.


@shows("SUITE", "check", "report", "evaluate")
def _(house: House, command: str) -> None:
    more = ("--predictions", answers(house, house.suite())) if command == "evaluate" else ()
    ran = house.run(command, house.root / "none", *more)
    assert ran.status == 2
    assert "none" in ran.err


STRICT = ("--set", "check.image_text=1")


@shows("--set", "check")
def _(house: House, command: str) -> None:
    suite = house.suite()
    assert house.run(command, suite, *STRICT).data["thresholds"]["min_image_text"] == 1
    assert {row.reason is None for row in read_metadata(suite) if row.kind == "variant"} == {False}


@shows("--profile", "check")
def _(house: House, command: str) -> None:
    profile = profile_with(house.new("profile"), check={"min_image_text": 0.99})
    assert house.run(command, house.suite(), "--profile", profile).data["thresholds"]["min_image_text"] == 0.99


@shows("--sweep", "check")
def _(house: House, command: str) -> None:
    ran = house.run(command, house.suite(), "--sweep", "check.image_text")
    assert "thresholds" not in ran.data


def judgements(house: House, suite: Path) -> Path:
    rows = [row for row in read_metadata(suite) if row.kind == "variant"]
    lines = [f"{row.file_name},{'yes' if index % 2 else 'no'}" for index, row in enumerate(rows)]
    return house.file("valid.csv", "\n".join(["image,valid", *lines, ""]))


@shows("--valid", "check")
def _(house: House, command: str) -> None:
    suite = house.suite()
    plain, judged = (
        house.run(command, suite, "--sweep", "check.image_text", *more)
        for more in ((), ("--valid", judgements(house, suite)))
    )
    assert plain.data != judged.data


@shows("--fit", "check")
def _(house: House, command: str) -> None:
    suite = house.suite()
    ran = house.run(command, suite, "--fit", judgements(house, suite))
    assert ran.status == 2
    assert "3 variants are judged valid and 3 not" in ran.err


def answers(house: House, suite: Path, wrong: str = "variant") -> Path:
    """A model's answers: right, but of pictures of the kind `wrong`."""
    other = {"bus": "car"}
    rows = [(row, other.get(str(row.label), "bus")) for row in read_metadata(suite)]
    lines = [f"{row.file_name},{answer if row.kind == wrong else row.label}" for row, answer in rows]
    return house.file("answers.csv", "\n".join(["image,prediction", *lines, ""]))


MODEL = "counterfactory.engine.pocket.judges:classify_streets"


@shows("--model", "evaluate")
def _(house: House, command: str) -> None:
    suite = house.suite()
    ran = house.run(command, suite, "--model", MODEL, "--classes", house.file("kinds.txt", "\n".join(EMBEDDED.kinds)))
    assert [one["name"] for one in ran.data["beside"]] == ["p(true)"]
    assert len(list((suite / "predictions").glob("*.sqlite"))) == 1
    ran = house.run(command, house.suite())
    assert ran.status == 2
    assert "--model MODEL" in ran.err


@shows("--preprocess", "evaluate")
def _(house: House, command: str) -> None:
    ran = house.run(command, house.suite(), "--model", MODEL, "--preprocess", "sharpen=2")
    assert ran.status == 2
    assert "'sharpen'" in ran.err


@shows("--predictions", "evaluate")
def _(house: House, command: str) -> None:
    suite = house.suite()
    scores = [
        house.run(command, suite, "--predictions", answers(house, suite, wrong)).data["variants"]["score"]["value"]
        for wrong in ("variant", "control")
    ]
    assert scores == [0, 1]


def masked(house: House, suite: Path) -> Path:
    folder = house.new("masks")
    for row in read_metadata(suite):
        file = folder / row.file_name
        file.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(suite / str(row.mask), file.with_suffix(".png"))
    return folder


@shows("--classes", "evaluate")
def _(house: House, command: str) -> None:
    suite = house.suite()
    names = house.file("names.txt", "\n".join(name.upper() for name in EMBEDDED.classes))
    ran = house.run(command, suite, "--predictions", masked(house, suite), "--classes", names)
    assert ran.data["classes"] == [name.upper() for name in EMBEDDED.classes]


@shows("--max-drop", "evaluate")
def _(house: House, command: str) -> None:
    suite = house.suite()
    ran = house.run(command, suite, "--predictions", answers(house, suite), "--max-drop", "bus=5")
    assert ["bus" in one["limit"] for one in ran.data["limits"]] == [True]


@shows("--max-regression", "evaluate")
def _(house: House, command: str) -> None:
    suite, file = house.suite(), house.new("limits.xml")
    pair = [answers(house, suite, wrong) for wrong in ("none", "variant")]
    both = ("--predictions", pair[0], "--predictions", pair[1])
    ran = house.run(command, suite, *both, "--max-regression", 100, "--junit", file)
    assert [one["limit"] for one in ran.data["limits"]][2] == "variants lose at most 100 points"
    assert "lose at most 100 points" in file.read_text()
    (comparison,) = ran.data["comparisons"]
    assert [(one["name"], one["first"], one["second"]) for one in comparison["sides"]] == [
        *(("originals", 1, 1), ("controls", 1, 1), ("variants", 1, 0))
    ]
    ran = house.run(command, suite, "--predictions", pair[0], "--max-regression", 2)
    assert ran.status == 2
    assert "twice" in ran.err


@shows("--fail-under", "evaluate")
def _(house: House, command: str) -> None:
    suite = house.suite()
    assert house.run(command, suite, "--predictions", answers(house, suite), "--fail-under", 50).status == 3


@shows("--all", "evaluate")
def _(house: House, command: str) -> None:
    suite = house.new("suite")
    made = house.ask("generate", "--variants", 8, "--allow-out-of-domain").suite
    assert made is not None
    shutil.copytree(made, suite)
    asked = [str(word) for word in (command, suite, "--predictions", answers(house, suite))]
    said = []
    for more in ([], ["--all"]):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            main([*asked, *more])
        said.append(out.getvalue())
    assert len(said[0].splitlines()) < len(said[1].splitlines())


@shows("--table", "evaluate")
def _(house: House, command: str) -> None:
    suite = house.suite()
    both = [word for wrong in ("none", "variant") for word in ("--predictions", answers(house, suite, wrong))]
    (table,) = house.run(command, suite, *both, "--table", "dillema-table-1").data["tables"]
    assert [row[1:] for row in table["rows"]] == [
        ["0.0 %", "0.0 %", "0.0 %", "0.0 %", "100.0 %"],
        ["0.0 %", "0.0 %", "100.0 %", "100.0 %", "0.0 %"],
    ]


@shows("--failures", "evaluate")
def _(house: House, command: str) -> None:
    suite, file = house.suite(), house.new("failures.csv")
    house.run(command, suite, "--predictions", answers(house, suite), "--failures", file)
    variants = [row for row in read_metadata(suite) if row.kind == "variant" and row.reason is None]
    assert variants
    assert sum(row.file_name in file.read_text() for row in variants) == len(variants)


@shows("--junit", "evaluate")
def _(house: House, command: str) -> None:
    suite, file = house.suite(), house.new("limits.xml")
    house.run(command, suite, "--predictions", answers(house, suite), "--fail-under", 50, "--junit", file)
    assert "<failure" in file.read_text()


def page(house: House, suite: Path, *more: str | Path | int) -> str:
    ran = house.run("report", suite, *more)
    assert ran.status == 0, ran.err
    return Path(ran.data["page"]).read_text()


@shows("--out", "report")
def _(house: House, command: str) -> None:
    folder = house.new("report")
    page(house, house.suite(), "--out", folder)
    assert (folder / "index.html").is_file()


@shows("--model", "report")
def _(house: House, command: str) -> None:
    suite, kinds = house.suite(), house.file("kinds.txt", "\n".join(EMBEDDED.kinds))
    assert "p(true)" in page(house, suite, "--model", MODEL, "--classes", kinds)


@shows("--preprocess", "report")
def _(house: House, command: str) -> None:
    ran = house.run(command, house.suite(), "--model", MODEL, "--preprocess", "sharpen=2")
    assert ran.status == 2
    assert "'sharpen'" in ran.err


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
    ran = house.run(command, house.suite(), "--profile", "none")
    assert ran.status == 2
    assert "no profile 'none'" in ran.err


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


@shows("--limit", "report")
def _(house: House, command: str) -> None:
    suite = house.suite()
    assert "bus/0002" in page(house, suite)
    assert "bus/0002" not in page(house, suite, "--limit", 1)


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
    ran = house.run(command, house.file("edits.csv", drawn(house)), "--profile", "none")
    assert ran.status == 2
    assert "no profile 'none'" in ran.err


@shows("--json", *SETS, "import", "check", "evaluate", "report", "edits")
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
    }
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert main([command, *map(str, asked.get(command, [suite]))]) == 0
    with pytest.raises(json.JSONDecodeError):
        json.loads(out.getvalue())


@pytest.mark.parametrize(("command", "option"), sorted(CASES))
def test_an_option_arrives(house: House, command: str, option: str) -> None:
    CASES[command, option](house, command)


def test_no_option_is_without_a_case(monkeypatch: pytest.MonkeyPatch) -> None:
    parsers: list[argparse.ArgumentParser] = []

    def keep(parser: argparse.ArgumentParser, *_: Any, **__: Any) -> None:
        parsers.append(parser)
        raise SystemExit(0)

    monkeypatch.setattr(argparse.ArgumentParser, "parse_known_args", keep)
    with pytest.raises(SystemExit):
        main([])
    ((commands, *_),) = [
        [action.choices for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
        for parser in parsers
    ]
    options = {
        (name, action.option_strings[-1] if action.option_strings else str(action.metavar))
        for name, command in commands.items()
        if name not in _NOT_WALKED
        for action in command._actions
        if not isinstance(action, (argparse._HelpAction, argparse._VersionAction))
    }
    assert options == set(CASES)
