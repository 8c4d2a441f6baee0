"""Suites that a server paints, from photographs to rows, over a server of the tests' own on loopback."""

from __future__ import annotations

import base64
from pathlib import Path

import numpy as np
import pytest
from fake_editor import edit_reply, fake_editor
from loopback import Asked, Reply, json_reply, serving
from PIL import Image
from small_sets import noise

import counterfactory as cf
from counterfactory.engine.errors import CounterfactoryError

SECRET = "sk-very-secret-0123"


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for number, label in enumerate(("dog", "bus")):
        path = tmp_path / "photos" / label / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(noise(number, 12, 16)).resize((192, 128), Image.Resampling.BILINEAR).save(path)
    return tmp_path / "photos"


def profile(folder: Path, address: str, **changes: object) -> Path:
    lines = [f"{name} = {value!r}" for name, value in changes.items()]
    file = folder / "mine.toml"
    text = ['extends = "server"', 'name = "mine"', "[painter.server]", f'address = "{address}"', "retries = 0", *lines]
    file.write_text("\n".join(text) + "\n")
    return file


def make(photos: Path, out: Path, file: Path, told: list[str] | None = None, **options: object) -> cf.FinishedSuite:
    given = {"variants": 2, "edits": 1, "interventions": {"weather": ["foggy"], "time": ["night"]}, **options}
    warn = (lambda _: None) if told is None else told.append
    return cf.generate(photos, out=out, profile=file, warn=warn, **given)  # type: ignore[arg-type]


def pixels(path: Path) -> np.ndarray:
    return np.asarray(Image.open(path).convert("RGB"))


def test_a_server_s_edits_become_a_suite_with_controls_and_verdicts(photos: Path, tmp_path: Path) -> None:
    with fake_editor() as served:
        suite = make(photos, tmp_path / "suite", profile(tmp_path, served.address))
        asked = len(served.asked)
        make(photos, tmp_path / "suite", profile(tmp_path, served.address))
        assert len(served.asked) == asked, "what is on record is not asked for again"
    assert asked == 6
    prompts = [one.form["prompt"].decode() for one in served.asked]
    assert sum(prompt.startswith("Return the picture unchanged") for prompt in prompts) == 2
    assert any("fog" in prompt and "Keep everything else" in prompt for prompt in prompts)
    rows = list(suite.rows)
    assert {row.painter for row in rows if row.kind != "original"} == {"server"}
    for row in rows:
        source, shown = pixels(photos / row.origin.path), pixels(suite.path / row.file_name)
        assert shown.shape == source.shape
        if row.kind == "variant":
            assert row.accepted, row.reason
            assert row.edits[0].value in ("weather: foggy", "time: at night")
            assert abs(shown.mean() - source.mean()) > 5
        else:
            assert np.abs(shown.astype(int) - source).max() <= 1


def test_the_seed_of_a_request_is_the_variant_s_own(photos: Path, tmp_path: Path) -> None:
    with fake_editor() as served:
        make(photos, tmp_path / "a", profile(tmp_path, served.address), seed=0)
        first = [(one.form["prompt"], one.form.get("seed")) for one in served.asked]
        served.asked.clear()
        make(photos, tmp_path / "b", profile(tmp_path, served.address), seed=0)
        assert [(one.form["prompt"], one.form.get("seed")) for one in served.asked] == first
    assert len({seed for _, seed in first}) == len(first)


def test_a_refused_picture_costs_that_picture_and_is_asked_for_again(photos: Path, tmp_path: Path) -> None:
    told: list[str] = []

    def answer(asked: Asked) -> Reply:
        if b"fog" in asked.form["prompt"]:
            return json_reply({"error": {"message": "content policy"}}, 400)
        return edit_reply(asked)

    with serving(answer) as served:
        suite = make(photos, tmp_path / "suite", profile(tmp_path, served.address), told)
    assert suite.summary is not None
    assert suite.summary.sources == 2
    assert {row.edits[0].type for row in suite.rows if row.kind == "variant"} == {"time"}
    assert sum("content policy" in line and "variant" in line for line in told) == 2
    with fake_editor() as good:
        again = make(photos, tmp_path / "suite", profile(tmp_path, good.address))
        assert len(good.asked) == 2
    assert {row.edits[0].type for row in again.rows if row.kind == "variant"} == {"time", "weather"}


