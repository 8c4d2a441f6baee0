"""Every option of `verify` is seen to arrive (see wiring.py), and what it finds is what `generate` makes anew."""

from __future__ import annotations

import json
import os
from pathlib import Path

from PIL import Image
from wiring import House, answers, page
from wiring_cases import arrival

from counterfactory.engine import face as cf
from counterfactory.engine.cli.arguments import main
from counterfactory.engine.suite import read_metadata

test_an_option_of_verify_arrives = arrival("verify")


def test_what_it_finds_is_remade_alone(house: House) -> None:
    suite = house.ask("generate", "--variants", 2, "--controls", 1, of=house.root / "street").suite
    assert suite is not None
    sound = house.run("verify", suite)
    assert (sound.status, sound.data["faults"]) == (0, [])
    assert sound.data["digest"] == cf.verify(suite).digest
    before = times(suite)
    wrong = [sorted((suite / top).rglob("*.png"))[at] for top, at in (("images", 0), ("originals", 0), ("masks", -1))]
    whole = [path.read_bytes() for path in wrong]
    for path in wrong:
        status = path.stat()
        path.write_bytes(bytes(status.st_size))
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    house.ran.clear()
    found = house.run("verify", suite)
    assert found.status == 3
    named = [fault["file"] for fault in found.data["faults"]]
    assert named == sorted(str(path.relative_to(suite)) for path in wrong)
    words = ["generate", house.root / "street", "--variants", 2, "--controls", 1, "--out", suite]
    assert main(list(map(str, words))) == 0
    assert [path.read_bytes() for path in wrong] == whole
    house.ran.clear()
    assert house.run("verify", suite).data == sound.data
    pictures = {name for name in before if before[name] != times(suite)[name]}
    painted = {name for name in named if not name.startswith("masks")}
    assert pictures == set(named) | {f"masks/{name.partition('/')[2]}" for name in painted}


def test_results_say_which_bytes_they_are_of(house: House) -> None:
    suite, junit, summary = house.suite(), house.new("junit.xml"), house.new("summary.md")
    digest, given = house.run("verify", suite).data["digest"], answers(house, suite)
    evaluated = house.run("evaluate", suite, "--predictions", given, "--fail-under", "1%", "--junit", junit)
    assert evaluated.data["suite_digest"] == digest
    shown = page(house, suite, "--predictions", given, "--markdown", summary)
    figures = json.loads((suite / "report" / "report.json").read_text())
    assert figures["suite_digest"] == digest
    for text in (junit.read_text(), summary.read_text(), shown.partition("<footer>")[2]):
        assert digest in text
    assert "Counterfactory&#39;s own networks: Apache-2.0" in shown
    record = json.loads((suite / "run.json").read_text())
    assert record["licences"] == [{"model": "Counterfactory's own networks", "licence": "Apache-2.0"}]


def test_pictures_of_a_suite_say_their_variant_s_key(house: House) -> None:
    for row in read_metadata(suite := house.suite()):
        with Image.open(suite / row.file_name) as picture:
            xmp = picture.info.get("XML:com.adobe.xmp", "")
        assert (f'dc:identifier="{row.key}"' in xmp) == ("/trainedAlgorithmicMedia" in xmp) == (row.kind != "original")


def times(suite: Path) -> dict[str, int]:
    return {str(path.relative_to(suite)): path.stat().st_mtime_ns for path in suite.rglob("*.png")}
