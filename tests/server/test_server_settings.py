"""The table of a server: what it takes, what it refuses and in which words, and what of it names a picture."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.files.fill import fill
from counterfactory.engine.profile.server import ServerSettings

OPENAI = ServerSettings("http://127.0.0.1:8000", "openai", 1024, 16, 300, 3, 2, model="klein")
COMFYUI = replace(OPENAI, api="comfyui", model=None, workflow="edit.json")


def test_a_table_fills_it() -> None:
    table: dict[str, Any] = {"address": "https://pictures.example/v1", "api": "openai", "model": "klein"}
    table |= {"max_side": 1024, "multiple": 16, "timeout_s": 300, "retries": 3, "parallel": 2}
    table |= {"key_env": "PICTURES_KEY", "fields": {"num_inference_steps": "4", "seed": ""}}
    settings = fill(ServerSettings, table, "profile.toml")
    assert settings.fields == {"num_inference_steps": "4", "seed": ""}
    assert (settings.timeout_s, settings.workflow) == (300.0, None)
    with pytest.raises(CounterfactoryError, match=r"profile\.toml: retries is 0 to 10, got 11$"):
        fill(ServerSettings, {**table, "retries": 11}, "profile.toml")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        *(({"address": a}, "address is http://HOST") for a in ("ftp://h", "h:80", "http://", "http://h:x", "http://[")),
        *(({"address": a}, "found 'http") for a in ("http://h/a b", "http://h\n", "http://hä", "http://h:0")),
        ({"api": "other"}, 'api is "openai" or "comfyui", got \'other\''),
        ({"max_side": 63}, "max_side is 64 to 8192, got 63"),
        ({"max_side": 100, "multiple": 128}, "max_side is 128 to 8192, got 100"),
        ({"max_side": 8193}, "max_side is 64 to 8192, got 8193"),
        ({"multiple": 0}, "multiple is 1 to 128, got 0"),
        ({"multiple": 129}, "multiple is 1 to 128, got 129"),
        ({"timeout_s": 0.0}, "timeout_s is 0.001 to 86400, got 0"),
        ({"timeout_s": float("nan")}, "timeout_s is 0.001 to 86400, got nan"),
        ({"retries": -1}, "retries is 0 to 10, got -1"),
        ({"parallel": 0}, "parallel is 1 to 64, got 0"),
        ({"parallel": 65}, "parallel is 1 to 64, got 65"),
        ({"model": None}, 'api = "openai" needs a model and has no workflow'),
        ({"model": ""}, 'api = "openai" needs a model and has no workflow'),
        ({"workflow": "a.json"}, 'api = "openai" needs a model and has no workflow'),
        ({"api": "comfyui"}, 'api = "comfyui" needs a workflow and has no model'),
        ({"api": "comfyui", "model": None}, 'api = "comfyui" needs a workflow and has no model'),
        ({"fields": {"prompt": "x"}}, "none of image, prompt, model, n, got 'prompt'"),
        ({"fields": {'a"; b': "x"}}, "fields have names of letters, digits and _"),
    ],
)
def test_what_is_out_of_range_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        replace(OPENAI, **changes)


def test_fields_are_of_openais_form() -> None:
    with pytest.raises(ValueError, match='fields go with api = "openai", got "comfyui"'):
        replace(COMFYUI, fields={"steps": "4"})


@pytest.mark.parametrize(
    "changes",
    [
        {"key_env": "sk-verysecret"},
        {"key_env": "verysecret"},
        {"address": "http://me:verysecret@h"},
        {"address": "http://h/?key=verysecret"},
        {"address": "http://h/#verysecret"},
    ],
)
def test_a_secret_in_the_wrong_place_is_refused_and_not_shown(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="key_env") as refused:
        replace(OPENAI, **changes)
    assert "verysecret" not in str(refused.value)


def test_what_decides_a_picture_names_it(tmp_path: Path) -> None:
    patience = {"timeout_s": 1, "retries": 0, "parallel": 9}
    for same in ({"address": "https://elsewhere/v1"}, {"key_env": "KEY"}, patience, {"fields": {}}):
        assert replace(OPENAI, **same).digest() == OPENAI.digest()  # type: ignore[arg-type]
    others: list[dict[str, Any]] = [{}, {"model": "other"}, {"max_side": 512}, {"multiple": 8}]
    others += [{"fields": {"num_inference_steps": steps}} for steps in "45"]
    digests = {replace(OPENAI, **other).digest() for other in others}
    assert len(digests) == 6
    one, two = tmp_path / "one.json", tmp_path / "two.json"
    one.write_text("{}")
    two.write_text("{ }")
    first = replace(COMFYUI, workflow=str(one)).digest()
    assert first not in digests
    assert first != replace(COMFYUI, workflow=str(two)).digest()
    two.write_text("{}")
    assert first == replace(COMFYUI, workflow=str(two)).digest()
    with pytest.raises(CounterfactoryError, match=r"the workflow .*three.json is missing: correct workflow"):
        replace(COMFYUI, workflow=str(tmp_path / "three.json")).digest()


@pytest.mark.parametrize(
    ("size", "sent"),
    [((512, 768), (512, 768)), ((2048, 1024), (1024, 512)), ((500, 333), (496, 336)), ((8, 9), (16, 16))],
)
def test_pictures_go_out_at_multiples(size: tuple[int, int], sent: tuple[int, int]) -> None:
    assert OPENAI.size_for(*size) == sent


@given(st.integers(8, 9000), st.integers(8, 9000), st.integers(1, 128), st.integers(128, 8192))
def test_no_side_is_too_long(height: int, width: int, multiple: int, most: int) -> None:
    settings = replace(OPENAI, multiple=multiple, max_side=most)
    sent = settings.size_for(height, width)
    assert all(side % multiple == 0 and multiple <= side <= most for side in sent)
    assert sent == settings.size_for(*sent)
