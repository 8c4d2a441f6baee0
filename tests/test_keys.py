"""Content keys: equal for equal content, different for different content, refused for what is not content."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterfactory.engine.keys import Digests, content_key, file_digest, generator

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=6,
)


@dataclass(frozen=True)
class Inner:
    high: int


@dataclass(frozen=True)
class Outer:
    name: str
    inner: Inner
    sides: tuple[int, ...]


def test_a_key_is_the_sha256_of_canonical_json() -> None:
    text = '["a",1,{"b":null,"c":[1.5,true]}]'
    assert content_key("a", 1, {"c": [1.5, True], "b": None}) == hashlib.sha256(text.encode()).hexdigest()


def test_a_dataclass_is_its_fields() -> None:
    assert content_key(Outer("x", Inner(3), (1, 2))) == content_key(
        {"sides": [1, 2], "inner": {"high": 3}, "name": "x"}
    )


@settings(max_examples=40)
@given(st.lists(PLAIN, max_size=3), st.lists(PLAIN, max_size=3))
def test_keys_are_equal_just_when_the_content_is(a: list[Any], b: list[Any]) -> None:
    same = json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)
    assert (content_key(*a) == content_key(*b)) == same


@pytest.mark.parametrize("part", [Path("/tmp/x"), {1, 2}, b"bytes", np.float32(1), np.zeros(2), object(), Inner])
def test_what_is_not_plain_data_is_refused(part: object) -> None:
    kind = re.escape(type(part).__name__)
    with pytest.raises(TypeError, match=f"takes plain data, got {kind}: hash a file's content, not its path$"):
        content_key("ok", part)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_numbers_that_json_has_not_are_refused(number: float) -> None:
    with pytest.raises(ValueError, match="JSON"):
        content_key(number)


@pytest.mark.parametrize("size", [0, 1, 1_000_000])
def test_a_file_digest_is_the_sha256_of_its_bytes(tmp_path: Path, size: int) -> None:
    data = np.random.default_rng(0).bytes(size)
    (tmp_path / "file").write_bytes(data)
    assert file_digest(tmp_path / "file") == hashlib.sha256(data).hexdigest()


def test_a_generator_gives_the_same_numbers_in_any_process() -> None:
    program = (
        "from counterfactory.engine.keys import generator; print(generator('k', 'noise').standard_normal(4).tolist())"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert json.loads(result.stdout) == generator("k", "noise").standard_normal(4).tolist()


def test_a_generator_is_philox_keyed_by_the_digest() -> None:
    key = int.from_bytes(hashlib.sha256(b"k/noise").digest()[:16], "little")
    oracle = np.random.Generator(np.random.Philox(key=np.array([key & (2**64 - 1), key >> 64], np.uint64)))
    assert generator("k", "noise").random(5).tolist() == oracle.random(5).tolist()


@settings(max_examples=40)
@given(st.text(max_size=8), st.text(max_size=8), st.text(max_size=8))
def test_keys_and_purposes_have_streams_of_their_own(key: str, one: str, other: str) -> None:
    same = generator(key, one).integers(2**62) == generator(key, other).integers(2**62)
    assert same == (one == other)


def test_a_file_is_read_again_just_when_it_is_another_one(tmp_path: Path) -> None:
    read: list[Path] = []

    def counted(path: Path) -> str:
        read.append(path)
        return file_digest(path)

    digests, first, second = Digests(counted), tmp_path / "first", tmp_path / "second"
    first.write_bytes(b"first")
    second.write_bytes(b"second")
    for _ in range(2):
        assert digests.of(first) == hashlib.sha256(b"first").hexdigest()
        assert digests.of(second) == hashlib.sha256(b"second").hexdigest()
    assert read == [first, second]
    first.write_bytes(b"other")  # as long as before
    os.utime(first, ns=(1, 1))
    assert digests.of(first) == Digests().of(first) == hashlib.sha256(b"other").hexdigest()
    assert read == [first, second, first]
