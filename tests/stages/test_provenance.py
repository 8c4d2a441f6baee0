"""What pictures say of themselves, by who made them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from counterfactory.engine.edit import Edit
from counterfactory.engine.profile.paint import protect_classes
from counterfactory.engine.profile.profile import load_profile
from counterfactory.engine.stages.paint.paint_variants import provenance_of

EDITED, CONTROL = (Edit("weather", "sunny", "foggy"),), ()
WHOLE, PART, RULE = "trainedAlgorithmicMedia", "compositeWithTrainedAlgorithmicMedia", "algorithmicallyEnhanced"


class Variant:
    """As much of one as is looked at."""

    key = "ab" * 32

    def __init__(self, edits: Any) -> None:
        self.edits = edits


@pytest.mark.parametrize(
    ("name", "edits", "kind"),
    [
        ("pocket", EDITED, WHOLE),
        ("pocket", CONTROL, WHOLE),
        ("pocket-lance", EDITED, PART),
        ("server", EDITED, PART),
        ("light", EDITED, RULE),
        ("light", CONTROL, None),  # the source, byte for byte
        ("given", EDITED, None),
    ],
)
def test_a_picture_says_who_made_it(name: str, edits: Any, kind: str | None) -> None:
    mark = provenance_of(load_profile(name), Variant(edits))  # type: ignore[arg-type]
    assert (mark and (mark.key, mark.kind)) == (kind and (Variant.key, kind))


def test_a_picture_that_keeps_pixels_of_its_source_is_no_network_s_alone() -> None:
    pocket = load_profile("pocket")
    mark = provenance_of(
        replace(pocket, protect=protect_classes(("car",), None, 128)),
        Variant(EDITED),  # type: ignore[arg-type]
    )
    assert mark is not None
    assert mark.kind == PART
