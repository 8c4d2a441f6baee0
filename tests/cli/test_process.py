"""What the exit status of a real process says, whatever becomes of it: 1 is for skipped sources alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

COMMAND = [sys.executable, "-m", "counterfactory.engine"]


@pytest.fixture(autouse=True)
def buffered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python buffers what goes to a pipe unless told otherwise; the last flush is what fails then."""
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)


def start(code: str, *arguments: object) -> list[str]:
    """A command line that runs `code` before the command."""
    return [
        sys.executable,
        "-c",
        f"{code}\nimport sys\nsys.argv = ['counterfactory', *sys.argv[1:]]\n"
        "from counterfactory.engine.cli.process import run\nrun()",
        *map(str, arguments),
    ]


def ended(command: list[str], **how: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, **how)


def test_a_crash_is_named_a_bug() -> None:
    code = (
        "from counterfactory.engine.cli import commands\ndef broken(*_):\n    raise KeyError('pixels')\n"
        "commands.doctor = broken"
    )
    for options in ([], ["--json"]):
        done = ended(start(code, "doctor", *options))
        assert (done.returncode, done.stdout) == (70, "")
        assert "Traceback (most recent call last)" in done.stderr
        last = done.stderr.splitlines()[-1]
        assert last.startswith("error: this is a bug in counterfactory (KeyError: 'pixels'); please report it")


