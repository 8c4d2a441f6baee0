"""Sessions over a suite: what each took is added up, however it ended, and nothing on record is lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from refusing import refusal
from session_records import costs, session_facts, stage_cost

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.meter.machine import Machine, this_machine
from counterfactory.engine.sources.source import Problem
from counterfactory.engine.suite import RunRecord, Suite, read_run
from counterfactory.engine.suite.picture_row import DroppedVariant
from counterfactory.engine.suite.run_record import RunSummary, Standing, SuiteCosts
from counterfactory.engine.suite.session_record import Costs

STANDING = Standing(
    sources=3,
    accepted=5,
    rejected=1,
    controls=2,
    rejected_controls=1,
    dropped=(DroppedVariant("a", 2, "ä", "as it was"),),
    shortfalls=(Problem("b", "too short"),),
    check={"batch": 8, "min_image_text": 0.2},
    outside_world=2,
)
PROBLEM = Problem("c", "gone")


def finish(path: Path, spent: Costs, standing: Standing = STANDING) -> RunRecord:
    with Suite.open(path) as suite, suite.session(session_facts(), lambda: spent) as session:
        return session.finish(standing, [PROBLEM])


def stop(path: Path, spent: Callable[[], Costs], error: BaseException, profile: str = "pocket") -> None:
    facts = session_facts(profile={"name": profile, "check": {}})
    with Suite.open(path) as suite, suite.session(facts, spent):
        raise error


def on_record(path: Path) -> RunRecord:
    return read_run(path)  # type: ignore[return-value]


def test_three_sessions_add_up(tmp_path: Path) -> None:
    """One is stopped by Ctrl-C, one fails, the last finishes and paints nothing."""
    with pytest.raises(KeyboardInterrupt):
        stop(tmp_path, lambda: costs(wall_s=100.0), KeyboardInterrupt())
    assert [session.finished for session in on_record(tmp_path).sessions] == [False]
    assert on_record(tmp_path).standing is None
    with refusal("no such model"):
        stop(tmp_path, lambda: costs(wall_s=20.0, energy_j=7.0), CounterfactoryError("no such model"))
    record = finish(tmp_path, costs(wall_s=3.0, painted=0, stages=(stage_cost("read", made=0),)))
    assert [session.finished for session in record.sessions] == [False, False, True]
    found = record.costs
    assert (found.sessions, found.wall_s) == (3, 123.0)
    assert found.device_hours == {"core": pytest.approx(2 * 123 / 3600)}
    assert found.energy_j is None, "one session could not tell"
    sums = [(stage.stage, stage.made, stage.busy_s, stage.generated_tokens) for stage in found.stages]
    assert sums == [("paint", 8, 14.0, 40), ("read", 0, 7.0, 20)]
    report = RunSummary.of(record)
    assert report.device_hours_per_1k_accepted == pytest.approx(2 * 123 / 3.6 / 5)
    assert report.session_device_hours_per_1k_accepted == pytest.approx(2 * 3 / 3.6 / 5)
    assert (report.painted, report.reused, report.wall_s) == (0, 9, 3.0)


def test_the_file_says_the_sums_beside_the_sessions_and_comes_back_as_it_was(tmp_path: Path) -> None:
    finish(tmp_path, costs(wall_s=100.0, energy_j=1.0))
    written = finish(tmp_path, costs(wall_s=36.0, energy_j=2.0, device="GPU", devices=1))
    found = json.loads((tmp_path / "run.json").read_text())
    assert found["totals"]["sessions"] == len(found["sessions"]) == 2
    assert found["totals"]["energy_j"] == 3.0
    assert found["totals"]["device_hours_per_1k_accepted"] == {
        "core": pytest.approx(2 * 100 / 3.6 / 5),
        "GPU": pytest.approx(36 / 3.6 / 5),
    }
    assert found["sessions"][1]["costs"]["device"] == "GPU"
    assert (on_record(tmp_path), written.standing) == (written, STANDING)
    session = written.sessions[0]
    assert (session.finished, session.problems, session.facts) == (True, (PROBLEM,), session_facts())
    assert session.costs == costs(wall_s=100.0, energy_j=1.0)
    assert found["standing"]["dropped"] == [{"source": "a", "variant": 2, "edited_caption": "ä", "reason": "as it was"}]


def test_each_session_tells_its_own_profile(tmp_path: Path) -> None:
    for name in ("pocket", "quick"):
        facts = session_facts(profile={"name": name, "check": {}})
        with Suite.open(tmp_path) as suite, suite.session(facts, costs) as session:
            session.finish(STANDING, [])
    record = on_record(tmp_path)
    assert [session.facts.profile["name"] for session in record.sessions] == ["pocket", "quick"]
    assert record.profile == {"name": "quick", "check": STANDING.check}
    with pytest.raises(KeyboardInterrupt):
        stop(tmp_path, costs, KeyboardInterrupt(), "tried")
    assert on_record(tmp_path).profile["name"] == "quick", "what was cut short did not make the suite"


KILLED = """
import sys, time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from session_records import costs, session_facts
from counterfactory.engine.suite import Suite
began = time.monotonic()
spent = lambda: costs(wall_s=time.monotonic() - began)
with Suite.open(Path(sys.argv[1])) as suite, suite.session(session_facts(), spent, interval_s=0.05):
    print("began", flush=True)
    time.sleep(60)
