"""What may not be read of a data set costs that part of it. Root may read all, so that the system calls fail here."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from counterfactory.engine.sources.data_set import find_sources


def picture(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (32, 32, 3), dtype=np.uint8)).save(path)


def forbid(monkeypatch: pytest.MonkeyPatch, folder: Path, *calls: str) -> None:
    """Lets calls fail for what is in a folder, or for the folder itself where they list it."""
    for call in calls:
        real, listing = getattr(os, call), call in ("scandir", "listdir")

        def fail(path: Any = ".", *rest: Any, real: Any = real, listing: bool = listing, **more: Any) -> Any:
            name = path if isinstance(path, int) else Path(os.fsdecode(path))
            if isinstance(name, Path) and (name == folder if listing else folder in name.parents):
                raise PermissionError(errno.EACCES, "Permission denied", str(path))
            return real(path, *rest, **more)

        monkeypatch.setattr(os, call, fail)


@pytest.mark.parametrize("calls", [("stat", "open"), ("stat", "open", "scandir", "listdir")])
def test_a_class_folder_costs_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: tuple[str, ...]) -> None:
    for name in ("bus/0", "car/0", "car/1"):
        picture(tmp_path / f"{name}.png")
    forbid(monkeypatch, tmp_path / "bus", *calls)
    sources, problems = find_sources(tmp_path)
    assert [source.name for source in sources] == ["car/0", "car/1"]
    (problem,) = problems
    assert problem.name.startswith("bus")
    assert "Permission denied" in problem.reason


def test_folders_above_a_set_need_not_be_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "closed" / "set"
    picture(root / "images" / "0.png")
    (root / "labels").mkdir()
    (root / "labels" / "0.txt").write_text("0 0.5 0.5 0.5 0.5\n")
    (root / "data.yaml").write_text("names: [bus]\n")
    real = Path.iterdir

    def iterdir(path: Path) -> Iterator[Path]:
        if path in root.parents:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(Path, "iterdir", iterdir)
    (source,), problems = find_sources(root)
    assert [box.label for box in source.boxes] == ["bus"]
    assert not problems
