"""The table of scores: what each is, its range, and what it means that a picture or a text fails it.

A new score is a row here and the function that measures it, in stages/check for pictures, in
stages/rewrite/text_filters.py for edited captions. `[check] min_NAME` is the least that the score NAME may be and
`max_NAME` the most; a row allows those of the two whose meaning it says.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

# What measures a score beyond the check stage itself, by what a profile has to ask for.
Needs = Literal["", "grounding", "perplexity", "recaption", "labels", "masks", "boxes"]


@dataclass(frozen=True)
class Score:
    """`unit` is what it is, `least` to `most` its range. `low` and `high` say in words what it means that it is too low
    or too high; "" where it has no such threshold. With `control` controls are held to it as well as variants. A score
    that is `always` there is needed for a verdict; the others make no sense for some pictures.
    """

    name: str
    unit: str
    least: float
    most: float
    low: str = ""
    high: str = ""
    control: bool = True
    always: bool = False
    needs: Needs = ""

    @property
    def range(self) -> str:
        """What its thresholds may be, in words."""
        if math.isinf(self.most):
            return f"at least {self.least:g}" if self.least >= 1 else "above 0"
        return f"{self.unit}, {self.least:g} to {self.most:g}"

    @property
    def of_text(self) -> bool:
        """Whether it is an edited caption's, and no picture's."""
        return self.needs in ("grounding", "perplexity")


def _share(name: str, low: str, *, control: bool = True, always: bool = False, needs: Needs = "") -> Score:
    return Score(name, "a share", 0, 1, low, control=control, always=always, needs=needs)


def _cosine(name: str, low: str, *, control: bool = True) -> Score:
    return Score(name, "a cosine", -1, 1, low, control=control, always=True)


def _reading(name: str, unit: str, least: float, high: str) -> Score:
    return Score(name, unit, least, math.inf, high=high, control=False, needs="perplexity")


def _text(name: str, high: str, low: str = "") -> Score:
    return Score(name, "a cosine", -1, 1, low, high, control=False, needs="grounding")


# Texts first, then what can be named best: the first score that fails is the reason.
SCORES: tuple[Score, ...] = (
    _text("text_label", "an edit's words mean nearly what the label says"),
    _text("text_replaced", "an edit's words mean nearly what they replace"),
    _text(
        "text_caption",
        "the edited caption means nearly what the caption does",
        "the edited caption means something else than the caption",
    ),
    _reading("perplexity", "a perplexity", 1, "the edited caption reads badly"),
    _reading("perplexity_ratio", "a ratio", math.ulp(0.0), "the edited caption reads worse than the caption"),
    _share("spread", "hardly anything but one grey level", always=True),
    _share("exposed", "mostly black or white", always=True),
    _share("sharp", "blurred against its source", always=True),
    _share("changed", "nearly the same as its source", control=False, always=True),
    _share("distinct", "nearly the same as another variant of its source"),
    _share("edit", "an edit does not show", control=False, always=True),
    _share("recoloured", "a new colour does not show", control=False),
    _share("said_edits", "the captioner does not see all that was edited", needs="recaption"),
    Score("label", "a change of probability", -1, 1, "the label may not show any more"),
    _share("said_label", "the captioner does not see the label any more", needs="recaption"),
    _share("agreement", "the classifiers do not agree on the label", needs="labels"),
    _share("ensemble", "the classifiers doubt the label", needs="labels"),
    _share("boxes", "boxes have lost what they show", needs="boxes"),
    _share("miou", "what the referee sees has left the mask", needs="masks"),
    _share("recall", "a class of the mask is hardly to be seen", needs="masks"),
    _share("layout", "outlines have left the mask's"),
    _cosine("image_text", "unlike its caption"),
    _cosine("directional", "changed otherwise than its caption", control=False),
    _cosine("image_image", "unlike its source"),
    _cosine("source_text", "the source does not show its caption"),
    Score(
        *("nearer", "a difference of cosines", -2, 2, "nearer to the caption than to the edited one"),
        control=False,
        always=True,
    ),
    Score("valid", "a probability", 0, 1, "all checks together doubt it"),
)


TEXT_SCORES: tuple[str, ...] = tuple(score.name for score in SCORES if score.of_text)


def score_named(name: str) -> Score | None:
    """The row of a score; None for a name that is none's."""
    return next((score for score in SCORES if score.name == name), None)
