"""What `status` says of a run; see wiring.py."""

from __future__ import annotations

import json
import time
from pathlib import Path

from command_line import Command
from wiring import House, shows
from wiring_cases import arrival


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
    (tmp_path / "status.json").write_text(json.dumps({**known, "done": "many"}))
    assert "'done' should be" in run("status", tmp_path)[2]
