"""What may be asked of a verb: the command line's options as keywords, by the same names, one for one.

A keyword that is left out has the option's default, which stands where it is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from inspect import currentframe
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypedDict
from warnings import warn as warn_python

from ..errors import CounterfactoryError
from ..files.fill import nearest
from ..meter.meter import Progress
from ..sources.listing import Problem

AnyPath = str | PathLike[str]
OnProgress = Callable[[Progress], None]
Warn = Callable[[str], None]

# The least that a number of things may be.
_LEAST = {
    **dict.fromkeys(("per_class", "sample", "variants", "levels", "severity", "shard", "workers", "first", "limit"), 1),
    "seed": 0,
    "controls": 0,
}
_SEEDS = 1 << 63
_WORD = re.compile(r"[^\W_]+(?:['-][^\W_]+)*")


class SourceOptions(TypedDict, total=False):
    """What a suite is made of, and how many pictures of each source.

    `labels` is a file of labels (and masks) of a folder's images; `masks` and `depth` are folders of masks and depth
    maps with the images' names, and `depth_values` says whether the latter hold a "distance" (the default) or its
    "inverse". `layout` is the data set's (recognised), `pairs` says which masks belong to which images, `class_map`
    what their numbers mean, `split` is a list of Pascal VOC's, `boxes` what the four numbers of a box are (the
    layout's). `classes` are the only ones to use: names, or a file;
    `per_class` or `sample` draws so many sources of each class, or in all, by `seed` (0). `allow_out_of_domain` takes
    sources that the models do not know, `given_captions` a table's own column `caption` in the captioner's place.
    `group_by` says which sources depend on each other: a column of the set's table, a regular expression whose parts in
    parentheses name the group of a path, "auto" (the default: what looks like frames of a sequence, and copies) or
    "none". `profile` is a name or a .toml file (that which suits the sources), `variants` (5) and `controls` (1, and
    none where a profile draws into the sources themselves) are pictures per source.
    """

    labels: AnyPath | None
    masks: AnyPath | None
    depth: AnyPath | None
    depth_values: Literal["distance", "inverse"]
    layout: str | None
    pairs: str | None
    class_map: AnyPath | None
    split: str | None
    boxes: Literal["sizes", "corners", "centres"] | None
    classes: AnyPath | Sequence[str] | None
    per_class: int | None
    sample: int | None
    seed: int
    allow_out_of_domain: bool
    group_by: str | None
    given_captions: bool
    profile: AnyPath | None
    variants: int
    controls: int | None
    baseline: Literal["light"] | None


class EditOptions(SourceOptions, total=False):
    """What may be changed, beside the options of sources.

    `task` is "classification" (the default), "segmentation" or "detection", `task_file` a task of your own (TOML).
    `edits` is a number of edits per variant, or the least and the most (the profile's: 1 of a menu, else (1, 3));
    `severity` is their strength, 1 to 5 (3 of `light`, 5 of others), or `levels` paints the same edits so many times,
    from faint to full. `interventions` are the only edits allowed: a file, or values by type such as
    {"weather": ["rainy", "snowy"]}; `types` is a file of edit types of your own. `avoid` are words that no edit brings.
    `allow_ungrounded` changes captions that do not name their label, too.
    """

    task: Literal["classification", "segmentation", "detection"] | None
    task_file: AnyPath | None
    edits: int | tuple[int, int] | None
    levels: int | None
    severity: int | None
    interventions: AnyPath | Mapping[str, Sequence[str]] | None
    allow_ungrounded: bool
    types: AnyPath | None
    avoid: Sequence[str]


class GenerateOptions(EditOptions, total=False):
    """What `generate` takes: options of sources, of edits, and its own.

    `protect` are classes of the masks of which every variant keeps the pixels, `shard` is how many sources travel
    together (the profile's), `metrics` a file that is kept up to date with what the run costs. `require_coverage` is
    the least share of the possible cells of your values to have an accepted picture, from 0 to 1. `anyway` goes on
    where hardly a picture is accepted, which else ends the run early.

    `ray` is the address of a Ray cluster whose boxes take the shards ("auto", "local"), `workers` the most of them (one
    a GPU or core), `parts` the folder or URL, the same for all, where they leave what shards came to (in the suite).
    `shard_log` is a file that gets a line of JSON for every shard.
    """

    ray: str | None
    workers: int | None
    parts: AnyPath | None
    shard_log: AnyPath | None
    protect: Sequence[str] | None
    shard: int | None
    metrics: AnyPath | None
    require_coverage: float | None
    anyway: bool


class ImportOptions(TypedDict, total=False):
    """What `import_pairs` takes.

    `masks` is a folder of masks with the originals' names, `class_map` what their numbers, and labels that are numbers,
    mean. `classes` are the only ones to use: names, or a file; `per_class` or `sample` draws so many originals of each
    class, or in all, by `seed` (0). `task` is "classification" (the default), "segmentation" or "detection",
    `task_file` a task of your own (TOML). `profile` is a name or a .toml file whose painter is of kind "given" (given);
    `allow_out_of_domain` takes originals that its models do not know. `group_by` says which originals depend on each
    other, as in `GenerateOptions`. `shard` is how many originals travel together, `metrics` a file that is kept up to
    date with what the run costs.
    """

    masks: AnyPath | None
    class_map: AnyPath | None
    classes: AnyPath | Sequence[str] | None
    per_class: int | None
    sample: int | None
    seed: int
    task: Literal["classification", "segmentation", "detection"] | None
    task_file: AnyPath | None
    profile: AnyPath | None
    allow_out_of_domain: bool
    group_by: str | None
    shard: int | None
    metrics: AnyPath | None


class PlanOptions(EditOptions, total=False):
    """What `plan` takes: options of sources, of edits, and its own.

    `first` is how many sources to look at (5), `write` a file for the edits, for people to label.
    """

    first: int
    write: AnyPath | None


class EstimateOptions(SourceOptions, total=False):
    """What `estimate` takes: options of sources, and `memory`, to plan for so many gigabytes (this machine's)."""

    memory: float | None


class EvaluateOptions(TypedDict, total=False):
    """What `evaluate` takes.

    `preprocess` declares how pictures become the model's input, such as "resize=256 crop=224 mean=imagenet
    std=imagenet", or is a preprocessor_config.json (read from the model's own configuration). `output` names the one
    of a model's outputs that is its answer; `fresh` asks it about all pictures, whatever answers are kept.
    `classes` is a file of the names of masks' classes (those of the record), or of all that a classifier knows, by its
    numbers; "imagefolder" reads numbers as torchvision's ImageFolder gives them. `max_drop` has the most points that an
    edit's type, value or a class may cost, by name; `fail_under` is the least share of variants that must be right,
    from 0 to 1. `failures`, `order` and `junit` are files to write: the pictures that the model fails on, all variants
    in the order to look at them, and what became of the limits. `against` is another model, or its answers, or a
    `Result` on the same suite, or several: the model is compared with each, picture by picture, and `max_regression` is
    the most points that it may lose to one. `group_by` says which sources depend on each other, as in `GenerateOptions`
    (what the suite was made with); columns are those of the suite's table.
    """

    preprocess: str | None
    output: str | None
    fresh: bool
    classes: AnyPath | None
    max_drop: Mapping[str, float] | Sequence[tuple[str, float]]
    fail_under: float | None
    against: Any
    max_regression: float | None
    group_by: str | None
    failures: AnyPath | None
    order: AnyPath | None
    junit: AnyPath | None


class PageOptions(TypedDict, total=False):
    """What the report of a result takes.

    `profile` is that whose edges to show (the suite's own), `valid` a file that says which variants are valid, for the
    curves of thresholds. `no_edges` leaves the edges out, `limit` is the most sources on the page (2,000).
    `single_file` is a page to write besides, which holds its pictures, to be sent as it is; `markdown` is a summary to
    write, for a pull request.
    """

    profile: AnyPath | None
    valid: AnyPath | None
    no_edges: bool
    limit: int
    single_file: AnyPath | None
    markdown: AnyPath | None


class ReportOptions(PageOptions, total=False):
    """What `report` takes: options of the page; `out`, its folder (SUITE/report); `predictions`, a model or its
    answers, to show, with `against`, `preprocess`, `output`, `fresh`, `classes` and `group_by`, all as `evaluate` has
    them.
    """

    out: AnyPath | None
    predictions: Any
    against: Any
    preprocess: str | None
    output: str | None
    fresh: bool
    classes: AnyPath | None
    group_by: str | None


@dataclass(frozen=True)
class Caller:
    """Who is told: of progress, and of what a person should see whatever becomes of the result."""

    on_progress: OnProgress
    warn: Warn

    @classmethod
    def of(cls, on_progress: OnProgress | None, warn: Warn | None) -> Caller:
        """These callbacks; without them nobody hears of progress, and warnings are Python's."""
        return cls(on_progress or (lambda _: None), warn or _warn_python)

    def warn_all(self, sentences: Iterable[str]) -> None:
        """Warns by each."""
        for sentence in sentences:
            self.warn(sentence)

    def warn_skipped(self, problems: Iterable[Problem]) -> None:
        """Warns of sources that cannot be used."""
        self.warn_all(f"skipped {problem.name}: {problem.reason}" for problem in problems)


def _warn_python(text: str) -> None:
    """A warning of Python's at the line that called this package."""
    frame, level = currentframe(), 1
    while frame is not None and frame.f_globals.get("__name__", "").startswith("counterfactory."):
        frame, level = frame.f_back, level + 1
    warn_python(text, stacklevel=level)


def require_known(verb: str, options: Mapping[str, Any], known: Any) -> None:
    """Refuse options that `verb` does not have, by its class of options `known`, with a TypeError as Python's; and
    numbers that are none, with a CounterfactoryError.
    """
    names: frozenset[str] = known.__optional_keys__
    for name, value in options.items():
        if name not in names:
            raise TypeError(f"{verb}() has no option {name!r}; {nearest(name, sorted(names))}")
        least = _LEAST.get(name)
        if least is None or value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value < _SEEDS:
            raise CounterfactoryError(f"{verb}: {name} is a whole number from {least}, got {value!r}")


def share_or_none(name: str, value: float | None) -> float | None:
    if value is not None and not 0 <= value <= 1:
        raise CounterfactoryError(f"{name} is a share from 0 to 1, got {value:g}")
    return value


def path_or_none(value: AnyPath | None) -> Path | None:
    return None if value is None else Path(value)


def names_in(value: str | Sequence[str]) -> tuple[str, ...]:
    """Names as an option gives them: a sequence, or a text with commas between."""
    names = tuple(name.strip() for name in (value.split(",") if isinstance(value, str) else value))
    if not all(names):
        raise CounterfactoryError(f"names are needed, got {value!r}")
    return names


def words_in(value: str | Sequence[str]) -> tuple[str, ...]:
    """Single words as an option gives them."""
    words = names_in(value) if value else ()
    for word in words:
        if not _WORD.fullmatch(word):
            raise CounterfactoryError(f"avoid takes single words, got {word!r}")
    return words


def span_of(value: int | tuple[int, int]) -> tuple[int, int]:
    """The least and the most of a number, or of both."""
    ends = (value, value) if isinstance(value, int) else tuple(value) if isinstance(value, (tuple, list)) else ()
    if len(ends) != 2 or not all(type(end) is int for end in ends):
        raise CounterfactoryError(f"edits is a number or a range such as (1, 3), got {value!r}")
    return ends


def bytes_in(gigabytes: float | None) -> int | None:
    if gigabytes is not None and not 0.001 <= gigabytes <= 1e6:
        raise CounterfactoryError(f"memory is a number of gigabytes, got {gigabytes!r}")
    return None if gigabytes is None else round(gigabytes * 1e9)
