"""The wheel alone: what it carries, and that it makes suites where there is no checkout."""

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
    build = ["wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, folder / "source"]
    subprocess.run([sys.executable, "-m", "pip", *map(str, build)], check=True)
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_carries_what_suites_are_made_with(wheel: Path) -> None:
    assert wheel.stat().st_size < 45e6
    names = set(zipfile.ZipFile(wheel).namelist())
    packed = {name for name in names if "/weights/" in name}
    runtime = {f.relative_to(RUNTIME).as_posix() for f in RUNTIME.rglob("*") if f.is_file()}
    assert packed == {f"counterfactory/engine/pocket/weights/{name}" for name in runtime}
    assert not {path.name for path in MASTERS.iterdir()} & {Path(name).name for name in names}
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
    install = ["--python", python, "install", "--quiet", "--no-deps", "--no-index", "--force-reinstall", wheel]
    subprocess.run([sys.executable, "-m", "pip", *map(str, install)], check=True)
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
    asked = ["generate", street.root, "--out", "suite", "--variants", "1", "--task", "classification"]
    done = subprocess.run(
        [home / "bin" / "counterfactory", *asked], cwd=tmp_path, env=alone, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    rows = read_metadata(tmp_path / "suite")
    assert {row.source for row in rows} == set(street.names)
    assert all((tmp_path / "suite" / row.file_name).is_file() for row in rows)
    plans = library_of(load_profile("pocket")).networks.plans
    assert len(list((tmp_path / "compiled").iterdir())) == len(plans), "each kept for the next run"
