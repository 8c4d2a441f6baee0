"""Ray itself: its actors on this machine, killed and stopped; and addresses where nobody is."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from cluster import command, kill_some, shards_done, workers_of
from light_sets import make_suite, photographs
from recoveries import CASES, FEW, Recoveries
from refusing import refusal

from counterfactory.engine.cluster import ray_boxes
from counterfactory.engine.suite.contents import suite_digest
from counterfactory.engine.suite.status import read_status


@pytest.mark.slow
def test_killed_workers_and_stopped_drivers_leave_the_bytes_of_one_box(tmp_path: Path) -> None:
    photos = photographs(tmp_path / "photos", range(16))
    for name in ("one", "other"):
        subprocess.run(command(photos, tmp_path / name), check=True, capture_output=True)
    digest = suite_digest(tmp_path / "one")
    killed, told = kill_some(photos, tmp_path / "many", 8, random.Random(0))
    assert killed == 2, told
    assert suite_digest(tmp_path / "many") == digest
    assert read_status(tmp_path / "many").lost == told.count("lost a worker on ")
    again = command(photos, tmp_path / "stopped", "--ray", "local", "--workers", "2")
    driver = subprocess.Popen(again, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while driver.poll() is None and not shards_done(tmp_path / "stopped"):
        time.sleep(0.01)
    workers = workers_of(driver.pid)
    driver.send_signal(signal.SIGTERM)
    _, told = driver.communicate(timeout=120)
    assert driver.returncode == 130, told
    assert "shards in hand are finished first" in told
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers), "no worker outlives its driver"
    done = read_status(tmp_path / "stopped").done
    assert 0 < done < 8
    assert not (tmp_path / "stopped" / "parts").exists()
    assert subprocess.run(again, capture_output=True, check=False).returncode == 0
    assert read_status(tmp_path / "stopped").passed == done
    assert suite_digest(tmp_path / "stopped") == digest


@pytest.mark.slow
def test_a_lost_context_and_kills_lose_nothing() -> None:
    """Some cases of `python tests/recoveries.py`; Ray's sockets take short paths only."""
    with tempfile.TemporaryDirectory(prefix="rec-", ignore_cleanup_errors=True) as folder:
        outcomes = Recoveries(Path(folder)).run([case for case in CASES if case.name in FEW], on_ray_too=False)
    assert [(one.name, one.lost) for one in outcomes] == [(name, "") for name in FEW]


@pytest.mark.slow
def test_two_nodes_that_were_started_apart_make_the_bytes_of_one_box(tmp_path: Path) -> None:
    """Each has one core, so that two workers are on both."""
    from ray.cluster_utils import Cluster

    photos = photographs(tmp_path / "photos", range(8))
    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        nodes.add_node(num_cpus=1)
        many = command(photos, tmp_path / "many", "--ray", nodes.address, "--workers", "2", "--shard", "2")
        subprocess.run(many, check=True, capture_output=True)
    finally:
        nodes.shutdown()
    status = read_status(tmp_path / "many")
    assert (status.state, status.done, status.lost) == ("finished", 4, 0)
    subprocess.run(command(photos, tmp_path / "one", "--shard", "2"), check=True, capture_output=True)
    assert suite_digest(tmp_path / "many") == suite_digest(tmp_path / "one") is not None


@pytest.mark.parametrize("address", ["auto", "127.0.0.1:9"])
def test_an_address_where_nobody_is(tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def run(command: list[str], **_: Any) -> Any:
        asked.append(command)
        return subprocess.CompletedProcess(command, 1, "", "not reachable")

    monkeypatch.setattr(ray_boxes.subprocess, "run", run)
    photos = photographs(tmp_path / "photos", range(2))
    with refusal(f"no Ray cluster answers at {address}.*start one there") as refused:
        make_suite(photos, tmp_path / "suite", ray=address)
    assert "\n" not in str(refused.value)
    assert [command[3:] for command in asked] == [["health-check", *(["--address", address] if ":" in address else [])]]


@pytest.mark.parametrize(
    ("mode", "right", "ends"), [(None, True, "token"), (None, False, None), ("disabled", True, None)]
)
def test_a_cluster_that_asks_for_a_token_is_shown_this_boxs(
    mode: str | None, right: bool, ends: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray's head asks for one wherever it finds one, and Ray's clients show it only if they are told."""
    if mode is None:
        monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    else:
        monkeypatch.setenv("RAY_AUTH_MODE", mode)

    def run(command: list[str], env: dict[str, str], **_: Any) -> Any:
        good = right and env.get("RAY_AUTH_MODE") == "token"
        words = "" if good else "ray.exceptions.AuthenticationError: RPC error: InvalidAuthToken: missing or incorrect"
        return subprocess.CompletedProcess(command, int(not good), "", words)

    monkeypatch.setattr(ray_boxes.subprocess, "run", run)
    if ends is None:
        with refusal(r"refuses this box's token: copy .* and say RAY_AUTH_MODE=token"):
            ray_boxes._reach("127.0.0.1:9")
        assert os.environ.get("RAY_AUTH_MODE") == mode
    else:
        ray_boxes._reach("127.0.0.1:9")
        assert os.environ["RAY_AUTH_MODE"] == ends
        monkeypatch.delenv("RAY_AUTH_MODE")


@pytest.mark.slow
def test_nobody_answers_at_a_closed_port() -> None:
    assert ray_boxes._health("127.0.0.1:9", {})[0] != 0
