"""The table of scores: what each is, its range, and what it means that a picture or a text fails it; then [check] and
[[check.valid]], the thresholds of scores and what decides scores themselves.

A new score is a row here and the function that measures it, in stages/check for pictures, in
stages/rewrite/text_filters.py for edited captions. `[check] min_NAME` is the least that the score NAME may be and
`max_NAME` the most; a row allows those of the two whose meaning it says.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, Self

from ..files.fill import nearest
from .bounds import require
from .caption import LABEL

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
        if math.isinf(self.most):
            return f"at least {self.least:g}" if self.least >= 1 else "above 0"
        return f"{self.unit}, {self.least:g} to {self.most:g}"

    @property
    def of_network(self) -> bool:
        """Whether a network of every profile with networks measures it: CLIP, which compares pictures and texts."""
        return self.unit.endswith(("a cosine", "of cosines")) or self.name in ("edit", "label", "valid")

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
    _share("sharp", "blurred against its source", always=True),
    _share("changed", "nearly the same as its source", control=False, always=True),
    _share("distinct", "nearly the same as another variant of its source"),
    _share("in_place", "the picture has moved against its source"),
    _share("aligned", "outlines are not its source's"),
    _share("intact", "parts are black or flat that are not in its source", always=True),
    _share("visible", "what is labelled is hardly to be seen any more"),
    _share("edit", "an edit does not show", control=False, always=True),
    _share("recoloured", "a new colour does not show", control=False),
    _share("kept", "a colour that no edit names is lost", control=False),
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


# Log-odds beyond it are as good as certain; so far, one odd score cannot outweigh all others.
_MOST = 6.0
# The scores that may have a minimum, and those that may have a maximum.
_LIMITED_BELOW = tuple(score.name for score in SCORES if score.low)
_LIMITED_ABOVE = tuple(score.name for score in SCORES if score.high)


@dataclass(frozen=True)
class ValidPart:
    """One thing that has to hold: `part` is a type of edits, "label" or "layout"; `weights` are those of the `scores`,
    by name, of which `score_TYPE` is that of the worst edit of a type.
    """

    part: str
    scores: tuple[str, ...]
    weights: tuple[float, ...]
    bias: float

    def __post_init__(self) -> None:
        if not self.scores or len(self.scores) != len(self.weights):
            raise ValueError(
                f"[[check.valid]] {self.part!r} has a weight for each of its scores, found {len(self.scores)} scores "
                f"and {len(self.weights)} weights"
            )
        if any(weight < 0 for weight in self.weights):
            raise ValueError(f"[[check.valid]] {self.part!r} has weights of 0 or more, found {list(self.weights)}")

    def probability(self, scores: Mapping[str, float]) -> float | None:
        """That the part holds, 0..1; None for a picture that has none of its scores."""
        there = [(name, weight) for name, weight in zip(self.scores, self.weights, strict=True) if name in scores]
        if not there:
            return None
        return 1 / (1 + math.exp(-self.bias - sum(weight * evidence(name, scores[name]) for name, weight in there)))


def evidence(name: str, score: float) -> float:
    """A score as it enters the sum: cosines and differences as they are, shares and probabilities by their log-odds."""
    row = score_named(name)
    if row is not None and row.least < 0:
        return score
    least = 1 / (1 + math.exp(_MOST))
    share = min(max(score, least), 1 - least)
    return math.log(share / (1 - share))


@dataclass(frozen=True)
class Failure:
    """A score that is below its minimum, or above its maximum: `bound`."""

    score: Score
    value: float
    bound: float

    @property
    def meaning(self) -> str:
        return self.score.high if self.value > self.bound else self.score.low

    @property
    def comparison(self) -> str:
        """The score beside its threshold."""
        word = "above" if self.value > self.bound else "below"
        return f"{self.score.name} {self.value:.3f} is {word} {self.bound:.3f}"

    @property
    def reason(self) -> str:
        return f"{self.meaning}: {self.comparison}"


@dataclass(frozen=True)
class CheckSettings:
    """`batch` is the plan's. A picture is accepted if each score is at least its minimum in `least` and at most its
    maximum in `most`, where it has one: in a profile `min_NAME` and `max_NAME` (see `SCORES`).

    `label_prompt` is what a class is compared by, its name in place of "{label}"; `logit_scale` what CLIP multiplies
    likenesses by before its softmax; without these three no network compares anything. With `recaption` the captioner
    looks at painted pictures too, for edits of the types, and for the label, that `recaption_of` names; None for all.
    `valid` are the parts of the score "valid".
    """

    batch: int = field(default=0, metadata={"absent": 0})
    label_prompt: str = field(default="", metadata={"absent": ""})
    logit_scale: float = field(default=0.0, metadata={"absent": 0.0})
    least: Mapping[str, float] = field(default_factory=dict, metadata={"prefix": "min_", "names": _LIMITED_BELOW})
    most: Mapping[str, float] = field(default_factory=dict, metadata={"prefix": "max_", "names": _LIMITED_ABOVE})
    recaption: bool | None = None
    recaption_of: tuple[str, ...] | None = None
    valid: tuple[ValidPart, ...] | None = None

    def __post_init__(self) -> None:
        if self.compares:
            if not self.label_prompt:
                raise ValueError("[check] key 'check.label_prompt' is missing")
            require(self, 1, "batch")
            if self.label_prompt.count(LABEL) != 1:
                raise ValueError(f"[check] label_prompt holds {LABEL} once, got {self.label_prompt!r}")
            if not self.logit_scale > 0:
                raise ValueError(f"[check] logit_scale must be positive, got {self.logit_scale}")
        for end, thresholds in (("min", self.least), ("max", self.most)):
            for name, value in thresholds.items():
                score = score_named(name)
                if score is None or not (score.low if end == "min" else score.high):
                    raise ValueError(
                        f"[check] {end}_{name} is no threshold; {nearest(f'{end}_{name}', threshold_names())}"
                    )
                if not score.least <= value <= score.most:
                    raise ValueError(f"[check] {end}_{name} is {score.range}, got {value:g}")
                if value > self.most.get(name, value):
                    raise ValueError(f"[check] min_{name} is at most max_{name}, got {value:g} and {self.most[name]:g}")
        if self.recaption_of is not None and not (self.recaption and self.recaption_of):
            raise ValueError(
                '[check] recaption_of names what the captioner looks for, types of edits and "label": it needs '
                "recaption = true, and at least one of them"
            )
        if "valid" in self.least and not self.valid:
            raise ValueError("[check] min_valid needs [[check.valid]], the parts that make the score `valid`")
        names = [part.part for part in self.valid or ()]
        if len(set(names)) < len(names):
            raise ValueError(f"[[check.valid]] names each part once, found {', '.join(names)}")

    @property
    def compares(self) -> bool:
        """Whether CLIP compares pictures and texts."""
        return bool(self.batch or self.label_prompt or self.logit_scale)

    @property
    def thresholds(self) -> dict[str, float]:
        """The thresholds that there are by the settings' names, in the order of `SCORES`."""
        ends, names = (("min_", self.least), ("max_", self.most)), [score.name for score in SCORES]
        return {end + name: float(bounds[name]) for name in names for end, bounds in ends if name in bounds}

    @property
    def strict(self) -> dict[str, float]:
        """Those of the thresholds that can reject something."""
        ends = {f"min_{score.name}": score.least for score in SCORES}
        ends |= {f"max_{score.name}": score.most for score in SCORES}
        return {name: value for name, value in self.thresholds.items() if value != ends[name]}

    def having(self, **thresholds: float | None) -> Self:
        """The settings with these thresholds, `min_NAME` or `max_NAME`; None for none."""
        ends: dict[str, dict[str, float]] = {"min": dict(self.least), "max": dict(self.most)}
        for name, value in thresholds.items():
            end, _, score = name.partition("_")
            if end not in ends:
                raise ValueError(f"[check] {name} is no threshold; {nearest(name, threshold_names())}")
            if value is None:
                ends[end].pop(score, None)
            else:
                ends[end][score] = value
        return replace(self, least=ends["min"], most=ends["max"])

    def failures(self, scores: Mapping[str, float], rows: Iterable[Score]) -> Iterator[Failure]:
        """The scores of these rows that fail, in their order. Raises KeyError for one that is missing."""
        for row in rows:
            if row.name not in scores and not (row.always and row.name in self.least):
                continue
            value = scores[row.name]
            if value > self.most.get(row.name, math.inf):
                yield Failure(row, value, self.most[row.name])
            elif value < self.least.get(row.name, -math.inf):
                yield Failure(row, value, self.least[row.name])

    def text_failure(self, scores: Mapping[str, float]) -> Failure | None:
        return next(self.failures(scores, (row for row in SCORES if row.of_text)), None)

    def reads(self, what: str) -> bool:
        """Whether the captioner looks at painted pictures for edits of a type, or for the "label"."""
        return bool(self.recaption) and (self.recaption_of is None or what in self.recaption_of)

    @property
    def measures(self) -> tuple[int, str, float]:
        """What decides scores; the rest are thresholds."""
        return self.batch, self.label_prompt, self.logit_scale


def threshold_names() -> tuple[str, ...]:
    """The settings that are thresholds: "min_" or "max_" and the name of a score."""
    return (*(f"min_{name}" for name in _LIMITED_BELOW), *(f"max_{name}" for name in _LIMITED_ABOVE))
