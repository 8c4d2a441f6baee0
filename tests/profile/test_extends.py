"""Profiles that extend others: what is merged, what is taken out, and what is said of files that cannot."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from checks import changed

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.profile.check import ValidPart
from counterfactory.engine.profile.maps import HintSettings
from counterfactory.engine.profile.profile import Profile, load_profile, profile_names
from counterfactory.kernels.canny import CannySettings


def written_out(folder: Path, text: str, name: str = "mine.toml") -> str:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


def load(folder: Path, text: str) -> Profile:
    """The profile "mine" of these lines, which extends the pocket's unless they say otherwise."""
    start = "" if "extends" in text else 'extends = "pocket"\n'
    return load_profile(written_out(folder, f'{start}name = "mine"\n{text}'))


DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize("page", ["a10g.md", "profiles.md"])
def test_profiles_that_the_docs_write_out_load(page: str, tmp_path: Path) -> None:
    blocks = re.findall(r"```toml\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)
    texts = [text for text in blocks if re.search("^extends", text, re.MULTILINE)]
    assert texts
    for text in texts:
        name = re.search(r'^name = "(.*?)"', text, re.MULTILINE)
        assert name
        assert load_profile(written_out(tmp_path, text)).name == name[1]


def test_what_a_file_does_not_state_is_its_parent_s(tmp_path: Path) -> None:
    for name in profile_names():
        if name != "pocket-full":
            assert load(tmp_path, f'extends = "{name}"') == replace(load_profile(name), name="mine")


def test_tables_are_merged_key_by_key_to_any_depth(tmp_path: Path) -> None:
    pocket = load_profile("pocket")
    paint = replace(pocket.paint, batch=3, sampler=replace(pocket.paint.sampler, steps=5))
    found = load(tmp_path, "[paint]\nbatch = 3\n[paint.sampler]\nsteps = 5\n")
    assert found == replace(pocket, name="mine", paint=paint)
    check = load(tmp_path, "[check]\nmin_valid = 0.9\nmin_label = 0.5").check
    assert check == changed(pocket.check, min_valid=0.9, min_label=0.5)


def test_lists_and_lists_of_tables_are_the_file_s_alone(tmp_path: Path) -> None:
    part = '[[check.valid]]\npart = "layout"\nscores = ["layout"]\nweights = [2]\nbias = 1\n'
    found = load(tmp_path, f'[rewrite]\ntypes = ["time"]\n{part}')
    assert found.rewrite.types == ("time",)
    assert found.check.valid == (ValidPart("layout", ("layout",), (2.0,), 1.0),)
    hint = '[[hints]]\nkind = "edges"\nplan = "{}"\nweight = 1.0\n'
    written_out(tmp_path, 'extends = "pocket"\nname = "x"\n' + hint.format("hint") + hint.format("hint_1"), "x.toml")
    hints = load(tmp_path, 'extends = "x.toml"\n' + hint.format("hint_2")).hints
    assert hints == (HintSettings("edges", "hint_2", 1.0),)


def test_tables_and_keys_of_the_parent_are_taken_out(tmp_path: Path) -> None:
    pocket = load_profile("pocket")
    found = load(tmp_path, 'without = ["teacher", "check.valid", "check.min_valid"]')
    check = replace(pocket.check.having(min_valid=None), valid=None)
    assert found == replace(pocket, name="mine", teacher=None, check=check)
    lance = load(tmp_path, 'extends = "pocket-lance"\nwithout = ["invert"]')
    assert lance == replace(load_profile("pocket-lance"), name="mine", invert=None)
    canny = "[edges]\ndetector = 'canny'\n[edges.canny]\nlow = 1\nhigh = 2\nl2 = false\nblur = 1\ncolour = 'steepest'"
    with pytest.raises(CounterfactoryError, match=r"mine\.toml: \[edges\] .* does not read the table \[edges.relative"):
        load(tmp_path, canny)
    edges = load(tmp_path, f'without = ["edges.relative"]\n{canny}').edges
    assert edges.canny == CannySettings(1, 2, False, 1, "steepest")
    with pytest.raises(CounterfactoryError, match=r"mine\.toml: key 'paint.sampler.kind' is missing"):
        load(tmp_path, 'without = ["paint.sampler"]\n[paint.sampler]\nsteps = 3')


def test_a_parent_is_found_beside_the_file_that_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written_out(tmp_path, 'extends = "pocket"\nname = "a"\n[paint]\nbatch = 3\n', "base/a.toml")
    written_out(tmp_path, 'extends = "a.toml"\nname = "b"\n[text]\nbatch = 5\n', "base/b.toml")
    written_out(tmp_path, 'extends = "base/b.toml"\nname = "c"\n[check]\nbatch = 7\n', "c.toml")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for named in ("c.toml", "./c.toml", str(tmp_path / "c.toml")):
        found = load_profile(named)
        assert (found.name, found.paint.batch, found.text.batch, found.check.batch) == ("c", 3, 5, 7)
    written_out(tmp_path, f'extends = "{tmp_path}/base/a.toml"\nname = "d"\n', "base/pocket.toml")
    written_out(tmp_path, 'extends = "pocket"\nname = "e"\n', "base/e.toml")
    written_out(tmp_path, 'extends = "~/base/a.toml"\nname = "f"\n', "base/f.toml")
    assert load_profile("base/f.toml").paint.batch == 3
    assert load_profile("base/pocket.toml").paint.batch == 3
    assert load_profile("base/e.toml").paint.batch == load_profile("pocket").paint.batch, "a name is no file"


@pytest.mark.parametrize(
    ("parent", "text", "told"),
    [
        ("poket", "", "extends = \"poket\" is no profile; did you mean 'pocket'?"),
        ("", "", 'extends = "" is no profile; choose from: a10g, '),
        ("base", "", "extends = \"base\" is no profile; did you mean 'base.toml'?"),
        ("bse.toml", "", 'extends = "bse.toml" names a file that there is not, FOLDER/bse.toml; did'),
        ("~no/x.toml", "", 'extends = "~no/x.toml" names a file that there is not, FOLDER/~no/x.toml'),
        ("pocket", 'without = "teacher"', "'without' should be a list of keys, such as "),
        ("pocket", 'without = ["qqq"]', "'without' names 'qqq', which its parent does not have; choose fr"),
        (
            "pocket",
            'without = ["check.min_vlid"]',
            "'without' names 'check.min_vlid', which its parent does not have; did you mean 'check.min_valid'?",
        ),
        ("pocket", 'without = ["check.valid.part"]', "'without' names 'check.valid.part', which its "),
        ("pocket", 'without = ["image"]', "key 'image' is missing (a table)"),
        ("pocket", "[pant]\n", "unknown key 'pant'; did you mean 'paint'?"),
        ("pocket", "[paint]\nbacth = 3", "unknown key 'paint.bacth'; did you mean 'paint.batch'?"),
        ("pocket", '[paint]\nbatch = "3"', "'paint.batch' should be a whole number, found '3'"),
        ("pocket", "paint = 3", "'paint' should be a table, found 3"),
        ("pocket", "[protect]\nfeather = 3", "key 'protect.classes' is missing"),
        (None, 'extends = "pocket"', "key 'name' is missing (text)"),
        (None, "extends = 3", "'extends' should be the name or the file of a profile, found 3"),
        (None, 'extend = "pocket"\nname = "x"', "unknown key 'extend'; did you mean 'extends'?"),
        (None, 'without = ["teacher"]\nname = "x"', "without takes keys out of what a profile extends: name that too"),
    ],
)
def test_what_is_wrong_is_the_file_s_and_no_parent_s(tmp_path: Path, parent: str | None, text: str, told: str) -> None:
    written_out(tmp_path, 'extends = "pocket"\nname = "base"\n', "base.toml")
    start = "" if parent is None else f'extends = "{parent}"\nname = "x"\n'
    assert refused(tmp_path, start + text).startswith(f"FOLDER/mine.toml: {told}")


def refused(folder: Path, text: str) -> str:
    """What is said of a profile of these lines, in one."""
    with pytest.raises(CounterfactoryError) as caught:
        load_profile(written_out(folder, text))
    assert "\n" not in str(caught.value)
    return str(caught.value).replace(str(folder), "FOLDER")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('extends = "pocket"\nname = "base"\n[paint]\nbacth = 3', "unknown key 'paint.bacth'"),
        ('extends = "pocket"\nname = "base"\n[paint]\nbatch = 0', "[paint] batch is at least 1, got 0"),
        ('name = "base"\n', "key 'shard_sources' is missing"),
        ("name = ", "is not valid TOML"),
    ],
)
def test_what_is_wrong_with_a_parent_is_the_parent_s(tmp_path: Path, text: str, told: str) -> None:
    parent = written_out(tmp_path, text, "base.toml")
    with pytest.raises(CounterfactoryError) as caught:
        load(tmp_path, 'extends = "base.toml"\n[paint]\nbatch = 3\n')
    assert str(caught.value).removeprefix(parent).lstrip(": ").startswith(told)


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"a.toml": "a.toml"}, "a.toml extends a.toml; choose from: a10g, "),
        ({"pocket.toml": "pocket.toml"}, "pocket.toml extends pocket.toml; did you mean 'pocket'?"),
        ({"a.toml": "b.toml", "b.toml": "b.toml"}, "a.toml extends b.toml extends b.toml; "),
    ],
)
def test_a_profile_does_not_extend_itself(tmp_path: Path, files: dict[str, str], told: str) -> None:
    for name, parent in files.items():
        written_out(tmp_path, f'extends = "{parent}"\nname = "x"\n', name)
    with pytest.raises(CounterfactoryError) as caught:
        load_profile(str(tmp_path / next(iter(files))))
    assert str(caught.value).startswith(f'{tmp_path}/{name}: extends = "{name}" goes round in a circle, {told}')


def test_a_link_to_itself_is_a_circle_too(tmp_path: Path) -> None:
    path = written_out(tmp_path, 'extends = "other.toml"\nname = "x"\n')
    (tmp_path / "other.toml").symlink_to(path)
    with pytest.raises(CounterfactoryError, match="goes round in a circle"):
        load_profile(path)
