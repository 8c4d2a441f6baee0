"""Verdicts derived anew: from the scores on record alone, in the table and in the record of runs."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest
from conftest import MadeSuite

from counterfactory.engine.errors import CounterfactoryError
from counterfactory.engine.judging.recheck import Recheck, recheck
from counterfactory.engine.stages.check import CheckSettings
from counterfactory.engine.suite import Suite, read_metadata, read_run

STRICT = CheckSettings(
    batch=8,
    label_prompt="a {label}",
    logit_scale=10.0,
    min_image_text=0.65,
    min_directional=0.5,
    min_image_image=-1.0,
    min_edit=0.25,
    min_label=-1.0,
    min_layout=0.0,
)


def test_verdicts_follow_from_the_scores(made_suite: MadeSuite) -> None:
    before = read_metadata(made_suite.path)
    assert recheck(made_suite.path, STRICT) == Recheck(variants=6, accepted=3, accepted_before=5)
    rows = read_metadata(made_suite.path)
    for row in (row for row in rows if row.kind == "variant"):
        text = row.scores["image_text"]
        assert row.reason == (None if text >= 0.65 else f"image_text {text:.3f} is below 0.650")
    assert [replace(row, reason=None) for row in rows] == [replace(row, reason=None) for row in before]
    record = read_run(made_suite.path)
    assert record is not None
    assert record.standing is not None
    assert (record.standing.accepted, record.standing.rejected) == (3, 3)
    assert record.standing.check == asdict(STRICT)
    # And back: what was rejected is accepted again.
    lenient = replace(STRICT, min_image_text=-1.0)
    assert recheck(made_suite.path, lenient) == Recheck(variants=6, accepted=6, accepted_before=3)


def test_a_variant_without_a_score_is_named(made_suite: MadeSuite) -> None:
    with Suite.open(made_suite.path) as suite:
        suite.write_metadata([replace(row, scores={"image_text": 0.9, "edit": 0.9}) for row in made_suite.rows])
    table = (made_suite.path / "metadata.parquet").read_bytes()
    with pytest.raises(CounterfactoryError) as caught:
        recheck(made_suite.path, STRICT)
    first = read_metadata(made_suite.path)[1].file_name  # behind the original
    assert str(caught.value) == (
        f"{first} was not scored for 'directional', which its verdict needs; run `counterfactory generate` again"
    )
    assert (made_suite.path / "metadata.parquet").read_bytes() == table


def test_a_suite_without_a_record_of_runs_gets_none(made_suite: MadeSuite) -> None:
    (made_suite.path / "run.json").unlink()
    assert recheck(made_suite.path, STRICT).accepted == 3
    assert not (made_suite.path / "run.json").exists()