def test_a_server_that_is_gone_stops_the_run_and_nothing_is_lost(photos: Path, tmp_path: Path) -> None:
    with fake_editor() as served:
        address = served.address
        make(photos, tmp_path / "suite", profile(tmp_path, address), variants=1)
    with pytest.raises(CounterfactoryError, match="no connection to"):
        make(photos, tmp_path / "suite", profile(tmp_path, address), variants=2)
    assert len([row for row in cf.open(tmp_path / "suite").rows if row.kind == "variant"]) == 2


def test_what_a_server_made_before_it_went_is_not_asked_for_again(photos: Path, tmp_path: Path) -> None:
    answered = list[Asked]()

    def answer(asked: Asked) -> Reply:
        if len(answered) == 3:
            return json_reply({"error": {"message": "the key has expired"}}, 401)
        answered.append(asked)
        return edit_reply(asked)

    with serving(answer) as served, pytest.raises(CounterfactoryError):
        make(photos, tmp_path / "suite", profile(tmp_path, served.address, parallel=1))
    with fake_editor() as good:
        make(photos, tmp_path / "suite", profile(tmp_path, good.address, parallel=1))
        assert len(good.asked) == 3


def test_a_server_that_changes_nothing_is_found_by_the_checks(photos: Path, tmp_path: Path) -> None:
    def answer(asked: Asked) -> Reply:
        return json_reply({"data": [{"b64_json": base64.b64encode(asked.form["image"]).decode()}]})

    with serving(answer) as served:
        suite = make(photos, tmp_path / "suite", profile(tmp_path, served.address))
    reasons = {row.reason for row in suite.rows if row.kind == "variant"}
    assert all(reason and reason.startswith("nearly the same as its source") for reason in reasons)
    assert all(row.accepted for row in suite.rows if row.kind == "control")


def test_levels_are_between_the_source_and_the_full_edit(photos: Path, tmp_path: Path) -> None:
    with fake_editor() as served:
        night = {"time": ["night"]}
        suite = make(photos, tmp_path / "suite", profile(tmp_path, served.address), levels=2, interventions=night)
    for source in {row.source for row in suite.rows}:
        levels = sorted((r for r in suite.rows if r.source == source and r.kind == "variant"), key=lambda r: r.level)
        original = pixels(suite.path / levels[0].original).astype(int)
        half, full = (pixels(suite.path / row.file_name).astype(int) for row in levels)
        assert np.abs(half - (original + full) / 2).max() <= 6


def test_no_secret_is_on_record(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SERVER_KEY", SECRET)
    with fake_editor(SECRET) as served:
        suite = make(photos, tmp_path / "suite", profile(tmp_path, served.address, key_env="MY_SERVER_KEY"))
    assert len(list(suite.rows)) == 8
    for path in suite.path.rglob("*"):
        assert path.is_dir() or SECRET.encode() not in path.read_bytes()


def test_another_model_is_another_picture_and_another_address_is_not(photos: Path, tmp_path: Path) -> None:
    with fake_editor() as one, fake_editor() as other:
        make(photos, tmp_path / "suite", profile(tmp_path, one.address))
        make(photos, tmp_path / "suite", profile(tmp_path, other.address))
        assert not other.asked
        make(photos, tmp_path / "suite", profile(tmp_path, other.address, model="klein"))
        assert len(other.asked) == 6


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[painter]\nkind = "server"\n', "needs a table [painter.server]"),
        ("[paint]\nbatch = 1\n", "paint"),
        ("[painter.server]\ncolour = 1\n", "unknown key"),
    ],
)
def test_a_profile_of_a_server_is_checked(text: str, told: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    base = 'extends = "light"' if "kind" in text else 'extends = "server"'
    file.write_text(f'{base}\nname = "mine"\n{text}')
    with pytest.raises(CounterfactoryError) as caught:
        cf.plan(tmp_path, profile=file)
    assert told in str(caught.value)
