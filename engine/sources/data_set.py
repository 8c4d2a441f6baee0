"""A data set as it lies on the disk, read to its usable sources and the problems of the others.

`read_set` recognises the layout, draws the images of the selection, and reads each of their files once. Notes in
sentences name what is left out or looks wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ..errors import CounterfactoryError
from .class_map import BACKGROUND, label_names, load_class_map
from .class_names import is_synset
from .depth import DepthValues, with_depth
from .layouts import ACCEPTED, list_set
from .listing import Entry, Listing, Problem
from .sampling import Selection, draw, groups, require_known
from .shapes import DrawnMask
from .source import Examine, Reader, Source

__all__ = ["DataSet", "Selection", "SetOptions", "find_sources", "read_set", "refuse_suite_among_sources"]

# Names that a sentence shows.
_SHOWN = 3


@dataclass(frozen=True)
class SetOptions:
    """A user's options for a data set: `labels` is a file about a folder's images, which then lists the set's images;
    `masks` a folder of masks with the images' stems; `layout` one of `layouts.LAYOUTS`, None to recognise it; `pairs` a
    pattern such as "{stem}_img.jpg={stem}_seg.png"; `class_map` a file or a published map's name; `split` a list of
    Pascal VOC's ImageSets/; `depth` a folder of depth maps with the images' stems, and `depth_values` the meaning of
    their numbers.
    """

    labels: Path | None = None
    masks: Path | None = None
    layout: str | None = None
    pairs: str | None = None
    class_map: str | None = None
    split: str | None = None
    selection: Selection = field(default_factory=Selection)
    depth: Path | None = None
    depth_values: DepthValues = "distance"


@dataclass(frozen=True)
class DataSet:
    """A data set as it was read: its usable sources and the problems of the others, each sorted by name, sentences on
    what was left out, and the names of its masks' class numbers.
    """

    layout: str
    sources: list[Source]
    problems: list[Problem]
    notes: list[str]
    class_names: Mapping[int, str]
    selection: Selection

    @property
    def classes(self) -> list[str]:
        """The names, sorted, of what the set's masks and boxes may show, but for the background."""
        shown = {name for source in self.sources for name in source.classes}
        return sorted(shown.union(self.class_names.values()) - {BACKGROUND})

    def record(self) -> dict[str, Any]:
        """The data set as a suite's record has it."""
        names = {str(number): name for number, name in sorted(self.class_names.items())}
        return {"layout": self.layout, "selection": asdict(self.selection), "classes": names}


