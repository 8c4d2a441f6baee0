"""The documents hold: their Python runs, every file that a document names exists, the tree lists every room."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from unittest.mock import MagicMock

import numpy as np
import pytest
from PIL import Image

from counterfactory.engine.pocket.worlds import EMBEDDED
from counterfactory.engine.suite import read_metadata

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([ROOT / "README.md", ROOT / "bench" / "README.md", *(ROOT / "docs").glob("*.md")])
ROOMS = sorted(path.parent.name for path in (ROOT / "engine").glob("*/__init__.py"))
_PATH = re.compile(rf"(?<![\w./~-])(?:(?:engine|export|kernels|tests|bench|docs)|(?:{'|'.join(ROOMS)}))/[\w./-]*[\w/]")
_LINK = re.compile(r"\]\((?!https?:)([^)#]+)\)")


def blocks(text: str, language: str) -> list[str]:
    """The fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.usefixtures("shared_answers")
def test_the_python_of_the_documents_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = EMBEDDED.sample(np.random.default_rng(1))
    photo = tmp_path / "photos" / scene.label / "0001.png"
    photo.parent.mkdir(parents=True)
    Image.fromarray(EMBEDDED.draw(scene).picture).save(photo)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "datasets"))
    (opening,) = blocks((ROOT / "docs" / "quickstart.md").read_text(encoding="utf-8"), "python")
    making, judging, reading = blocks((ROOT / "docs" / "api.md").read_text(encoding="utf-8"), "python")
    (answering,) = blocks((ROOT / "docs" / "own-model.md").read_text(encoding="utf-8"), "python")
    names: dict[str, object] = {}
    exec(making, names)
    exec(judging, names)
    exec(opening.replace('data_dir="suite"', f'data_dir="suite", cache_dir={str(tmp_path / "cache")!r}'), names)
    rows = read_metadata(tmp_path / "suite")
    assert [row.kind for row in rows] == ["original", "control", *["variant"] * 5]
    assert {row.label for row in rows} == {scene.label}
    assert len(names["suite"]) == 7  # type: ignore[arg-type]  # what the block opened
    exec(reading, names)
    assert len(names["accepted"]) == sum(row.verdict == "accepted" for row in rows)  # type: ignore[arg-type]
    (exploring,) = blocks((ROOT / "docs" / "reading-a-result.md").read_text(encoding="utf-8"), "python")
    samples: list[dict[str, object]] = []
    fiftyone = ModuleType("fiftyone")  # too large to install: what its functions are called with
    fiftyone.Classification = fiftyone.Dataset = fiftyone.launch_app = MagicMock()  # type: ignore[attr-defined]
    fiftyone.Sample = lambda path, **more: samples.append({"path": path, **more})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "fiftyone", fiftyone)
    exec(exploring, {})
    assert [Path(str(one["path"])).is_file() for one in samples] == [True] * len(rows)
    assert all(isinstance(tag, str) for one in samples for tag in one["tags"])  # type: ignore[attr-defined]
    exec(answering, {"my_model": lambda picture: 1})
    answers = (tmp_path / "answers.csv").read_text().splitlines()
    assert answers == ["image,prediction", *(f"{row.file_name},car" for row in rows)]


def named(text: str) -> Iterator[str]:
    """Files and folders of this repository that a document names, and rooms' files without the `engine/` in front."""
    for path in _PATH.findall(text):
        yield path.rstrip("/.")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_documents_name_files_that_exist(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    linked = [document.parent / link for link in _LINK.findall(text)]
    missing = [str(path) for path in linked if not path.exists()]
    for name in named(text):
        places = [base / (name + suffix) for base in (ROOT, ROOT / "engine") for suffix in ("", ".py")]
        if not any(place.exists() for place in places):
            missing.append(name)
    assert not missing, f"{document.relative_to(ROOT)} names {missing}"


def test_the_tree_of_the_architecture_has_every_room() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    tree = next(block for block in blocks(text, "") if block.startswith("engine/"))
    inside = tree[: tree.index("\nexport/")].splitlines()[1:]
    listed = [name for line in inside for name in re.findall(r"[\w.]+/|\w+\.py", line.partition("  ")[2][:45])]
    loose = sorted(path.name for path in (ROOT / "engine").glob("*.py") if not path.name.startswith("__"))
    assert sorted(name.rstrip("/") for name in listed if name.endswith("/")) == ROOMS
    assert sorted(name for name in listed if name.endswith(".py")) == loose


def test_pictures_are_light() -> None:
    pictures = [path for path in (ROOT / "docs").iterdir() if path.suffix in (".webp", ".png", ".jpg", ".svg")]
    assert pictures
    assert sum(path.stat().st_size for path in pictures) < 1_000_000
