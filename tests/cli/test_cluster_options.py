"""Every option of the commands for many boxes is seen to arrive; see wiring.py. And what `status` says of a run."""

from __future__ import annotations

import json
import os
import platform
import re
import time
from pathlib import Path

from command_line import Command
from wiring import House, shows
from wiring_cases import arrival

from counterfactory.engine.suite import read_metadata


@shows("SUITE", "merge")
@shows("--out", "merge")
def _(house: House, command: str) -> None:
    whole, parts = house.suite(), [house.new("a"), house.new("b")]
    split = house.run("split", whole, "--out", *parts)
    assert [one["sources"] for one in split.data["suites"]] == [1, 2]
    out = house.new("merged")
    ran = house.run(command, *parts, "--out", out)
    assert (ran.status, ran.data["suite"], ran.data["sources"]) == (0, str(out), 3)
    assert ran.data["suite_digest"] == house.run("verify", whole).data["digest"]
    house.refuses("holds no finished suite", command, parts[0], house.new("none"), "--out", house.new("x"))


test_an_option_of_merge_arrives = arrival("merge")


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


@shows("SUITE", "status")
def _(house: House, command: str) -> None:
    ran = house.run(command, house.suite())
    assert (ran.data["state"], ran.data["done"], ran.data["shards"]) == ("finished", 1, 1)
    house.refuses("has no status.json, which a run writes", command, house.new("none"))


test_an_option_of_status_arrives = arrival("status")


def test_a_run_on_its_way_is_told_in_three_lines(tmp_path: Path, run: Command) -> None:
    now = time.time()
    known = {"state": "running", "began": now - 7200, "updated": now - 90, "shards": 500, "done": 250, "passed": 50}
    known |= {"workers": 4, "lost": 1, "device": "GPU", "device_hours": 7.9}
    (tmp_path / "status.json").write_text(json.dumps(known))
    status, out, _ = run("status", tmp_path)
    first, rate, boxes = out.splitlines()
    assert status == 0
    assert first == "running    250 of 500 shards done, 50 of them before this run"
    assert rate.startswith("rate       101 shards an hour, 2 h 28 min left; the last news is 1 min 3")
    assert boxes == "boxes      4 workers at work, 1 lost; 7.9 GPU-hours held"
    begun = {**known, "began": now, "updated": now + 3600, "done": 0, "passed": 0, "workers": 1}
    (tmp_path / "status.json").write_text(json.dumps(begun))
    _, rate, boxes = run.text("status", tmp_path).splitlines()
    assert re.fullmatch(r"rate       no shard yet; the last news is 0(\.0)? s old", rate), "a clock ahead of ours"
    assert boxes.startswith("boxes      1 worker at work, ")
    (tmp_path / "status.json").write_text(json.dumps({**known, "done": "many"}))
    assert "'done' should be" in run("status", tmp_path)[2]


def test_what_became_of_a_run_is_told_with_a_status_of_its_own(tmp_path: Path, run: Command) -> None:
    now = time.time()
    known = {"state": "running", "began": now - 7200, "updated": now, "shards": 500, "done": 250, "passed": 50}
    known |= {"workers": 4, "lost": 1, "device": "GPU", "device_hours": 7.9, "host": platform.node()}
    known |= {"process": os.getpid(), "progressed": now, "patience_s": 600.0, "throttle": [], "problem": ""}

    def told(**changes: object) -> tuple[int, str, str]:
        (tmp_path / "status.json").write_text(json.dumps({**known, **changes}))
        status, out, _ = run("status", tmp_path)
        return status, out.split()[0], out.splitlines()[-1]

    assert told()[:2] == (0, "running")
    status, health, last = told(throttle=["hw_thermal_slowdown", "sw_power_cap"])
    assert (status, health) == (0, "running")
    assert last.startswith("throttled  ")
    assert last.endswith("hw_thermal_slowdown, sw_power_cap")
    status, health, last = told(progressed=now - 3600)
    assert (status, health) == (4, "stalled")
    assert last.startswith(f"why        process {os.getpid()} on {platform.node()} has done nothing for 1 h")
    status, health, last = told(updated=now - 300, progressed=now - 300)
    assert (status, health) == (4, "stalled")
    assert "say its command again" in last
    assert told(host="another", updated=now - 300)[:2] == (4, "stalled")
    assert told(process=1 << 30)[:2] == (4, "killed")
    assert told(state="listing", process=1 << 30)[:2] == (4, "killed")
    assert told(state="failed", problem="no worker is left: it is hot") == (
        *(0, "failed"),
        "why        no worker is left: it is hot",
    )
    assert told(state="stopped", updated=now - 9e5)[:2] == (0, "stopped")
    assert run.json("status", tmp_path)["health"] == "stopped"
