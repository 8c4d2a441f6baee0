"""The wheels alone: what they carry, and that they make suites where there is no checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest
from conftest import Street

from counterfactory.engine.models.networks import library_of
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.runtime.blob_cache import SWITCH
from counterfactory.engine.suite import read_metadata
from counterfactory.export.pocket.packed import MASTERS, RUNTIME

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built of a copy: setuptools keeps what it once packed in `build`, and would pack it again."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in ("engine", "export", "kernels"):
        shutil.copytree(ROOT / name, folder / "source" / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copyfile(ROOT / name, folder / "source" / name)
    sources = (folder / "source", folder / "source" / "engine" / "pocket")
    build = ["wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, *sources]
    subprocess.run([sys.executable, "-m", "pip", *map(str, build)], check=True)
    (built,) = folder.glob("counterfactory-*.whl")
    return built


def pocket_of(wheel: Path) -> Path:
    (built,) = wheel.parent.glob("counterfactory_pocket-*.whl")
    assert built.stat().st_size < 45e6
    return built


@pytest.mark.slow
def test_the_wheels_carry_what_suites_are_made_with(wheel: Path) -> None:
    """The pocket networks apart from the rest, so that who judges suites installs none."""
    assert wheel.stat().st_size < 2e6
    names, networks = (set(zipfile.ZipFile(one).namelist()) for one in (wheel, pocket_of(wheel)))
    runtime = {f.relative_to(RUNTIME).as_posix() for f in RUNTIME.rglob("*") if f.is_file()}
    assert {name for name in networks if ".dist-info/" not in name} == {f"counterfactory_pocket/{x}" for x in runtime}
    world = "counterfactory/engine/pocket/weights/world_streets.json"
    assert {name for name in names if "/weights/" in name} == {world}, "by which streets are known"
    assert not {path.name for path in MASTERS.iterdir()} & {Path(name).name for name in names | networks}
    assert {"counterfactory/engine/profile/profiles/pocket.toml", "counterfactory/kernels/edges.py"} <= names
    assert {"counterfactory/__init__.py", "counterfactory/py.typed"} <= names
    assert "counterfactory/engine/training/recipes/fine-tune.toml" in names
    assert {f"counterfactory/engine/review/{name}" for name in ("review.html", "review.js", "lance.toml")} <= names


@pytest.mark.slow
def test_an_installed_wheel_makes_a_suite(wheel: Path, street: Street, tmp_path: Path) -> None:
    """In an environment of its own, which borrows third parties' packages from this one, and far from the checkout."""
    home = tmp_path / "environment"
    venv.create(home, with_pip=False)
    python = home / "bin" / "python"
    own = subprocess.run(
        [python, "-c", "import site; print(site.getsitepackages()[0])"], capture_output=True, text=True
    )
    (Path(own.stdout.strip()) / "third_parties.pth").write_text(sysconfig.get_path("purelib") + "\n")

    def install(*wheels: Path) -> None:
        told = ["--python", python, "install", "--quiet", "--no-deps", "--no-index", "--force-reinstall", *wheels]
        subprocess.run([sys.executable, "-m", "pip", *map(str, told)], check=True)

    install(wheel)
    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    where = (
        "import counterfactory as cf, counterfactory.engine as e, counterfactory.kernels as k\n"
        "print(*cf.__path__, *e.__path__, *k.__path__, cf.generate.__code__.co_filename)"
    )
    found = subprocess.run(
        [python, "-c", where], cwd=tmp_path, env=alone, capture_output=True, text=True, check=True
    ).stdout.split()
    assert len(found) == 4
    assert all(Path(path).is_relative_to(home) for path in found)
    alone[SWITCH] = str(tmp_path / "compiled")

    def run(*asked: object) -> subprocess.CompletedProcess[str]:
        command = [str(home / "bin" / "counterfactory"), *map(str, asked)]
        return subprocess.run(command, cwd=tmp_path, env=alone, capture_output=True, text=True, check=False)

    asked = ("generate", street.root, "--out", "suite", "--variants", "1", "--task", "classification")
    lacking = run(*asked)
    assert lacking.returncode == 2
    assert lacking.stderr.rstrip().endswith("is missing: 'counterfactory doctor' of the profile says what to do")
    advice = run("doctor", "--profile", "pocket").stdout.rstrip()
    assert advice.endswith("-m pip install --force-reinstall ./engine/pocket")
    install(pocket_of(wheel))
    done = run(*asked)
    assert done.returncode == 0, done.stderr
    rows = read_metadata(tmp_path / "suite")
    assert {row.source for row in rows} == set(street.names)
    assert all((tmp_path / "suite" / row.file_name).is_file() for row in rows)
    plans = library_of(load_profile("pocket")).networks.plans
    assert len(list((tmp_path / "compiled").iterdir())) == len(plans), "each kept for the next run"
