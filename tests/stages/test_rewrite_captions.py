"""The rewriting stage's `run`: variants to paint, variants to drop, and sources with too few."""

from __future__ import annotations

from pathlib import Path

from tiny_desk import tiny_run

from counterfactory.engine.pocket.tasks import street_task
from counterfactory.engine.profile.rewrite import RewriteSettings
from counterfactory.engine.request import SuiteRequest
from counterfactory.engine.sources.source import Source
from counterfactory.engine.stages.rewrite.rewrite_captions import rewrite_captions

REWRITE = RewriteSettings(("colour", "time"), 2, 2, 2, 120, verbatim=False)
ANSWERS = {
    "Changes: red -> blue": '"a blue bus"',
    "Changes: red -> green": '"a green tree"',
    "Types: ": '[["colour","red"]]',
    "Words: ": '["blue","green"]',
}


def test_variants_are_split_into_those_to_paint_and_those_to_drop(sources: list[Source], tmp_path: Path) -> None:
    asked_for = SuiteRequest(street_task("segmentation"), 2, 1, (1, 1), 0)
    captions = dict.fromkeys(sources[:2], "a red bus") | {sources[2]: "bus"}
    with tiny_run(tmp_path / "suite", sources) as first:
        first.networks.answers = ANSWERS
        found = rewrite_captions(first.of(asked_for, rewrite=REWRITE), captions)
        assert [(v.source, v.kind) for v in found.variants] == [
            (source, kind) for source in sources[:2] for kind in ("control", "variant", "variant")
        ]
        controls, variants = found.variants[::3], [v for v in found.variants if v.kind == "variant"]
        assert [(v.edits[0].alternative, v.repeat) for v in variants] == [("blue", 0), ("blue", 1)] * 2
        assert [(v.index, v.edits, v.caption, v.edited_caption) for v in controls] == [
            (0, (), "a red bus", "a red bus")
        ] * 2
        assert [(v.source, v.edits[0].alternative) for v in found.dropped] == [(s, "green") for s in sources[:2]]
        assert all("changes 'bus'" in (v.dropped or "") for v in found.dropped)
        assert {v.edited_caption for v in (*variants, *found.dropped)} == {"a blue bus", "a green tree"}
        assert [(p.name, "no words" in p.reason) for p in found.shortfalls] == [(sources[2].name, True)]
        assert [len(call) for call in first.networks.calls["llm"]] == [1, 1, 2], "equal questions are asked once"
        assert first.networks.entered == ["rewrite"] * 3
        assert first.done("rewrite") == (3, 7)
        assert first.made("rewrite") == 3
        (cost,) = (cost for cost in first.run.meter.costs() if cost.stage == "rewrite")
        assert (cost.prompt_tokens, cost.generated_tokens) == (40, 4)
        (use,) = first.run.meter.plans()
        assert (use.plan, use.stage, use.rows, use.fill) == ("llm", "rewrite", 4, None)
        assert 0 <= use.busy_s < 60
        assert first.run.meter.current == "rewrite"
        for question, (request, *_) in zip(("keywords", "alternatives"), first.networks.calls["llm"], strict=False):
            key = first.run.keys.answer_key(question, request.content)
            assert first.run.suite.ledger.get("rewrite", [key]), "an answer is recorded under its question"
    with tiny_run(tmp_path / "suite", sources) as second:
        assert rewrite_captions(second.of(asked_for, rewrite=REWRITE), captions) == found
        assert second.networks.opened == []


def test_captions_lose_what_the_text_encoder_does_not_read(sources: list[Source], tmp_path: Path) -> None:
    asked_for = SuiteRequest(street_task("segmentation"), 1, 1, (1, 1), 0)
    with tiny_run(tmp_path / "suite", sources) as made:
        made.networks.answers = {**ANSWERS, "Words: ": '["blue"]'}
        made.networks.room = 9
        captions = {sources[0]: "a red bus. it is parked."}
        found = rewrite_captions(made.of(asked_for, rewrite=REWRITE), captions)
        assert [(v.kind, v.caption, v.edited_caption) for v in found.variants] == [
            ("control", "a red bus.", "a red bus."),
            ("variant", "a red bus.", "a blue bus"),
        ]
        made.networks.room = 5  # "a blue" ends behind it
        found = rewrite_captions(made.of(asked_for, rewrite=REWRITE), captions)
        reason = "the text encoder reads the first 5 of its 10 characters, and 'blue' is behind"
        assert [v.dropped for v in found.dropped] == [reason]
