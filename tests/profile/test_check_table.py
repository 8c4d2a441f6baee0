"""[check] and [[referees]]: thresholds need what measures them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from checks import changed

from counterfactory.engine.models.network import Rows
from counterfactory.engine.models.networks import networks_of
from counterfactory.engine.profile.check import ValidPart
from counterfactory.engine.profile.profile import PROFILES, load_profile
from counterfactory.engine.profile.referees import RefereeSettings

SAID = ValidPart("label", ("said_label",), (1.0,), 0.0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_text_label": 0.5}, r"max_text_label: a sentence encoder measures that: it needs a table \[grounding\]"),
        ({"min_text_caption": 0.5}, "min_text_caption: a sentence encoder"),
        ({"max_perplexity_ratio": 2.0}, r"max_perplexity_ratio: it needs \[rewrite\] perplexity = true"),
        ({"min_said_edits": 0.5}, r"min_said_edits: .*said_edits, needs \[check\] recaption = true"),
        ({"min_said_label": 0.5, "recaption": True, "recaption_of": ("time",)}, 'said_label needs "label" in'),
        ({"recaption": True, "recaption_of": ("color",)}, "recaption_of: there is no type of edits 'color'; did you"),
        ({"valid": (SAID,)}, r"valid: .*said_label, needs \[check\] recaption = true"),
        ({"min_miou": 0.5}, r'min_miou: it needs \[\[referees\]\] of kind = "masks"'),
        ({"min_ensemble": 0.5}, r'min_ensemble: it needs \[\[referees\]\] of kind = "labels"'),
        ({"min_boxes": 0.5}, r'min_boxes: it needs \[\[referees\]\] of kind = "boxes"'),
    ],
)
def test_a_threshold_that_nothing_measures_is_refused(changes: dict[str, Any], message: str) -> None:
    found = load_profile("pocket-lance")
    with pytest.raises(ValueError, match=rf"\[check\] .*{message}"):
        replace(found, check=changed(found.check, **changes))


def test_referees_and_the_captioner_s_second_look_are_read_from_a_profile(tmp_path: Path) -> None:
    text = (PROFILES / "pocket.toml").read_text()
    asked = 'recaption = true\nrecaption_of = ["colour", "label"]'
    pocket = text.replace("[check] ", f"[check]\n{asked}\nmin_said_label = 0.5\nmin_miou = 0.4 ")
    referee = '\n[[referees]]\nkind = "masks"\nrun = "mine:look"\nbatch = 4\nclasses = ["road", "bus"]\n'
    (tmp_path / "mine.toml").write_text(pocket + referee)
    found = load_profile(str(tmp_path / "mine.toml"))
    assert found.referees == (RefereeSettings("masks", "mine:look", 4, ("road", "bus")),)
    assert [found.check.reads(what) for what in ("colour", "label", "weather")] == [True, True, False]
    assert found.check.strict.items() >= {"min_said_label": 0.5, "min_miou": 0.4}.items()
    assert networks_of(found)["blip2_vision"].rows == {"caption": Rows(1.0, 1.0)}
    assert networks_of(load_profile("pocket-lance"))["blip2_vision"].rows == {"caption": Rows(1.0, 0.0)}
