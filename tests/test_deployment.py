"""The units of systemd and the image: every line is run here, read by its own tool, or held to what it names."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import stat
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from counterfactory.engine.cli import statuses
from counterfactory.engine.cli.arguments import build_parser
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.suite.status import BEAT_S, QUIET_S, RunStatus, StatusFile
from counterfactory.engine.suite.watchdog import feed_watchdog

ROOT = Path(__file__).parents[1]
UNITS = sorted((ROOT / "examples").glob("*.service"))
BOX, WORKER = (ROOT / "examples" / f"{name}.service" for name in ("counterfactory", "counterfactory-worker"))
INSTALLED = "/opt/counterfactory/bin/"
Unit = dict[str, list[str]]


def read(unit: Path) -> Unit:
    """Values by directive, in their order; lines are joined where they end in a backslash."""
    values = defaultdict[str, list[str]](list)
    for line in unit.read_text().replace("\\\n", " ").splitlines():
        if "=" in line and not line.startswith("#"):
            name, _, value = line.partition("=")
            values[name].append(value)
    return dict(values)


def seconds(span: str) -> float:
    units = {"": 1, "s": 1, "min": 60, "h": 3600}
    number, unit = re.fullmatch(r"(\d+)(\w*)", span).groups()  # type: ignore[union-attr]
    return int(number) * units[unit]


@pytest.fixture
def verify(tmp_path: Path) -> Callable[[str, str], str]:
    """What systemd says against a unit of that name, whose programs are there."""
    if (tool := shutil.which("systemd-analyze")) is None:
        pytest.skip("no systemd-analyze: that systemd knows each directive and value goes unchecked")

    def verify(name: str, text: str) -> str:
        for program in re.findall(rf"{INSTALLED}(\w+)", text):
            (tmp_path / program).write_text("#!/bin/sh\n")
            (tmp_path / program).chmod(0o755)
        unit = tmp_path / name
        unit.write_text(text.replace(INSTALLED, f"{tmp_path}/"))
        done = subprocess.run([tool, "verify", "--man=no", unit], capture_output=True, text=True, check=False)
        return done.stdout + done.stderr + (f"status {done.returncode}" if done.returncode else "")

    return verify


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_systemd_takes_each_line_of_a_unit(unit: Path, verify: Callable[[str, str], str]) -> None:
    text = unit.read_text()
    assert verify(unit.name, text) == ""
    # It tells of each that it would ignore.
    directives = re.findall(r"^([A-Z]\w+)=", text, re.MULTILINE)
    assert len(directives) > 15
    ignored = verify(unit.name, re.sub(r"^([A-Z]\w+)=", r"\1x=", text, flags=re.MULTILINE))
    assert all(f"'{name}x'" in ignored for name in directives)


def commands(unit: Path) -> Iterator[list[str]]:
    for directive in ("ExecStart", "ExecStop"):
        for value in read(unit).get(directive, []):
            yield shlex.split(value)


def test_the_box_s_command_is_one_of_ours() -> None:
    ((program, *words),) = commands(BOX)
    assert program == f"{INSTALLED}counterfactory"
    asked = build_parser().parse_args(words)
    assert words[0] == "generate"
    assert load_profile(asked.profile).runtime.on_gpu
    unit = read(BOX)
    (home,) = (value.removeprefix("HOME=") for value in unit["Environment"])
    assert home == unit["WorkingDirectory"][0] == f"%S/{unit['StateDirectory'][0]}"
    # What the command writes lies there, relative to it, and all else is read-only.
    assert not any(Path(str(path)).is_absolute() for path in (asked.sources, asked.out, asked.metrics))
    assert load_profile(asked.profile).models.path == Path.home() / "counterfactory-a10g"


def test_the_worker_s_commands_are_ray_s() -> None:
    scripts = pytest.importorskip("ray.scripts.scripts", reason="no ray: that it takes the unit's words goes unchecked")
    asked = [
        (program, verb, scripts.cli.commands[verb].make_context(verb, words).params)
        for program, verb, *words in commands(WORKER)
    ]
    assert [(program, verb) for program, verb, _ in asked] == [(f"{INSTALLED}ray", verb) for verb in ("start", "stop")]
    assert asked[0][2]["block"], "or systemd would take it for ended"
    assert asked[0][2]["address"] == "HEAD:6379"
    assert re.search(r"^ray==", (ROOT / "requirements" / "a10g.txt").read_text(), re.MULTILINE)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_has_the_home_and_the_user_that_it_says_to_make(unit: Path) -> None:
    values, text = read(unit), BOX.read_text()
    made = re.search(r"useradd --system --home-dir (\S+) (\w+)", text)
    assert made is not None
    assert made[1] == f"/var/lib/{values['StateDirectory'][0]}"
    assert values["User"] == [made[2]]
    assert f"venv {INSTALLED.removesuffix('/bin/')}\n" in text
    assert f"{INSTALLED}pip install -r requirements/a10g.txt" in text


# By the status of a run: whether it is worth another start. Where a signal ended it, that is 128 and its number.
AGAIN = {
    0: False,
    statuses.EXIT_SKIPPED: False,
    statuses.EXIT_ERROR: False,
    statuses.EXIT_BROKEN: False,
    statuses.EXIT_STOPPED: False,
    statuses.EXIT_BUG: True,
    statuses.EXIT_AGAIN: True,
    128 + 6: True,
    128 + 9: True,
    128 + 11: True,
}


def test_what_a_restart_cures_is_started_again_and_nothing_else() -> None:
    """As systemd.service(5) has on-failure: a signal, or a status that means no success and is not withheld."""
    unit = read(BOX)
    named = "SuccessExitStatus", "RestartPreventExitStatus"
    well, never = ({int(one) for one in unit[name][0].split()} for name in named)
    assert unit["Restart"] == ["on-failure"]
    assert {status: status not in {0, *well, *never} for status in AGAIN} == AGAIN
    # A fault that comes back at once ends it, and one that comes back after hours does not.
    tries, pause, window = (unit[name][0] for name in ("StartLimitBurst", "RestartSec", "StartLimitIntervalSec"))
    assert 10 * int(tries) * seconds(pause) < seconds(window) <= 3600


def test_a_stop_reaches_the_run_alone_and_has_time() -> None:
    """Ray's processes of `--ray local` would else be gone before the shards that they have in hand."""
    unit = read(BOX)
    assert unit["KillMode"] == ["mixed"]
    assert seconds(unit["TimeoutStopSec"][0]) >= 60
    assert seconds(unit["WatchdogSec"][0]) >= max(QUIET_S, 10 * BEAT_S)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_hardening_leaves_cuda_what_it_needs(unit: Path) -> None:
    values = read(unit)
    breaking = {"PrivateDevices", "DevicePolicy", "DeviceAllow", "MemoryDenyWriteExecute", "SystemCallFilter"}
    assert not breaking & values.keys()
    assert values["NoNewPrivileges"] == ["yes"]
    assert "nvidia-modprobe" in values["ExecStartPre"][0], "which is set-uid, and so of no use to the service itself"
    assert values["ExecStartPre"][0].startswith("-+"), "as root, and without it all goes on"


