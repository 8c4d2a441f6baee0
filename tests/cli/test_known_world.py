"""Pictures that the default profile's models do not know: refused in a sentence, or marked on all that is made."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from command_line import Command
from conftest import MadeSuite, Street
from PIL import Image
from streets import save_picture

from counterfactory.engine.suite import Suite, caution, count_outside, read_metadata, read_run

pytestmark = pytest.mark.usefixtures("shared_answers")
MARK = (
    "unlike anything that the models were trained on: pictures painted from them, and figures about them, are "
    "meaningless"
)


def add_photographs(images: Path, count: int, first: int = 0) -> None:
    """Noise as photographs have it, most of it in long waves, under the class "bus"; black masks beside it."""
    for index in range(first, first + count):
        random = np.random.default_rng(index)
        waves = np.fft.rfft2(random.normal(size=(3, 140, 200)))
        rows, columns = np.fft.fftfreq(140)[:, None], np.fft.rfftfreq(200)
        values = np.fft.irfft2(waves / np.hypot(rows, columns).clip(0.005), s=(140, 200))
        picture = (128 + 45 * values / values.std()).clip(0, 255).astype(np.uint8)
        for folder, array in ((images, picture.transpose(1, 2, 0)), (images.parent / "masks", 0 * picture[0])):
            save_picture(folder / "bus" / f"photo{index}.png", array)


@pytest.mark.parametrize("command", ["generate", "estimate"])
def test_photographs_are_refused_before_anything_is_made(command: str, tmp_path: Path, run: Command) -> None:
    add_photographs(tmp_path / "photos" / "images", 10)
    args: list[str | Path] = ["--out", tmp_path / "suite"] if command == "generate" else []
    status, out, err = run(command, tmp_path / "photos", "--profile", "pocket", *args)
    assert (status, out) == (2, "")
    *progress, said = err.splitlines()
    assert [line.split()[0] for line in progress] == ["read", "masks", "masks"]
    assert said.startswith("error: the models of profile pocket know rendered streets and nothing else, and 10 of 10")
    assert "nothing was painted; use --profile light for other weather and light, or a10g or" in err
    assert not (tmp_path / "suite").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("counted_once")
def test_estimates_say_what_they_are_of(street: Street, run: Command) -> None:
    add_photographs(street.root / "images", 1)
    status, out, err = run("estimate", street.root)
    assert status == 1
    assert "of 3 sources" in out
    assert "skipped bus/photo0: it does not look like rendered streets, which is all that the models know" in err
    add_photographs(street.root / "images", 8)
    status, out, err = run("estimate", street.root, "--allow-out-of-domain", "--json")
    assert status == 0
    assert json.loads(out)["outside_world"] == 8
    assert f"caution    8 of 11 sources are {MARK}" in err


@pytest.mark.slow
def test_a_few_strangers_are_skipped_and_anything_marks_them_everywhere(
    street: Street, tmp_path: Path, run: Command
) -> None:
    add_photographs(street.root / "images", 1)
    suite = tmp_path / "suite"
    args = ("generate", street.root, "--out", suite, "--variants", "1", "--controls", "0", "--edits", "1", "--json")
    status, out, err = run(*args)
    assert status == 1
    assert [problem["name"] for problem in json.loads(out)["problems"]] == ["bus/photo0"]
    assert "skipped bus/photo0: it does not look like rendered streets" in err
    assert "caution" not in err
    assert {row.source for row in read_metadata(suite)} == set(street.names)
    record = read_run(suite)
    assert [problem.name for problem in record.sessions[-1].problems] == ["bus/photo0"]
    assert (record.standing.sources, record.standing.outside_world) == (3, 0)

    status, out, err = run(*args, "--allow-out-of-domain")
    assert status == 0
    assert (json.loads(out)["sources"], json.loads(out)["outside_world"]) == (4, 1)
    assert f"caution    1 of 4 sources are {MARK}" in err
    rows = read_metadata(suite)
    assert {row.source for row in rows if not row.known_world} == {"bus/photo0"}
    assert count_outside(rows) == (1, 4)
    record = read_run(suite)
    assert record.standing.outside_world == 1
    assert [session.facts.settings["allow_out_of_domain"] for session in record.sessions] == [False, True]

    # Back without it: the shard, finished with the stranger in it, is made anew without.
    run(*args)
    assert {row.source for row in read_metadata(suite)} == set(street.names)


@pytest.fixture
def strange_suite(made_suite: MadeSuite) -> Path:
    """`made_suite` as if the models did not know its first source."""
    rows = read_metadata(made_suite.path)
    for row in rows:
        if row.source == made_suite.street.names[0]:
            object.__setattr__(row, "known_world", False)
    with Suite.open(made_suite.path) as suite:
        suite.write_metadata(rows)
    return made_suite.path


def test_evaluations_begin_with_it(strange_suite: Path, tmp_path: Path, run: Command) -> None:
    answers = tmp_path / "answers.csv"
    told = enumerate(read_metadata(strange_suite))
    answers.write_text("image,prediction\n" + "".join(f"{r.file_name},{('car', 'bus')[i % 2]}\n" for i, r in told))
    _, out, _ = run("evaluate", strange_suite, "--predictions", answers)
    assert " ".join(out.split()).startswith(f"1 of 3 sources are {MARK}")
    _, out, _ = run("evaluate", strange_suite, "--predictions", answers, "--json")
    assert json.loads(out)["outside_world"] == {"sources": 1, "of": 3}


def test_page_and_sheet_show_it(strange_suite: Path, tmp_path: Path, run: Command) -> None:
    run("report", strange_suite, "--out", tmp_path / "marked")
    page = (tmp_path / "marked" / "index.html").read_text(encoding="utf-8")
    assert f"<li>1 of 3 sources are {MARK}</li>" in page
    rows = read_metadata(strange_suite)
    for row in rows:
        object.__setattr__(row, "known_world", True)
    with Suite.open(strange_suite) as suite:
        suite.write_metadata(rows)
    run("report", strange_suite, "--out", tmp_path / "plain")
    assert "meaningless" not in (tmp_path / "plain" / "index.html").read_text(encoding="utf-8")
    sheets = [np.asarray(Image.open(tmp_path / name / "contact_sheet.png")) for name in ("marked", "plain")]
    added = sheets[0].shape[0] - sheets[1].shape[0]
    assert added > 0
    above = sheets[0][100 : 100 + added].astype(int)
    assert ((above[..., 0] > 150) & (above[..., 1] < 100)).sum() > 200, "red words"
    np.testing.assert_array_equal(sheets[0][-400:], sheets[1][-400:])


def test_the_sentence_counts() -> None:
    assert caution(0, 5) is None
    assert caution(1, 1) == (
        "the source is unlike anything that the models were trained on: pictures painted from it, and figures about "
        "it, are meaningless"
    )
    assert caution(10, 10) == f"10 of 10 sources are {MARK}"
