"""Every option of `check` is seen to arrive; see wiring.py."""

from __future__ import annotations

from pathlib import Path

from profiles import profile_with
from wiring import MODEL, House, judgements, shows
from wiring_cases import arrival

from counterfactory.engine.suite import read_metadata


def ruled(house: House, *more: str | Path) -> dict[str, tuple[str, str]]:
    """What is on record of a suite's first variant after a check with these options."""
    suite = house.suite()
    (first, *_) = [row.file_name for row in read_metadata(suite) if row.kind == "variant"]
    for asked in (more, ()):
        ran = house.run("check", suite, *(str(word).replace("FIRST", first) for word in asked))
        assert ran.status == 0, ran.err
    return {one["verdict"]: (one["reason"], name) for name, one in ran.data["by_hand"].items()} | {
        "row": next((row.reason or "", row.file_name) for row in read_metadata(suite) if row.file_name == first)
    }


@shows("--exclude", "check")
@shows("--reason", "check")
def _(house: House, command: str) -> None:
    found = ruled(house, "--exclude", "FIRST", "--reason", "a face")
    assert found["exclude"][0] == "a face"
    assert found["row"][0] == "excluded by hand: a face"


@shows("--by", "check")
def _(house: House, command: str) -> None:
    assert ruled(house, "--exclude", "FIRST", "--by", "anna", "--reason", "a face")["exclude"][0] == "anna: a face"
    assert ruled(house, "--exclude", "FIRST", "--by", "anna")["row"][0] == "excluded by hand: anna"


@shows("--accept", "check")
def _(house: House, command: str) -> None:
    found = ruled(house, "--accept", "FIRST", *STRICT)
    assert found["accept"][0] == found["row"][0] == ""


@shows("--undo", "check")
def _(house: House, command: str) -> None:
    house.refuses("no picture 'images/none.png'", command, house.suite(), "--undo", "images/none.png")


@shows("--verdicts", "check")
def _(house: House, command: str) -> None:
    suite = house.suite()
    first, second, *_ = [row.file_name for row in read_metadata(suite) if row.kind == "variant"]
    table = house.file("verdicts.csv", f"image,verdict,reason\n{first},exclude,odd\n")
    by_hand = house.run(command, suite, "--verdicts", table, "--exclude", second).data["by_hand"]
    assert by_hand[first]["reason"] == "odd"
    assert by_hand[second]["verdict"] == "exclude"


STRICT = ("--set", "check.image_text=1")


@shows("--set", "check")
def _(house: House, command: str) -> None:
    suite = house.suite()
    assert house.run(command, suite, *STRICT).data["thresholds"]["min_image_text"] == 1
    assert {row.reason is None for row in read_metadata(suite) if row.kind == "variant"} == {False}


@shows("--files", "check")
def _(house: House, command: str) -> None:
    suite = house.suite()
    assert "thresholds" in house.run(command, suite, "--files").data
    picture, table = next(suite.glob("images/*/*/*.png")), (suite / "metadata.parquet").read_bytes()
    picture.write_bytes(picture.read_bytes()[:-1])
    ran = house.run(command, suite, "--files", *STRICT)
    assert ran.status == 3
    assert [fault["file"] for fault in ran.data["faults"]] == [str(picture.relative_to(suite))]
    assert (suite / "metadata.parquet").read_bytes() == table


@shows("--profile", "check")
def _(house: House, command: str) -> None:
    profile = profile_with(house.new("profile"), check={"min_image_text": 0.99})
    assert house.run(command, house.suite(), "--profile", profile).data["thresholds"]["min_image_text"] == 0.99


@shows("--sweep", "check")
def _(house: House, command: str) -> None:
    ran = house.run(command, house.suite(), "--sweep", "check.image_text")
    assert "thresholds" not in ran.data


@shows("--valid", "check")
def _(house: House, command: str) -> None:
    suite = house.suite()
    plain, judged = (
        house.run(command, suite, "--sweep", "check.image_text", *more)
        for more in ((), ("--valid", judgements(house, suite)))
    )
    assert plain.data != judged.data


@shows("--fit", "check")
def _(house: House, command: str) -> None:
    suite = house.suite()
    house.refuses("3 variants are judged valid and 3 not", command, suite, "--fit", judgements(house, suite))


@shows("--fid", "check")
def _(house: House, command: str) -> None:
    fid = house.run(command, house.suite(), "--fid").data["fid"]
    assert (fid["extractor"], fid["features"], fid["originals"]) == ("CLIP of pocket", 128, 3)
    assert fid["variants"] > 0
    fid = house.run(command, house.suite(), "--fid", MODEL).data["fid"]
    assert (fid["extractor"], fid["features"]) == (MODEL, 3)
    for model, word in (("nothing", "'nothing'"), (MODEL.replace("classify", "segment"), "gives no features")):
        house.refuses(word, command, house.suite(), "--fid", model)


@shows("--preprocess", "check")
def _(house: House, command: str) -> None:
    for more, word in (((), "--fid MODEL"), (("--fid", MODEL), "'sharpen'")):
        house.refuses(word, command, house.suite(), "--preprocess", "sharpen=2", *more)


@shows("--perplexity", "check")
def _(house: House, command: str) -> None:
    read = house.run(command, house.suite(), "--perplexity").data["perplexity"]
    assert read["model"] == "llm of pocket"
    assert 1 < read["captions"] < 100
    assert 1 < read["edited"] < 100


test_an_option_of_check_arrives = arrival("check")
