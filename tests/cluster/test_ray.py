"""Ray itself: its actors on this machine, killed and stopped; and addresses where nobody is."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from pathlib import Path

import pytest
from cluster import command, kill_some, shards_done, workers_of
from light_sets import make_suite, photographs

from counterfactory.engine.cluster import ray_boxes
from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.suite.contents import suite_digest
from counterfactory.engine.suite.status import read_status


@pytest.mark.slow
def test_killed_workers_and_stopped_drivers_leave_the_bytes_of_one_box(tmp_path: Path) -> None:
    photos = photographs(tmp_path / "photos", range(16))
    for name in ("one", "other"):
        subprocess.run(command(photos, tmp_path / name), check=True, capture_output=True)
    digest = suite_digest(tmp_path / "one")
    assert digest is not None
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


@pytest.mark.parametrize("address", ["auto", "127.0.0.1:9"])
def test_an_address_where_nobody_is(tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_boxes, "_answers", lambda address: False)
    photos = photographs(tmp_path / "photos", range(2))
    with pytest.raises(CounterfactoryError, match=f"no Ray cluster .* at {address}.*start one there") as refused:
        make_suite(photos, tmp_path / "suite", ray=address)
    assert "\n" not in str(refused.value)


@pytest.mark.slow
def test_nobody_answers_at_a_closed_port() -> None:
    assert not ray_boxes._answers("127.0.0.1:9")