# systemd's watchdog.


@pytest.fixture
def messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], list[bytes]]]:
    """What the run told systemd since the last look."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(str(tmp_path / "notify"))
        server.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))

        def received() -> list[bytes]:
            told = []
            while True:
                try:
                    told.append(server.recv(100))
                except BlockingIOError:
                    return told

        yield received


def test_the_watchdog_is_fed_while_work_moves(messages: Callable[[], list[bytes]], tmp_path: Path) -> None:
    now, moves = 1000.0, 0
    file = StatusFile(tmp_path, 10, "gpu", lambda: 0.0, progress=lambda: moves, clock=lambda: now)
    file.note()
    assert messages() == [b"WATCHDOG=1"]
    for _ in range(3):
        now, moves = now + BEAT_S, moves + 1
        file.beat()
    assert messages() == 3 * [b"WATCHDOG=1"]
    now += QUIET_S
    file.beat()
    assert messages() == [b"WATCHDOG=1"], "it may yet be loading"
    now += 2
    file.beat()
    assert messages() == []
    moves += 1
    file.beat()
    assert messages() == [b"WATCHDOG=1"]


def test_the_watchdog_s_socket_may_be_any_or_none() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        name = f"counterfactory-{os.getpid()}"
        server.bind(f"\0{name}")
        feed_watchdog({"NOTIFY_SOCKET": f"@{name}"})
        assert server.recv(100) == b"WATCHDOG=1"
        for _ in range(1000):  # nobody reads them, and nobody waits
            feed_watchdog({"NOTIFY_SOCKET": f"@{name}"})
    for address in ("", "/nowhere/notify", f"@{name}", "vsock:2:1234", "/" + 200 * "x"):
        feed_watchdog({"NOTIFY_SOCKET": address})
    feed_watchdog({})


# The image.

DOCKERFILE = (ROOT / "Dockerfile").read_text()


def instructions(name: str) -> list[str]:
    joined = re.sub(r"\\\n\s*", " ", re.sub(r"^#.*\n", "", DOCKERFILE, flags=re.MULTILINE))
    return [line.removeprefix(f"{name} ").strip() for line in joined.splitlines() if line.startswith(f"{name} ")]


def variables() -> dict[str, str]:
    return dict(line.split("=", 1) for line in instructions("ENV"))


def shell(kind: str) -> str:
    """The one command of the image that begins so."""
    (line,) = (part.strip() for run in instructions("RUN") for part in run.split("&&") if part.strip().startswith(kind))
    return line


def test_ci_lints_the_image() -> None:
    recipe = subprocess.run(["make", "-n", "lint"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert re.search(r"hadolint .*Dockerfile$", recipe, re.MULTILINE)


def test_the_image_s_user_may_write_where_it_says(tmp_path: Path) -> None:
    """Its own lines are run, below another root."""
    for name in ("etc/passwd", "etc/group", "etc/shadow", "etc/gshadow", "home/.keep", "work/.keep"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    if os.geteuid() != 0 or shutil.which("useradd") is None:
        pytest.skip("useradd takes root: that the image's line makes a user goes unchecked")
    subprocess.run(["useradd", "--prefix", str(tmp_path), *shlex.split(shell("useradd"))[1:]], check=True)
    users = (tmp_path / "etc/passwd").read_text().splitlines()
    (name, _, number, *_, home, _), *others = (line.split(":") for line in users)
    assert (others, home, number) == ([], variables()["HOME"], *instructions("USER"))
    words = [word.replace(f"={name}", f"={number}") for word in shlex.split(shell("install"))]
    command = [word for word in words if not word.startswith("/")]
    folders = [word for word in words if word.startswith("/")]
    subprocess.run([*command, *(f"{tmp_path}{folder}" for folder in folders)], check=True)
    for folder in folders:
        about = (tmp_path / folder.removeprefix("/")).stat()
        assert (about.st_uid, stat.S_IMODE(about.st_mode)) == (int(number), 0o777), "any --user may write"
    assert set(json.loads(*instructions("VOLUME"))) <= set(folders)
    assert instructions("WORKDIR")[-1] in folders
    weights = load_profile("a10g").models.path.relative_to(Path.home())
    assert f"{home}/{weights}" in json.loads(*instructions("VOLUME"))
    assert Path(variables()["COUNTERFACTORY_SUITE"]).parent == Path(instructions("WORKDIR")[-1])


def test_the_image_copies_what_the_package_is_built_of() -> None:
    """test_wheel.py builds it of these."""
    *ours, requirements = (name for line in instructions("COPY") for name in line.split()[:-1])
    assert ours == ["pyproject.toml", "README.md", "LICENSE", "engine", "export", "kernels"]
    assert requirements == "requirements"
    assert all((ROOT / name).exists() for name in ours)


def test_the_image_s_environment_is_made_where_its_path_looks(tmp_path: Path) -> None:
    python, *words, place = shlex.split(shell("python3.12 -m venv"))
    assert variables()["PATH"] == f"{place}/bin:$PATH"
    subprocess.run([sys.executable, *words, "--without-pip", tmp_path / "made"], check=True)
    assert (tmp_path / "made" / "bin" / "python").exists()
    assert {python, f"{python}-venv"} < set(shlex.split(shell("apt-get install")))


def healthy(tmp_path: Path, program: str, suite: Path) -> bool:
    """What docker makes of the image's own line, where `program` stands for the command."""
    (line,) = instructions("HEALTHCHECK")
    options, _, command = line.partition(" CMD ")
    assert re.fullmatch(r"(--(interval|timeout|start-period)=\d+m ?|--retries=\d ?)+", options)
    file = tmp_path / "bin" / "counterfactory"
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"#!/bin/sh\n{program}\n")
    file.chmod(0o755)
    named = {"PATH": f"{file.parent}:{os.environ['PATH']}", "COUNTERFACTORY_SUITE": str(suite)}
    done = subprocess.run(json.loads(command), env=os.environ | named, capture_output=True, check=False)
    assert done.returncode in (0, 1), "all that docker knows"
    assert done.stdout + done.stderr == b""
    return done.returncode == 0


def test_the_image_is_unhealthy_where_its_run_stands_still_and_nowhere_else(tmp_path: Path) -> None:
    """A container without a suite, or with one that is done, is well."""
    known = [value for name, value in vars(statuses).items() if name.startswith("EXIT_")]
    asked = 'test "$1 $2" = "status a suite" || exit 4'
    found = {status: healthy(tmp_path, f"{asked}; exit {status}", Path("a suite")) for status in (0, *known)}
    assert found == {status: status != statuses.EXIT_STALLED for status in (0, *known)}


@pytest.mark.parametrize("still", [True, False])
def test_a_run_that_stands_still_makes_the_image_unhealthy(still: bool, tmp_path: Path) -> None:
    now = time.time() + 1e6  # so that it is never too old
    status = RunStatus("running", 0, now, 10, 3, 0, 1, 0, "gpu", 1.0, "elsewhere", 1, 0.0 if still else now)
    (tmp_path / "status.json").write_text(json.dumps(asdict(status)))
    program = f'exec {sys.executable} -m counterfactory.engine "$@"'
    assert healthy(tmp_path, program, tmp_path) == (not still)
