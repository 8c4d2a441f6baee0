"""Data sets of the hub, by the real library `datasets`: a folder as `load_dataset` takes it, and no network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from small_sets import read, save

from counterfactory.engine.errors import CounterfactoryError


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    library = pytest.importorskip("datasets", reason="datasets is not installed: that it loads sets goes unchecked")
    monkeypatch.setattr(library.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    library.disable_progress_bars()
    return library


def test_a_folder_is_loaded_as_a_set_of_the_hub_is(library: Any, tmp_path: Path) -> None:
    """Splits, and class folders as ClassLabels."""
    for i, place in enumerate(("train/cat", "train/dog", "validation/dog")):
        save(tmp_path / "set" / place / f"{i}.png", i)
    found = read(f"hf:{tmp_path / 'set'}:train")
    assert (found.layout, [source.label for source in found.sources]) == ("datasets", ["cat", "dog"])
    assert [source.label for source in read(f"hf:{tmp_path / 'set'}:validation").sources] == ["dog"]
    with pytest.raises(CounterfactoryError, match=r"has the splits train, validation: name one of them, such as hf:"):
        read(f"hf:{tmp_path / 'set'}")


def test_without_a_network_one_sentence_says_what_to_do(library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*_: Any, **__: Any) -> None:
        raise ConnectionError("Couldn't reach 'beans' on the Hub (LocalEntryNotFoundError)\nand more lines")

    monkeypatch.setattr(library, "load_dataset", unreachable)
    with pytest.raises(CounterfactoryError) as caught:
        read("hf:beans:train")
    assert str(caught.value) == (
        "hf:beans:train cannot be opened by datasets: Couldn't reach 'beans' on the Hub (LocalEntryNotFoundError); "
        "without a network, name a folder that save_to_disk wrote elsewhere"
    )
