"""The base installation, which judges: without the packages of the extras its commands run, others name the extra."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from conftest import MadeSuite

from counterfactory.engine.packages import EXTRAS, missing_package

ROOT = Path(__file__).parents[2]
LEAN = (
    "import sys\nclass Absent:\n    def find_spec(self, name, *_):\n"
    f"        if name.partition('.')[0] in {sorted(EXTRAS)!r}:\n"
    "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
    "sys.meta_path.insert(0, Absent())\n"
    "sys.argv = ['counterfactory', *sys.argv[1:]]\n"
    "from counterfactory.engine import packages\npackages.installed = lambda name: name not in packages.EXTRAS\n"
    "from counterfactory.engine.cli.process import run\nrun()"
)


def lean(*args: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", LEAN, *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def answers(made_suite: MadeSuite, tmp_path: Path) -> Path:
    path = tmp_path / "answers.csv"
    lines = [f"{row.file_name},{row.label}\n" for row in made_suite.rows]
    path.write_text("image,prediction\n" + "".join(lines))
    return path


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (("evaluate", "SUITE", "--predictions", "ANSWERS"), "accuracy"),
        (("check", "SUITE"), "variants accepted"),
        (("doctor",), "package    openvino"),
    ],
)
def test_what_judges_runs(command: tuple[str, ...], told: str, made_suite: MadeSuite, answers: Path) -> None:
    places = {"SUITE": made_suite.path, "ANSWERS": answers}
    done = lean(*(places.get(word, word) for word in command))
    assert done.returncode == 0, done.stderr
    assert told in done.stdout


def test_the_page_is_made_and_lacks_edges(made_suite: MadeSuite, answers: Path, tmp_path: Path) -> None:
    done = lean("report", made_suite.path, "--predictions", answers, "--out", tmp_path / "page")
    assert done.returncode == 0, done.stderr
    assert "no edges are shown: they take OpenCV" in done.stderr
    assert (tmp_path / "page" / "index.html").is_file()


@pytest.mark.parametrize("command", [("plan", "SOURCES"), ("demo", "--out", "OUT")])
def test_what_is_missing_is_one_sentence(command: tuple[str, ...], made_suite: MadeSuite, tmp_path: Path) -> None:
    places = {"SOURCES": made_suite.path / "images", "OUT": tmp_path / "out"}
    done = lean(*(places.get(word, word) for word in command))
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert "which is not installed: pip install 'counterfactory[light]'" in done.stderr.splitlines()[-1]


def test_each_extra_is_one_and_the_base_has_no_package_of_them() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(EXTRAS.values()) <= project["optional-dependencies"].keys()
    base = " ".join(project["dependencies"])
    for name in ("openvino", "opencv", "tokenizers", "llguidance", "scipy", "prometheus", "pandas", "datasets"):
        assert name not in base
    assert not [
        asked for asked in (*project["dependencies"], *project["optional-dependencies"]["generate"]) if "==" in asked
    ]


def test_only_packages_of_extras_are_explained() -> None:
    assert missing_package(ModuleNotFoundError("no", name="counterfactory.engine.report")) is None
    assert missing_package(ModuleNotFoundError("no")) is None
    said = missing_package(ModuleNotFoundError("no", name="prometheus_client.core"))
    assert said.endswith("pip install 'counterfactory[metrics]'")
