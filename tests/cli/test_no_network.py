"""No command talks to anybody: every socket that Python or a library's native code asks for is caught.

OpenVINO and its tools report their use to an analytics service unless that is switched off (see
`runtime/quiet_openvino.py`); they do so in a process of their own, so its sockets are caught as well.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from counterfactory.engine.models.networks import library_of
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.runtime.blob_cache import SWITCH
from counterfactory.engine.suite import read_metadata

# Python runs it at the start of every process whose PYTHONPATH names its folder, children included. It notes what
# Python's own network functions are asked for and has the kernel kill a process that calls socket(2) by another way.
WATCH = """
import ctypes, os, struct, sys

def note(event, args):
    if event.startswith(("socket.", "urllib.", "http.")) and event != "socket.gethostname":
        with open(os.environ["WATCH_LOG"], "a") as file:
            file.write(f"{event} {args}\\n")
        raise RuntimeError(f"{event} {args}: a command asks for the network")

sys.addaudithook(note)

SOCKET = {"x86_64": 41, "aarch64": 198}.get(os.uname().machine)
if SOCKET is not None:
    def step(code, yes, no, value):
        return struct.pack("HBBI", code, yes, no, value)

    program = b"".join((
        step(0x20, 0, 0, 0),  # load the system call's number
        step(0x15, 0, 1, SOCKET),  # socket? go on, else skip the next
        step(0x06, 0, 0, 0x80000000),  # kill the process (SIGSYS)
        step(0x06, 0, 0, 0x7FFF0000),  # allow
    ))
    kept = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxP", 4, ctypes.addressof(kept))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, header, 0, 0):  # no new privileges, then the filter
        sys.stderr.write("the kernel takes no filter: sockets of native code go unchecked\\n")
"""


class Watched:
    """Runs Python in a home of its own, under `WATCH`."""

    def __init__(self, folder: Path) -> None:
        (folder / "watch").mkdir()
        (folder / "watch" / "sitecustomize.py").write_text(WATCH)
        self.log, self.home, self.cache = folder / "sockets.txt", folder / "home", folder / "cache"
        self.home.mkdir()
        paths = [str(folder / "watch"), *filter(None, [os.environ.get("PYTHONPATH")])]
        self._environment = {
            **{name: value for name, value in os.environ.items() if name not in ("CI", "TF_BUILD", "JENKINS_URL")},
            "PYTHONPATH": os.pathsep.join(paths),
            "WATCH_LOG": str(self.log),
            "HOME": str(self.home),
            "XDG_CACHE_HOME": str(self.cache),
            SWITCH: "",  # as users have it
        }

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *arguments]
        return subprocess.run(command, env=self._environment, capture_output=True, text=True, check=False)

    def caught(self) -> str:
        return self.log.read_text() if self.log.exists() else ""


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Watched:
    return Watched(tmp_path_factory.mktemp("watched"))


@pytest.fixture(scope="module")
def made(watched: Watched, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A demo, made under watch."""
    out = tmp_path_factory.mktemp("demo") / "demo"
    done = watched.run("-m", "counterfactory.engine", "demo", "--out", str(out), "--sources", "2", "--variants", "1")
    assert done.returncode == 0, done.stderr
    yield out
    assert not watched.caught()


def test_the_watch_catches_sockets(watched: Watched) -> None:
    """Or the tests below would prove nothing."""
    done = watched.run("-c", "import socket; socket.getaddrinfo('example.org', 80)")
    assert "asks for the network" in done.stderr
    assert "socket.getaddrinfo" in watched.caught()
    watched.log.unlink()
    native = "import ctypes; ctypes.CDLL(None).socket(2, 1, 0); print('open')"
    done = watched.run("-c", native)
    if "takes no filter" in done.stderr or platform.machine() not in ("x86_64", "aarch64"):
        pytest.skip("the kernel takes no filter: sockets of native code go unchecked")
    assert done.returncode == -31, done.stdout  # SIGSYS


def test_openvino_by_itself_asks_for_the_network(watched: Watched) -> None:
    """What is switched off is there: when a release of OpenVINO stops reporting, the switch may go."""
    done = watched.run("-c", "import openvino")
    assert done.returncode == 0, done.stderr
    assert "socket." in watched.caught() or "urllib." in watched.caught()
    assert list(watched.home.rglob("openvino_ga_cid")), "no persistent id"
    watched.log.unlink()
    for file in watched.home.rglob("openvino*"):
        file.unlink()


@pytest.mark.slow
def test_no_command_opens_a_socket(watched: Watched, made: Path, tmp_path: Path) -> None:
    sources, suite = str(made / "sources"), str(tmp_path / "suite")
    answers = tmp_path / "answers.jsonl"
    commands = [
        [
            "generate",
            sources,
            "--out",
            suite,
            *("--variants", "1", "--sample", "1"),
            "--metrics",
            f"{tmp_path}/run.prom",
        ],
        ["estimate", sources, "--sample", "1"],
        ["doctor"],
        ["check", suite, "--set", "check.image_text=0.1"],
        ["report", suite],
        ["evaluate", suite, "--predictions", str(answers)],
    ]
    kept = {file: file.stat().st_ino for file in (watched.cache / "counterfactory" / "compiled").iterdir()}
    assert len(kept) == len(library_of(load_profile("pocket")).networks.plans) + 2, "and the models under test"
    for command in commands:
        if command[0] == "evaluate":
            rows = [{"image": row.file_name, "prediction": row.label} for row in read_metadata(Path(suite))]
            answers.write_text("\n".join(map(json.dumps, rows)))
        done = watched.run("-m", "counterfactory.engine", *command)
        assert done.returncode == 0, (command, done.stderr)
        assert not watched.caught(), command
    assert not list(watched.home.rglob("openvino*")), "OpenVINO left an id in the home folder"
    later = {file: file.stat().st_ino for file in (watched.cache / "counterfactory" / "compiled").iterdir()}
    assert later == kept, "the second suite's networks were those that the first one kept"
    assert {file.name for file in (watched.cache / "counterfactory").iterdir()} == {"compiled", "rates.json"}