@pytest.mark.parametrize(
    "raised",
    [
        "errors.TryAgainError('the GPU is gone; run the same command again')",
        "RuntimeError('CUDA error: an illegal memory access was encountered\\nCUDA kernel errors might be')",
        "RuntimeError('CUDA out of memory. Tried to allocate 2.00 GiB')",
    ],
)
def test_a_lost_gpu_is_status_75(raised: str) -> None:
    """A service starts the same command again; no memory of the host is status 2."""
    code = (
        "from counterfactory.engine import errors\nfrom counterfactory.engine.cli import commands\n"
        f"def broken(*_):\n    raise {raised}\ncommands.doctor = broken"
    )
    done = ended(start(code, "doctor"))
    assert (done.returncode, done.stdout) == (75, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert "run the same command again" in line


def test_an_installation_that_cannot_be_imported_is_a_crash_too() -> None:
    code = "import sys\nsys.modules['counterfactory.engine.report.table'] = None"
    done = ended(start(code, "doctor"))
    assert done.returncode == 70
    assert "this is a bug in counterfactory (ModuleNotFoundError" in done.stderr


def test_skipped_sources_are_status_1(tmp_path: Path) -> None:
    """Where progress and warnings go is read; estimate reads sources and says nothing else."""
    (tmp_path / "bad.png").write_bytes(b"no picture")
    Image.new("RGB", (32, 32)).save(tmp_path / "good.png")
    code = "from counterfactory.engine.estimate import estimate\nestimate.measure_peak = lambda *_: 1e11"
    done = ended(start(code, "estimate", tmp_path, "--allow-out-of-domain"))
    assert done.returncode == 1, done.stderr
    assert "skipped bad" in done.stderr


@pytest.mark.parametrize("arguments", [["doctor"], ["doctor", "--json"], ["--help"], ["generate", "--help"]])
def test_a_reader_that_left_is_status_141(arguments: list[str]) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([*COMMAND, *arguments], stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, "")


def test_a_reader_of_warnings_that_left_is_status_141(tmp_path: Path) -> None:
    (tmp_path / "bad.png").write_bytes(b"no picture")
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([*COMMAND, "estimate", tmp_path], stdout=subprocess.PIPE, stderr=write, check=False)
    os.close(write)
    assert (done.returncode, done.stdout) == (141, b"")


def test_a_crash_that_nobody_reads_is_still_a_crash() -> None:
    code = "from counterfactory.engine.cli import commands\ncommands.doctor = lambda *_: 1 / 0"
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(start(code, "doctor"), stdout=write, stderr=write, check=False)
    os.close(write)
    assert done.returncode == 70


@pytest.mark.parametrize("closed", [1, 2])
@pytest.mark.parametrize("arguments", [["doctor"], ["doctor", "--json"], ["--help"]])
def test_closed_streams_are_no_failure(arguments: list[str], closed: int) -> None:
    done = subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, check=False, preexec_fn=lambda: os.close(closed)
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert bool(done.stdout) == (closed == 2)


def test_a_file_of_the_suite_never_takes_the_place_of_a_closed_stream(tmp_path: Path) -> None:
    """What a library prints would be written into it."""
    code = (
        "from counterfactory.engine.cli import commands\n"
        "def opens(args, terminal):\n"
        f"    file = open({str(tmp_path / 'ledger')!r}, 'w')\n"
        "    import os; os.write(1, b'printed by a library'); os.write(2, b'printed by a library')\n"
        "    assert file.fileno() > 2\n"
        "    return 0\n"
        "commands.doctor = opens"
    )

    def close_all() -> None:
        for number in range(3):
            os.close(number)

    done = subprocess.run(start(code, "doctor"), check=False, preexec_fn=close_all)
    assert done.returncode == 0
    assert (tmp_path / "ledger").read_bytes() == b""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full: a full disk under the output goes unchecked")
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_output_that_cannot_be_written_is_status_2(options: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*COMMAND, "doctor", *options], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert "No space left on device" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def heed_ctrl_c() -> None:
    """A shell's background jobs, which tests may be, ignore it, and their children with them."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_what_stops_a_service_stops_a_command_as_ctrl_c_does() -> None:
    code = "import signal, os, time\nfrom counterfactory.engine.cli import commands\n"
    stopped = "commands.doctor = lambda *_: (os.kill(os.getpid(), signal.SIGTERM), time.sleep(60))"
    done = ended(start(code + stopped, "doctor"))
    assert done.returncode == 130
    assert "stopped; run the same command again" in done.stderr


def test_ctrl_c_is_status_130_even_while_modules_are_imported() -> None:
    code = "import signal, os\nfrom counterfactory.engine.cli import commands\n"
    stopped = "commands.doctor = lambda *_: os.kill(os.getpid(), signal.SIGINT)"
    done = ended(start(code + stopped, "doctor"), preexec_fn=heed_ctrl_c)
    assert done.returncode == 130
    assert "stopped; run the same command again" in done.stderr
    slow = (
        "import sys, time\nclass Slow:\n    def find_spec(self, name, *_):\n"
        "        if name.endswith('cli.arguments'):\n            print('importing', flush=True); time.sleep(60)\n"
        "sys.meta_path.insert(0, Slow())"
    )
    with subprocess.Popen(
        start(slow, "doctor"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=heed_ctrl_c
    ) as process:
        assert process.stdout.readline() == "importing\n"
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "")


def test_wrong_arguments_are_status_2() -> None:
    done = ended([*COMMAND, "doctr"])
    assert done.returncode == 2
    assert "invalid choice" in done.stderr


def test_output_in_an_encoding_without_our_letters_has_others(tmp_path: Path) -> None:
    code = (
        "from counterfactory.engine.cli import commands\ndef say(args, terminal):\n"
        "    terminal.say('\\u22128.3 \\u2026 +3 \\u2192 \\u96e8')\n    terminal.warn('\\u96e8')\n    return 0\n"
        "commands.doctor = say"
    )
    plain = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = ended(start(code, "doctor"), env=plain)
    assert (done.returncode, done.stdout, done.stderr) == (0, "-8.3 .. +3 -> ?\n", "?\n")


def test_what_was_imported_is_not_the_collector_s() -> None:
    code = (
        "import gc\nfrom counterfactory.engine.cli import commands\n"
        "commands.doctor = lambda *_: print(gc.get_freeze_count()) or 0"
    )
    done = subprocess.run(start(code, "doctor"), capture_output=True, text=True, check=True)
    assert int(done.stdout) > 10_000