"""


def test_killed_sessions_count_to_within_a_note(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    least = 0.0
    for _ in range(2):
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, tmp_path], env=environment, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout.readline() == "began\n"
        time.sleep(0.4)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        process.stdout.close()
        least += 0.2
    assert len(on_record(tmp_path).sessions) == 1, "the first is booked when the second opens the suite"
    Suite.open(tmp_path).close()
    record = on_record(tmp_path)
    assert [session.finished for session in record.sessions] == [False, False]
    assert record.costs.wall_s >= least
    assert len({session.id for session in record.sessions}) == 2
    Suite.open(tmp_path).close()
    assert len(on_record(tmp_path).sessions) == 2, "booked once"


def test_a_kill_between_run_json_and_the_ledger_books_a_session_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("counterfactory.engine.suite.suite.forget_open_session", lambda _: sys.exit())
        with pytest.raises(SystemExit):
            finish(tmp_path, costs())
    assert len(on_record(tmp_path).sessions) == 1
    Suite.open(tmp_path).close()
    assert len(on_record(tmp_path).sessions) == 1
    assert len(finish(tmp_path, costs()).sessions) == 2


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "is not valid JSON"),
        ("[" * 100_000, "is not valid JSON"),
        ("[]", r"it should be a table, found \[\]"),
        ('{"profile": {}, "costs": {"wall_s": 3}}', "an older one kept its last run alone"),
        ('{"format": 3}', "has format 3"),
        ('{"format": 4, "standing": null, "sessions": [{}]}', r"key 'sessions\[0\]\."),
        ('{"format": 4, "standing": {"sources": "3"}, "sessions": []}', r"'standing\.sources' should be a whole"),
    ],
)
def test_a_foreign_or_damaged_record_stops_a_session_before_it_begins(tmp_path: Path, text: str, told: str) -> None:
    Suite.open(tmp_path).close()
    (tmp_path / "run.json").write_text(text)
    with refusal(rf"run\.json.*{told}.*move it out of the folder"):
        finish(tmp_path, costs())
    assert (tmp_path / "run.json").read_text() == text
    (tmp_path / "run.json").rename(tmp_path / "aside.json")
    assert len(finish(tmp_path, costs()).sessions) == 1
    assert (tmp_path / "aside.json").read_text() == text


def test_a_killed_session_outlives_a_damaged_record(tmp_path: Path) -> None:
    Suite.open(tmp_path).close()

    def damaging() -> Costs:
        (tmp_path / "run.json").write_text("{")  # while the session lasts
        return costs(wall_s=50.0)

    with refusal("first failure") as caught:
        stop(tmp_path, damaging, CounterfactoryError("first failure"))
    assert any("could not be put on record" in note for note in caught.value.__notes__)
    with refusal("is not valid JSON"):
        Suite.open(tmp_path)
    (tmp_path / "run.json").unlink()
    Suite.open(tmp_path).close()
    assert on_record(tmp_path).costs.wall_s == 50.0


def test_nothing_costs_nothing() -> None:
    assert RunRecord().costs == SuiteCosts(0, {}, 0, None, ())
    assert RunRecord().costs.per_1k(3) == {}
    assert RunRecord().profile == {}
    assert SuiteCosts.of([costs()]).per_1k(0) == {}


def test_a_machine_tells_its_processor_its_gpus_and_their_driver() -> None:
    nvml = SimpleNamespace(
        nvmlInit=lambda: None,
        nvmlDeviceGetCount=lambda: 2,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetName=lambda handle: f"GPU {handle}".encode(),  # old releases give bytes
        nvmlSystemGetDriverVersion=lambda: "550.1",
    )
    found = this_machine(lambda: nvml)
    assert (found.gpus, found.driver) == (("GPU 0", "GPU 1"), "550.1")
    assert found.cpu
    assert found.architecture
    bare = this_machine(lambda: exec("raise ImportError"))
    assert bare == Machine(found.system, found.architecture, found.cpu, (), None)
