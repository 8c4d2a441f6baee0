"""Profiles over small networks, and profiles that are written as files."""

from __future__ import annotations

import string
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfactory.engine.profile.check import score_named
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.profile.small import RUNTIMES, SHRINK, write_profile, write_small

KEYS = st.text(string.ascii_lowercase + "_", min_size=1, max_size=6)
PLAIN = st.integers(-9, 9) | st.booleans() | st.text("aZ \"'\\\n[]#é😀\t\x7f", max_size=6) | st.lists(st.integers(0, 3))
TABLE = st.recursive(
    st.dictionaries(KEYS, PLAIN | st.none(), max_size=3),
    lambda tables: st.dictionaries(KEYS, PLAIN | st.none() | tables | st.lists(tables, min_size=1, max_size=2)),
    max_leaves=6,
)


def there(value: Any) -> Any:
    """Without what is None."""
    if isinstance(value, list):
        return [there(one) for one in value]
    return {key: there(one) for key, one in value.items() if one is not None} if isinstance(value, dict) else value


def gone(table: dict[str, Any], path: str = "") -> list[str]:
    ends = [f"{path}{key}" for key, value in table.items() if value is None]
    inner = {key: value for key, value in table.items() if isinstance(value, dict)}
    return ends + [end for key, value in inner.items() for end in gone(value, f"{path}{key}.")]


@given(TABLE)
def test_a_profile_that_is_written_says_its_differences(tables: dict[str, Any]) -> None:
    """As Python's own reader of TOML reads it."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "new" / "profile.toml"
        assert write_profile(file, "/with/mine.toml", tables) == file
        read = tomllib.loads(file.read_text(encoding="utf-8"))
    without = read.pop("without", None)
    assert (sorted(without) if without else without) == (sorted(gone(tables)) or None)
    assert read == {"extends": "/with/mine.toml", "name": "mine"} | there(tables)


@pytest.mark.parametrize("name", ["a10g", "a10g-fast", "cpu", "gpu", "lance"])
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_small_profile_goes_the_same_way_on_any_machine(name: str, runtime: str, tmp_path: Path) -> None:
    whole = load_profile(name)
    small = load_profile(str(write_small(tmp_path / "small.toml", name, tmp_path, RUNTIMES[runtime])))
    assert small.name == f"small-{whole.name}"
    assert small.models.path == tmp_path
    assert small.models.world == whole.models.world
    assert (small.device, small.grounding, small.runtime.on_gpu, small.llm.exllama) == (None, None, False, None)
    assert small.runtime.backend == runtime
    assert small.llm.on_cpu
    assert (Path(small.llm.model) / "model.xml").is_file(), "the language model is the one that comes with us"
    assert [tuple(SHRINK * side for side in size) for size in small.image.sizes] == list(map(tuple, whole.image.sizes))
    assert SHRINK * small.image.short_side == whole.image.short_side
    assert small.paint.sampler.steps == min(6, whole.paint.sampler.steps)
    assert not small.paint.denoiser.endswith("_int8")
    assert small.paint.sampler.kind == whole.paint.sampler.kind
    tables = (small.paint, small.text, small.check, small.caption)
    assert [table.batch for table in tables] == [2] * 4
    assert small.paint.decode_batch == 2
    assert small.caption.decoding.mode in ("greedy", "beam")
    assert (small.hints, small.paint.reuse) == (whole.hints, whole.paint.reuse)
    assert (small.invert is None) == (whole.invert is None)
    assert small.painter_kind == whole.painter_kind
    for key, bound in small.check.thresholds.items():
        score = score_named(key.partition("_")[2])
        assert score is not None
        assert key.startswith("min_"), "no picture is rejected"
        assert bound == score.least


def test_a_small_profile_takes_further_tables_and_a_file_s_own_way(tmp_path: Path) -> None:
    mine = write_profile(tmp_path / "mine.toml", "a10g", {"text": {"batch": 3}, "paint": {"guidance": {"scale": 4.5}}})
    runtime = {"backend": "tensorrt", "provider": None}
    asked = write_small(tmp_path / "small.toml", str(mine), tmp_path, runtime, paint={"batch": 4}, text={"batch": 5})
    small = load_profile(str(asked))
    assert (small.paint.batch, small.paint.decode_batch, small.text.batch) == (4, 2, 5)
    assert small.paint.guidance.scale == 4.5
    assert small.device is not None, "where a GPU is there, its facts stand"
    assert small.runtime.on_gpu