def find_sources(
    root: Path,
    *,
    labels: Path | None = None,
    masks: Path | None = None,
    examine: Examine | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> tuple[list[Source], list[Problem]]:
    """The sources and the problems of a data set; see `read_set`."""
    data_set = read_set(str(root), SetOptions(labels=labels, masks=masks), on_progress, examine)
    return data_set.sources, data_set.problems


def read_set(
    root: str,
    options: SetOptions,
    on_progress: Callable[[int, int], None] | None = None,
    examine: Examine | None = None,
) -> DataSet:
    """The data set at `root`: a folder or a file in one of the layouts (docs/data.md), or "hf:ID[:SPLIT]".

    `on_progress` is called with (images verified, images) now and then; `examine` sees each picture while it is read.
    Raises CounterfactoryError if `root` has no image at all, is no such layout, or an option contradicts it.
    """
    listing = list_set(root, options.labels, options.masks, options.layout, options.pairs, options.split, options.depth)
    if not listing.entries and not listing.problems:
        raise CounterfactoryError(f"no images found in {root}; {ACCEPTED}")
    if options.depth is not None:
        listing.entries = with_depth(listing.entries, options.depth)
    class_map, names = listing.class_map, dict[int, str]()
    if options.class_map is not None:
        if any(isinstance(entry.mask, DrawnMask) for entry in listing.entries):
            raise CounterfactoryError(
                f"{listing.layout} names its own classes; leave --class-map {options.class_map} out"
            )
        if any(entry.mask is not None for entry in listing.entries):
            class_map = load_class_map(options.class_map)
        else:
            label_map, where = label_names(options.class_map)
            names, class_map = dict(label_map), None
            listing.entries = _name_labels(listing.entries, names, where)
            listing.notes += _shared_names(names)
    chosen = options.selection
    names = names if class_map is None else dict(class_map.names)
    class_names = listing.class_names or tuple(names.values())
    of_group = groups(listing.entries, chosen)
    unlabelled = chosen.classes is not None and all(entry.label is None for entry in listing.entries)
    if unlabelled:
        require_known(chosen.classes or (), class_names)
    problems = listing.problems
    reader = Reader(class_map, on_progress, examine, names or None, options.depth_values)

    def check(entries: Sequence[Entry]) -> Iterator[Source | None]:
        for result in reader.verify(entries):
            if isinstance(result, Problem):
                problems.append(result)
                yield None
            else:
                shown = not unlabelled or not set(chosen.classes or ()).isdisjoint(result.classes)
                yield result if shown else None

    sources = sorted(draw(of_group, check), key=lambda source: source.name)
    return DataSet(
        layout=listing.layout,
        sources=sources,
        problems=sorted(problems, key=lambda p: (p.name, p.reason)),
        notes=[
            *listing.notes,
            *_odd_labels(listing.entries),
            *_shortfalls(listing, sources, chosen),
            *_double_labels(sources),
        ],
        class_names=names,
        selection=chosen,
    )


def _name_labels(entries: Sequence[Entry], names: Mapping[int, str], where: str) -> list[Entry]:
    """The entries of a set whose labels are numbers, with the names that they stand for.

    Raises CounterfactoryError for a label that has none.
    """
    strange = next((e for e in entries if e.label is not None and _number(e.label) not in names), None)
    if strange is not None:
        raise CounterfactoryError(
            f"{where} does not name the label {strange.label!r} of {strange.file}; add it, or leave --class-map out"
        )
    return [e if e.label is None else replace(e, label=names[_number(e.label)]) for e in entries]


def _shared_names(names: Mapping[int, str]) -> list[str]:
    """A sentence about names that stand for several numbers, whose images then have one label."""
    numbers: dict[str, list[int]] = {}
    for number, name in names.items():
        numbers.setdefault(name, []).append(number)
    several = {name: shared for name, shared in numbers.items() if len(shared) > 1}
    if not several:
        return []
    shown = [f"{name} ({', '.join(map(str, shared))})" for name, shared in list(several.items())[:_SHOWN]]
    more = f" and {len(several) - _SHOWN} more" if len(several) > _SHOWN else ""
    return [f"names that stand for several numbers, whose images have one label: {', '.join(shown)}{more}"]


def _number(label: str) -> int:
    """The number that a label is, -1 for another label; zeros may stand before it."""
    text = label.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else -1


def _odd_labels(entries: Iterable[Entry]) -> list[str]:
    """A sentence about labels that are no synsets in a set where nearly all others are."""
    labels = {entry.label for entry in entries if entry.label is not None}
    odd = sorted(label for label in labels if not is_synset(label))
    if not odd or len(odd) * 10 > len(labels):
        return []
    return [f"labels that are no synsets, as the {len(labels) - len(odd)} others are: {', '.join(odd[:5])}"]


def _shortfalls(listing: Listing, sources: Sequence[Source], selection: Selection) -> list[str]:
    """Sentences about a selection that the usable sources do not fill."""
    if selection.sample is not None and len(sources) < selection.sample:
        return [f"{selection.sample} sources were asked for, and {len(sources)} can be used"]
    if selection.per_class is None:
        return []
    counts = dict.fromkeys(
        (e.label for e in listing.entries if e.label and (not selection.classes or e.label in selection.classes)), 0
    )
    for source in sources:
        if source.label is not None:
            counts[source.label] += 1
    short = [f"{label} ({count})" for label, count in sorted(counts.items()) if count < selection.per_class]
    if not short:
        return []
    more = f" and {len(short) - 5} more" if len(short) > 5 else ""
    return [f"classes with fewer than {selection.per_class} usable images: {', '.join(short[:5])}{more}"]


def _double_labels(sources: Iterable[Source]) -> list[str]:
    """A sentence about images that are there under two labels; one of them is wrong."""
    first: dict[str, Source] = {}
    twice = [
        (earlier, source)
        for source in sources
        if (earlier := first.setdefault(source.digest, source)).label != source.label
    ]
    if not twice:
        return []
    earlier, later = twice[0]
    return [
        f"{len(twice)} image{'s are' if len(twice) > 1 else ' is'} there under two labels, the first as {earlier.name} "
        f"({earlier.label}) and {later.name} ({later.label}): remove the wrong ones"
    ]


def refuse_suite_among_sources(root: Path, suite: Path) -> None:
    """Raises CounterfactoryError where a suite would lie inside the folder of its sources, and be read as sources the
    next time.
    """
    if root.is_dir() and suite.resolve().is_relative_to(root.resolve()):
        raise CounterfactoryError(f"the suite {suite} would lie among its sources in {root}; name a folder outside")
