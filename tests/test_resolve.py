"""What `make resolve` holds the box's packages to, without asking an index."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import resolve

ROOT = Path(__file__).parents[1]
PINS = resolve.BOX.read_text()
BOX = resolve.asked_by(resolve.BOX)
RESOLVED = dict(resolve._PIN.findall(PINS)) | {"exllamav2": "0.3.2", "flash-attn": "2.8.3"}


def test_the_box_is_of_one_torch_one_cuda_and_one_python() -> None:
    assert resolve.box_faults(PINS, RESOLVED) == []
    assert BOX.extras == {"cluster", "cuda", "tensorrt", "metrics"}
    assert "exllamav2==0.3.2\n" in BOX.lines
    assert "flash-attn==2.8.3\n" in BOX.lines
    assert "https" not in BOX.lines


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("torch==2.9.0", "torch==2.13.0", "exllamav2 is not made for torch 2.13.0"),
        ("torch2.9cxx", "torch2.8cxx", "flash-attn is not made for torch 2.9.0"),
        ("+cu128", "+cu130", "exllamav2 is not made for CUDA 12.8.90"),
        ("-cp312-cp312-", "-cp311-cp311-", "exllamav2 is not made for Python 3.12"),
        ("triton==3.5.0\n", "", "triton==3.5.0 is not pinned"),
        ("triton==3.5.0\n", "triton==3.5.0\nleft-over==1.0\n", "left-over is pinned and nothing asks for it"),
    ],
)
def test_a_pin_that_does_not_fit_is_named(old: str, new: str, fault: str) -> None:
    assert old in PINS
    assert any(said.startswith(fault) for said in resolve.box_faults(PINS.replace(old, new), RESOLVED))


def test_the_image_has_the_cuda_and_the_python_of_the_wheels() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    assert resolve.image_faults(dockerfile, PINS) == []
    assert resolve.image_faults(dockerfile.replace("12.8.1", "13.0.1"), PINS)
    assert resolve.image_faults(dockerfile.replace("-base-", "-cudnn-devel-"), PINS)
    assert resolve.image_faults(re.sub("@sha256:.*", "", dockerfile), PINS), "a tag may move"
    last = [line for line in dockerfile.splitlines() if line.startswith(("USER", "ENTRYPOINT"))]
    assert last[0] == "USER 10001", "root runs nothing"
    assert resolve.asked_of_pip(dockerfile) == {("-r", "requirements/a10g.txt")}


def test_wheels_of_other_addresses_are_held_to_a_digest() -> None:
    """All but exllamav2's, of which its project tells none; ExLlamaV3's is of the box's torch, CUDA and Python."""
    more = resolve.BOX.with_name("exllamav3.txt").read_text()
    wheels = [line for line in f"{PINS}\n{more}".splitlines() if " @ https" in line]
    assert [line.partition(" ")[0] for line in wheels] == ["exllamav2", "flash-attn", "exllamav3"]
    assert [bool(re.search(r"\.whl#sha256=[0-9a-f]{64}$", line)) for line in wheels] == [False, True, True]
    both = PINS + more
    assert resolve.box_faults(both, dict(resolve._PIN.findall(both)) | {"exllamav2": "0.3.2"}) == []
    assert resolve.box_faults(both.replace("cu128.torch2.9.0-cp312", "cu128.torch2.8.0-cp312"), RESOLVED)


def test_pip_s_lines_are_read() -> None:
    text = "`pip install '.[export,cuda]' -r requirements/a10g.txt`\npip install --no-deps \\\n    x==1 # why\n"
    assert resolve.asked_of_pip(text) == {(".[export,cuda]", "-r", "requirements/a10g.txt"), ("x==1",)}
    asked = resolve.asked_by_pip((".[export,cuda]", "-r", "requirements/a10g.txt", "x==1"))
    assert asked.extras == {"export", "cluster", "cuda", "tensorrt", "metrics"}
    assert asked.lines.endswith("x==1\n")


def test_one_resolution_of_all_extras_stands_for_every_choice_of_them() -> None:
    """Each set is asked of the index once, and none that is part of another."""
    every = frozenset(resolve.extras())
    named = resolve.tasks()
    assert {(resolve.Asked(every), "3.11"), (resolve.Asked(every), "3.12"), (BOX, "3.12")} <= named.keys()
    assert all(asked.lines or asked.extras == every for asked, _ in named)
    assert (BOX + resolve.asked_by(resolve.BOX.with_name("exllamav3.txt")), "3.12") in named
    assert len(named) <= 10


def test_an_extra_that_there_is_not_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolve.installing, "ALL", ("'.[onnxruntime-gpu]'",))
    with pytest.raises(resolve.UnresolvableError, match="there is no extra onnxruntime-gpu"):
        resolve.tasks()


def test_other_indexes_and_folders_are_hidden() -> None:
    found = resolve.environment({"UV_FIND_LINKS": "/wheels", "UV_INDEX": "more", "HOME": "/root"}, "the-index")
    assert found == {"HOME": "/root", "UV_DEFAULT_INDEX": "the-index"}
    assert resolve.environment({}, "") == {}


def test_one_module_is_not_installed_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    def both(*_: object, **__: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess([], 0, "onnxruntime==1.31.0\nonnxruntime-gpu==1.31.0\n", "")

    monkeypatch.setattr(subprocess, "run", both)
    with pytest.raises(resolve.UnresolvableError, match="onnxruntime and onnxruntime-gpu would be installed together"):
        resolve.resolve(resolve.Asked(frozenset({"export"})))


def test_the_box_quantises_without_the_exporter_s_packages() -> None:
    """Its environment has torch and safetensors; every other package of the export would stop the command."""
    absent = ("onnx", "onnxscript", "diffusers", "transformers", "peft", "nncf", "onnxruntime", "gguf", "accelerate")
    program = (
        f"import sys, runpy; sys.modules.update(dict.fromkeys({absent!r})); "
        "sys.argv[1:] = ['llm', '--profile', 'a10g', '--dry-run']; "
        "runpy.run_module('counterfactory.export', run_name='__main__', alter_sys=True)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "pip install -r requirements/a10g.txt" in done.stdout
